//! The error envelope on every path, including responses that the framework generates.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::json;
use touchstone_host::http::HttpSettings;

use crate::http::support::host::{TestHost, create_body, says};

#[rstest]
#[case(Method::GET, "/", StatusCode::NOT_FOUND)]
#[case(Method::GET, "/v2/nothing", StatusCode::NOT_FOUND)]
#[case(Method::GET, "/v1/runs/x/no-such-child", StatusCode::NOT_FOUND)]
#[case(Method::GET, "/v1/runs/x/~retry", StatusCode::NOT_FOUND)]
#[case(
    Method::POST,
    "/v1/host/touchstone/runs/x/~retry",
    StatusCode::NOT_FOUND
)]
#[case(Method::DELETE, "/v1/runs", StatusCode::METHOD_NOT_ALLOWED)]
#[case(Method::PATCH, "/v1/runs/x", StatusCode::METHOD_NOT_ALLOWED)]
#[case(Method::POST, "/.well-known/openwop", StatusCode::METHOD_NOT_ALLOWED)]
#[case(Method::GET, "/v1/runs/%00", StatusCode::NOT_FOUND)]
#[case(Method::GET, "/v1/runs/%ff", StatusCode::NOT_FOUND)]
#[case(Method::GET, "/v1/runs/..%2f..%2fetc", StatusCode::NOT_FOUND)]
#[case(Method::GET, "/v1/runs/%F0%9F%92%A9", StatusCode::NOT_FOUND)]
#[case(Method::GET, "/v1/runs/'%20OR%201=1--", StatusCode::NOT_FOUND)]
#[case(Method::POST, "/v1/runs/x:nothing", StatusCode::NOT_FOUND)]
#[tokio::test]
async fn a_path_that_leads_nowhere_is_answered_with_the_envelope(
    #[case] method: Method,
    #[case] path: &str,
    #[case] status: StatusCode,
) {
    let host = TestHost::idle().await;
    let reply = host.request(method, path).send().await;
    assert_eq!(reply.status, status);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        assert!(reply.header("allow").is_some());
    }
}

#[rstest]
#[case("{")]
#[case("")]
#[case("[]")]
#[case("\"x\"")]
#[case("null")]
#[case("{\"mode\": \"eval\",}")]
#[case("{\"mode\": \"eval\", \"mode\": \"eval\"}")]
#[case("{\"mode\": \"eval\", \"canary-field\": 1}")]
#[case("{\"workflowId\": \"canary-workflow\"}")]
#[case("{}")]
#[tokio::test]
async fn an_invalid_body_is_400_and_not_echoed(#[case] body: &'static str) {
    let host = TestHost::idle().await;
    let reply = host
        .request(Method::POST, "/v1/runs")
        .raw("application/json", body)
        .send()
        .await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::BAD_REQUEST, "validation_error".to_owned())
    );
    assert!(!reply.text().contains("canary-workflow"));
}

#[tokio::test]
async fn invalid_utf8_and_depth_are_400() {
    let host = TestHost::idle().await;
    let deep = format!("{}1{}", "{\"a\":".repeat(3000), "}".repeat(3000));
    for body in [b"\xff\xfe{}".to_vec(), deep.into_bytes()] {
        let reply = host
            .request(Method::POST, "/v1/runs")
            .raw("application/json", body)
            .send()
            .await;
        assert_eq!(reply.code(), "validation_error");
    }
}

#[tokio::test]
async fn another_media_type_is_415_and_none_at_all_too() {
    let host = TestHost::idle().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "application/json; charset=utf-16",
    ] {
        let reply = host
            .request(Method::POST, "/v1/runs")
            .raw(kind, "{}")
            .send()
            .await;
        assert_eq!(reply.code(), "unsupported_media_type", "{kind}");
    }
    let reply = host.request(Method::POST, "/v1/runs").send().await;
    assert_eq!(reply.code(), "unsupported_media_type");
    let packed = host.request(Method::POST, "/v1/runs");
    let packed = packed.header("content-encoding", "gzip").json(&json!({}));
    assert_eq!(packed.send().await.code(), "unsupported_media_type");
    let reply = host
        .request(Method::POST, "/v1/runs")
        .raw("Application/JSON; charset=utf-8", "{}")
        .send()
        .await;
    assert_eq!(reply.code(), "validation_error");
}

#[tokio::test]
async fn a_body_over_the_advertised_limit_is_413() {
    let host = TestHost::with(HttpSettings {
        max_body_bytes: 4096,
        ..HttpSettings::default()
    })
    .await;
    let limit = host.get("/.well-known/openwop").await.json()["limits"]["maxRequestBodyBytes"]
        .as_u64()
        .unwrap();
    assert_eq!(limit, 4096);
    let mut body = create_body();
    body["metadata"] = json!({"pad": "x".repeat(4096)});
    let reply = host.post("/v1/runs", &body).await;
    assert_eq!(
        (reply.status, reply.code()),
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large".to_owned()
        )
    );
}

