//! Which major answers, and that every answer says so.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::json;
use touchstone_host::http::HttpSettings;
use touchstone_openwop::wire::version::{Majors, Offered};

use crate::http::majors::{VERSION, both, serving, under_v2, with_run};
use crate::http::support::host::TestHost;

const DISCOVERY: &str = "/.well-known/openwop";

#[rstest]
#[case::preferred(DISCOVERY, None, 200, "1.0")]
#[case::discovery_of_2(DISCOVERY, Some("2"), 200, "2.0")]
#[case::only_the_major_counts(DISCOVERY, Some("2.9999"), 200, "2.0")]
#[case::discovery_of_1(DISCOVERY, Some("1.0"), 200, "1.0")]
#[case::unknown(DISCOVERY, Some("9.0"), 406, "2.0")]
#[case::malformed(DISCOVERY, Some("banana"), 400, "1.0")]
#[case::no_header("/agents", None, 200, "2.0")]
#[case::header_2("/agents", Some("2.0"), 200, "2.0")]
#[case::header_1("/agents", Some("1"), 200, "1.0")]
#[case::header_9("/agents", Some("9"), 406, "2.0")]
#[case::header_malformed("/agents", Some("banana"), 400, "2.0")]
#[case::path_of_1("/v1/agents", None, 200, "1.0")]
#[case::path_of_1_and_header("/v1/agents", Some("1.0"), 200, "1.0")]
#[case::mismatch("/v1/agents", Some("2.0"), 400, "1.0")]
#[case::unknown_run("/runs/run-0123456789abcdef", None, 404, "2.0")]
#[case::unknown_path("/runs/x/y/z", None, 404, "2.0")]
#[case::not_offered("/tools", None, 404, "2.0")]
#[case::not_offered_below_a_root("/host/events", None, 404, "2.0")]
#[case::only_in_1("/runs/run-0123456789abcdef/debug-bundle", None, 404, "2.0")]
#[case::only_in_2("/v1/tools", None, 404, "1.0")]
#[tokio::test]
async fn an_answer_names_its_major(
    #[case] path: &str,
    #[case] version: Option<&str>,
    #[case] status: u16,
    #[case] answered_by: &str,
) {
    let host = both().await;
    let mut request = host.request(Method::GET, path);
    if let Some(version) = version {
        request = request.header(VERSION, version);
    }
    let reply = request.send().await;
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    assert_eq!(reply.header(VERSION), Some(answered_by));
    let vary = reply.headers.get_all("vary").iter();
    assert!(vary.into_iter().any(|it| it == VERSION), "{reply:?}");
    match status {
        406 => {
            assert_eq!(reply.code(), "protocol_version_unsupported");
            let listed = json!(["1.0", "2.0"]);
            assert_eq!(reply.json()["details"]["protocolVersions"], listed);
        }
        400 if path.starts_with("/v1") => {
            assert_eq!(reply.code(), "protocol_version_mismatch");
        }
        400 => assert_eq!(reply.code(), "validation_error"),
        404 => assert_eq!(reply.code(), "not_found"),
        _ => {}
    }
}

#[rstest]
#[case("/v1/host/touchstone/runs", 200)]
#[case("/v1/host/touchstone/nothing", 404)]
#[case("/v1/packs/nothing", 404)]
#[case("/.well-known/openwop-registry", 404)]
#[case("/healthz", 200)]
#[case("/v2/runs", 404)]
#[case("/nothing", 404)]
#[tokio::test]
async fn routes_of_the_host_have_no_major(#[case] path: &str, #[case] status: u16) {
    let host = both().await;
    for version in ["1.0", "2.0", "9.0", "banana"] {
        let reply = host.request(Method::GET, path).header(VERSION, version);
        let reply = reply.send().await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
        assert_eq!(reply.header(VERSION), None);
    }
}

#[rstest]
#[case(Majors::V2, "/agents", None, 200, Some("2.0"))]
#[case(Majors::V2, "/agents", Some("1.0"), 406, Some("2.0"))]
#[case(Majors::V2, "/v1/agents", None, 404, Some("2.0"))]
#[case(Majors::V2, "/v1/host/touchstone/runs", None, 200, None)]
#[tokio::test]
async fn a_host_may_serve_one_major(
    #[case] majors: Majors,
    #[case] path: &str,
    #[case] version: Option<&str>,
    #[case] status: u16,
    #[case] answered_by: Option<&str>,
) {
    let host = TestHost::with(serving(majors)).await;
    let mut request = host.request(Method::GET, path);
    if let Some(version) = version {
        request = request.header(VERSION, version);
    }
    let reply = request.send().await;
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    assert_eq!(reply.header(VERSION), answered_by);
}

