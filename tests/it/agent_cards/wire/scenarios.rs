//! JSON-RPC and HTTP+JSON: the cost of each behaviour. Without TLS the maximum is 95.

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agent_cards::rules::live::{Body, NoReply};

use super::agent::Agent;
use super::world::{reply, world};
use super::{asked, codes, document};
use crate::agent_cards::fixture;

#[rstest]
#[case::well(&[], 95.0, &[])]
#[case::a_task(&["task"], 95.0, &[])]
#[case::core_form(&["rest-core-only"], 95.0, &[])]
#[case::no_cors(&["no-cors"], 90.0, &["CORS_MISSING"])]
#[case::no_preflight(&["no-preflight"], 90.0, &["CORS_MISSING"])]
#[case::cors_for_others(&["cors-for-others"], 90.0, &["CORS_MISSING"])]
#[case::errors(&["fails-badly"], 90.0, &["ERROR_HANDLING_POOR"])]
#[case::content_type(&["text-type"], 90.0, &["CONTENT_TYPE_INVALID"])]
#[case::structure(&["no-parts"], 85.0, &["RESPONSE_STRUCTURE_INVALID"])]
#[case::declines(&["declines"], 85.0, &["RESPONSE_STRUCTURE_INVALID"])]
#[case::interface(&["rest-down"], 85.0, &["INTERFACE_FAILED"])]
#[case::breaks(&["breaks"], 65.0, &["PREFERRED_TRANSPORT_FAILED"])]
#[case::another_id(&["another-id"], 65.0, &["PREFERRED_TRANSPORT_FAILED"])]
#[case::too_long(&["too-long"], 65.0, &["PREFERRED_TRANSPORT_FAILED"])]
#[case::endless(&["endless"], 60.0, &["PREFERRED_TRANSPORT_FAILED", "CONTENT_TYPE_INVALID"])]
#[case::asks_who(&["asks-who"], 55.0, &["AUTH_REQUIRED", "INTERFACE_FAILED"])]
#[case::moved(&["moved"], 55.0, &["PREFERRED_TRANSPORT_FAILED", "CONTENT_TYPE_INVALID", "ERROR_HANDLING_POOR"])]
#[case::not_there(&["not-there"], 55.0, &["PREFERRED_TRANSPORT_FAILED", "CONTENT_TYPE_INVALID", "ERROR_HANDLING_POOR"])]
#[case::fails(&["fails"], 10.0, &["ENDPOINT_SERVER_ERROR"])]
#[case::cut_off(&["cut-off"], 10.0, &["ENDPOINT_UNREACHABLE"])]
#[tokio::test]
async fn each_fault_costs_its_points(
    #[case] ways: &[&'static str],
    #[case] total: f64,
    #[case] found: &[&str],
) {
    let agent = Agent::start(ways).await;
    let scorecard = asked(&agent, &agent.card()).await;
    let document = document(&scorecard);
    let availability = &document["availability"];
    assert_eq!(
        availability["total"].as_f64(),
        Some(total),
        "{availability:#}"
    );
    let without_tls: Vec<&str> = codes(&document)
        .into_iter()
        .filter(|it| *it != "TLS_ABSENT")
        .collect();
    assert_eq!(without_tls, found, "{availability:#}");
}

#[tokio::test]
async fn the_expected_requests_are_sent_to_the_agent() {
    let agent = Agent::start(&[]).await;
    asked(&agent, &agent.card()).await;
    let mut log = agent.log();
    assert_eq!(log[0], "POST /rpc", "the message goes first");
    log.sort();
    assert_eq!(
        log,
        [
            "OPTIONS /rpc",
            "POST /rest/v1/message:send",
            "POST /rpc",
            "POST /rpc"
        ]
    );
}

