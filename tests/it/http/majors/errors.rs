//! The same refusal under both majors.

use axum::http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::http::majors::{VERSION, both, under_v2, with_ended_run, with_run};

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
    host: &crate::http::support::host::TestHost,
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
