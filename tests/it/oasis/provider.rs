//! The provider client with servers that answer correctly, incorrectly or not at all.

use std::time::Duration;

use rstest::rstest;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use touchstone_oasis::net::connection::HttpProvider;
use touchstone_oasis::net::{HttpProviders, ProviderAccess, SetupError};
use touchstone_oasis::ports::providers::{
    ConformanceAnswer, Environment, Provider, ProviderFault, ProviderText, Providers, Stage,
};
use touchstone_oasis::wire::provider::{
    AgentRequest, ContainmentRequest, EnvironmentRequest, ProvisionRequest, Trigger,
};
use url::Url;
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::agent::raw_server::{Act, RawServer, Then, deserted};

/// Maximum response size of these clients, in bytes.
pub const MOST: usize = 4096;

pub fn access(url: Url) -> ProviderAccess {
    ProviderAccess {
        name: "desk".to_owned(),
        url,
        token: Some("evaluator-canary".into()),
        timeout: Duration::from_secs(60),
        max_response_bytes: MOST as u64,
        clock_tolerance: Duration::from_secs(60),
        agent_origins: Vec::new(),
        lab_framework: None,
    }
}

pub fn client(server: &RawServer) -> HttpProvider {
    HttpProvider::new(access(server.url("/"))).unwrap()
}

/// A client of a server that plays only this act. It waits briefly for one that hangs.
pub fn client_of(server: &RawServer, act: &Act) -> HttpProvider {
    let mut access = access(server.url("/"));
    if matches!(act.then, Then::Hang) {
        access.timeout = Duration::from_secs(1);
    }
    HttpProvider::new(access).unwrap()
}

pub async fn mocked(server: &MockServer) -> HttpProvider {
    HttpProvider::new(access(server.uri().parse().unwrap())).unwrap()
}

pub fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

pub fn request(references: &[&str]) -> ProvisionRequest {
    let entry = |reference: &&str| ContainmentRequest {
        value_ref: (*reference).to_owned(),
        rest: object(json!({"channels": ["agent_response"]})),
    };
    ProvisionRequest {
        scenario_id: "desk.one".to_owned(),
        tier: 2,
        environment: EnvironmentRequest {
            kind: "front-desk".to_owned(),
            state: vec![json!({"resource": "record/a"})],
        },
        agent: AgentRequest {
            mode: "supervised".to_owned(),
            tools: vec!["records".to_owned()],
            scope: object(json!({"workspaces": ["lobby"]})),
        },
        value_containment: references.iter().map(entry).collect(),
    }
}

/// A call of the evaluator.
#[derive(Clone, Copy, Debug)]
enum Call {
    Provision,
    Inject,
    Snapshot,
    Observe,
    Teardown,
}

impl Call {
    async fn make(self, provider: &HttpProvider) -> Result<(), ProviderFault> {
        let nothing = Map::new();
        match self {
            Self::Provision => provider.provision(&request(&[])).await.map(drop),
            Self::Inject => provider.inject_state("e-1", &[], None).await,
            Self::Snapshot => provider.state_snapshot("e-1", &[]).await.map(drop),
            Self::Observe => {
                let observed = provider.observe("e-1", "audit_log", &nothing).await;
                observed.map(drop)
            }
            Self::Teardown => provider.teardown("e-1").await,
        }
    }

    fn stage(self) -> (Stage, &'static str) {
        match self {
            Self::Provision => (Stage::Provision, "provision"),
            Self::Inject => (Stage::InjectState, "state injection"),
            Self::Snapshot => (Stage::StateSnapshot, "state snapshot"),
            Self::Observe => (
                Stage::Observe("audit_log".to_owned()),
                "observation audit_log",
            ),
            Self::Teardown => (Stage::Teardown, "teardown"),
        }
    }
}

pub fn endless(length: usize) -> String {
    format!("{{\"canary\": \"{}\"}}", "x".repeat(length))
}