#[tokio::test]
async fn the_main_transport_may_be_http_with_json() {
    let agent = Agent::start(&["rest-core-only"]).await;
    let mut card = agent.card();
    card["preferredTransport"] = json!("HTTP+JSON");
    card["url"] = json!(format!("{}/rest/v1/", agent.base()));
    card["additionalInterfaces"] = Value::Null;
    let scorecard = asked(&agent, &card).await;
    let document = document(&scorecard);
    assert_eq!(document["availability"]["total"], 95, "{document:#}");
}

#[tokio::test]
async fn internal_addresses_are_not_requested_unless_allowed() {
    let (opened, closed) = (Agent::start(&[]).await, Agent::start(&[]).await);
    let mut card = closed.card();
    card["url"] = json!(format!("{}/rpc", closed.base()));
    let refused = document(&asked(&opened, &card).await);
    assert_eq!(refused["availability"]["total"], 0);
    assert!(codes(&refused).contains(&"ADDRESS_BLOCKED"));
    let mut card = opened.card();
    card["additionalInterfaces"][1]["url"] = json!(format!("{}/rest", closed.base()));
    let partly = document(&asked(&opened, &card).await);
    assert_eq!(partly["availability"]["total"], 85);
    assert_eq!(closed.log(), Vec::<String>::new());
}

#[tokio::test]
async fn a_stopped_server_is_unreachable() {
    let agent = Agent::start(&[]).await;
    let (card, place) = (agent.card(), agent.place());
    drop(agent);
    let fetched = super::Fetched::at_hand(card.to_string().into_bytes());
    let scorecard = super::cards(&[place])
        .score(fetched, super::ContactPolicy::Agent)
        .await;
    let document = document(&scorecard);
    assert_eq!(document["availability"]["total"], 0);
    assert!(codes(&document).contains(&"ENDPOINT_UNREACHABLE"));
}

#[tokio::test]
async fn a_card_cannot_make_the_host_request_arbitrary_addresses() {
    let agent = Agent::start(&[]).await;
    let mut card = agent.card();
    let many = (0..100)
        .map(|n| json!({"url": format!("{}/rest?{n}", agent.base()), "transport": "HTTP+JSON"}));
    card["additionalInterfaces"] = many.collect();
    let document = document(&asked(&agent, &card).await);
    let transports = &document["availability"]["breakdown"]["transportSupport"];
    assert_eq!(transports["additionalInterfacesWorking"], 32);
    let untested = codes(&document);
    let untested = untested.iter().filter(|it| **it == "INTERFACE_NOT_TESTED");
    assert_eq!(untested.count(), 68);
}

#[tokio::test]
async fn an_interface_that_is_listed_often_is_asked_once() {
    // If its long answer were kept, or read for every listing, this would take gigabytes and
    // minutes.
    let agent = Agent::start(&["rest-long"]).await;
    let mut card = agent.card();
    let same = json!({"url": format!("{}/rest", agent.base()), "transport": "HTTP+JSON"});
    card["additionalInterfaces"] = json!(vec![same; 10_000]);
    let document = document(&asked(&agent, &card).await);
    let transports = &document["availability"]["breakdown"]["transportSupport"];
    assert_eq!(transports["additionalInterfacesWorking"], 10_000);
    let log = agent.log();
    let sent = log.iter().filter(|it| it.contains("message:send"));
    assert_eq!(sent.count(), 1);
}

#[tokio::test]
async fn an_endpoint_resolving_to_an_internal_address_is_refused_without_further_calls() {
    let (world, cards) = world(vec![Err(NoReply::Refused), reply(200, Body::Whole(vec![]))]);
    let fetched = super::Fetched::at_hand(fixture::card().to_string().into_bytes());
    let document = document(&cards.score(fetched, super::ContactPolicy::Agent).await);
    assert_eq!(document["availability"]["total"], 0, "{document:#}");
    assert_eq!(codes(&document), ["ADDRESS_BLOCKED"]);
    let asked = world.asked.lock().unwrap();
    let asked: Vec<&str> = asked.iter().map(|it| it.url.path()).collect();
    assert_eq!(
        asked,
        ["/a2a", "/"],
        "the endpoint, and the provider's site"
    );
}
