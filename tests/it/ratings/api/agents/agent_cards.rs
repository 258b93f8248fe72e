//! Watched agent cards are rechecked on a schedule, and the organization receives an event when a
//! score drops to a lower band.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use touchstone_agent_cards::service::rescoring::Rescorer;
use touchstone_host::service::jobs;
use touchstone_host::system::SystemClock;

use crate::agent_cards::wire::agent::Agent;
use crate::ratings::api::organizations::webhooks::subscribed;
use crate::ratings::api::{Engine, Site, site};
use crate::support::clock::Told;
use crate::webhooks::receiver::{Answer, Receiver};

const WATCHES: &str = "/v1/host/touchstone/agent-cards/watches";
const HOUR: i64 = 3600;

struct Replica {
    rescorer: Rescorer,
    clock: Arc<Told>,
}

impl Replica {
    fn of(site: &Site, name: &str) -> Self {
        let clock = Told::at(Timestamp::now());
        let replica = jobs::Replica {
            store: site.host.store.clone(),
            clock: clock.clone(),
            owner: name.to_owned(),
        };
        let rescorer = Rescorer::new(site.host.cards.clone(), replica);
        Self { rescorer, clock }
    }

    /// Moves the clock and runs the recheck.
    async fn look_again(&self, seconds: i64) {
        self.clock.advance(seconds);
        let shutdown = CancellationToken::new();
        self.rescorer.look_again(&shutdown).await.unwrap();
    }
}

async fn watched(site: &Site, agent: &Agent) {
    site.host.outside.open(&agent.place());
    let asked = json!({"url": agent.base(), "everyHours": 1, "live": true});
    let call = site.host.request(axum::http::Method::POST, WATCHES);
    let made = call.key(&site.ours.key).json(&asked).send().await;
    assert_eq!(made.status, StatusCode::OK, "{made:?}");
}

async fn history(site: &Site, agent: &Agent) -> Vec<Value> {
    let url = agent.base().replace(':', "%3A").replace('/', "%2F");
    let path = format!("/v1/host/touchstone/agent-cards/history?url={url}");
    let call = site.host.request(axum::http::Method::GET, &path);
    let found = call.key(&site.ours.key).send().await.json();
    found["looks"].as_array().unwrap().clone()
}

#[rstest]
#[tokio::test]
async fn a_rating_drop_of_a_watched_card_is_notified_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let topics = ["agent_card.score_dropped"];
    subscribed(&site, &receiver.url(), Some(&topics)).await;
    site.host.tell(Arc::new(SystemClock));
    let agent = Agent::start(&[]).await;
    watched(&site, &agent).await;
    let replica = Replica::of(&site, "replica-1");
    replica.look_again(1).await;
    agent.change(&["fails"]);
    replica.look_again(2 * HOUR).await;
    replica.look_again(2 * HOUR).await;
    agent.change(&[]);
    replica.look_again(2 * HOUR).await;
    agent.change(&["no-card"]);
    replica.look_again(2 * HOUR).await;
    replica.look_again(2 * HOUR).await;

    let looks = history(&site, &agent).await;
    let totals: Vec<Value> = looks
        .iter()
        .map(|it| it["scores"]["availability"]["total"].clone())
        .collect();
    assert_eq!(json!(totals), json!([null, null, 95, 10, 10, 95]));
    assert!(
        looks[0]["fault"].as_str().unwrap().contains("404"),
        "{looks:?}"
    );

    let got = receiver.wait_for(2).await;
    let mut got: Vec<Value> = got.iter().map(|it| it.json()["data"].clone()).collect();
    got.sort_by_key(|it| it["fault"].is_string());
    let dropped =
        json!([{"dimension": "availability", "from": "FULLY_AVAILABLE", "to": "UNAVAILABLE"}]);
    for (told, look) in got.iter().zip([&looks[4], &looks[1]]) {
        assert_eq!(told["dropped"], dropped, "{told}");
        assert_eq!(told["look_id"], look["id"]);
        assert_eq!(
            told["availability"],
            look["scores"]["availability"]["total"]
        );
    }
    assert_eq!(got.len(), 2);
}

/// The fixture's trust score is 33: below the default threshold and above the second watch's.
#[rstest]
#[tokio::test]
async fn a_watched_card_below_its_threshold_is_notified_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let topics = ["agent_card.below_threshold"];
    subscribed(&site, &receiver.url(), Some(&topics)).await;
    site.host.tell(Arc::new(SystemClock));
    let (usual, modest) = (Agent::start(&[]).await, Agent::start(&[]).await);
    watched(&site, &usual).await;
    site.host.outside.open(&modest.place());
    let asked = json!({
        "url": modest.base(), "everyHours": 1, "live": true,
        "alertBelow": {"compliance": 0, "trust": 10.5, "availability": 90},
    });
    let call = site.host.request(axum::http::Method::POST, WATCHES);
    let made = call.key(&site.ours.key).json(&asked).send().await;
    assert_eq!(made.status, StatusCode::OK, "{made:?}");
    assert_eq!(made.json()["alertBelow"], asked["alertBelow"]);
    let replica = Replica::of(&site, "replica-1");
    replica.look_again(1).await;
    replica.look_again(2 * HOUR).await;
    modest.change(&["fails"]);
    replica.look_again(2 * HOUR).await;
    replica.look_again(2 * HOUR).await;

    let got = receiver.wait_for(2).await;
    let of = |agent: &Agent| {
        let all = got.iter().map(|it| it.json()["data"].clone());
        let url = format!("{}/", agent.base());
        let mut of: Vec<Value> = all.filter(|it| it["url"] == url.as_str()).collect();
        assert_eq!(of.len(), 1, "{url} {of:?}");
        of.remove(0)
    };
    let trust = of(&usual)["below"].as_array().unwrap().clone();
    let trust: Vec<&Value> = trust
        .iter()
        .filter(|it| it["dimension"] == "trust")
        .collect();
    assert_eq!(trust.len(), 1);
    assert_eq!(trust[0]["below"], 70);
    let down = json!([{"dimension": "availability", "value": 10, "below": 90}]);
    assert_eq!(of(&modest)["below"], down);
}

#[rstest]
#[tokio::test]
async fn a_watched_card_is_checked_by_one_replica_and_only_when_due(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = Agent::start(&[]).await;
    watched(&site, &agent).await;
    let (one, other) = (
        Replica::of(&site, "replica-1"),
        Replica::of(&site, "replica-2"),
    );
    tokio::join!(one.look_again(1), other.look_again(1));
    assert_eq!(history(&site, &agent).await.len(), 1);
    one.look_again(HOUR / 2).await;
    assert_eq!(history(&site, &agent).await.len(), 1, "it is not due");
    other.look_again(2 * HOUR).await;
    assert_eq!(history(&site, &agent).await.len(), 2);
}

/// A check whose result cannot be stored would be repeated forever.
#[rstest]
#[tokio::test]
async fn watched_cards_are_not_checked_while_the_database_is_read_only(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let site = Site::over(&database).await;
    let agent = Agent::start(&[]).await;
    watched(&site, &agent).await;
    let replica = Replica::of(&site, "replica-1");
    database.fail_checks().await;
    site.host.store.report_outage();
    replica.look_again(1).await;
    assert!(history(&site, &agent).await.is_empty());
    database.pass_checks().await;
    // Check results are cached for one second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    replica.look_again(1).await;
    assert_eq!(history(&site, &agent).await.len(), 1);
}