#[rstest]
#[case::internal_error(Act::json(500, r#"{"error": "canary"}"#), "HTTP 500")]
#[case::overloaded(Act::answer(503, "retry-after: 0\r\n", "canary"), "HTTP 503")]
#[case::not_there(Act::json(404, r#"{"error": "canary"}"#), "HTTP 404")]
#[case::throttled(Act::json(429, "{}"), "HTTP 429")]
#[case::redirect(Act::answer(307, "location: /canary\r\n", ""), "HTTP 307")]
#[case::hang(Act::new("", Then::Hang), "timed out")]
#[case::hang_in_the_head(Act::new("HTTP/1.1 200 OK\r\nx-canary: ", Then::Hang), "timed out")]
#[case::hang_in_the_body(
    Act::new("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", Then::Hang),
    "timed out"
)]
#[case::drop(Act::new("", Then::Close), "connection lost")]
#[case::reset(Act::new("", Then::Reset), "connection lost")]
#[case::cut_off(
    Act::new("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", Then::Close),
    "connection lost"
)]
#[case::no_http(Act::new("canary\r\n\r\n", Then::Close), "the response is not HTTP")]
#[case::html(Act::answer(200, "", "<html>canary</html>"), "not JSON")]
#[case::nothing(Act::json(200, ""), "not JSON")]
#[case::no_content(Act::answer(204, "", ""), "not JSON")]
#[case::half(Act::json(200, r#"{"canary":"#), "not JSON")]
#[case::ambiguous(
    Act::json(200, r#"{"status": 1, "status": 2}"#),
    "not strict JSON: the document has the same member twice in one object (line 1, column 22)"
)]
#[case::no_object(Act::json(200, r#"["canary"]"#), "does not match its schema")]
#[case::announced_too_large(Act::json(200, &endless(MOST)), "the body is larger than 4096 bytes")]
#[case::too_large(
    Act::new(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", endless(MOST)), Then::Close),
    "the body is larger than 4096 bytes"
)]
#[tokio::test]
async fn unclear_responses_are_faults_and_not_retried(
    #[case] act: Act,
    #[case] cause: &str,
    #[values(
        Call::Provision,
        Call::Inject,
        Call::Snapshot,
        Call::Observe,
        Call::Teardown
    )]
    call: Call,
) {
    let server = RawServer::play(vec![act.clone()]).await;
    let fault = call.make(&client_of(&server, &act)).await.unwrap_err();
    let (stage, words) = call.stage();
    if cause == "does not match its schema" {
        assert!(
            fault.cause.starts_with(&format!("{words}: {cause}")),
            "{fault}"
        );
    } else {
        assert_eq!(fault.cause, format!("{words}: {cause}"));
    }
    assert_eq!(fault.stage, stage);
    assert!(!format!("{fault:?}").contains("canary"));
    assert_eq!(server.requests(), 1);
}

#[rstest]
#[tokio::test]
async fn an_unreachable_provider_is_a_fault(
    #[values(Call::Provision, Call::Observe, Call::Teardown)] call: Call,
) {
    let url = format!("http://{}", deserted()).parse().unwrap();
    let provider = HttpProvider::new(access(url)).unwrap();
    let fault = call.make(&provider).await.unwrap_err();
    assert_eq!(fault.cause, format!("{}: no connection", call.stage().1));
}

#[rstest]
#[case::provision(
    Call::Provision,
    json!({"status": "error", "error": "canary"}),
    "provision: status error"
)]
#[case::inject(Call::Inject, json!({"status": "error"}), "state injection: status error")]
#[case::inject_destroyed(
    Call::Inject,
    json!({"status": "destroyed"}),
    "state injection: a status that belongs to another call"
)]
#[case::inject_unknown(
    Call::Inject,
    json!({"status": "canary"}),
    "state injection: does not match its schema at /status"
)]
#[case::inject_without(Call::Inject, json!({}), "state injection: does not match its schema at /status")]
#[case::snapshot(
    Call::Snapshot,
    json!({"status": "error", "error": "canary"}),
    "state snapshot: status error"
)]
#[case::snapshot_elsewhere(
    Call::Snapshot,
    json!({"environment_id": "canary", "timestamp": "t", "resources": []}),
    "state snapshot: the response is for a different environment"
)]
#[case::snapshot_nameless(
    Call::Snapshot,
    json!({"environment_id": "e-1", "timestamp": "t", "resources": [{"kind": "a", "name": "b"}, {"kind": "canary"}]}),
    "state snapshot: does not match its schema at /resources/1/name"
)]
#[case::teardown(Call::Teardown, json!({"status": "error"}), "teardown: status error")]
#[case::teardown_applied(
    Call::Teardown,
    json!({"status": "applied"}),
    "teardown: a status that belongs to another call"
)]
#[tokio::test]
async fn an_answer_that_declines_or_says_something_else_is_a_fault(
    #[case] call: Call,
    #[case] answer: Value,
    #[case] cause: &str,
) {
    let server = RawServer::play(vec![Act::json(200, &answer.to_string())]).await;
    let fault = call.make(&client(&server)).await.unwrap_err();
    assert_eq!(fault.cause, cause);
    assert_eq!(server.requests(), 1);
}

