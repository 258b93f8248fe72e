//! The served routes, the API description and the advertised capabilities agree.

use std::any::type_name;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use axum::http::{Method, StatusCode};
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use touchstone::http::{operations, operations_of, rating_operations};
use touchstone::services::conditions;
use touchstone_agent_cards::gate as agent_card;
use touchstone_deployments::promotion::ApprovalState;
use touchstone_deployments::service::gates::condition::Condition;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_host::http::answer::ERROR_PAGES;
use touchstone_host::http::routes::Operation;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::keys::{PublicKey, SecretKey};
use touchstone_oasis::gate as oasis;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::error::spelled;
use touchstone_openwop::wire::operation::{OPERATIONS, Operation as OpenwopOperation};
use touchstone_openwop::wire::v2::names;
use touchstone_openwop::wire::version::{Majors, Offered};
use touchstone_ratings::gate as rating;
use touchstone_ratings::rules::evidence::Recorder;
use touchstone_runs::rules::eval::gate;
use touchstone_runs::rules::eval::gate::GatePolicy;
use touchstone_runs::rules::workflow::gate::GatePolicy as ApprovalPolicy;

use crate::http::support::host::{AGENT, AUDIT_KEY, TestHost, create_body, says};
use crate::support::{asyncapi, openapi};

#[test]
fn the_routes_are_those_of_the_description() {
    let mut served: Vec<(String, String)> = operations_of(Major::V1)
        .into_iter()
        .chain(rating_operations())
        .filter(|operation| operation.described)
        .map(|operation| (operation.method.to_owned(), operation.path.to_owned()))
        .collect();
    served.sort_unstable();
    let described = openapi::described(Major::V1).into_iter();
    let described: Vec<_> = described.map(|(method, path, _)| (method, path)).collect();
    assert_eq!(served, described);
}

/// `GET /v1/runs` is no operation of major 1: only major 2 has it.
#[tokio::test]
async fn methods_that_are_not_described_are_not_allowed() {
    let host = TestHost::idle().await;
    let described = openapi::described(Major::V1);
    for (_, path, _) in &described {
        let named: String = path.replace(['{', '}'], "");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let is_described = described
                .iter()
                .any(|it| (it.0.as_str(), &it.1) == (method, path));
            if is_described {
                continue;
            }
            let expected = match (method, path.as_str()) {
                ("GET", "/v1/runs") => 404,
                _ => 405,
            };
            let reply = host.request(method.parse().unwrap(), &named).send().await;
            assert_eq!(reply.status.as_u16(), expected, "{method} {named}");
        }
    }
}

/// The path of an operation of major 2.
fn unversioned(operation: &OpenwopOperation) -> &'static str {
    let path = operation.path;
    path.strip_prefix("/v1").unwrap_or(path)
}

fn of_major_2() -> impl Iterator<Item = &'static OpenwopOperation> {
    let all = OPERATIONS.iter();
    all.filter(|it| it.majors.contains(&Major::V2))
}

/// `http::majors::operations` compares the operations with the routes.
#[test]
fn the_operations_of_major_2_are_those_of_its_description() {
    let mut served: Vec<(String, String, String)> = of_major_2()
        .map(|it| (it.method.into(), unversioned(it).into(), it.id.into()))
        .collect();
    served.sort_unstable();
    assert_eq!(served, openapi::described(Major::V2));
}

