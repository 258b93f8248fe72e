//! Agent cards over HTTP: scoring, storage, and use by gates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use futures_util::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use touchstone_host::access::Scope;

use crate::agent_cards::fixture;
use crate::agent_cards::wire::agent::Agent;
use crate::http::support::host::{AGENT, Reply, TestHost};

const SCORE: &str = "/v1/host/touchstone/agent-cards/score";
const WATCHES: &str = "/v1/host/touchstone/agent-cards/watches";

fn named(what: &str, url: &str) -> String {
    let query: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
    format!("/v1/host/touchstone/agent-cards/{what}?url={query}")
}

#[tokio::test]
async fn posted_cards_are_scored_by_the_rules() {
    let host = TestHost::idle().await;
    let card = fixture::card();
    for sent in [card.clone(), Value::String(card.to_string())] {
        let scored = host
            .post(SCORE, &json!({"card": sent, "offline": true}))
            .await;
        assert_eq!(scored.status, StatusCode::OK, "{scored:?}");
        let scored = scored.json();
        assert_eq!(scored["compliance"]["rating"], "PERFECT");
        assert_eq!(scored["trust"]["total"], 33);
        assert_eq!(scored["availability"]["tested"], false);
    }
    let twice = json!({"card": "{\"name\": \"a\", \"name\": \"b\"}", "offline": true});
    let scored = host.post(SCORE, &twice).await.json();
    assert_eq!(scored["issues"][0]["code"], "CARD_UNPARSEABLE");
}

#[tokio::test]
async fn card_history_is_kept_per_url_and_tenant() {
    let (host, agent) = (TestHost::idle().await, Agent::start(&[]).await);
    host.outside.open(&agent.place());
    let url = agent.base();
    let scored = host.post(SCORE, &json!({"url": url, "live": true})).await;
    assert_eq!(scored.status, StatusCode::OK, "{scored:?}");
    assert_eq!(scored.json()["availability"]["total"], 95);
    host.post(SCORE, &json!({"url": format!("{url}/#other")}))
        .await;
    let history = host.get(&named("history", &url)).await.json();
    let looks = history["looks"].as_array().unwrap();
    assert_eq!(looks.len(), 2, "{history:#}");
    assert_eq!(
        (&looks[0]["live"], &looks[1]["live"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(looks[0]["digest"], looks[1]["digest"]);
    assert_eq!(
        looks[1]["scores"]["availability"],
        json!({"total": 95, "rating": "FULLY_AVAILABLE"})
    );
    assert_eq!(looks[1]["scores"]["findings"]["TLS_ABSENT"], 1);
    let theirs = host
        .request(Method::GET, &named("history", &url))
        .key(&host.other_key)
        .send()
        .await;
    assert_eq!(theirs.json()["looks"], json!([]));
}

#[rstest]
#[case::nothing(json!({}), "card")]
#[case::both(json!({"card": {}, "url": "https://agents.example/"}), "card")]
#[case::offline_and_live(json!({"card": {}, "offline": true, "live": true}), "offline")]
#[case::offline_at_a_url(json!({"url": "https://agents.example/", "offline": true}), "offline")]
#[case::no_url(json!({"url": "agents.example"}), "url")]
#[case::credentials(json!({"url": "https://me:pw@agents.example/"}), "url")]
#[case::internal(json!({"url": "http://169.254.169.254/"}), "url")]
#[case::long(json!({"url": format!("https://agents.example/{}", "x".repeat(2_048))}), "url")]
#[case::unknown_member(json!({"card": {}, "lives": true}), "lives")]
#[case::a_list(json!([]), "")]
#[tokio::test]
async fn invalid_requests_are_refused_by_field(#[case] body: Value, #[case] field: &str) {
    let host = TestHost::idle().await;
    let refused = host.post(SCORE, &body).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["details"]["field"], field, "{refused:?}");
    assert!(!refused.text().contains("pw"), "{refused:?}");
}

#[tokio::test]
async fn an_agent_without_a_card_has_its_own_error() {
    let (host, agent) = (TestHost::idle().await, Agent::start(&["no-card"]).await);
    host.outside.open(&agent.place());
    let refused = host.post(SCORE, &json!({"url": agent.base()})).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_GATEWAY, "agent_card_unreachable".to_owned())
    );
}

const RANK: &str = "/v1/host/touchstone/agent-cards/rank";

#[tokio::test]
async fn cards_and_urls_are_ranked_together() {
    let (host, agent) = (TestHost::idle().await, Agent::start(&[]).await);
    let gone = Agent::start(&["no-card"]).await;
    host.outside.open(&agent.place());
    host.outside.open(&gone.place());
    let asked = json!({
        "candidates": [{"card": []}, {"url": agent.base()}, {"name": "gone", "url": gone.base()}],
        "weights": {"compliance": 1, "availability": 1},
        "live": true,
    });
    let ranked = host.post(RANK, &asked).await;
    assert_eq!(ranked.status, StatusCode::OK, "{ranked:?}");
    let ranked = ranked.json();
    let first = &ranked["ranking"][0];
    assert_eq!(
        (&first["rank"], &first["card"]),
        (&json!(1), &json!(agent.base()))
    );
    let score = (first["scores"]["compliance"]["total"].as_f64().unwrap() + 95.0) / 2.0;
    assert!(
        (first["score"].as_f64().unwrap() - score).abs() < 0.01,
        "{first}"
    );
    assert_eq!(ranked["ranking"][1]["card"], "card 1");
    assert_eq!(ranked["ranking"][1]["score"], 0);
    assert_eq!(ranked["unranked"][0]["card"], "gone");
    assert_eq!(ranked["weights"]["trust"], 0);
    let history = host.get(&named("history", &agent.base())).await.json();
    assert_eq!(history["looks"].as_array().unwrap().len(), 1);
}