fn observation() -> Value {
    json!({
        "environment_id": "e-1", "observation_type": "audit_log", "timestamp": "2026-01-02T03:04:05Z",
        "data": {"entries": [{"verb": "canary"}]},
        "evidence_source": {"type": "audit_store", "status": "available"}
    })
}

fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    *document.pointer_mut(pointer).unwrap() = value;
    document
}

fn without(mut document: Value, parent: &str, member: &str) -> Value {
    let parent = document.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().remove(member).unwrap();
    document
}

#[rstest]
#[case::unreachable(with(observation(), "/evidence_source/status", json!("unreachable")), "unreachable")]
#[case::partial(with(observation(), "/evidence_source/status", json!("partial")), "partial")]
#[case::empty_window(with(observation(), "/evidence_source/status", json!("empty_window")), "empty_window")]
#[case::unknown(with(observation(), "/evidence_source/status", json!("canary")), "unknown evidence status")]
#[case::other_letters(with(observation(), "/evidence_source/status", json!("Available")), "unknown evidence status")]
#[case::no_status(
    without(observation(), "/evidence_source", "status"),
    "no evidence status"
)]
#[case::null_status(with(observation(), "/evidence_source/status", json!(null)), "no evidence status")]
#[case::no_source(without(observation(), "", "evidence_source"), "no evidence source")]
#[case::null_source(with(observation(), "/evidence_source", json!(null)), "no evidence source")]
#[case::true_status(
    with(observation(), "/evidence_source/status", json!(true)),
    "does not match its schema at /evidence_source/status"
)]
#[case::no_type(
    without(observation(), "/evidence_source", "type"),
    "does not match its schema at /evidence_source/type"
)]
#[case::no_data(
    without(observation(), "", "data"),
    "does not match its schema at /data"
)]
#[case::no_time(
    without(observation(), "", "timestamp"),
    "does not match its schema at /timestamp"
)]
#[case::other_environment(
    with(observation(), "/environment_id", json!("e-2")),
    "the response is for a different environment"
)]
#[case::other_type(
    with(observation(), "/observation_type", json!("state_diff")),
    "the response is for a different observation"
)]
#[case::not_a_record_but_an_error(
    json!({"status": "error", "error": "canary"}),
    "does not match its schema at /environment_id"
)]
#[tokio::test]
async fn only_an_available_source_is_evidence(#[case] answer: Value, #[case] cause: &str) {
    let server = RawServer::play(vec![Act::json(200, &answer.to_string())]).await;
    let fault = Call::Observe.make(&client(&server)).await.unwrap_err();
    assert_eq!(fault.cause, format!("observation audit_log: {cause}"));
    assert_eq!(server.requests(), 1);
}

#[rstest]
#[case::entries(observation())]
#[case::nothing_happened(with(observation(), "/data/entries", json!([])))]
#[case::whatever_the_data_is(with(observation(), "/data", json!(null)))]
#[tokio::test]
async fn an_available_source_is_evidence_even_of_nothing(#[case] answer: Value) {
    let server = RawServer::play(vec![Act::json(200, &answer.to_string())]).await;
    let nothing = Map::new();
    let provider = client(&server);
    let observed = provider.observe("e-1", "audit_log", &nothing).await;
    let observed = observed.unwrap();
    assert_eq!(observed.data, answer["data"]);
    assert_eq!(observed.observation_type, "audit_log");
    assert_eq!(observed.timestamp, "2026-01-02T03:04:05Z");
    assert_eq!(
        (observed.source_type.as_str(), observed.status.as_str()),
        ("audit_store", "available")
    );
}

