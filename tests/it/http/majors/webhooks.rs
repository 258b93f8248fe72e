//! Webhook subscriptions of both majors: their registration, their deliveries and their dead
//! letters.

use std::time::Duration;

use axum::http::Method;
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::ports::clock::Clock as _;
use touchstone_kit::ids::WebhookId;
use touchstone_kit::webhook::Circuit;
use touchstone_openwop::wire::Major;
use touchstone_runs::ports::webhooks::{GivenUp, NextStep, Retry};
use touchstone_runs::store as run_store;

use crate::http::majors::{VERSION, both, under_v2, with_ended_run, with_run};
use crate::http::support::host::{Reply, TestHost, create_body, says};
use crate::store::TTL;
use crate::support::asyncapi;
use crate::webhooks::receiver::{Answer, Received, Receiver};

const NOWHERE: &str = "http://127.0.0.1:9999/h";
/// A key that both majors take.
const KEY: &str = "0123456789abcdef-webhook";

fn body(url: &str) -> Value {
    json!({"url": url, "events": ["run.started", "run.completed", "agent.tool-called"]})
}

async fn register(host: &TestHost, body: &Value) -> Reply {
    under_v2(host, "POST", "/webhooks").json(body).send().await
}

fn id_of(made: &Reply) -> String {
    let bound = made.json()["webhookId"].as_str().unwrap().to_owned();
    bound.strip_prefix("acme/").unwrap().to_owned()
}

/// A registered subscription of major 2; its opaque id.
async fn registered(host: &TestHost, url: &str) -> String {
    let made = register(host, &body(url)).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    id_of(&made)
}

#[tokio::test]
async fn a_registration_of_major_2_is_closed_and_shows_only_a_generated_secret() {
    let host = both().await;
    let made = register(&host, &body(NOWHERE)).await.json();
    let members: Vec<&String> = made.as_object().unwrap().keys().collect();
    assert_eq!(
        members,
        [
            "createdAt",
            "eventTypes",
            "secret",
            "subscriptionId",
            "url",
            "webhookId"
        ]
    );
    assert!(made["webhookId"].as_str().unwrap().starts_with("acme/wh_"));
    assert_eq!(made["webhookId"], made["subscriptionId"]);
    assert_eq!(made["eventTypes"], body(NOWHERE)["events"]);
    assert_eq!(made["secret"].as_str().unwrap().len(), 64);

    let mut brought = body(NOWHERE);
    brought["secret"] = json!("brought-along-0123456789");
    let made = register(&host, &brought).await;
    assert_eq!(made.json()["secret"], "");
    assert!(!made.text().contains("brought-along"));
    let of_v1 = json!({"url": NOWHERE, "events": ["a.b"]});
    let made = host.post("/v1/webhooks", &of_v1).await;
    assert_eq!(made.status.as_u16(), 201);
    let listed = host.get("/v1/host/touchstone/webhooks").await.json();
    let versions = listed["webhooks"].as_array().unwrap().iter();
    let versions: Vec<&Value> = versions.map(|it| &it["protocolVersion"]).collect();
    assert_eq!(versions, ["2.0", "2.0", "1.0"]);
}

#[rstest]
#[case::v1_spelling(json!(["agent.toolCalled"]), "events")]
#[case::unknown(json!(["no.such-event"]), "events")]
#[case::not_a_name(json!(["run.completed", 7]), "events")]
#[case::not_a_list(json!("run.completed"), "events")]
#[case::none(json!([]), "events")]
#[tokio::test]
async fn events_of_major_2_have_its_names(#[case] events: Value, #[case] field: &str) {
    let host = both().await;
    let mut wants = body(NOWHERE);
    wants["events"] = events;
    let refused = register(&host, &wants).await;
    let found = (refused.status.as_u16(), refused.code());
    assert_eq!(found, (400, "validation_error".to_owned()));
    assert_eq!(refused.json()["details"]["field"], field);
}

#[tokio::test]
async fn a_registration_of_major_2_has_no_other_members() {
    let host = both().await;
    for (name, value) in [
        ("tenantId", json!("acme")),
        ("bogus", json!(1)),
        ("tags", json!(null)),
    ] {
        let mut wants = body(NOWHERE);
        wants[name] = value;
        assert_eq!(
            register(&host, &wants).await.code(),
            "validation_error",
            "{name}"
        );
    }
    let refused = register(&host, &body("http://hooks.example.com/h")).await;
    let found = (refused.status.as_u16(), refused.code());
    assert_eq!(found, (400, "webhook_url_rejected".to_owned()));
    let own = json!({"url": NOWHERE, "events": ["touchstone.task.unjudged"]});
    assert_eq!(register(&host, &own).await.status.as_u16(), 201);
}

