//! Webhooks of organizations: recipients, event selection, retries and disabling.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::system::SystemClock;
use touchstone_ratings::store as rating_store;

use crate::client::python;
use crate::ratings::api::appeals;
use crate::ratings::api::assessments::{assessed, ordered, tasks};
use crate::ratings::api::{Engine, Site, refusal, site};
use crate::support::clock::Told;
use crate::webhooks::receiver::{Answer, Received, Receiver};

/// A webhook with one pending delivery of an assessment event, not yet attempted. Returns both ids.
pub async fn told(site: &Site) -> (String, String) {
    let url = "http://127.0.0.1:65535/canary";
    let webhook = subscribed(site, url, None).await;
    let id = webhook["id"].as_str().unwrap().to_owned();
    let agent = site.enrol("canary-told").await;
    ordered(site, &agent).await;
    // Every new assessment produces an event.
    let delivery = loop {
        let ttl = Duration::from_secs(3600);
        let claimed = rating_store::assessments::claim_assessment(
            &site.host.store,
            "t",
            None,
            ttl,
            Timestamp::now(),
        );
        claimed.await.unwrap();
        if let Some(delivery) = deliveries(site, &id).await.first() {
            break text(delivery, "id").to_owned();
        }
    };
    (id, delivery)
}

pub async fn subscribed(site: &Site, url: &str, events: Option<&[&str]>) -> Value {
    let mut body = json!({"url": url});
    if let Some(events) = events {
        body["events"] = json!(events);
    }
    let made = site.post("webhooks", &body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    made.json()
}

async fn deliveries(site: &Site, webhook: &str) -> Vec<Value> {
    let listed = site.get(&format!("webhooks/{webhook}/deliveries")).await;
    assert_eq!(listed.status, StatusCode::OK, "{listed:?}");
    listed.json()["data"].as_array().unwrap().clone()
}

/// Claims the oldest assessment.
async fn begin(site: &Site) {
    let ttl = Duration::from_secs(3600);
    let claimed = rating_store::assessments::claim_assessment(
        &site.host.store,
        "t",
        None,
        ttl,
        Timestamp::now(),
    );
    assert!(claimed.await.unwrap().is_some());
}

/// Creates an agent and an assessment of it that a worker has claimed.
async fn cause(site: &Site, agent: &str) {
    let agent = site.enrol(agent).await;
    ordered(site, &agent).await;
    begin(site).await;
}

/// Waits until the only delivery to a webhook meets the condition.
async fn settled(site: &Site, webhook: &str, sound: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let all = deliveries(site, webhook).await;
            if let [delivery] = all.as_slice()
                && sound(delivery)
            {
                return delivery.clone();
            }
            crate::support::pause().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    match waited {
        Ok(delivery) => delivery,
        Err(_) => panic!("{:?}", deliveries(site, webhook).await),
    }
}

fn is(status: &'static str) -> impl Fn(&Value) -> bool {
    move |delivery| delivery["status"] == status
}

fn attempted(times: u32) -> impl Fn(&Value) -> bool {
    move |delivery| delivery["attempts"] == times
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

/// Seconds between two timestamps.
fn between(from: &Value, to: &Value) -> i64 {
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    time(to).duration_since(time(from)).as_secs()
}

#[rstest]
#[tokio::test]
async fn an_organization_receives_only_its_assessment_events(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let webhook = subscribed(&site, &receiver.url(), None).await;
    let body = json!({"url": receiver.url()});
    let foreign = site.send_as(&site.theirs, Method::POST, "webhooks", Some(&body));
    assert_eq!(foreign.await.status, StatusCode::CREATED);
    site.host.assess();
    site.host.tell(Arc::new(SystemClock));
    let agent = site.enrol("triage").await;
    let batch = tasks(&agent, "good", 36, "accepted");
    site.post("events/batch", &batch).await;
    let found = assessed(&site, &json!({"agent_id": agent, "type": "passive_only"})).await;
    assert_eq!(found["status"], "completed", "{found}");

    let mut got = receiver.wait_for(2).await;
    got.sort_by_key(|it| text(&it.json(), "type").to_owned());
    let bodies: Vec<Value> = got.iter().map(Received::json).collect();
    let types: Vec<&str> = bodies.iter().map(|it| text(it, "type")).collect();
    assert_eq!(types, ["assessment.completed", "assessment.started"]);
    let completed = &bodies[0];
    assert_eq!(completed["event"], completed["type"]);
    assert_eq!(completed["timestamp"], found["completed_at"]);
    let result = &found["result"];
    assert_eq!(
        completed["data"],
        json!({
            "assessment_id": found["id"], "agent_id": agent, "assessment_type": "passive_only", "status": "completed",
            "performance_score": result["performance"]["composite_score"],
            "performance_tier": result["performance"]["tier"],
            "capability_score": result["capability"]["composite_score"],
            "capability_tier": result["capability"]["tier"],
            "review_required": false,
        })
    );
    for received in &got {
        assert_eq!(
            received.standard_entries(text(&webhook, "secret")),
            [true],
            "the other organization's event was not delivered here"
        );
    }

    // A failed delivery is reported with its error code.
    let single =
        json!({"agent_id": agent, "type": "single_dimension", "dimension": "tool_proficiency"});
    let id = site.post("assessments", &single).await.json()["id"].clone();
    let got = receiver.wait_for(4).await;
    let ours: Vec<Value> = got.iter().map(Received::json).collect();
    let ours: Vec<&Value> = ours
        .iter()
        .filter(|it| it["data"]["assessment_id"] == id)
        .collect();
    let last = ours
        .iter()
        .find(|it| it["type"] == "assessment.completed")
        .unwrap();
    assert_eq!(last["data"]["dimension"], "tool_proficiency");
    assert!(last["data"]["score"].is_f64(), "{last}");
}

#[rstest]
#[tokio::test]
async fn the_webhook_secret_is_shown_once_and_stored_encrypted(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let body = json!({"url": "http://127.0.0.1:65535/", "events": ["badge.expired"]});
    let call = || {
        let call = site.host.request(Method::POST, "/api/v1/webhooks");
        let call = call.key(&site.ours.key).header("idempotency-key", "once");
        call.json(&body).send()
    };
    let made = call().await.json();
    let secret = text(&made, "secret").to_owned();
    assert_eq!(secret.len(), "whsec_".len() + 44);
    let again = call().await.json();
    assert_eq!(again["id"], made["id"]);
    assert_eq!(again["secret"], Value::Null);
    let path = format!("webhooks/{}", text(&made, "id"));
    for path in [path.as_str(), "webhooks"] {
        let shown = site.get(path).await.text();
        assert!(!shown.contains("whsec_"), "{shown}");
        assert!(shown.contains(text(&made, "secret_fingerprint")), "{shown}");
    }
    let organization =
        rating_store::organizations::organization(&site.host.store, &site.ours.id).await;
    let organization = organization.unwrap().unwrap().number;
    let kept =
        rating_store::notices::notice_webhook(&site.host.store, organization, text(&made, "id"))
            .await;
    let kept = kept.unwrap().unwrap().secrets.current;
    assert!(!kept.contains(&secret) && !kept.contains(&secret["whsec_".len()..]));
    let removed = site.send(Method::DELETE, &path, None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    let gone = site.get(&path).await;
    assert_eq!(
        refusal(&gone),
        (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned())
    );
}

#[rstest]
#[case(json!({"url": "http://example.com/"}))]
#[case(json!({"url": "https://10.0.0.1/"}))]
#[case(json!({"url": "https://[::1]/"}))]
#[case(json!({"url": "https://localhost/"}))]
#[case(json!({"url": "https://169.254.169.254/latest"}))]
#[case(json!({"url": "https://user:word@example.com/"}))]
#[tokio::test]
async fn webhook_urls_with_internal_hosts_are_rejected(#[case] body: Value) {
    site!(Engine::Sqlite => site);
    let refused = site.post("webhooks", &body).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
    );
    assert_eq!(refused.json()["error"]["details"]["field"], "url");
}

#[rstest]
#[tokio::test]
async fn a_failed_delivery_is_retried_under_the_same_id(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Status(500)).await;
    let webhook = subscribed(&site, &receiver.url(), Some(&["assessment.started"])).await;
    let id = text(&webhook, "id");
    cause(&site, "triage").await;
    let clock = Told::at(Timestamp::now());
    site.host.tell(clock.clone());
    let failed = settled(&site, id, attempted(1)).await;
    assert_eq!(
        (&failed["status"], &failed["last_outcome"]),
        (&json!("pending"), &json!("status_500"))
    );
    let wait = between(&failed["last_attempt_at"], &failed["next_attempt_at"]);
    assert!((4..=5).contains(&wait), "{failed}");
    clock.advance(6);
    let failed = settled(&site, id, attempted(2)).await;
    let wait = between(&failed["last_attempt_at"], &failed["next_attempt_at"]);
    assert!((270..=330).contains(&wait), "{failed}");
    // An endpoint's `Retry-After` is respected.
    receiver.answer(Answer::Later(503, "7200"));
    clock.advance(331);
    let failed = settled(&site, id, attempted(3)).await;
    let wait = between(&failed["last_attempt_at"], &failed["next_attempt_at"]);
    assert_eq!(wait, 7200, "{failed}");
    receiver.answer(Answer::Status(200));
    clock.advance(7201);
    let taken = settled(&site, id, is("delivered")).await;
    assert_eq!(
        (&taken["attempts"], &taken["next_attempt_at"]),
        (&json!(4), &json!(null))
    );
    let got = receiver.got();
    assert_eq!(got.len(), 4);
    for received in &got {
        assert_eq!(received.header("webhook-id"), taken["message_id"].as_str());
        assert_eq!(received.body, got[0].body);
        assert_eq!(
            received.standard_entries(text(&webhook, "secret")),
            [true],
            "each attempt is signed with its own timestamp"
        );
    }
    let times: Vec<_> = got
        .iter()
        .map(|it| it.header("webhook-timestamp"))
        .collect();
    assert!(times.is_sorted() && times[0] != times[3]);
}

#[rstest]
#[tokio::test]
async fn after_the_last_attempt_a_message_waits_for_a_manual_redelivery(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Redirect("127.0.0.1:1".parse().unwrap())).await;
    let webhook = subscribed(&site, &receiver.url(), None).await;
    let id = text(&webhook, "id");
    cause(&site, "triage").await;
    let clock = Told::at(Timestamp::now());
    site.host.tell(clock.clone());
    // Slightly longer than the maximum wait each time.
    let waits = [6, 331, 1981, 7921, 19_801, 39_601, 55_441, 79_201, 95_041];
    for (attempt, wait) in (1..).zip(waits) {
        settled(&site, id, attempted(attempt)).await;
        clock.advance(wait);
    }
    let failed = settled(&site, id, is("failed")).await;
    assert_eq!(
        (&failed["attempts"], &failed["last_outcome"]),
        (&json!(10), &json!("status_307"))
    );
    let shown = site.get(&format!("webhooks/{id}")).await.json();
    assert_eq!(
        shown["status"], "active",
        "a single failed message does not disable a webhook: {shown}"
    );
    receiver.answer(Answer::Status(200));
    let path = format!("webhooks/{id}/deliveries/{}/redeliver", text(&failed, "id"));
    let again = site.send(Method::POST, &path, None).await;
    assert_eq!(again.status, StatusCode::ACCEPTED, "{again:?}");
    let taken = settled(&site, id, is("delivered")).await;
    assert_eq!(taken["attempts"], 1);
    let got = receiver.wait_for(11).await;
    assert_eq!(
        got[10].header("webhook-id"),
        failed["message_id"].as_str(),
        "the message is the same"
    );
    let nothing = format!("webhooks/{id}/deliveries/{id}/redeliver");
    let nothing = site.send(Method::POST, &nothing, None).await;
    assert_eq!(refusal(&nothing).0, StatusCode::NOT_FOUND);
}