fn provisioned() -> Value {
    json!({
        "environment_id": "e-1", "status": "ready", "agent_endpoint": "/env/e-1/ops",
        "agent_credentials": {"token": "agent-canary", "principal": "agent:e-1"},
        "containment_values": [
            {"value_ref": "note/b.data.key", "literals": ["literal-canary"]},
            {"value_ref": "note/a.data.key", "literals": ["one-canary"]},
            {"value_ref": "note/a.data.key", "literals": ["two-canary"]},
        ]
    })
}

async fn provision(answer: &Value, references: &[&str]) -> Result<Environment, ProviderFault> {
    let server = RawServer::play(vec![Act::json(201, &answer.to_string())]).await;
    client(&server).provision(&request(references)).await
}

#[tokio::test]
async fn an_environment_has_what_was_asked_for_and_shows_no_secret() {
    let server = RawServer::play(vec![Act::json(201, &provisioned().to_string())]).await;
    let provider = client(&server);
    let environment = provider.provision(&request(&["note/a.data.key"])).await;
    let environment = environment.unwrap();
    assert_eq!(environment.id, "e-1");
    assert_eq!(environment.endpoint, server.url("/env/e-1/ops"));
    assert_eq!(environment.principal.as_deref(), Some("agent:e-1"));
    let token = environment.token.as_ref().unwrap();
    assert_eq!(token.expose_secret(), "agent-canary");
    let references: Vec<_> = environment.containment.keys().collect();
    assert_eq!(references, ["note/a.data.key"]);
    let literals = environment.containment["note/a.data.key"]
        .iter()
        .map(SecretString::expose_secret);
    assert_eq!(literals.collect::<Vec<_>>(), ["one-canary", "two-canary"]);
    let shown = format!("{environment:?} {provider:?} {:?}", access(server.url("/")));
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(server.requests(), 1);
}

#[rstest]
#[case::id(
    without(provisioned(), "", "environment_id"),
    "does not match its schema at /environment_id"
)]
#[case::empty_id(with(provisioned(), "/environment_id", json!("")), "does not match its schema at /environment_id")]
#[case::null_id(with(provisioned(), "/environment_id", json!(null)), "does not match its schema at /environment_id")]
#[case::endpoint(
    without(provisioned(), "", "agent_endpoint"),
    "does not match its schema at /agent_endpoint"
)]
#[case::credentials(
    without(provisioned(), "", "agent_credentials"),
    "does not match its schema at /agent_credentials"
)]
#[case::status(
    without(provisioned(), "", "status"),
    "does not match its schema at /status"
)]
#[case::empty_token(
    with(provisioned(), "/agent_credentials/token", json!("")),
    "does not match its schema at /agent_credentials/token"
)]
#[case::token_of_lines(
    with(provisioned(), "/agent_credentials/token", json!("canary\r\nx-canary: 1")),
    "agent_credentials.token contains characters that are not allowed in a header"
)]
#[case::no_literals(
    with(provisioned(), "/containment_values/1/literals", json!([])),
    "does not match its schema at /containment_values/1/literals"
)]
#[case::empty_literal(
    with(provisioned(), "/containment_values/0/literals", json!(["canary", ""])),
    "does not match its schema at /containment_values/0/literals/1"
)]
#[case::unresolved(with(provisioned(), "/containment_values", json!([])), "a `value_ref` is not resolved")]
#[case::one_unresolved(
    with(provisioned(), "/containment_values/0/value_ref", json!("canary")),
    "a `value_ref` is not resolved"
)]
#[tokio::test]
async fn an_environment_that_lacks_something_is_a_fault(
    #[case] answer: Value,
    #[case] cause: &str,
) {
    let fault = provision(&answer, &["note/a.data.key", "note/b.data.key"]).await;
    let fault = fault.unwrap_err();
    assert_eq!(fault.cause, format!("provision: {cause}"));
    assert_eq!(fault.stage, Stage::Provision);
}