#[rstest]
#[case("streamMode=")]
#[case("streamMode=UPDATES")]
#[case("streamMode=values,updates")]
#[case("streamMode=updates,,debug")]
#[tokio::test]
async fn an_unknown_mode_is_refused_before_anything_is_negotiated(#[case] query: &str) {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    for accept in ["text/event-stream", "application/json"] {
        let call = host.request(Method::GET, &format!("/v1/runs/{run}/events?{query}"));
        let reply = call.header("accept", accept).send().await;
        assert_eq!(
            (reply.status, reply.code()),
            (
                StatusCode::BAD_REQUEST,
                "unsupported_stream_mode".to_owned()
            )
        );
        assert!(
            reply.json()["details"]["supported"]
                .as_array()
                .unwrap()
                .contains(&json!("updates"))
        );
    }
}

#[rstest]
#[case("events?bufferMs=5001")]
#[case("events?bufferMs=-1")]
#[case("events?bufferMs=abc")]
#[case("events?streamMode=debug&streamMode=updates")]
#[case("events/poll?lastSequence=-1")]
#[case("events/poll?lastSequence=1.5")]
#[case("events/poll?lastSequence=+1")]
#[case("events/poll?lastSequence=99999999999999999999999")]
#[case("events/poll?timeout=0")]
#[case("events/poll?timeout=61")]
#[case("events/poll?timeout=x")]
#[tokio::test]
async fn a_parameter_out_of_bounds_is_400(#[case] tail: &str) {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let reply = host.get(&format!("/v1/runs/{run}/{tail}")).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::BAD_REQUEST, "validation_error".to_owned())
    );
}

#[rstest]
#[case(json!({"reason": 1}))]
#[case(json!({"reason": "x".repeat(513)}))]
#[case(json!([]))]
#[tokio::test]
async fn an_invalid_cancel_body_gets_400(#[case] body: serde_json::Value) {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let reply = host.post(&format!("/v1/runs/{run}/cancel"), &body).await;
    assert_eq!(reply.code(), "validation_error");
}

#[rstest]
#[case(json!({"runIds": []}))]
#[case(json!({"runIds": [1]}))]
#[case(json!({}))]
#[case(json!({"runIds": (0..101).map(|n| format!("run-{n}")).collect::<Vec<_>>()}))]
#[tokio::test]
async fn a_bulk_cancel_out_of_bounds_names_its_ceiling(#[case] body: serde_json::Value) {
    let host = TestHost::idle().await;
    let reply = host.post("/v1/runs:bulk-cancel", &body).await;
    assert_eq!(reply.code(), "validation_error");
    assert_eq!(reply.json()["details"]["maxRunIds"], 100);
}

/// A credential in the wrong place, such as a member's name, is not echoed.
#[tokio::test]
async fn errors_repeat_no_credentials_and_are_limited_in_size() {
    let host = TestHost::idle().await;
    let key = "sk-canary0123456789abcdef";
    for body in [
        json!({key: 1}),
        json!({"workflowId": key, "configurable": {"budget": {key: 1}}}),
    ] {
        let reply = host.post("/v1/runs", &body).await;
        assert!(reply.status.is_client_error(), "{reply:?}");
        assert!(!reply.text().contains("sk-canary"), "{reply:?}");
    }
    let body = json!({"version": "1.0.0", "transition": "pause", key: 1});
    let path = format!(
        "/v1/agents/{}/deployments",
        crate::http::support::host::AGENT
    );
    let reply = host.post(&path, &body).await;
    assert_eq!(reply.json()["details"]["field"], "[REDACTED:api-key]");
    let long = json!({"version": "1.0.0", "transition": "pause", "x".repeat(100_000): 1});
    let reply = host.post(&path, &long).await;
    assert_eq!(reply.code(), "validation_error");
    assert!(reply.text().len() < 16_384, "{}", reply.text().len());
}

#[rstest]
#[case("/v1/runs/none", "/error")]
#[case("/api/v1/agents/none", "/error/code")]
#[tokio::test]
async fn an_error_links_the_page_of_its_code(#[case] path: &str, #[case] code: &str) {
    let host = TestHost::idle().await;
    let reply = host.get(path).await;
    let body = reply.json();
    let code = body.pointer(code).unwrap().as_str().unwrap();
    let page = format!("/v1/host/touchstone/errors/{code}");
    assert_eq!(
        reply.header("link"),
        Some(format!("<{page}>; rel=\"help\"").as_str())
    );
    let served = host.request(Method::GET, &page).anonymous().send().await;
    assert_eq!(
        served.header("content-type"),
        Some("text/markdown; charset=utf-8")
    );
    assert!(served.text().starts_with(&format!("# `{code}`\n")));
}

#[tokio::test]
async fn only_error_codes_have_documentation_pages() {
    let host = TestHost::idle().await;
    for code in [
        "none",
        "..%2Fadr",
        "validation_error.md",
        "README.md",
        "ratings",
    ] {
        let page = format!("/v1/host/touchstone/errors/{code}");
        assert_eq!(
            host.get(&page).await.status,
            StatusCode::NOT_FOUND,
            "{code}"
        );
    }
}