#[rstest]
#[case::gone(Answer::Status(410), 0, "gone")]
#[case::failing(Answer::Status(500), 5 * 86_400, "failing")]
#[tokio::test]
async fn a_disabled_endpoint_receives_nothing_until_it_is_enabled(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[case] answer: Answer,
    #[case] later: i64,
    #[case] reason: &str,
) {
    site!(engine => site);
    let receiver = Receiver::start(answer).await;
    let webhook = subscribed(&site, &receiver.url(), Some(&["assessment.started"])).await;
    let (id, path) = (text(&webhook, "id"), |rest: &str| {
        format!("webhooks/{}{rest}", text(&webhook, "id"))
    });
    cause(&site, "triage").await;
    let clock = Told::at(Timestamp::now());
    site.host.tell(clock.clone());
    settled(&site, id, attempted(1)).await;
    clock.advance(later);
    let failed = settled(&site, id, is("failed")).await;
    let shown = site.get(&path("")).await.json();
    assert_eq!(
        (&shown["status"], &shown["disabled_reason"]),
        (&json!("disabled"), &json!(reason)),
        "{shown}"
    );
    let again = path(&format!("/deliveries/{}/redeliver", text(&failed, "id")));
    let refused = site.send(Method::POST, &again, None).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    // Events that occur while the webhook is disabled are not sent later.
    cause(&site, "other").await;
    receiver.answer(Answer::Status(200));
    let enabled = site.send(Method::POST, &path("/enable"), None).await.json();
    assert_eq!(
        (&enabled["status"], &enabled["failing_since"]),
        (&json!("active"), &json!(null))
    );
    let again = site.send(Method::POST, &again, None).await;
    assert_eq!(again.status, StatusCode::ACCEPTED, "{again:?}");
    // The API uses the wall clock.
    clock.advance(3600);
    settled(&site, id, is("delivered")).await;
}

