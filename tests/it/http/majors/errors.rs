//! The same refusal under both majors.

use axum::http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::http::majors::{VERSION, both, under_v2, with_ended_run, with_run};
use crate::http::runs::workflows::start;
use crate::http::support::host::TestHost;

/// A method and the rest of a path after that of the run, with a body.
type Request = (&'static str, &'static str, Option<Value>);

#[rstest]
#[case::cancel(("POST", "/cancel", Some(json!({}))), (200, ""), (409, "run_terminal"))]
#[case::pause(("POST", ":pause", Some(json!({}))), (409, "conflict"), (409, "run_terminal"))]
#[case::resume(("POST", ":resume", Some(json!({}))), (409, "conflict"), (409, "run_terminal"))]
#[case::fork(
    ("POST", ":fork", Some(json!({"mode": "replay", "fromSeq": 100_000}))),
    (422, "invalid_from_seq"),
    (422, "fork_point_invalid")
)]
#[case::interrupt(
    ("POST", "/interrupts/gate", Some(json!({"resumeValue": {}}))),
    (404, "interrupt_not_found"),
    (404, "not_found")
)]
#[case::method(("PUT", "", None), (405, "method_not_allowed"), (404, "not_found"))]
#[case::stream_mode(
    ("GET", "/events?streamMode=bogus", None),
    (400, "unsupported_stream_mode"),
    (400, "unsupported_stream_mode")
)]
#[tokio::test]
async fn a_run_that_has_ended(
    #[case] (method, rest, body): Request,
    #[case] in_v1: (u16, &str),
    #[case] in_v2: (u16, &str),
) {
    let (host, run) = with_ended_run().await;
    for (path, version, expected) in [
        (format!("/runs/acme~2F{run}{rest}"), "2.0", in_v2),
        (format!("/v1/runs/{run}{rest}"), "1.0", in_v1),
    ] {
        check(&host, (method, &path, version), body.as_ref(), expected).await;
    }
}

#[rstest]
#[case::summary(("GET", "/eval-summary", None), (409, "conflict"), (409, "run_state_conflict"))]
#[case::pause(("POST", ":pause", Some(json!({}))), (409, "conflict"), (409, "run_state_conflict"))]
#[case::resume(("POST", ":resume", Some(json!({}))), (409, "conflict"), (409, "run_state_conflict"))]
#[case::fork(
    ("POST", ":fork", Some(json!({"mode": "replay"}))),
    (409, "conflict"),
    (409, "run_state_conflict")
)]
#[tokio::test]
async fn a_run_that_has_not_begun(
    #[case] (method, rest, body): Request,
    #[case] in_v1: (u16, &str),
    #[case] in_v2: (u16, &str),
) {
    let (host, run) = with_run().await;
    for (path, version, expected) in [
        (format!("/runs/acme~2F{run}{rest}"), "2.0", in_v2),
        (format!("/v1/runs/{run}{rest}"), "1.0", in_v1),
    ] {
        let reply = check(&host, (method, &path, version), body.as_ref(), expected).await;
        assert_eq!(reply["details"]["runStatus"], "pending", "{path}");
    }
}

async fn check(
    host: &TestHost,
    (method, path, version): (&str, &str, &str),
    body: Option<&Value>,
    (status, code): (u16, &str),
) -> Value {
    let request = host.request(method.parse().unwrap(), path);
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    let reply = request.send().await;
    assert_eq!(reply.status.as_u16(), status, "{path}: {}", reply.text());
    assert_eq!(reply.header(VERSION), Some(version), "{path}");
    if !code.is_empty() {
        assert_eq!(reply.code(), code, "{path}");
    }
    reply.json()
}