/// The headers of a delivery, which both families have.
fn header<'a>(received: &'a Received, name: &str) -> Option<&'a str> {
    let value = received.header(&format!("openwop-{name}"));
    assert_eq!(
        value,
        received.header(&format!("x-openwop-{name}")),
        "{name}"
    );
    value
}

/// The events of a run as a poll shows them.
async fn polled(host: &TestHost, major: &str, run: &str) -> Vec<Value> {
    let path = match major {
        "1.0" => format!("/v1/runs/{run}/events/poll?timeout=1"),
        _ => format!("/runs/{run}/events/poll?timeout=1"),
    };
    let call = host.request(Method::GET, &path).header(VERSION, major);
    let polled = call.send().await.json();
    polled["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_subscription_is_served_in_the_form_of_its_major() {
    let (host, _) = with_ended_run().await;
    host.dispatch();
    let (first, second) = (
        Receiver::start(Answer::Status(204)).await,
        Receiver::start(Answer::Status(204)).await,
    );
    let of_v1 = json!({"url": first.url(), "events": ["run.started", "run.completed"]});
    let of_v1 = host.post("/v1/webhooks", &of_v1).await.json();
    let of_v2 = register(&host, &body(&second.url())).await.json();
    for under in ["1.0", "2.0"] {
        let (before_first, before_second) = (first.got().len(), second.got().len());
        let created = match under {
            "1.0" => host.post("/v1/runs", &create_body()).await.json(),
            _ => {
                let create = json!({"workflowId": "conformance-noop"});
                let call = under_v2(&host, "POST", "/runs").json(&create);
                call.send().await.json()
            }
        };
        let run = created["runId"].as_str().unwrap();
        let run = run.strip_prefix("acme/").unwrap_or(run);
        host.ended_of(&run.into()).await;
        let log = polled(&host, "1.0", run).await;
        for (at, received) in
            (0..2).zip(first.wait_for(before_first + 2).await[before_first..].iter())
        {
            let document = received.json();
            asyncapi::check_delivery(Major::V1, &document);
            let logged = [log.first(), log.last()][at].unwrap();
            assert_eq!(&document["event"], logged, "{under}");
            assert_eq!(document["runId"], run);
            assert_eq!(document["workspaceId"], "acme");
            assert_eq!(header(received, "webhook-id"), of_v1["webhookId"].as_str());
            assert_eq!(header(received, "event-type"), logged["type"].as_str());
        }
        let log = polled(&host, "2.0", run).await;
        let got = second.wait_for(before_second + 2).await;
        for (at, received) in (0..2).zip(got[before_second..].iter()) {
            let document = received.json();
            asyncapi::check_delivery(Major::V2, &document);
            let logged = [log.first(), log.last()][at].unwrap();
            assert_eq!(&document["event"], logged, "{under}");
            assert_eq!(document["runId"], format!("acme/{run}"));
            assert_eq!(header(received, "webhook-id"), of_v2["webhookId"].as_str());
            assert_eq!(header(received, "event-type"), logged["type"].as_str());
            assert_eq!(header(received, "signature-algorithm"), Some("v1"));
            assert!(header(received, "timestamp").is_some());
            assert!(header(received, "signature").is_some());
            assert!(received.is_signed_by(of_v2["secret"].as_str().unwrap()));
        }
    }
}

#[tokio::test]
async fn renamed_events_have_the_name_of_the_subscriptions_major() {
    let host = both().await;
    host.equip(&says(&["a"])).await;
    host.work();
    host.dispatch();
    let receiver = Receiver::start(Answer::Status(204)).await;
    let wants = json!({"url": receiver.url(), "events": ["agent.invocation-started"]});
    let made = register(&host, &wants).await.json();
    let run = host.create().await;
    host.ended_of(&run).await;
    let told = &receiver.wait_for(1).await[0];
    assert_eq!(header(told, "event-type"), Some("agent.invocation-started"));
    asyncapi::check_delivery(Major::V2, &told.json());
    assert_eq!(told.json()["event"]["type"], "agent.invocation-started");
    let log = polled(&host, "2.0", run.as_str()).await;
    assert!(log.contains(&told.json()["event"]));
    // Sent again by a person, it has the same form.
    let id = made["webhookId"].as_str().unwrap().replace("acme/", "");
    let path = format!("/v1/host/touchstone/webhooks/{id}/deliveries");
    let number = loop {
        let listed = host.get(&path).await.json();
        if let Some(last) = listed["deliveries"].as_array().unwrap().first() {
            break last["number"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let replay = format!("{path}/{number}/replay");
    let again = host.post(&replay, &json!({})).await;
    assert_eq!(again.status.as_u16(), 200);
    let got = receiver.wait_for(2).await;
    assert_eq!(got[1].body, told.body);
}

#[tokio::test]
async fn a_removal_waits_for_the_delivery_in_progress_and_ends_all_others() {
    let (host, _) = with_ended_run().await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Hang).await;
    let id = registered(&host, &receiver.url()).await;
    let create = async || {
        let wants = json!({"workflowId": "conformance-noop"});
        let created = under_v2(&host, "POST", "/runs").json(&wants).send().await;
        assert_eq!(created.status.as_u16(), 201);
    };
    create().await;
    receiver.wait_for(1).await;
    let gone = under_v2(&host, "DELETE", &format!("/webhooks/acme~2F{id}"));
    assert_eq!(gone.send().await.status.as_u16(), 204);
    let before = receiver.got().len();
    receiver.answer(Answer::Status(200));
    let control = Receiver::start(Answer::Status(200)).await;
    registered(&host, &control.url()).await;
    host.clock.pass(SignedDuration::from_hours(24));
    create().await;
    control.wait_for(2).await;
    assert_eq!(receiver.got().len(), before);
    let again = under_v2(&host, "DELETE", &format!("/webhooks/acme~2F{id}"));
    assert_eq!(again.send().await.code(), "not_found");
}

fn dead_letters(id: &str, query: &str) -> String {
    format!("/webhooks/acme~2F{id}/dead-letters{query}")
}

#[tokio::test]
async fn a_delivery_that_is_never_accepted_becomes_a_dead_letter() {
    let (host, _) = with_ended_run().await;
    host.dispatch();
    let receiver = Receiver::start(Answer::Status(500)).await;
    let id = registered(&host, &receiver.url()).await;
    let wants = json!({"workflowId": "conformance-noop"});
    let made = under_v2(&host, "POST", "/runs").json(&wants).send().await;
    let run = made.json()["runId"].as_str().unwrap().to_owned();
    host.ended_of(&run.replace("acme/", "").as_str().into())
        .await;
    receiver.wait_for(2).await;
    let listed = loop {
        // An hour is longer than any wait, and than the breaker is open.
        host.clock.pass(SignedDuration::from_secs(3600));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let listed = under_v2(&host, "GET", &dead_letters(&id, "")).send().await;
        assert_eq!(listed.status.as_u16(), 200, "{listed:?}");
        let listed = listed.json()["deliveries"].as_array().unwrap().clone();
        if listed.len() == 2 {
            break listed;
        }
    };
    let got = receiver.got();
    assert_eq!(got.len(), 10, "each of the two five times");
    let log = polled(&host, "2.0", &run.replace("acme/", "")).await;
    for letter in &listed {
        let event = log.iter().find(|it| it["eventId"] == letter["eventId"]);
        assert_eq!(event.unwrap()["type"], letter["eventType"]);
        assert_eq!(letter["runId"], run);
        assert_eq!(letter["webhookId"], format!("acme/{id}"));
        let delivery = letter["deliveryId"].as_str().unwrap();
        assert!(delivery.starts_with("acme/dlv_"), "{delivery}");
        assert_eq!(
            (
                &letter["attempts"],
                &letter["reason"],
                &letter["lastStatus"]
            ),
            (&json!(5), &json!("retries_exhausted"), &json!(500))
        );
        assert_eq!(letter.as_object().unwrap().len(), 10);
    }
    // This host lists them under major 1 too, in its own form.
    let path = format!("/v1/host/touchstone/webhooks/{id}/dead-letters");
    let own = host.get(&path).await.json();
    assert_eq!(own["deliveries"][0]["eventId"], listed[0]["eventId"]);
    assert_eq!(own["deliveries"][0]["webhookId"], id);
}

/// Records that deliveries of the first events of a run were given up.
async fn give_up(host: &TestHost, id: &str, run: &str, many: u64) {
    let (store, id, now) = (&host.store, WebhookId::from(id), host.clock.now());
    let claim = run_store::webhooks::claim(store, "test", TTL, now).await;
    let claim = claim.unwrap().unwrap();
    assert_eq!(claim.webhook.id, id);
    for sequence in 1..=many {
        let retry = Retry {
            run: run.into(),
            sequence,
            kind: "agent.toolCalled".to_owned(),
            event_id: format!("evt_0123456789abcdef_{sequence}"),
            attempts: 5,
            due_at: now,
            last_status: None,
        };
        let letter = retry.given_up(&id, GivenUp::RetriesExhausted, now);
        let next = NextStep::GiveUp(letter);
        let circuit = Circuit::default();
        let event = (&run.into(), sequence);
        run_store::webhooks::record_attempt(store, &claim, event, false, &next, &circuit, TTL)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_in_pages_of_one_subscription() {
    let (host, run) = with_run().await;
    let id = registered(&host, NOWHERE).await;
    let other = registered(&host, NOWHERE).await;
    host.work();
    host.ended_of(&run).await;
    give_up(&host, &id, run.as_str(), 5).await;
    let mut seen = Vec::new();
    let mut query = "?limit=2".to_owned();
    let cursor = loop {
        let page = under_v2(&host, "GET", &dead_letters(&id, &query))
            .send()
            .await;
        let page = page.json();
        for letter in page["deliveries"].as_array().unwrap() {
            assert_eq!(letter["eventType"], "agent.tool-called");
            assert_eq!(letter.get("lastStatus"), None);
            seen.push(letter["eventId"].as_str().unwrap().to_owned());
        }
        match page["nextCursor"].as_str() {
            Some(next) => query = format!("?limit=2&cursor={next}"),
            None => break query.split_once("cursor=").unwrap().1.to_owned(),
        }
    };
    let expected = (1..=5).rev().map(|it| format!("evt_0123456789abcdef_{it}"));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    // A larger limit is reduced.
    let all = under_v2(&host, "GET", &dead_letters(&id, "?limit=5000"))
        .send()
        .await;
    assert_eq!(all.json()["deliveries"].as_array().unwrap().len(), 5);

    let changed = cursor.replace("dlv_", "dlv_0");
    for (of, cursor) in [
        (&id, changed.as_str()),
        (&id, "7"),
        (&id, ""),
        (&other, &cursor),
    ] {
        let refused = under_v2(
            &host,
            "GET",
            &dead_letters(of, &format!("?cursor={cursor}")),
        );
        let refused = refused.send().await;
        let found = (refused.status.as_u16(), refused.code());
        assert_eq!(found, (400, "validation_error".to_owned()), "{cursor}");
        assert_eq!(refused.json()["details"]["field"], "cursor");
    }
    let foreign = under_v2(&host, "GET", &dead_letters(&id, "")).key(&host.other_key);
    assert_eq!(foreign.send().await.code(), "id_tenant_mismatch");
    let unknown = under_v2(&host, "GET", &dead_letters("wh_0123456789abcdef", ""));
    assert_eq!(unknown.send().await.code(), "not_found");
    let of_v1 = host.get(&format!("/v1/webhooks/{id}/dead-letters")).await;
    assert_eq!(of_v1.code(), "not_found");

    host.clock.ahead(31);
    let expired = under_v2(&host, "GET", &dead_letters(&id, "")).send().await;
    assert_eq!(expired.json(), json!({"deliveries": []}));
}

#[tokio::test]
async fn a_key_does_not_repeat_a_registration_of_the_other_major() {
    let host = both().await;
    let wants = json!({"url": NOWHERE, "events": ["run.completed"]});
    let send = async |version: &str| {
        let path = if version == "1.0" {
            "/v1/webhooks"
        } else {
            "/webhooks"
        };
        let call = host.request(Method::POST, path).header(VERSION, version);
        call.header("idempotency-key", KEY)
            .json(&wants)
            .send()
            .await
    };
    let first = send("2.0").await;
    assert_eq!(first.status.as_u16(), 201, "{first:?}");
    let again = send("2.0").await;
    assert_eq!(again.json(), first.json());
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
    assert_eq!(send("1.0").await.code(), "idempotency_key_mismatch");
}