#[rstest]
#[tokio::test]
async fn a_worker_without_the_lease_records_nothing_and_another_delivers(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Status(200)).await;
    let webhook = subscribed(&site, &receiver.url(), Some(&["assessment.started"])).await;
    let id = text(&webhook, "id");
    cause(&site, "triage").await;
    let (store, now) = (&site.host.store, Timestamp::now());
    let claim = async |ttl| {
        rating_store::notices::claim_notice_webhook(store, "lost", ttl, now)
            .await
            .unwrap()
    };
    let lost = claim(Duration::ZERO).await.unwrap();
    let due = rating_store::notices::due_deliveries(store, &lost, now, 9)
        .await
        .unwrap();
    assert_eq!(due.len(), 1);
    let held = claim(Duration::from_secs(60)).await.unwrap();
    assert!(claim(Duration::ZERO).await.is_none(), "one at a time");
    let health = lost.webhook.health;
    let late =
        rating_store::notices::attempted(store, &lost, &[], &health, Duration::from_secs(60)).await;
    assert!(
        matches!(late, Err(touchstone_host::ports::store::StoreError::Fenced)),
        "{late:?}"
    );
    rating_store::notices::release_notice_webhook(store, &held)
        .await
        .unwrap();
    site.host.tell(Arc::new(SystemClock));
    let taken = settled(&site, id, is("delivered")).await;
    assert_eq!(taken["attempts"], 1);
    // Work that is lost and restarted produces one event.
    assert_eq!(deliveries(&site, id).await.len(), 1);
}

