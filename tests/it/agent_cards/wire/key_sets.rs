//! Key sets are fetched through the guarded client and cached.

use serde_json::{Value, json};
use touchstone_agent_cards::rules::live::{Body, NoReply, Outcome};
use touchstone_agent_cards::service::fetch::Fetched;
use touchstone_agent_cards::service::{Cards, ContactPolicy};

use super::document;
use super::world::{reply, world};
use crate::agent_cards::fixture::{self, SIGNERS};

fn key_set() -> Outcome {
    let keys = json!({"keys": [SIGNERS.es256.jwk()]});
    reply(200, Body::Whole(keys.to_string().into_bytes()))
}

async fn state(cards: &Cards) -> Value {
    let card = fixture::signed(fixture::card(), "ES256");
    let fetched = Fetched::at_hand(card.to_string().into_bytes());
    let found = document(&cards.score(fetched, ContactPolicy::KeySets).await);
    let result = &found["trust"]["signatureResults"][0];
    json!([result["state"], result["reason"]])
}

#[tokio::test]
async fn a_key_set_is_fetched_once() {
    let (world, cards) = world(vec![key_set()]);
    for _ in 0..2 {
        assert_eq!(state(&cards).await, json!(["valid", null]));
    }
    let asked = world.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].url.as_str(), fixture::KEY_SET);
    assert_eq!(
        (
            asked[0].most,
            asked[0].within.as_secs(),
            asked[0].connect_within.as_secs()
        ),
        (256 * 1024, 5, 3)
    );
}

#[rstest::rstest]
#[case::nobody(Err(NoReply::Timeout), "unverifiable", "jwks_unreachable")]
#[case::internal(Err(NoReply::Refused), "invalid", "jku_forbidden_address")]
#[case::moved(reply(302, Body::Whole(vec![])), "unverifiable", "jwks_bad_response")]
#[case::too_long(reply(200, Body::Oversized), "unverifiable", "jwks_bad_response")]
#[tokio::test]
async fn an_unavailable_key_set_is_reported_with_the_reason(
    #[case] answer: Outcome,
    #[case] found: &str,
    #[case] reason: &str,
) {
    let (_, cards) = world(vec![answer]);
    assert_eq!(state(&cards).await, json!([found, reason]));
}

#[tokio::test]
async fn offline_mode_sends_no_requests() {
    let (world, cards) = world(vec![]);
    let card = fixture::signed(fixture::card(), "ES256");
    let fetched = Fetched::at_hand(card.to_string().into_bytes());
    cards.score(fetched, ContactPolicy::Offline).await;
    assert!(world.asked.lock().unwrap().is_empty());
}
