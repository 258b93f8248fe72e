//! A host that serves major 2 alone.

use axum::http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use touchstone_host::ports::host_secrets::INTERRUPT_TOKENS;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::version::Majors;
use touchstone_runs::rules::workflow::token::{Intent, InterruptToken};
use touchstone_runs::store::webhooks::count_of_v1;

use crate::http::majors::operations::{body, is_bound, keyed, path};
use crate::http::majors::{VERSION, serving, under_v2};
use crate::http::runs::workflows::start_at;
use crate::http::support::host::{TestHost, says};

const TWIN: &str = "/host/touchstone/v1";

async fn retired() -> TestHost {
    TestHost::with(serving(Majors::V2)).await
}

#[tokio::test]
async fn an_id_needs_its_tenant() {
    let host = retired().await;
    let run = RunId::from("run-0123456789abcdef");
    for operation in keyed().filter(|it| is_bound(it)) {
        for (id, expected) in [
            (run.to_string(), "validation_error"),
            (format!("globex~2F{run}"), "id_tenant_mismatch"),
            (format!("acme~2F{run}"), "not_found"),
        ] {
            let request = under_v2(&host, operation.method, &path(operation, &id));
            let request = match operation.writes() {
                true => request.json(&body(operation)),
                false => request,
            };
            let reply = request.send().await;
            assert_eq!(reply.code(), expected, "{} {id}", operation.id);
        }
    }
    let against = format!("/runs/acme~2F{run}:diff?against={run}");
    let reply = under_v2(&host, "GET", &against).send().await;
    assert_eq!(reply.code(), "validation_error");
    assert_eq!(reply.json()["details"]["field"], "against");
}

#[tokio::test]
async fn a_request_without_a_header_is_one_of_major_2() {
    let host = retired().await;
    host.equip(&says(&["a"])).await;
    let created = host.request(Method::POST, "/runs");
    let created = created
        .json(&json!({"workflowId": "conformance-noop"}))
        .send()
        .await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    assert_eq!(created.header(VERSION), Some("2.0"));
    let path = created.json()["statusUrl"].as_str().unwrap().to_owned();
    let read = host.get(&path).await;
    assert_eq!(read.json()["runId"], created.json()["runId"]);
    for (method, path) in [
        (Method::GET, "/v1/agents"),
        (Method::POST, "/v1/runs"),
        (Method::GET, "/v1/openapi.json"),
    ] {
        let reply = host.request(method, path).send().await;
        assert_eq!(reply.code(), "not_found", "{path}");
        assert_eq!(reply.header(VERSION), Some("2.0"), "{path}");
    }
}

/// Programs of this host use the inner form, whatever the host serves.
#[tokio::test]
async fn operations_of_major_1_have_twins_among_the_routes_of_the_host() {
    for majors in [Majors::Both, Majors::V2] {
        let host = TestHost::with(serving(majors)).await;
        host.work();
        let run = start_at(&host, TWIN, &json!({"workflowId": "conformance-noop"})).await;
        let shown = loop {
            let poll = format!("{TWIN}/runs/{run}/events/poll?timeout=5");
            let page = host.get(&poll).await;
            assert_eq!(page.header(VERSION), None);
            if page.json()["isComplete"] == true {
                break host.get(&format!("{TWIN}/runs/{run}")).await;
            }
        };
        assert_eq!(shown.header(VERSION), None);
        assert_eq!(shown.json()["runId"], run.as_str());
        assert_eq!(shown.json()["owner"].get("subject"), None);
        let bundle = host.get(&format!("{TWIN}/runs/{run}/debug-bundle")).await;
        assert_eq!(bundle.status, StatusCode::OK);
        let fork = format!("{TWIN}/runs/{run}:fork");
        let fork = host.post(&fork, &json!({"mode": "replay"})).await;
        assert_eq!(fork.status, StatusCode::CREATED, "{fork:?}");
        let known = format!("/host/touchstone/runs?idPrefix={run}");
        let listed = host.get(&known).await.json();
        assert_eq!(listed["runs"][0]["runId"], run.as_str());
        for path in [
            // Only major 2 has it.
            format!("{TWIN}/runs"),
            format!("{TWIN}/runs/{run}/effects"),
            format!("{TWIN}/packs"),
            format!("{TWIN}/runs/{run}/~fork"),
            format!("{TWIN}/host/touchstone/runs"),
            TWIN.to_owned(),
        ] {
            let reply = host.get(&path).await;
            assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(reply.header(VERSION), None, "{path}");
        }
        let foreign = host.request(Method::GET, &format!("{TWIN}/runs/{run}"));
        let foreign = foreign.key(&host.other_key).send().await;
        assert_eq!(foreign.code(), "not_found");
        let anonymous = host.request(Method::GET, &format!("{TWIN}/runs/{run}"));
        let anonymous = anonymous.anonymous().send().await;
        assert_eq!(anonymous.code(), "unauthenticated");
    }
}