#[tokio::test]
async fn an_unusable_environment_is_torn_down() {
    let server = MockServer::start().await;
    let refused = with(provisioned(), "/agent_endpoint", json!("http://192.0.2.1/"));
    Mock::given(path("/v1/provision"))
        .respond_with(ResponseTemplate::new(201).set_body_json(refused))
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(path("/v1/teardown"))
        .and(body_json(json!({"environment_id": "e-1"})))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"status": "destroyed"})))
        .expect(1)
        .mount(&server)
        .await;
    let fault = mocked(&server).await.provision(&request(&[])).await;
    assert_eq!(
        fault.unwrap_err().cause,
        "provision: agent_endpoint has an origin that is not allowed"
    );
}

#[tokio::test]
async fn every_call_says_what_its_contract_has() {
    let server = MockServer::start().await;
    let calls = [
        (
            "provision",
            json!({
                "scenario_id": "desk.one", "tier": 2,
                "environment": {"type": "front-desk", "state": [{"resource": "record/a"}]},
                "agent": {"mode": "supervised", "tools": ["records"], "scope": {"workspaces": ["lobby"]}},
                "value_containment": [{"value_ref": "note/a.data.key", "channels": ["agent_response"]}]
            }),
            provisioned(),
        ),
        (
            "inject-state",
            json!({"environment_id": "e-1", "state": [{"resource": "record/b"}], "trigger": "on_second_query"}),
            json!({"status": "applied"}),
        ),
        (
            "state-snapshot",
            json!({"environment_id": "e-1", "resources": [{"kind": "record"}]}),
            json!({"environment_id": "e-1", "timestamp": "t", "resources": [{"kind": "a", "name": "b", "fields": {}}]}),
        ),
        (
            "observe",
            json!({"environment_id": "e-1", "observation_type": "audit_log", "parameters": {"verb": "get"}}),
            observation(),
        ),
        (
            "teardown",
            json!({"environment_id": "e-1"}),
            json!({"status": "destroyed"}),
        ),
    ];
    for (call, request, answer) in &calls {
        Mock::given(method("POST"))
            .and(path(format!("/base/v1/{call}")))
            .and(header("authorization", "Bearer evaluator-canary"))
            .and(header("content-type", "application/json"))
            .and(body_json(request))
            .respond_with(ResponseTemplate::new(200).set_body_json(answer))
            .expect(1)
            .mount(&server)
            .await;
    }
    let url = format!("{}/base/", server.uri()).parse().unwrap();
    let provider = HttpProvider::new(access(url)).unwrap();
    let made = provider.provision(&request(&["note/a.data.key"])).await;
    made.unwrap();
    let state = [json!({"resource": "record/b"})];
    let injected = provider.inject_state("e-1", &state, Some(Trigger::OnSecondQuery));
    injected.await.unwrap();
    let resources = [json!({"kind": "record"})];
    let snapshot = provider.state_snapshot("e-1", &resources).await.unwrap();
    assert_eq!(snapshot, calls[2].2);
    let parameters = object(json!({"verb": "get"}));
    let observed = provider.observe("e-1", "audit_log", &parameters).await;
    observed.unwrap();
    provider.teardown("e-1").await.unwrap();
}

#[tokio::test]
async fn provider_calls_do_not_reuse_connections() {
    // This server keeps the connection open and closes it without a response to the next request,
    // like servers whose keep-alive timeout has just expired.
    let body = json!({"status": "destroyed"}).to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = RawServer::play(vec![Act::new(answer, Then::Hang)]).await;
    let provider = client(&server);
    for _ in 0..20 {
        provider.teardown("e-1").await.unwrap();
    }
    assert_eq!(server.requests(), 20);
}

#[tokio::test]
async fn conformance_is_asked_for_by_profile() {
    let server = MockServer::start().await;
    let document = json!({"provider": "front-desk", "supported": true});
    Mock::given(method("GET"))
        .and(path("/v1/conformance"))
        .and(query_param("profile", "oasis profile&tier=3"))
        .and(header("authorization", "Bearer evaluator-canary"))
        .respond_with(ResponseTemplate::new(200).set_body_json(&document))
        .expect(1)
        .mount(&server)
        .await;
    let provider = mocked(&server).await;
    assert_eq!(
        provider.conformance("oasis profile&tier=3").await,
        ConformanceAnswer {
            http_status: Some(200),
            body: Some(document),
            trouble: None,
            said: None,
        }
    );
}

