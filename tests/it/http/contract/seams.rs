//! Test seams for conformance suites: they act on the real host, and do not exist unless enabled.

use axum::http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_packs::rules::build;
use touchstone_packs::rules::build::Files;

use crate::http::deployments::promotion::take_small_evidence;
use crate::http::support::host::{AGENT, TestHost, says};
use crate::store::Engine;

const LOG: &str = "/v1/host/sample/test/runs";
const EXPORT: &str = "/v1/host/sample/test/debug-bundle/export";
const EVAL: &str = "/v1/host/sample/agents/eval-run";
const INVOKE: &str = "/v1/host/sample/agents/live-invoke";
const TRANSITION: &str = "/v1/host/sample/agents/deployment-transition";
const DISPATCH: &str = "/v1/host/sample/agents/community.bench.echo.default/dispatch";
const BUDGET: &str = "/v1/host/sample/budget/run";
const CLAIM: &str = "/v1/host/sample/test/idempotency/concurrent-claim";
const RESET: &str = "/v1/host/sample/test/reset";
const DECIDE: &str = "/v1/host/sample/authorization/decide";
const APPROVAL: &str = "/v1/host/sample/governance/approval-gate";
const OWNED: &str = "/v1/host/sample/identity/owned-run";
const ACROSS: &str = "/v1/host/sample/identity/cross-workspace-read";
const SURFACE: &str = "/v1/host/sample/test/surface";

/// A host with test seams and the agent installed, and a test key of its tenant.
async fn under_test() -> (TestHost, String) {
    equipped(TestHost::with(conformance()).await).await
}

fn conformance() -> HttpSettings {
    HttpSettings {
        conformance: true,
        ..HttpSettings::default()
    }
}

async fn equipped(host: TestHost) -> (TestHost, String) {
    host.equip(&says(&["a"])).await;
    host.work();
    let key = host
        .issue(|issue| {
            issue.scopes = Scope::ALL.to_vec();
            issue.test = true;
        })
        .await;
    (host, key)
}