/// An unquoted comma ends a value in a flow mapping, and the text after it becomes a key without a
/// value.
#[test]
fn description_texts_with_commas_are_quoted_in_the_api_descriptions() {
    fn walk(node: &Value, at: &str, found: &mut Vec<String>) {
        match node {
            Value::Object(members) => {
                for (name, value) in members {
                    let at = format!("{at}/{name}");
                    // AsyncAPI: the address of a channel that is not known in advance.
                    let is_address = name == "address" && at.starts_with("/channels/");
                    // In an example: equal runs do not diverge.
                    let is_null = is_address || name == "divergedAtSeq";
                    if name.contains(char::is_whitespace) || value.is_null() && !is_null {
                        found.push(at.clone());
                    }
                    walk(value, &at, found);
                }
            }
            Value::Array(items) => {
                for item in items {
                    walk(item, at, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for major in [Major::V1, Major::V2] {
        walk(openapi::document(major), "", &mut found);
        walk(asyncapi::document(major), "", &mut found);
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn an_operation_without_a_key_is_described_as_such_and_the_others_name_their_scope() {
    let routes = operations_of(Major::V1)
        .into_iter()
        .chain(rating_operations());
    for route in routes.filter(|it| it.described) {
        let described =
            &openapi::document(Major::V1)["paths"][route.path][route.method.to_lowercase()];
        check_access(route, route.scope.map(Scope::as_str), described);
    }
    for operation in of_major_2() {
        let path = unversioned(operation);
        let described =
            &openapi::document(Major::V2)["paths"][path][operation.method.to_lowercase()];
        let mut routes = operations().into_iter();
        let Some(route) =
            routes.find(|it| (it.method, it.path) == (operation.method, operation.path))
        else {
            continue;
        };
        let scope = match operation.id {
            "createAnnotation" => Some("runs:annotate"),
            _ => route.scope.map(Scope::as_str),
        };
        check_access(route, scope, described);
    }
}

/// Fails unless an operation is described with the key and the scope that its route needs.
fn check_access(route: Operation, scope: Option<&str>, described: &Value) {
    let text = described["description"].as_str().unwrap_or_default();
    match scope {
        None if route.keyed => {
            // The required scope depends on the request; the description names all of them.
            assert!(described.get("security").is_none(), "{route:?}");
            assert!(text.contains("Scope `"), "{route:?}: {text}");
        }
        None => assert!(
            described["security"]
                .as_array()
                .is_some_and(|alternatives| {
                    alternatives.is_empty() || alternatives.contains(&json!({}))
                }),
            "{route:?}"
        ),
        Some(scope) => {
            assert!(described.get("security").is_none(), "{route:?}");
            assert!(text.contains(&format!("`{scope}`")), "{route:?}: {text}");
        }
    }
}

/// The member names of a closed type, as its error for `unknown` lists them.
fn known<T: DeserializeOwned + Debug>(unknown: Value) -> BTreeSet<String> {
    let refusal = serde_json::from_value::<T>(unknown)
        .unwrap_err()
        .to_string();
    let names: BTreeSet<String> = refusal
        .split('`')
        .skip(3)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 1, "{}: {refusal}", type_name::<T>());
    names
}

fn names_at(pointer: &str) -> BTreeSet<String> {
    let node = openapi::document(Major::V1)
        .pointer(&format!("/components/schemas/{pointer}"))
        .unwrap_or_else(|| panic!("{pointer} is not described"));
    let of = |name: &Value| name.as_str().unwrap().to_owned();
    match node {
        Value::Array(names) => names.iter().map(of).collect(),
        _ => node.as_object().unwrap().keys().cloned().collect(),
    }
}

#[test]
fn every_error_code_is_described() {
    // The ratings API has a separate error envelope and separate codes.
    let (own, of_ratings): (BTreeSet<&str>, BTreeSet<&str>) = ErrorCode::ALL
        .iter()
        .map(|code| code.as_str())
        .partition(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let own: BTreeSet<String> = own.into_iter().map(str::to_owned).collect();
    assert_eq!(names_at("Error/properties/error/enum"), own);
    let described = names_at("AaafError/properties/error/properties/code/enum");
    for code in of_ratings {
        assert!(described.contains(code), "{code}");
    }
}

/// The names of the pages in a folder of the documentation.
fn pages_in(folder: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = fs::read_dir(root.join(folder)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
        .filter(|name| name != "README")
        .collect()
}

/// The host serves the text of the file, with links to pages that it serves too.
async fn check_served(host: &TestHost, name: &str, text: &str) {
    let served = host.get(&format!("{ERROR_PAGES}/{name}")).await;
    assert_eq!(served.status, StatusCode::OK, "{name}");
    let served = served.text();
    assert_eq!(served.lines().count(), text.lines().count(), "{name}");
    for (line, of_file) in served.lines().zip(text.lines()) {
        if !of_file.contains("](") {
            assert_eq!(line, of_file, "{name}");
        }
        for link in line.split("](").skip(1) {
            let target = link.split(')').next().unwrap();
            if !target.starts_with('#') {
                assert!(target.starts_with(ERROR_PAGES), "{name}: {line}");
                let found = host.get(target).await;
                assert_eq!(found.status, StatusCode::OK, "{name}: {line}");
            }
        }
    }
}

#[tokio::test]
async fn every_error_code_has_a_page_that_is_served() {
    let host = TestHost::idle().await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text_of = |page: &str| fs::read_to_string(root.join("docs/errors").join(page)).unwrap();
    let own = names_at("Error/properties/error/enum");
    let of_ratings = names_at("AaafError/properties/error/properties/code/enum");
    // Major 2 has names of its own; the description lists those of major 1.
    let in_v2 = ErrorCode::ALL.iter().map(|it| spelled(Major::V2, *it).0);
    let own: BTreeSet<String> = own.into_iter().chain(in_v2.map(str::to_owned)).collect();
    assert_eq!(pages_in("docs/errors"), own);
    assert_eq!(pages_in("docs/errors/ratings"), of_ratings);
    let index = text_of("README.md");
    let pages = own.iter().map(|code| (code, format!("{code}.md")));
    let of_ratings = of_ratings
        .iter()
        .map(|code| (code, format!("ratings/{code}.md")));
    for (code, page) in pages.chain(of_ratings) {
        assert!(
            index.contains(&format!("[`{code}`]({page})")),
            "the index lacks {code}"
        );
        let text = text_of(&page);
        check_served(&host, code, &text).await;
        assert!(
            text.starts_with(&format!("# `{code}`\n\nHTTP status ")),
            "{page}"
        );
        for heading in ["Meaning", "What to do", "Common causes"] {
            let (_, section) = text
                .split_once(&format!("\n## {heading}\n\n"))
                .unwrap_or_else(|| panic!("{page} lacks the section {heading}"));
            assert!(
                !section.is_empty() && !section.starts_with('#'),
                "{page}: {heading} is empty"
            );
        }
    }
    check_served(&host, "README", &index).await;
    for code in ErrorCode::ALL {
        let text = fs::read_to_string(root.join(code.page())).unwrap();
        let status = format!("\nHTTP status {}.", code.status());
        assert!(text.contains(&status), "{code} has another status");
        let (name, status) = spelled(Major::V2, *code);
        let text = text_of(&format!("{name}.md"));
        let is_stated = [
            format!("\nHTTP status {status}."),
            format!(" Under major 2: {status}."),
        ];
        assert!(
            is_stated.iter().any(|it| text.contains(it)),
            "{name} has another status under major 2"
        );
    }
}

/// `own`, and a name of each condition that features add to policies.
async fn of_conditions(
    own: [&'static str; 2],
    name: fn(&dyn Condition) -> &'static str,
) -> BTreeSet<String> {
    let host = TestHost::idle().await;
    let registered = conditions(
        host.ratings.clone(),
        host.cards.clone(),
        host.store.clone(),
        host.runs.clone(),
    );
    let names = registered.iter().map(|condition| name(&**condition));
    own.into_iter().chain(names).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_condition_of_a_gate_is_described() {
    let conditions = [
        known::<gate::Condition>(json!("?")),
        known::<ApprovalState>(json!("?")),
        known::<rating::Condition>(json!("?")),
        known::<agent_card::Condition>(json!("?")),
        known::<oasis::Condition>(json!("?")),
    ];
    let conditions: BTreeSet<String> = conditions.into_iter().flatten().collect();
    assert_eq!(
        names_at("Requirement/properties/condition/enum"),
        conditions
    );
    assert_eq!(
        names_at("Requirement/properties/kind/enum"),
        of_conditions(["eval", "approval"], |condition| condition.kind()).await
    );
}

#[tokio::test]
async fn every_member_of_a_policy_is_described() {
    let unknown = || json!({"?": 0});
    let part = |name: &str| format!("PromotionPolicy/properties/{name}/oneOf/1/properties");
    for (described, known) in [
        (
            "PromotionPolicy/properties".to_owned(),
            of_conditions(["eval", "approval"], |condition| condition.member()).await,
        ),
        (
            "EvalPolicy/properties".to_owned(),
            known::<GatePolicy>(unknown()),
        ),
        (
            "ApprovalPolicy/properties".to_owned(),
            known::<ApprovalPolicy>(unknown()),
        ),
        (part("rating"), known::<rating::RatingPolicy>(unknown())),
        (
            part("agentCard"),
            known::<agent_card::CardPolicy>(unknown()),
        ),
        (part("oasis"), known::<oasis::OasisPolicy>(unknown())),
        (
            "EvidenceRecorder/enum".to_owned(),
            known::<Recorder>(json!("?")),
        ),
    ] {
        assert_eq!(names_at(&described), known, "{described}");
    }
}

#[test]
fn every_event_type_is_in_the_description_of_the_stream() {
    let of_runs = touchstone_openwop::events::Event::TYPES.iter();
    let of_oasis = touchstone_oasis::rules::run::events::OasisEvent::TYPES.iter();
    let written: HashSet<&str> = of_runs.chain(of_oasis).copied().collect();
    let listed: HashSet<&str> = asyncapi::types(Major::V1).collect();
    assert_eq!(listed, written);
    let shown = written.iter().map(|kind| names::projected(kind).unwrap());
    let listed: HashSet<&str> = asyncapi::types(Major::V2).collect();
    assert_eq!(listed, shown.collect());
}

/// The key in RFC 8410 form, base64.
fn spki(key: &PublicKey) -> String {
    let pem = key.to_pem();
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    lines.collect()
}

#[tokio::test]
async fn discovery_advertises_what_works_and_is_cached_by_its_tag() {
    let host = TestHost::idle().await;
    let first = host
        .request(Method::GET, "/.well-known/openwop")
        .anonymous()
        .send()
        .await;
    assert_eq!(first.status, StatusCode::OK);
    let document = first.json();
    assert_eq!(document["protocolVersion"], "1.0");
    assert_eq!(
        document["agents"]["evalSuite"]["modes"],
        json!(["golden", "rubric", "adversarial", "regression"])
    );
    assert!(
        document.get("fixtures").is_none(),
        "fixtures are not advertised"
    );
    assert_eq!(
        (&document["debugBundle"], &document["compliance"]),
        (&json!({"supported": true}), &json!({"defaultMode": "mask"}))
    );
    assert_eq!(
        document["agents"]["deployment"],
        json!({"supported": true, "canary": true, "rollback": true, "channels": ["stable", "canary", "latest"],
            "states": ["draft", "test", "staged", "active", "paused", "deprecated", "rolled-back"]})
    );
    assert_eq!(
        document["authorization"],
        json!({"supported": true, "failClosed": true,
            "roles": [{"role": "release-manager", "scopes": ["runs:read", "deploy:promote"]}]})
    );
    assert_eq!(
        document["budget"],
        json!({"supported": true, "dimensions": ["tokens", "cost", "toolCalls", "retries", "model"],
               "enforce": "hard", "scopes": ["run"]})
    );
    assert_eq!(
        document["auth"],
        json!({"profiles": ["openwop-audit-log-integrity"],
               "auditLogIntegrity": {"hashChain": true, "checkpointSignatureAlgorithm": "ed25519",
                   "checkpointPublicKey": spki(&SecretKey::from_random(AUDIT_KEY).public()),
                   "checkpointIntervalEntries": 1000, "checkpointIntervalSeconds": 60}})
    );
    assert_eq!(first.header("cache-control"), Some("public, max-age=300"));
    assert!(first.header("capabilities-etag").is_some());
    let tag = first.header("etag").unwrap();
    assert!(tag.starts_with('"'));
    let again = host
        .request(Method::GET, "/.well-known/openwop")
        .anonymous()
        .header("if-none-match", tag)
        .send()
        .await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
}

/// The compressed response has fewer bytes, and either entity tag avoids the transfer.
#[tokio::test]
async fn answers_are_compressed_for_those_who_ask() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let path = format!("/v1/runs/{run}");
    let plain = host.get(&path).await;
    assert_eq!(plain.header("content-encoding"), None);
    let encoded = host.request(Method::GET, &path);
    let (parts, body) = encoded
        .header("accept-encoding", "gzip")
        .open()
        .await
        .into_parts();
    assert_eq!(parts.headers["content-encoding"], "gzip");
    assert_eq!(parts.headers["vary"], "accept-encoding");
    let body = body.collect().await.unwrap().to_bytes();
    assert!(body.len() < plain.body.len());
    let mut decoded = Vec::new();
    GzDecoder::new(&*body).read_to_end(&mut decoded).unwrap();
    assert_eq!(decoded, plain.body);
    let (tag, encoded_tag) = (plain.header("etag").unwrap(), &parts.headers["etag"]);
    let own = format!("{}-gzip\"", tag.strip_suffix('"').unwrap());
    assert_eq!(encoded_tag, &own, "a separate strong tag");
    for tag in [tag, own.as_str()] {
        let again = host.request(Method::GET, &path);
        let again = again
            .header("accept-encoding", "gzip")
            .header("if-none-match", tag)
            .send()
            .await;
        assert_eq!(
            (again.status, again.header("etag")),
            (StatusCode::NOT_MODIFIED, Some(tag))
        );
    }
    let stream = host.request(Method::GET, &format!("{path}/events"));
    let stream = stream
        .header("accept-encoding", "gzip")
        .header("accept", "text/event-stream");
    let stream = stream.open().await;
    assert_eq!(stream.headers().get("content-encoding"), None);
}

/// A rejection would come after the request took effect.
#[rstest]
#[case("identity;q=0")]
#[case("*;q=0")]
#[case("identity;q=0, *;q=0")]
#[case("gzip;q=0, identity;q=0")]
#[tokio::test]
async fn responses_are_uncompressed_if_no_encoding_is_accepted(#[case] accepted: &str) {
    let host = TestHost::working(&says(&["a"])).await;
    let created = host
        .request(Method::POST, "/v1/runs")
        .header("accept-encoding", accepted)
        .json(&create_body())
        .send()
        .await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    assert_eq!(created.header("content-encoding"), None);
}

#[tokio::test]
async fn the_description_is_served_to_anyone() {
    let host = TestHost::with(HttpSettings {
        protocol: Offered::to_all(Majors::Both),
        ..HttpSettings::default()
    })
    .await;
    for (path, major) in [
        ("/v1/openapi.json", Major::V1),
        ("/openapi.json", Major::V2),
    ] {
        let get = || host.request(Method::GET, path).anonymous();
        let served = get().send().await;
        assert_eq!(&served.json(), openapi::document(major));
        let tag = served.header("etag").unwrap();
        let again = get().header("if-none-match", tag).send().await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    }
}

#[tokio::test]
async fn a_host_that_shuts_down_is_alive_and_not_ready() {
    let host = TestHost::idle().await;
    assert_eq!(host.get("/readyz").await.status, StatusCode::OK);
    host.shutdown.cancel();
    assert_eq!(host.get("/healthz").await.status, StatusCode::OK);
    let unready = host.get("/readyz").await;
    assert_eq!(unready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(unready.header("retry-after").is_some());
}

#[tokio::test]
async fn agents_are_listed_without_their_prompts_and_only_to_their_tenant() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let listed = host.get("/v1/agents").await;
    assert_eq!(listed.json()["total"], 1);
    assert!(!listed.text().contains("canary"));
    let one = host.get(&format!("/v1/agents/{AGENT}")).await;
    assert_eq!(one.json(), listed.json()["agents"][0]);
    for id in [AGENT, "roster", "org-chart", "%2e%2e%2fetc", "%ff"] {
        let foreign = host
            .request(Method::GET, &format!("/v1/agents/{id}"))
            .key(&host.other_key)
            .send()
            .await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    }
    let foreign = host
        .request(Method::GET, "/v1/agents")
        .key(&host.other_key)
        .send()
        .await;
    assert_eq!(foreign.json(), json!({"agents": [], "total": 0}));
}

#[tokio::test]
async fn packs_and_suites_are_installed_listed_and_removed() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a", "b"])).await;
    let packs = host.get("/v1/host/touchstone/packs").await.json();
    assert_eq!(packs["packs"][0]["name"], "community.bench.echo");
    assert_eq!(packs["packs"][0]["signature"]["coverage"], "none");
    let suites = host.get("/v1/host/touchstone/suites").await.json();
    assert_eq!(suites["suites"][0]["taskCount"], 2);
    assert_eq!(suites["suites"][0]["signed"], false);
    let suite = "/v1/host/touchstone/suites/community.bench.evals.echo/1.0.0";
    assert_eq!(host.get(suite).await.json(), suites["suites"][0]);
    let pack = "/v1/host/touchstone/packs/community.bench.echo/1.0.0";
    for path in [suite, pack] {
        let foreign = host
            .request(Method::DELETE, path)
            .key(&host.other_key)
            .send()
            .await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND);
        assert_eq!(
            host.request(Method::DELETE, path).send().await.status,
            StatusCode::OK
        );
        assert_eq!(
            host.request(Method::DELETE, path).send().await.status,
            StatusCode::NOT_FOUND
        );
    }
    assert_eq!(host.get("/v1/agents").await.json()["total"], 0);
}

#[tokio::test]
async fn a_refused_pack_or_suite_says_why_and_leaves_nothing() {
    let host = TestHost::idle().await;
    let packs = "/v1/host/touchstone/packs";
    for (body, code) in [
        (json!({}), "validation_error"),
        (json!({"tarball": "???"}), "validation_error"),
        (json!({"tarball": "AAAA", "extra": 1}), "validation_error"),
        (json!({"tarball": "AAAA"}), "tarball_gunzip_failed"),
    ] {
        let refused = host.post(packs, &body).await;
        assert_eq!(
            (refused.status, refused.code()),
            (StatusCode::BAD_REQUEST, code.to_owned()),
            "{body}"
        );
    }
    assert_eq!(host.get(packs).await.json(), json!({"packs": []}));
    let refused = host
        .post(
            "/v1/host/touchstone/suites",
            &json!({"suiteId": "canary-suite"}),
        )
        .await;
    assert_eq!(refused.code(), "validation_error");
    assert!(
        !refused.json()["details"]["faults"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert!(!refused.text().contains("canary"));
}

#[tokio::test]
async fn unsupported_resources_are_not_found() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    assert_eq!(
        host.get(&format!("/v1/runs/{run}/artifacts/none"))
            .await
            .status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        host.get("/v1/workflows/none").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn every_response_has_a_traceparent_that_continues_the_callers_trace() {
    let host = TestHost::idle().await;
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let call = host.request(Method::GET, "/v1/runs/run_absent");
    let answered = call.header("traceparent", given).send().await;
    let trace = answered.header("traceparent").unwrap();
    assert!(trace.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && trace.ends_with("-01"));
    assert_ne!(trace, given, "the span id is new");
    let fresh = host.get("/healthz").await;
    assert_eq!(fresh.header("traceparent").unwrap().len(), given.len());
}

#[tokio::test]
async fn the_correlation_id_of_an_error_is_the_request_id() {
    let host = TestHost::idle().await;
    host.shutdown.cancel();
    let unready = host.get("/readyz").await;
    let id = unready.json()["details"]["correlationId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(unready.header("x-request-id"), Some(id.as_str()));
}