#[tokio::test]
async fn links_of_the_inner_form_lead_to_what_is_served() {
    for (majors, operations, description) in [
        (Majors::Both, "/v1", "`/v1/openapi.json`"),
        (Majors::V2, TWIN, "`/openapi.json`"),
    ] {
        let host = TestHost::with(serving(majors)).await;
        host.work();
        let asked = json!({"workflowId": "conformance-approval"});
        let created = host.post(&format!("{TWIN}/runs"), &asked).await.json();
        let run = created["runId"].as_str().unwrap();
        let of_run = format!("{operations}/runs/{run}");
        assert_eq!(created["statusUrl"], json!(of_run));
        assert_eq!(created["eventsUrl"], json!(format!("{of_run}/events")));
        let asked = loop {
            let shown = host.get(&of_run).await.json();
            if shown["status"] == "waiting-approval" {
                break shown["interrupt"].clone();
            }
        };
        let callback = asked["callbackUrl"].as_str().unwrap();
        assert!(callback.starts_with(operations), "{callback}");
        let inspected = host.request(Method::GET, callback).anonymous().send().await;
        assert_eq!(inspected.status, StatusCode::OK, "{inspected:?}");
        let absent = host.get("/host/touchstone/absent").await;
        let message = absent.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(description), "{message}");
    }
}

/// A subscription keeps the form of its deliveries, so none of major 1 can be made.
#[tokio::test]
async fn a_subscription_that_is_made_at_a_twin_has_the_form_of_major_2() {
    for (majors, expected) in [(Majors::Both, "1.0"), (Majors::V2, "2.0")] {
        let host = TestHost::with(serving(majors)).await;
        let asked = json!({"url": "http://127.0.0.1:9999/h", "events": ["run.completed"]});
        let made = host.post(&format!("{TWIN}/webhooks"), &asked).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        let listed = host.get("/host/touchstone/webhooks").await.json();
        assert_eq!(listed["webhooks"][0]["protocolVersion"], expected);
        let found = count_of_v1(&host.store).await.unwrap();
        assert_eq!(found, i64::from(expected == "1.0"));
    }
}

#[tokio::test]
async fn tokens_of_major_1_are_not_admitted() {
    let token = InterruptToken {
        tenant: "acme".into(),
        run_id: "run_absent".into(),
        node_id: "gate".into(),
        interrupt_id: "int-gate-1".to_owned(),
        expires_at: Timestamp::now() + SignedDuration::from_hours(1),
        intent: Intent::Resolve,
    };
    for (majors, expected) in [
        (Majors::Both, "not_found"),
        (Majors::V2, "interrupt_token_invalid"),
    ] {
        let host = TestHost::with(serving(majors)).await;
        let secret = host.store.host_secret(INTERRUPT_TOKENS, [1; 32]).await;
        let since_v2 = token.sign(&secret.unwrap()).unwrap();
        let mut parts = since_v2.splitn(4, '.');
        let of_v1 = parts.nth(3).unwrap();
        for (text, expected) in [(of_v1, expected), (since_v2.as_str(), "not_found")] {
            let call = under_v2(&host, "GET", &format!("/interrupts/{text}"));
            let reply = call.anonymous().send().await;
            assert_eq!(reply.code(), expected, "{text}");
        }
    }
}