/// Seams are not in the API description, so their responses are not checked against it.
async fn send(
    host: &TestHost,
    key: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let response = host.request(method, path).key(key).json(body).open().await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn post(host: &TestHost, key: &str, path: &str, body: Value) -> Value {
    let (status, answer) = send(host, key, Method::POST, path, &body).await;
    assert_eq!(status, StatusCode::OK, "{path} {body}: {answer}");
    answer
}

async fn log(host: &TestHost, key: &str, run: &Value, query: &str) -> Vec<Value> {
    let path = format!("{LOG}/{}/events{query}", run.as_str().unwrap());
    let (status, answer) = send(host, key, Method::GET, &path, &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn test_seams_require_the_setting_and_a_test_key() {
    let plain = TestHost::idle().await;
    let test_key = plain
        .issue(|issue| {
            issue.scopes = Scope::ALL.to_vec();
            issue.test = true;
        })
        .await;
    let (under_test, _) = under_test().await;
    for (host, key) in [(&plain, &test_key), (&under_test, &under_test.key)] {
        for (method, path) in [
            (Method::GET, format!("{LOG}/__probe__/events")),
            (Method::POST, EXPORT.to_owned()),
            (Method::POST, EVAL.to_owned()),
            (Method::POST, INVOKE.to_owned()),
            (Method::POST, TRANSITION.to_owned()),
            (Method::POST, DISPATCH.to_owned()),
            (Method::POST, BUDGET.to_owned()),
            (Method::POST, CLAIM.to_owned()),
            (Method::POST, RESET.to_owned()),
            (Method::POST, DECIDE.to_owned()),
            (Method::POST, APPROVAL.to_owned()),
            (Method::GET, OWNED.to_owned()),
            (Method::POST, ACROSS.to_owned()),
            (Method::POST, SURFACE.to_owned()),
        ] {
            let (status, answer) = send(host, key, method, &path, &json!({})).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
            let (_, absent) = send(
                host,
                key,
                Method::GET,
                "/v1/host/sample/nothing",
                &json!({}),
            )
            .await;
            assert_eq!(answer, absent, "{path}");
        }
    }
}

/// RFC 0011: the same address, and no more than the key's permissions.
#[tokio::test]
async fn discovery_shows_seams_and_mock_providers_to_no_key_that_is_not_for_tests() {
    let (host, test_key) = under_test().await;
    let path = "/.well-known/openwop";
    let public = host.request(Method::GET, path).anonymous().send().await;
    assert_eq!(public.header("cache-control"), Some("public, max-age=300"));
    assert_eq!(public.header("vary"), Some("authorization"));
    let document = public.json();
    assert_eq!(
        document["discovery"]["authScoped"],
        json!({"supported": true, "mode": "same-endpoint"})
    );
    for key in [test_key.as_str(), "tsk_nobody_s"] {
        let shown = host.request(Method::GET, path).key(key).send().await;
        assert_eq!(shown.json(), document, "{key}");
    }
    let live = host.get(path).await;
    assert_eq!(live.header("cache-control"), Some("private, max-age=300"));
    let mut usable = document;
    for family in ["testing", "observability"] {
        assert!(usable.as_object_mut().unwrap().remove(family).is_some());
    }
    assert_eq!(live.json(), usable);
}

#[tokio::test]
async fn the_log_seam_repeats_the_log_and_knows_no_other_tenants_run() {
    let (host, key) = under_test().await;
    let run = host.create().await;
    let whole = host.ended(&run).await;
    let run = json!(run);
    assert_eq!(log(&host, &key, &run, "").await, whole);
    let scored = log(&host, &key, &run, "?type=eval.scored").await;
    assert_eq!(scored.len(), 1);
    let node = scored[0]["nodeId"].as_str().unwrap();
    assert!(
        log(
            &host,
            &key,
            &run,
            &format!("?nodeId={node}&type=eval.scored")
        )
        .await
            == scored
    );
    assert!(log(&host, &key, &run, "?type=no.such").await.is_empty());
    assert!(log(&host, &key, &json!("__probe__"), "").await.is_empty());
    let foreign = host
        .issue(|issue| {
            issue.tenant = "globex".into();
            issue.scopes = Scope::ALL.to_vec();
            issue.test = true;
        })
        .await;
    assert!(log(&host, &foreign, &run, "").await.is_empty());
    post(&host, &key, RESET, json!({})).await;
    assert_eq!(
        log(&host, &key, &run, "").await,
        whole,
        "real runs are kept"
    );
}

#[tokio::test]
async fn the_export_seam_gives_the_bundle_of_a_run_of_this_tenant() {
    let (host, key) = under_test().await;
    let run = host.create().await;
    host.ended(&run).await;
    let exported = post(&host, &key, EXPORT, json!({"runId": run})).await;
    let mut real = host
        .get(&format!("/v1/runs/{run}/debug-bundle"))
        .await
        .json();
    real["generatedAt"] = exported["generatedAt"].clone();
    assert_eq!(exported, real);
    for (asked, expected) in [
        (json!({"runId": "run_absent"}), StatusCode::NOT_FOUND),
        (json!({}), StatusCode::BAD_REQUEST),
    ] {
        let (status, _) = send(&host, &key, Method::POST, EXPORT, &asked).await;
        assert_eq!(status, expected);
    }
}

#[tokio::test]
async fn the_eval_seam_leaves_a_whole_eval_run() {
    let (host, key) = under_test().await;
    let made = post(&host, &key, EVAL, json!({"modes": ["golden"]})).await;
    assert_eq!(
        (&made["taskCount"], &made["passed"], &made["aggregateScore"]),
        (&json!(1), &json!(true), &json!(1.0))
    );
    let path = format!("/v1/runs/{}/eval-summary", made["runId"].as_str().unwrap());
    assert_eq!(host.get(&path).await.json()["suiteId"], made["suiteId"]);
    let three = post(&host, &key, EVAL, json!({"taskCount": 3, "agentId": AGENT})).await;
    assert_eq!(three["taskCount"], 3);
    assert_eq!(
        log(&host, &key, &three["runId"], "?type=eval.scored")
            .await
            .len(),
        3
    );
    for bad in [
        json!({"modes": ["rubric"]}),
        json!({"taskCount": 0}),
        json!({"agentId": "community.nobody.x"}),
        json!({"more": 1}),
    ] {
        let (status, answer) = send(&host, &key, Method::POST, EVAL, &bad).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}: {answer}");
    }
}

#[tokio::test]
async fn the_invocation_seam_brackets_one_invocation() {
    let (host, key) = under_test().await;
    let made = post(&host, &key, INVOKE, json!({"source": "run-api"})).await;
    assert_eq!(made["outcome"], "completed");
    let agents: Vec<Value> = log(&host, &key, &made["runId"], "")
        .await
        .into_iter()
        .filter(|event| event["type"].as_str().unwrap().starts_with("agent."))
        .collect();
    for (event, kind) in [
        (&agents[0], "agent.invocation.started"),
        (&agents[agents.len() - 1], "agent.invocation.completed"),
    ] {
        assert_eq!(event["type"], kind);
        assert_eq!(event["payload"]["invocationId"], made["invocationId"]);
    }
}

/// A pack whose agent must answer with an object of one member.
fn strict_pack() -> Vec<u8> {
    let manifest = json!({
        "name": "community.bench.strict", "version": "1.0.0", "description": "Strict.", "author": "Bench",
        "license": "0BSD", "engines": {"openwop": ">=1.0.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{"agentId": "community.bench.strict.default", "persona": "Strict", "modelClass": "general",
                    "systemPrompt": "Work.", "handoff": {"returnSchemaRef": "schemas/strict.json"}}],
    });
    let schema = json!({
        "title": "conformance-strict-handoff", "type": "object", "required": ["result"],
        "properties": {"result": {"type": "string"}}, "additionalProperties": false,
    });
    build::build(&Files::from([
        ("pack.json".to_owned(), manifest.to_string().into_bytes()),
        (
            "schemas/strict.json".to_owned(),
            schema.to_string().into_bytes(),
        ),
    ]))
    .unwrap()
}

#[tokio::test]
async fn a_result_that_violates_the_return_schema_fails_the_invocation() {
    let (host, key) = under_test().await;
    let asked = json!({
        "source": "run-api", "returnSchemaRef": "conformance-strict-handoff", "forceInvalidResult": true,
    });
    let (status, none) = send(&host, &key, Method::POST, INVOKE, &asked).await;
    assert_eq!(
        (status, &none["error"]),
        (StatusCode::CONFLICT, &json!("conflict"))
    );
    host.install_pack(&strict_pack()).await;
    let of_that_agent =
        json!({"agentId": "community.bench.strict.default", "forceInvalidResult": true});
    for asked in [asked, of_that_agent] {
        let made = post(&host, &key, INVOKE, asked).await;
        assert_eq!(made["outcome"], "failed");
        let query = "?type=agent.invocation.completed";
        let completed = log(&host, &key, &made["runId"], query).await;
        let completed = &completed[0]["payload"];
        assert_eq!(
            (&completed["outcome"], &completed["schemaValidated"]),
            (&json!("failed"), &json!(false))
        );
        assert_eq!(completed["agentId"], "community.bench.strict.default");
    }
    for (asked, status) in [
        (
            json!({"forceInvalidResult": "yes"}),
            StatusCode::BAD_REQUEST,
        ),
        (json!({"returnSchemaRef": "x"}), StatusCode::BAD_REQUEST),
        (json!({"attemptTool": 1}), StatusCode::BAD_REQUEST),
        (
            json!({"agentId": AGENT, "forceInvalidResult": true}),
            StatusCode::CONFLICT,
        ),
    ] {
        let (answered, answer) = send(&host, &key, Method::POST, INVOKE, &asked).await;
        assert_eq!(answered, status, "{asked}: {answer}");
    }
}

#[tokio::test]
async fn a_tool_that_is_not_allowed_is_attempted_and_not_called() {
    let (host, key) = under_test().await;
    let tool = "conformance-disallowed-tool";
    let asked = json!({"source": "run-api", "attemptTool": tool});
    let made = post(&host, &key, INVOKE, asked).await;
    let returned = log(&host, &key, &made["runId"], "?type=agent.toolReturned").await;
    assert_eq!(returned.len(), 1);
    let returned = &returned[0]["payload"];
    assert_eq!(
        (&returned["toolName"], &returned["status"]),
        (&json!(tool), &json!("forbidden"))
    );
    assert!(returned.get("outcome").is_none());
    // Reads the log as the scenario does.
    let called = log(&host, &key, &made["runId"], "?type=agent.toolCalled").await;
    let names =
        |event: &Value| ["tool", "toolId", "name"].map(|name| event["payload"][name].clone());
    assert!(
        called
            .iter()
            .all(|event| !names(event).contains(&json!(tool)))
    );
}

#[tokio::test]
async fn the_dispatch_seam_gives_an_agent_one_task() {
    let (host, key) = under_test().await;
    for task in [json!({"say": "one"}), json!({"say": "two", "more": [1]})] {
        let body = json!({"task": task, "validateHandoff": false, "availableTools": []});
        let made = post(&host, &key, DISPATCH, body).await;
        assert_eq!(made["status"], "completed");
        let events = made["events"].as_array().unwrap();
        assert!(events.iter().all(|event| event["agentId"] == AGENT));
        let decided = events
            .iter()
            .find(|event| event["type"] == "agent.decided")
            .unwrap();
        assert_eq!(decided["decision"], task["say"]);
        let path = format!("/v1/runs/{}", made["runId"].as_str().unwrap());
        assert_eq!(host.get(&path).await.json()["status"], "completed");
    }
    let tools = json!({"availableTools": ["crm:lookup"]});
    let (status, _) = send(&host, &key, Method::POST, DISPATCH, &tools).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_transition_seam_moves_a_version_or_says_why_not() {
    let (host, key) = under_test().await;
    for (scenario, error) in [
        ("unauthorized", "forbidden"),
        ("eval-gate-unmet", "eval_gate_unmet"),
    ] {
        let refused = post(&host, &key, TRANSITION, json!({"scenario": scenario})).await;
        assert_eq!(
            (&refused["allowed"], &refused["error"]),
            (&json!(false), &json!(error))
        );
        let log = log(&host, &key, &refused["runId"], "").await;
        assert!(
            log.iter()
                .all(|event| event["type"] != "deployment.promoted")
        );
        assert_eq!(log[1]["type"], "authorization.decided");
    }
    let moved = post(&host, &key, TRANSITION, json!({"scenario": "promote"})).await;
    assert_eq!(moved["record"]["state"], "test");
    let promoted = log(&host, &key, &moved["runId"], "?type=deployment.promoted").await;
    assert_eq!(promoted[0]["payload"]["toState"], "test");
    let records = host
        .get(&format!("/v1/agents/{AGENT}/deployments"))
        .await
        .json();
    assert_eq!(
        records[0], moved["record"],
        "the seam changes the real deployment"
    );
    let (status, _) = send(
        &host,
        &key,
        Method::POST,
        TRANSITION,
        &json!({"scenario": "x"}),
    )
    .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_transition_seam_tells_which_version_a_channel_leads_to() {
    let (host, key) = under_test().await;
    let pin = json!({"scenario": "channel-pin", "channel": "stable"});
    let (status, none) = send(&host, &key, Method::POST, TRANSITION, &pin).await;
    assert_eq!(
        (status, &none["error"]),
        (StatusCode::BAD_REQUEST, &json!("no_active_deployment"))
    );
    let policy = json!({"policy": {"eval": null}});
    let set = host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::OK);
    let path = format!("/v1/agents/{AGENT}/deployments");
    let mut promote = json!({"version": "1.0.0", "transition": "promote"});
    for _ in 0..2 {
        assert_eq!(host.post(&path, &promote).await.status, StatusCode::OK);
    }
    promote["channel"] = json!("stable");
    assert_eq!(host.post(&path, &promote).await.status, StatusCode::OK);
    for pin in [pin, json!({"scenario": "channel-pin"})] {
        let pinned = post(&host, &key, TRANSITION, pin.clone()).await;
        assert_eq!(pinned["resolvedAgentVersion"], "1.0.0");
        let invoked = log(
            &host,
            &key,
            &pinned["runId"],
            "?type=agent.invocation.started",
        )
        .await;
        let channel = pin.get("channel").cloned().unwrap_or(json!("latest"));
        assert_eq!(invoked[0]["payload"]["resolvedChannel"], channel);
    }
}

#[tokio::test]
async fn the_transition_seam_promotes_into_service_through_the_gate_again_and_again() {
    let (host, key) = under_test().await;
    host.install("1.1.0").await;
    take_small_evidence(&host).await;
    for (version, before) in [("1.0.0", None), ("1.1.0", Some("1.0.0"))] {
        for state in ["test", "staged", "active"] {
            let moved = post(&host, &key, TRANSITION, json!({"scenario": "promote"})).await;
            assert_eq!(
                (&moved["record"]["version"], &moved["record"]["state"]),
                (&json!(version), &json!(state)),
                "{moved}"
            );
            let promoted = log(&host, &key, &moved["runId"], "?type=deployment.promoted").await;
            let promoted = &promoted[0]["payload"];
            assert_eq!(promoted["toVersion"], version);
            assert_eq!(promoted["toState"], state);
            if state == "active" {
                let evidence = promoted["evalRunId"].as_str().unwrap();
                let path = format!("/v1/runs/{evidence}/eval-summary");
                assert_eq!(host.get(&path).await.json()["passed"], true);
                assert_eq!(promoted["channel"], "stable");
                assert_eq!(
                    promoted.get("fromVersion"),
                    before.map(Value::from).as_ref()
                );
            }
        }
    }
    let pin = json!({"scenario": "channel-pin", "channel": "stable"});
    let served = post(&host, &key, TRANSITION, pin.clone()).await;
    assert_eq!(served["resolvedAgentVersion"], "1.1.0");
    for version in ["1.0.0", "1.1.0", "1.0.0"] {
        let moved = post(&host, &key, TRANSITION, json!({"scenario": "promote"})).await;
        assert_eq!(
            (&moved["record"]["version"], &moved["record"]["state"]),
            (&json!(version), &json!("active")),
            "{moved}"
        );
        let served = post(&host, &key, TRANSITION, pin.clone()).await;
        assert_eq!(served["resolvedAgentVersion"], version, "the channel moved");
    }
}

#[tokio::test]
async fn the_transition_seam_refuses_whatever_state_the_versions_are_in() {
    let (host, key) = under_test().await;
    take_small_evidence(&host).await;
    let path = format!("/v1/agents/{AGENT}/deployments");
    for state in ["draft", "test", "staged", "active", "active"] {
        for (scenario, error) in [
            ("unauthorized", "forbidden"),
            ("eval-gate-unmet", "eval_gate_unmet"),
        ] {
            let refused = post(&host, &key, TRANSITION, json!({"scenario": scenario})).await;
            assert_eq!(
                (&refused["allowed"], &refused["error"]),
                (&json!(false), &json!(error)),
                "{state}"
            );
            let log = log(&host, &key, &refused["runId"], "").await;
            let promoted = log
                .iter()
                .any(|event| event["type"] == "deployment.promoted");
            assert!(!promoted, "{state}");
            assert_eq!(host.get(&path).await.json()[0]["state"], state);
        }
        let moved = post(&host, &key, TRANSITION, json!({"scenario": "promote"})).await;
        assert_eq!(moved["allowed"], true, "{moved}");
    }
    let deprecate = json!({"version": "1.0.0", "transition": "deprecate"});
    assert_eq!(host.post(&path, &deprecate).await.status, StatusCode::OK);
    let unauthorized = json!({"scenario": "unauthorized"});
    let refused = post(&host, &key, TRANSITION, unauthorized).await;
    assert_eq!(refused["error"], "forbidden", "also where nothing can move");
    for asked in [
        json!({"scenario": "unauthorized", "agentId": "community.bench.absent.default"}),
        json!({"scenario": "unauthorized", "version": "9.9.9"}),
    ] {
        let (status, answer) = send(&host, &key, Method::POST, TRANSITION, &asked).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::FORBIDDEN, &json!("forbidden")),
            "{asked}"
        );
    }
    let promote = json!({"scenario": "promote"});
    let (status, _) = send(&host, &key, Method::POST, TRANSITION, &promote).await;
    assert_eq!(status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn the_budget_seam_spends_a_budget_and_denies_a_model_before_it_is_called() {
    let (host, key) = under_test().await;
    let hard = post(
        &host,
        &key,
        BUDGET,
        json!({"scenario": "hard-cost-exhaust"}),
    )
    .await;
    assert_eq!(
        (&hard["outcome"], &hard["error"], &hard["modelCalled"]),
        (&json!("failed"), &json!("budget_exhausted"), &json!(true))
    );
    let log = log(&host, &key, &hard["runId"], "").await;
    let kinds: Vec<&str> = log
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .filter(|kind| kind.starts_with("budget.") || ["cap.breached", "run.failed"].contains(kind))
        .collect();
    assert_eq!(
        kinds,
        [
            "budget.reserved",
            "budget.consumed",
            "budget.threshold.crossed",
            "budget.exhausted",
            "cap.breached",
            "run.failed"
        ]
    );
    let of = |kind: &str| &log.iter().find(|event| event["type"] == kind).unwrap()["payload"];
    assert_eq!(of("budget.threshold.crossed")["percent"], 80.0);
    assert_eq!(of("cap.breached")["kind"], "budget-cost");

    let denied = post(&host, &key, BUDGET, json!({"scenario": "model-denied"})).await;
    assert_eq!(
        (&denied["error"], &denied["modelCalled"]),
        (&json!("budget_model_denied"), &json!(false))
    );
    for (scenario, expected) in [
        ("advisory", StatusCode::CONFLICT),
        ("x", StatusCode::BAD_REQUEST),
    ] {
        let body = json!({"scenario": scenario});
        let (status, _) = send(&host, &key, Method::POST, BUDGET, &body).await;
        assert_eq!(status, expected, "{scenario}");
    }
}

#[rstest]
#[tokio::test]
async fn the_claim_seam_lets_one_of_several_executors_perform_an_effect(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = TestHost::over(database.open().await, conformance()).await;
    let (host, key) = equipped(host).await;
    for (body, executors) in [
        (json!({}), 2),
        (json!({"executors": 2}), 2),
        (json!({"executors": 5}), 5),
    ] {
        let raced = post(&host, &key, CLAIM, body).await;
        let minted = raced["mintedIds"].as_array().unwrap();
        assert_eq!(
            (minted.len(), &raced["attempted"]),
            (executors, &json!(executors))
        );
        assert!(minted.iter().all(|id| *id == raced["logicalInvocationId"]));
        assert_eq!(raced["delivered"], 1);
        let log = log(&host, &key, &raced["runId"], "").await;
        let kinds: Vec<&Value> = log.iter().map(|event| &event["type"]).collect();
        assert_eq!(
            kinds,
            ["run.started", "touchstone.effect.intended", "run.completed"]
        );
        assert_eq!(log[1]["payload"]["callId"], raced["logicalInvocationId"]);
    }
    for executors in [json!(1), json!(17), json!("two")] {
        let body = json!({"executors": executors});
        let (status, _) = send(&host, &key, Method::POST, CLAIM, &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
}

#[tokio::test]
async fn the_decision_seam_allows_what_a_key_of_the_principal_allows() {
    let (host, key) = under_test().await;
    for tenant in ["acme", "globex"] {
        host.issue(|issue| {
            issue.tenant = tenant.into();
            issue.principal = Some(format!("ann of {tenant}"));
            issue.scopes = vec![Scope::RunsCancel];
        })
        .await;
    }
    for (principal, action, allowed) in [
        ("ann of acme", "runs:cancel", true),
        ("ann of acme", "runs:create", false),
        ("ann of acme", "runs:everything", false),
        ("ann of globex", "runs:cancel", false),
        ("conformance-unseeded-principal", "runs:cancel", false),
    ] {
        let body = json!({"principal": principal, "action": action, "resource": "run-probe"});
        let decided = post(&host, &key, DECIDE, body).await;
        assert_eq!(decided["allowed"], allowed, "{principal} {action}");
        assert_eq!(decided["reason"].is_null(), allowed, "{decided}");
    }
    let (status, _) = send(&host, &key, Method::POST, DECIDE, &json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_approval_seam_needs_a_principal_with_a_grant() {
    let (host, key) = under_test().await;
    let asked = json!({"scenario": "unauthorized-grant", "principal": "eve"});
    let refused = post(&host, &key, APPROVAL, asked).await;
    assert_eq!(
        (&refused["released"], &refused["error"], &refused["event"]),
        (&json!(false), &json!("forbidden"), &Value::Null)
    );
    let run = refused["runId"].as_str().unwrap().into();
    let log = host.ended(&run).await;
    assert_eq!(log[log.len() - 1]["type"], "run.cancelled");

    let asked = json!({"scenario": "override", "principal": "olga", "reason": "in a hurry"});
    let released = post(&host, &key, APPROVAL, asked).await;
    assert_eq!(released["released"], true);
    assert_eq!(released["event"]["type"], "approval.overridden");
    let payload = &released["event"]["payload"];
    assert_eq!(
        (&payload["principal"], &payload["reason"]),
        (&json!("olga"), &json!("in a hurry"))
    );
    let run = released["runId"].as_str().unwrap().into();
    let log = host.ended(&run).await;
    assert_eq!(log[log.len() - 1]["type"], "run.completed");
    for (scenario, released, event) in [
        ("grant", true, "approval.granted"),
        ("reject", false, "approval.rejected"),
    ] {
        let answered = post(&host, &key, APPROVAL, json!({"scenario": scenario})).await;
        assert_eq!(
            (&answered["released"], &answered["event"]["type"]),
            (&json!(released), &json!(event))
        );
    }
    for bad in [json!({}), json!({"scenario": "quorum"})] {
        let (status, _) = send(&host, &key, Method::POST, APPROVAL, &bad).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn the_identity_seams_show_an_owner_and_refuse_another_tenant() {
    let (host, key) = under_test().await;
    let (status, owned) = send(&host, &key, Method::GET, OWNED, &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{owned}");
    assert_eq!(owned["owner"]["tenant"], "acme");
    let path = format!("/v1/runs/{}", owned["runId"].as_str().unwrap());
    assert_eq!(
        host.get(&path).await.json()["owner"],
        owned["owner"],
        "it is a real one"
    );
    let (status, refused) = send(&host, &key, Method::POST, ACROSS, &json!({})).await;
    assert_eq!(
        (status, &refused["error"]),
        (StatusCode::FORBIDDEN, &json!("run_forbidden")),
        "{refused}"
    );
}

#[tokio::test]
async fn the_surface_seam_keeps_the_subscriptions_of_tenants_apart() {
    let (host, key) = under_test().await;
    let ask = |tenant: &str, op: &str, args: Value| json!({"tenantId": tenant, "surface": "webhooks", "op": op, "args": args});
    let wanted = json!({"url": "https://9.9.9.9/hook", "events": ["run.completed"]});
    let made = post(&host, &key, SURFACE, ask("tenant-a", "register", wanted)).await;
    let id = &made["webhookId"];
    assert!(id.is_string());
    for (tenant, count) in [("tenant-a", 1), ("tenant-b", 0)] {
        let listed = post(&host, &key, SURFACE, ask(tenant, "list", json!({}))).await;
        let listed = listed["webhooks"].as_array().unwrap();
        assert_eq!(listed.len(), count, "{tenant}");
        assert!(listed.iter().all(|webhook| webhook["webhookId"] == *id));
    }
    let own = host.get("/v1/host/touchstone/webhooks").await.json();
    assert_eq!(own["webhooks"], json!([]), "the caller's own are others");
    let remove = |tenant: &str| ask(tenant, "unregister", json!({"webhookId": id}));
    for (tenant, expected) in [
        ("tenant-b", StatusCode::NOT_FOUND),
        ("tenant-a", StatusCode::OK),
        ("tenant-a", StatusCode::NOT_FOUND),
    ] {
        let (status, _) = send(&host, &key, Method::POST, SURFACE, &remove(tenant)).await;
        assert_eq!(status, expected, "{tenant}");
    }
    let mut elsewhere = ask("tenant-a", "list", json!({}));
    elsewhere["surface"] = json!("kv");
    for (bad, expected) in [
        (elsewhere, StatusCode::NOT_FOUND),
        (ask("a/b", "list", json!({})), StatusCode::BAD_REQUEST),
        (ask("a", "rotate", json!({})), StatusCode::BAD_REQUEST),
    ] {
        let (status, _) = send(&host, &key, Method::POST, SURFACE, &bad).await;
        assert_eq!(status, expected, "{bad}");
    }
}