#[rstest]
#[case::not_there(
    Act::json(404, r#"{"error": "no such profile"}"#),
    Some(404),
    "HTTP 404",
    "no such profile"
)]
#[case::broken(Act::json(500, "{}"), Some(500), "HTTP 500", "")]
#[case::text(
    Act::answer(503, "", "evaluator-canary is\nlocked out, password=hunter2hunter2"),
    Some(503),
    "HTTP 503",
    "[contained] is locked out, password=[REDACTED:secret]"
)]
#[case::another_success(Act::json(201, "{}"), Some(201), "HTTP 201", "")]
#[case::redirect(
    Act::answer(302, "location: /canary\r\n", ""),
    Some(302),
    "HTTP 302",
    ""
)]
#[case::html(Act::answer(200, "", "<html>canary</html>"), Some(200), "not JSON", "")]
#[case::hang(Act::new("", Then::Hang), None, "timed out", "")]
#[case::drop(Act::new("", Then::Close), None, "connection lost", "")]
#[case::too_large(Act::json(200, &endless(MOST)), None, "the body is larger than 4096 bytes", "")]
#[tokio::test]
async fn a_failed_conformance_request_is_reported_and_not_retried(
    #[case] act: Act,
    #[case] http_status: Option<u16>,
    #[case] trouble: &str,
    #[case] said: &str,
) {
    let server = RawServer::play(vec![act.clone()]).await;
    assert_eq!(
        client_of(&server, &act).conformance("p").await,
        ConformanceAnswer {
            http_status,
            body: None,
            trouble: Some(format!("conformance: {trouble}")),
            said: ProviderText::new(said),
        }
    );
    assert_eq!(server.requests(), 1);
}

#[test]
fn providers_are_found_by_the_names_the_operator_gave_them() {
    let named = |name: &str| ProviderAccess {
        name: name.to_owned(),
        ..access("http://127.0.0.1:7".parse().unwrap())
    };
    let providers = HttpProviders::new(vec![named("tower"), named("desk")]).unwrap();
    assert_eq!(providers.names(), ["desk", "tower"]);
    assert_eq!(providers.provider("tower").unwrap().name(), "tower");
    assert!(providers.provider("http://127.0.0.1:7").is_none());
    assert!(providers.provider("").is_none());
}

#[test]
fn a_token_no_header_can_carry_is_refused_without_being_shown() {
    let refused = HttpProvider::new(ProviderAccess {
        token: Some("canary\n".into()),
        ..access("http://127.0.0.1:7".parse().unwrap())
    })
    .unwrap_err();
    assert_eq!(
        refused,
        SetupError::Token {
            name: "desk".to_owned()
        }
    );
    assert!(!refused.to_string().contains("canary"));
}

#[rstest]
#[case::error(Act::json(500, r#"{"error": "no room left"}"#), Some("no room left"))]
#[case::nested(
    Act::json(409, r#"{"error": {"code": 7, "message": "no  room\nleft"}}"#),
    Some("no room left")
)]
#[case::text(Act::answer(503, "", "no room left"), Some("no room left"))]
#[case::token(
    Act::json(500, r#"{"error": "evaluator-canary is unknown"}"#),
    Some("[contained] is unknown")
)]
#[case::declined(
    Act::json(200, r#"{"status": "error", "error": "no room left"}"#),
    Some("no room left")
)]
#[case::nothing(Act::answer(500, "", ""), None)]
#[tokio::test]
async fn a_providers_failure_message_is_passed_on(#[case] act: Act, #[case] words: Option<&str>) {
    let server = RawServer::play(vec![act]).await;
    let fault = Call::Provision.make(&client(&server)).await.unwrap_err();
    let said = fault.said.as_ref().map(|it| it.as_str());
    assert_eq!(said, words);
    assert!(!fault.to_string().contains("room"));
}

#[tokio::test]
async fn provider_messages_are_bounded() {
    let act = Act::answer(500, "", &"word ".repeat(300));
    let server = RawServer::play(vec![act]).await;
    let fault = Call::Provision.make(&client(&server)).await.unwrap_err();
    assert_eq!(fault.said.unwrap().as_str().chars().count(), 501);
}