#[rstest]
#[tokio::test]
async fn after_a_rotation_both_secrets_sign_for_a_day(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Status(200)).await;
    let webhook = subscribed(&site, &receiver.url(), Some(&["assessment.started"])).await;
    let path = format!("webhooks/{}/rotate-secret", text(&webhook, "id"));
    let rotated = site.send(Method::POST, &path, None).await;
    assert_eq!(rotated.status, StatusCode::OK, "{rotated:?}");
    let rotated = rotated.json();
    let (old, new) = (text(&webhook, "secret"), text(&rotated, "secret"));
    assert_ne!(old, new);
    assert_ne!(rotated["secret_fingerprint"], webhook["secret_fingerprint"]);
    cause(&site, "triage").await;
    // The event is due by the wall clock, so the clock of the deliveries starts after it.
    let clock = Told::at(Timestamp::now());
    site.host.tell(clock.clone());
    let first = receiver.wait_for(1).await;
    assert_eq!(first[0].standard_entries(new), [true, false]);
    assert_eq!(first[0].standard_entries(old), [false, true]);
    clock.advance(24 * 3600);
    cause(&site, "other").await;
    let second = receiver.wait_for(2).await;
    assert_eq!(second[1].standard_entries(new), [true]);
}

/// The Standard Webhooks library verifies real deliveries and rejects any changed one.
#[tokio::test]
async fn the_library_of_the_standard_verifies_what_is_sent() {
    let Some(python) = python("the check of webhooks in Python") else {
        return;
    };
    site!(Engine::Sqlite => site);
    let receiver = Receiver::start(Answer::Status(200)).await;
    let webhook = subscribed(&site, &receiver.url(), Some(&["assessment.started"])).await;
    site.host.tell(Arc::new(SystemClock));
    cause(&site, "triage").await;
    let got = receiver.wait_for(1).await.remove(0);
    let body = std::str::from_utf8(&got.body).unwrap();
    let header = |name: &str| got.header(name).unwrap().to_owned();
    let sound = json!({"secret": webhook["secret"], "body": body, "headers": {
        "webhook-id": header("webhook-id"), "webhook-timestamp": header("webhook-timestamp"),
        "webhook-signature": header("webhook-signature")}});
    let changed = |place: &str, value: Value| {
        let mut changed = sound.clone();
        *changed.pointer_mut(place).unwrap() = value;
        changed
    };
    let later: i64 = header("webhook-timestamp").parse::<i64>().unwrap() + 1;
    let cases = [
        sound.clone(),
        changed("/body", json!(body.replace("in_progress", "completed"))),
        changed("/headers/webhook-id", json!("another")),
        changed("/headers/webhook-timestamp", json!(later.to_string())),
        changed(
            "/secret",
            json!("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ),
    ];
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/python/verify_webhook.py"
    );
    let mut child = Command::new(python)
        .args(["-B", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(json!(cases).to_string().as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let read: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(read[0], got.json());
    assert_eq!(read[1..], vec![Value::Null; 4]);
}

#[rstest]
#[tokio::test]
async fn filing_and_deciding_an_appeal_are_notified(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let topics = ["appeal.filed", "appeal.resolved"];
    subscribed(&site, &receiver.url(), Some(&topics)).await;
    site.host.tell(Arc::new(SystemClock));
    let appeal = appeals::rejected(&site).await;
    let mut got: Vec<Value> = receiver
        .wait_for(2)
        .await
        .iter()
        .map(Received::json)
        .collect();
    got.sort_by_key(|it| text(it, "type").to_owned());
    let types: Vec<&str> = got.iter().map(|it| text(it, "type")).collect();
    assert_eq!(types, topics);
    let data = |status: &str| {
        json!({"appeal_id": appeal["id"], "assessment_id": appeal["assessment_id"],
            "dimensions": appeal["dimensions"], "status": status})
    };
    assert_eq!(got[0]["data"], data("filed"));
    assert_eq!(got[1]["data"], data("rejected"));
}