#[rstest]
#[case(None, 200)]
#[case(Some("2.46.32"), 200)]
#[case(Some("2.9.1"), 426)]
#[case(Some("01.2"), 200)]
#[case(Some("banana"), 200)]
#[tokio::test]
async fn only_major_2_refuses_old_clients(#[case] client: Option<&str>, #[case] status: u16) {
    let host = TestHost::with(HttpSettings {
        protocol: Offered {
            majors: Majors::Both,
            min_client: Some((2, 40)),
        },
        ..HttpSettings::default()
    })
    .await;
    for (path, version, status) in [
        (DISCOVERY, "2.0", status),
        ("/agents", "2.0", status),
        ("/agents", "1.0", 200),
    ] {
        let mut request = host.request(Method::GET, path).header(VERSION, version);
        if let Some(client) = client {
            request = request.header("openwop-client-version", client);
        }
        let reply = request.send().await;
        assert_eq!(reply.status.as_u16(), status, "{path} {version}");
        assert_eq!(reply.header(VERSION), Some(version));
        if status == 426 {
            assert_eq!(reply.code(), "client_version_unsupported");
            assert_eq!(reply.json()["details"]["minClientVersion"], "2.40");
        }
    }
}

#[tokio::test]
async fn refusals_of_the_server_name_the_major_too() {
    let host = TestHost::with(HttpSettings {
        max_body_bytes: 1000,
        ..serving(Majors::Both)
    })
    .await;
    let long = "x".repeat(9000);
    let many = "x".repeat(33_000);
    let cases = [
        (
            under_v2(&host, "GET", &format!("/runs/{long}")),
            400,
            "validation_error",
        ),
        (
            under_v2(&host, "GET", "/agents").header("x-long", &many),
            400,
            "validation_error",
        ),
        (
            under_v2(&host, "GET", "/agents").anonymous(),
            401,
            "unauthenticated",
        ),
        (under_v2(&host, "PUT", "/agents"), 404, "not_found"),
        (
            under_v2(&host, "POST", "/runs").raw("text/plain", "x"),
            415,
            "unsupported_media_type",
        ),
        (
            under_v2(&host, "POST", "/runs").raw("application/json", "{"),
            400,
            "validation_error",
        ),
        (
            under_v2(&host, "POST", "/runs").json(&json!({"x": many})),
            413,
            "payload_too_large",
        ),
    ];
    for (request, status, code) in cases {
        let reply = request.send().await;
        assert_eq!(
            (reply.status.as_u16(), reply.code().as_str()),
            (status, code)
        );
        assert_eq!(reply.header(VERSION), Some("2.0"), "{code}");
    }
}

#[tokio::test]
async fn a_conditional_read_is_answered_under_each_major() {
    let (host, run) = with_run().await;
    for path in [DISCOVERY.to_owned(), format!("/runs/{run}")] {
        for version in ["1.0", "2.0"] {
            let read = || host.request(Method::GET, &path).header(VERSION, version);
            let first = read().send().await;
            assert_eq!(first.status, StatusCode::OK);
            let tag = first.header("etag").unwrap();
            assert!(tag.starts_with('"'), "{tag}");
            let again = read().header("if-none-match", tag).send().await;
            assert_eq!(again.status, StatusCode::NOT_MODIFIED);
            assert_eq!(again.header(VERSION), Some(version));
            assert_eq!(again.header("etag"), Some(tag));
            assert!(again.body.is_empty());
            let other = read().header("if-none-match", "\"other\"").send().await;
            assert_eq!(other.body, first.body);
        }
    }
}

#[tokio::test]
async fn a_refused_method_names_those_of_its_major() {
    let host = both().await;
    let reply = host.request(Method::PUT, "/v1/runs").send().await;
    assert_eq!(reply.status.as_u16(), 405);
    assert_eq!(reply.header("allow"), Some("POST"));
    let effects = host.request(Method::PUT, "/v1/runs/run_absent/effects");
    assert_eq!(effects.send().await.status.as_u16(), 404);
}