#[derive(Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
}

async fn slow(State(load): State<Arc<Load>>) -> StatusCode {
    let now = load.now.fetch_add(1, Ordering::SeqCst) + 1;
    load.most.fetch_max(now, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(30)).await;
    load.now.fetch_sub(1, Ordering::SeqCst);
    StatusCode::NOT_FOUND
}

#[tokio::test]
async fn a_ranking_fetches_at_most_four_cards_at_the_same_time() {
    let (host, load) = (TestHost::idle().await, Arc::new(Load::default()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let router = Router::new().fallback(slow).with_state(load.clone());
    let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    host.outside.open(&place);
    let candidates: Vec<Value> = (0..10)
        .map(|it| json!({"url": format!("http://{place}/{it}.json")}))
        .collect();
    let ranked = host.post(RANK, &json!({"candidates": candidates})).await;
    server.abort();
    assert_eq!(ranked.status, StatusCode::OK, "{ranked:?}");
    assert_eq!(ranked.json()["unranked"].as_array().unwrap().len(), 10);
    let most = load.most.load(Ordering::SeqCst);
    assert!((1..=4).contains(&most), "{most}");
}

#[tokio::test]
async fn a_candidate_that_may_not_be_requested_has_no_rank() {
    let host = TestHost::idle().await;
    let (card, internal) = (
        json!({"name": "ours", "card": fixture::card()}),
        "http://10.0.0.1/",
    );
    let ranked = host
        .post(RANK, &json!({"candidates": [{"url": internal}, card]}))
        .await;
    assert_eq!(ranked.status, StatusCode::OK, "{ranked:?}");
    let ranked = ranked.json();
    assert_eq!(ranked["ranking"].as_array().unwrap().len(), 1, "{ranked}");
    assert_eq!(
        (&ranked["ranking"][0]["rank"], &ranked["ranking"][0]["card"]),
        (&json!(1), &json!("ours"))
    );
    assert_eq!(ranked["unranked"].as_array().unwrap().len(), 1, "{ranked}");
    assert_eq!(ranked["unranked"][0]["card"], internal);
    let fault = ranked["unranked"][0]["fault"].as_str().unwrap();
    assert!(fault.contains("internal host"), "{fault}");
    assert!(fault.contains("agent_cards.private_targets"), "{fault}");
    let history = host.get(&named("history", internal)).await.json();
    assert_eq!(history["looks"], json!([]), "nothing was requested");
}

/// Answers after the gate is closed.
struct Gated {
    waiting: AtomicUsize,
    gate: Semaphore,
}

async fn gated(State(gated): State<Arc<Gated>>) -> StatusCode {
    gated.waiting.fetch_add(1, Ordering::SeqCst);
    assert!(gated.gate.acquire().await.is_err(), "the gate was closed");
    StatusCode::NOT_FOUND
}

#[tokio::test]
async fn a_ranking_fails_while_too_many_cards_are_checked() {
    const MOST: usize = 16;
    let host = TestHost::idle().await;
    let state = Arc::new(Gated {
        waiting: AtomicUsize::new(0),
        gate: Semaphore::new(0),
    });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let router = Router::new().fallback(gated).with_state(state.clone());
    let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    host.outside.open(&place);
    let card = |name: usize| json!({"url": format!("http://{place}/{name}.json")});
    let asked: Vec<Value> = (0..MOST).map(card).collect();
    let scored = join_all(asked.iter().map(|asked| host.post(SCORE, asked)));
    let ranked = async {
        while state.waiting.load(Ordering::SeqCst) < MOST {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ranked = host.post(RANK, &json!({"candidates": [card(MOST)]})).await;
        state.gate.close();
        ranked
    };
    let (scored, ranked) = tokio::join!(scored, ranked);
    server.abort();
    assert_eq!(
        (ranked.status, ranked.code()),
        (StatusCode::TOO_MANY_REQUESTS, "rate_limited".to_owned())
    );
    for scored in scored {
        assert_eq!(scored.status, StatusCode::BAD_GATEWAY, "{scored:?}");
    }
}

#[rstest]
#[case::nobody(json!({"candidates": []}), "candidates")]
#[case::too_many(json!({"candidates": vec![json!({"card": {}}); 11]}), "candidates")]
#[case::nothing_counts(json!({"candidates": [{"card": {}}], "weights": {}}), "weights")]
#[case::nothing(json!({"candidates": [{}]}), "card")]
#[case::no_url(json!({"candidates": [{"card": {}}, {"url": "agents.example"}]}), "url")]
#[tokio::test]
async fn invalid_ranking_requests_are_refused(#[case] body: Value, #[case] field: &str) {
    let refused = TestHost::idle().await.post(RANK, &body).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["details"]["field"], field, "{refused:?}");
}

#[tokio::test]
async fn scoring_and_reading_take_their_scopes() {
    let host = TestHost::idle().await;
    let reader = host.key_with(&[Scope::AssessmentsRead]).await;
    let call = host.request(Method::POST, SCORE).key(&reader);
    let refused = call.json(&json!({"card": {}})).send().await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let path = named("history", "https://agents.example/");
    let listed = host.request(Method::GET, &path).key(&reader).send().await;
    assert_eq!(listed.status, StatusCode::OK);
}

#[tokio::test]
async fn cards_are_watched_by_url() {
    let host = TestHost::idle().await;
    let asked = json!({"url": "https://agents.example/a#b", "everyHours": 6, "live": true});
    let made = host.post(WATCHES, &asked).await;
    assert_eq!(made.status, StatusCode::OK, "{made:?}");
    assert_eq!(made.json()["url"], "https://agents.example/a");
    let listed = host.get(WATCHES).await.json();
    assert_eq!(listed, json!({"watches": [made.json()]}));
    let theirs = host.request(Method::GET, WATCHES).key(&host.other_key);
    assert_eq!(theirs.send().await.json(), json!({"watches": []}));
    let path = named("watches", "https://agents.example/a");
    let removed = async |key: &str| {
        let call = host.request(Method::DELETE, &path).key(key);
        call.send().await.status
    };
    assert_eq!(removed(&host.other_key).await, StatusCode::NOT_FOUND);
    assert_eq!(removed(&host.key).await, StatusCode::OK);
    assert_eq!(removed(&host.key).await, StatusCode::NOT_FOUND);
}

#[rstest]
#[case::never(json!({"url": "https://agents.example/", "everyHours": 0}), "everyHours")]
#[case::hardly_ever(json!({"url": "https://agents.example/", "everyHours": 2161}), "everyHours")]
#[case::not_said(json!({"url": "https://agents.example/"}), "everyHours")]
#[case::internal(json!({"url": "http://10.0.0.1/", "everyHours": 1}), "url")]
#[case::long(json!({"url": format!("https://agents.example/{}", "x".repeat(2_048)), "everyHours": 1}), "url")]
#[tokio::test]
async fn invalid_watch_requests_are_refused(#[case] body: Value, #[case] field: &str) {
    let refused = TestHost::idle().await.post(WATCHES, &body).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["details"]["field"], field);
}

fn conditions(checked: &Reply) -> Vec<String> {
    let unmet = checked.json()["unmet"].as_array().unwrap().clone();
    assert!(
        unmet.iter().all(|it| it["kind"] == "agent-card"),
        "{unmet:?}"
    );
    let names = unmet.iter().map(|it| it["condition"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_gate_asks_for_the_scores_of_a_card() {
    let (host, agent) = (TestHost::idle().await, Agent::start(&[]).await);
    host.outside.open(&agent.place());
    host.install("1.0.0").await;
    let policy = |card: Value| json!({"policy": {"eval": null, "agentCard": card}});
    let check = async |card: Value| {
        let set = host.post("/v1/host/touchstone/gates", &policy(card)).await;
        assert_eq!(set.status, StatusCode::OK, "{set:?}");
        let asked = json!({"agentId": AGENT, "version": "1.0.0"});
        conditions(&host.post("/v1/host/touchstone/gates/check", &asked).await)
    };
    let url = agent.base();
    let production = json!({"url": url});
    assert_eq!(check(production.clone()).await, ["card-scored"]);
    host.post(SCORE, &json!({"url": url})).await;
    let strict = json!({"url": url, "minimumCompliance": 100});
    let of_all = ["card-compliance", "card-trust", "card-availability"];
    assert_eq!(check(strict).await, of_all);
    host.post(SCORE, &json!({"url": url, "live": true})).await;
    assert_eq!(check(production).await, ["card-trust"]);
    let modest = json!({"url": format!("{url}/#x"), "minimumCompliance": 80, "minimumTrust": 1});
    assert_eq!(check(modest.clone()).await, [""; 0]);
    // A removed card is reported as removed, whichever check noticed first.
    agent.change(&["no-card"]);
    let refused = host.post(SCORE, &json!({"url": url})).await;
    assert_eq!(refused.status, StatusCode::BAD_GATEWAY);
    assert_eq!(check(modest.clone()).await, ["card-scored"]);
    agent.change(&[]);
    host.post(SCORE, &json!({"url": url, "live": true})).await;
    assert_eq!(check(modest.clone()).await, [""; 0]);
    host.clock.ahead(8);
    assert_eq!(check(modest).await, ["card-age"]);
    let refused = host
        .post(
            "/v1/host/touchstone/gates",
            &policy(json!({"url": "ftp://x"})),
        )
        .await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text().contains("agentCard.url"), "{refused:?}");
}