#[tokio::test]
async fn a_cancellation_is_repeated_only_under_its_major() {
    let (host, run) = with_ended_run().await;
    let key = "0123456789-0123456789-0123456789";
    let cancel = |path: String| {
        let request = host.request(Method::POST, &path);
        request.header("idempotency-key", key).json(&json!({}))
    };
    let first = cancel(format!("/v1/runs/{run}/cancel")).send().await;
    assert_eq!(first.json(), json!({"runId": run, "status": "completed"}));
    let again = cancel(format!("/v1/runs/{run}/cancel")).send().await;
    assert_eq!(again.body, first.body);
    let other = cancel(format!("/runs/acme~2F{run}/cancel")).send().await;
    assert_eq!(other.code(), "idempotency_key_mismatch");
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_cannot_be_cancelled_again_under_major_2() {
    let (host, run) = with_run().await;
    let in_v2 = format!("/runs/acme~2F{run}/cancel");
    let in_v1 = format!("/v1/runs/{run}/cancel");
    let no_body = json!({});
    for _ in 0..2 {
        let request = ("POST", in_v2.as_str(), "2.0");
        let reply = check(&host, request, Some(&no_body), (200, "")).await;
        assert_eq!(reply["status"], "cancelling");
    }
    host.work();
    host.ended(&run).await;
    let refused = (409, "run_terminal");
    check(&host, ("POST", &in_v2, "2.0"), Some(&no_body), refused).await;
    let reply = check(&host, ("POST", &in_v1, "1.0"), Some(&no_body), (200, "")).await;
    assert_eq!(reply["status"], "cancelled");
    let bulk = json!({"runIds": [run]});
    let reply = host.post("/v1/runs:bulk-cancel", &bulk).await.json();
    assert_eq!(reply["results"][0]["ok"], true);
}

#[tokio::test]
async fn a_text_that_is_no_token_is_refused_under_both_majors() {
    let host = both().await;
    for method in ["GET", "POST"] {
        let reply = under_v2(&host, method, "/interrupts/x.y").anonymous();
        let reply = reply.json(&json!({"resumeValue": {}})).send().await;
        let found = (reply.status.as_u16(), reply.code());
        assert_eq!(found, (401, "interrupt_token_invalid".to_owned()));
        let reply = host.request(method.parse().unwrap(), "/v1/interrupts/x.y");
        let reply = reply
            .anonymous()
            .json(&json!({"resumeValue": {}}))
            .send()
            .await;
        let found = (reply.status.as_u16(), reply.code());
        assert_eq!(found, (404, "interrupt_not_found".to_owned()));
    }
}

#[tokio::test]
async fn every_error_links_the_page_of_its_name() {
    let (host, run) = with_run().await;
    let path = format!("/runs/acme~2F{run}/eval-summary");
    let reply = under_v2(&host, "GET", &path).send().await;
    let link = "</v1/host/touchstone/errors/run_state_conflict>; rel=\"help\"";
    assert_eq!(reply.header("link"), Some(link));
    let page = host
        .get("/v1/host/touchstone/errors/run_state_conflict")
        .await;
    assert_eq!(page.status.as_u16(), 200);
}

#[tokio::test]
async fn a_bulk_cancel_answers_for_each_id_under_major_2() {
    let (host, run) = with_ended_run().await;
    let slow = json!({"workflowId": "conformance-cancellable", "inputs": {"delayMs": 60_000}});
    let running = start(&host, &slow).await;
    let absent = "run-0123456789abcdef";
    let ids = [
        format!("acme/{run}"),
        format!("acme/{running}"),
        format!("acme/{absent}"),
        format!("globex/{absent}"),
        absent.to_owned(),
    ];
    let request = under_v2(&host, "POST", "/runs:bulk-cancel");
    let reply = request.json(&json!({"runIds": ids})).send().await.json();
    let results = reply["results"].as_array().unwrap();
    let named: Vec<&Value> = results.iter().map(|it| &it["runId"]).collect();
    assert_eq!(named, ids.iter().collect::<Vec<_>>());
    let codes: Vec<Option<&str>> = results
        .iter()
        .map(|it| it["error"]["error"].as_str())
        .collect();
    let expected = [
        Some("run_terminal"),
        None,
        Some("not_found"),
        Some("id_tenant_mismatch"),
        Some("validation_error"),
    ];
    assert_eq!(codes, expected);
}

#[tokio::test]
async fn an_interrupt_is_answered_by_its_token_under_major_2() {
    let host = both().await;
    host.work();
    let run = start(&host, &json!({"workflowId": "conformance-approval"})).await;
    let pending = format!("/v1/host/touchstone/runs/{run}/interrupts");
    let token = loop {
        let page = format!("/v1/runs/{run}/events/poll?timeout=1");
        host.get(&page).await;
        let found = host.get(&pending).await.json();
        if let Some(token) = found["interrupts"][0]["token"].as_str() {
            break token.to_owned();
        }
    };
    let path = format!("/interrupts/{token}");
    let shown = under_v2(&host, "GET", &path)
        .anonymous()
        .send()
        .await
        .json();
    assert_eq!(shown["kind"], "approval");
    assert!(shown.get("interruptId").is_none(), "{shown}");
    let answer = json!({"resumeValue": {"action": "accept"}});
    let send = || under_v2(&host, "POST", &path).anonymous().json(&answer);
    let answered = send().send().await;
    assert_eq!(answered.json()["runId"], format!("acme/{run}"));
    let again = send().send().await;
    assert_eq!(again.code(), "interrupt_already_resolved");
    assert_eq!(again.header(VERSION), Some("2.0"));
}
