//! A host that serves major 2 alone.

use axum::http::{Method, StatusCode};
use serde_json::json;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::version::Majors;

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
