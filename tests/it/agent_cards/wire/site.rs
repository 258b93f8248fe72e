//! The provider's site: a quick check with HEAD or GET, over a few redirects.

use rstest::rstest;
use serde_json::Value;
use touchstone_agent_cards::ports::prober::Method;
use touchstone_agent_cards::rules::live::{Body, Headers, NoReply, Outcome, Reply};
use touchstone_agent_cards::service::ContactPolicy;
use touchstone_agent_cards::service::fetch::Fetched;

use super::document;
use super::world::{reply, world};
use crate::agent_cards::fixture;

fn page(status: u16) -> Outcome {
    reply(status, Body::Whole(vec![]))
}

fn moved(location: &str) -> Outcome {
    Ok(Reply {
        headers: Headers::from_iter([("location", location)]),
        ..page(301).unwrap()
    })
}

const GOING: &str = "https://harbour.example/a";

#[rstest]
#[case::there(vec![page(200)], true, "HEAD")]
#[case::asks_who(vec![page(401)], true, "HEAD")]
#[case::gone(vec![page(410)], false, "HEAD")]
#[case::not_found(vec![page(404)], false, "HEAD")]
#[case::broken(vec![page(503)], false, "HEAD")]
#[case::silent(vec![Err(NoReply::Timeout)], false, "HEAD")]
#[case::no_head(vec![page(405), page(200)], true, "HEAD GET")]
#[case::no_head_and_gone(vec![page(501), page(404)], false, "HEAD GET")]
#[case::long(vec![page(405), reply(200, Body::Oversized)], true, "HEAD GET")]
#[case::moved(vec![moved("http://www.harbour.example/"), moved("/b"), page(200)], true, "HEAD HEAD HEAD")]
#[case::going(vec![moved(GOING), moved(GOING), moved(GOING), moved(GOING)], true, "HEAD HEAD HEAD HEAD")]
#[case::inside(vec![moved("http://10.0.0.1/"), Err(NoReply::Refused)], false, "HEAD HEAD")]
#[case::to_a_file(vec![moved("file:///etc/hosts")], true, "HEAD")]
#[tokio::test]
async fn reachability_of_a_site_is_checked_with_head_or_get(
    #[case] answers: Vec<Outcome>,
    #[case] reachable: bool,
    #[case] methods: &str,
) {
    let mut card = fixture::card();
    // No other address is requested.
    card["url"] = Value::Null;
    card["additionalInterfaces"] = Value::Null;
    let (world, cards) = world(answers);
    let fetched = Fetched::at_hand(card.to_string().into_bytes());
    let found = document(&cards.score(fetched, ContactPolicy::Agent).await);
    assert_eq!(
        found["trust"]["breakdown"]["provider"]["urlReachable"],
        reachable
    );
    let asked = world.asked.lock().unwrap();
    let asked: Vec<&str> = asked
        .iter()
        .map(|it| match it.method {
            Method::Head => "HEAD",
            Method::Get => "GET",
            Method::Options | Method::Post => "?",
        })
        .collect();
    assert_eq!(asked.join(" "), methods);
}
