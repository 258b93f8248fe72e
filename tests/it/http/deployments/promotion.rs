//! Deployments, gates and the audit log over HTTP.

use axum::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;
use touchstone_kit::keys::PublicKey;
use touchstone_runs::store as run_store;

use crate::http::support::host::{
    AGENT, Reply, SUITE, TestHost, create_body, echo_pack_that, says,
};
use crate::store::{Engine, Engine::*};

pub fn path() -> String {
    format!("/v1/agents/{AGENT}/deployments")
}

/// A host with workers, three versions of the agent, and a gate that accepts little evidence.
pub async fn host() -> TestHost {
    let host = TestHost::working(&says(&["a", "b"])).await;
    for version in ["1.1.0", "1.2.0"] {
        host.install(version).await;
    }
    take_small_evidence(&host).await;
    host
}

/// Makes the gate accept unsigned evidence and observed scores: a handful of tasks is never
/// significant.
pub async fn take_small_evidence(host: &TestHost) {
    let policy = json!({"policy": {"eval": {"requireSignedSuite": false, "confidence": "lenient", "minTasks": 1}}});
    let set = host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
}

/// An ended eval of a version.
pub async fn eval(host: &TestHost, version: &str) -> String {
    let mut body = create_body();
    body["configurable"] = json!({"agentVersion": version});
    let created = host.post("/v1/runs", &body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run = RunId::from(created.json()["runId"].as_str().unwrap());
    host.ended(&run).await;
    run.to_string()
}

pub async fn list(host: &TestHost) -> Value {
    let reply = host.get(&path()).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.json()
}

pub async fn moved(host: &TestHost, body: Value) -> Value {
    let reply = host.post(&path(), &body).await;
    assert_eq!(reply.status, StatusCode::OK, "{body}: {reply:?}");
    reply.json()
}

pub async fn into_service(host: &TestHost, version: &str, more: Value) -> Value {
    let run = eval(host, version).await;
    for _ in 0..2 {
        moved(host, json!({"version": version, "transition": "promote"})).await;
    }
    let mut body =
        json!({"version": version, "transition": "promote", "channel": "stable", "evalRunId": run});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    moved(host, body).await
}

pub async fn audit(host: &TestHost) -> Vec<Value> {
    let reply = host.get("/v1/host/touchstone/audit?limit=1000").await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let entries = reply.json()["entries"].as_array().unwrap().clone();
    assert!(entries.iter().all(|entry| entry["intact"] == true));
    let verified = host.get("/v1/audit/verify").await.json();
    assert_eq!(verified["chainValid"], true, "{verified}");
    assert_eq!(verified["toSeq"], entries.len());
    let entries = entries.into_iter().map(|entry| entry["entry"].clone());
    // The tests of this folder do not count what was installed before.
    let installs = |entry: &Value| {
        let action = entry["action"].as_str().unwrap();
        ["packs:", "suites:"]
            .iter()
            .any(|it| action.starts_with(it))
    };
    entries.filter(|entry| !installs(entry)).collect()
}

pub fn refused(reply: &Reply, status: StatusCode, code: &str) -> Value {
    assert_eq!(
        (reply.status, reply.code()),
        (status, code.to_owned()),
        "{reply:?}"
    );
    reply.json()["details"].clone()
}

#[tokio::test]
async fn a_version_goes_from_draft_into_service_and_everything_is_on_record() {
    let host = host().await;
    let drafts = list(&host).await;
    assert_eq!(
        drafts,
        json!(
            ["1.0.0", "1.1.0", "1.2.0"]
                .map(|version| json!({"agentId": AGENT, "version": version, "state": "draft"}))
        )
    );
    let first = into_service(&host, "1.0.0", json!({})).await;
    assert_eq!(first["state"], "active");
    assert_eq!(first["channels"], json!(["stable"]));
    let second = into_service(&host, "1.1.0", json!({"canaryPercent": 10})).await;
    assert_eq!(second["canaryPercent"], 10);
    assert_eq!(list(&host).await[1], second);
    assert_eq!(list(&host).await[0]["canaryPercent"], 90);
    let body = json!({"version": "1.1.0", "transition": "adjust-canary", "canaryPercent": 100});
    assert_eq!(moved(&host, body).await["canaryPercent"], 100);
    let paused = moved(&host, json!({"version": "1.1.0", "transition": "pause"})).await;
    assert_eq!(paused["state"], "paused");
    assert_eq!(paused["evalRunId"], second["evalRunId"], "evidence is kept");
    // The deployment still refers to its original evidence.
    let back = moved(&host, json!({"version": "1.1.0", "transition": "promote"})).await;
    assert_eq!(back["state"], "active");
    let body = json!({"version": "1.1.0", "transition": "rollback", "reason": "weekly drill"});
    let rolled = moved(&host, body).await;
    assert_eq!(rolled["state"], "rolled-back");
    assert_eq!(rolled["rollbackPointer"], "1.0.0");
    let gone = moved(
        &host,
        json!({"version": "1.0.0", "transition": "deprecate"}),
    )
    .await;
    assert_eq!(gone["state"], "deprecated");

    let entries = audit(&host).await;
    let done: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| {
            assert_eq!(entry["outcome"], "done");
            let action = entry["action"].as_str().unwrap();
            (
                action,
                entry["resource"]
                    .as_str()
                    .unwrap()
                    .rsplit('@')
                    .next()
                    .unwrap(),
            )
        })
        .collect();
    assert_eq!(
        done,
        [
            ("gates:set", "*#*"),
            ("deployment:promote", "1.0.0"),
            ("deployment:promote", "1.0.0"),
            ("deployment:promote", "1.0.0"),
            ("deployment:promote", "1.1.0"),
            ("deployment:promote", "1.1.0"),
            ("deployment:promote", "1.1.0"),
            ("deployment:adjust-canary", "1.1.0"),
            ("deployment:pause", "1.1.0"),
            ("deployment:promote", "1.1.0"),
            ("deployment:rollback", "1.1.0"),
            ("deployment:deprecate", "1.0.0"),
        ]
    );
    let mut kinds = Vec::new();
    for entry in &entries[1..] {
        let run = RunId::from(entry["runId"].as_str().unwrap());
        let events = host.ended(&run).await;
        let types: Vec<&str> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(types[..2], ["run.started", "authorization.decided"]);
        assert_eq!(events[1]["payload"]["allowed"], true);
        assert_eq!(*types.last().unwrap(), "run.completed");
        assert_eq!(events[2]["causationId"], events[1]["eventId"]);
        kinds.extend(
            types[2..types.len() - 1]
                .iter()
                .map(|kind| (*kind).to_owned()),
        );
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        assert_eq!(snapshot["status"], "completed");
        let cancelled = host
            .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
            .await;
        assert_eq!(cancelled.status, StatusCode::OK, "{cancelled:?}");
    }
    assert_eq!(kinds[..6], ["deployment.promoted"; 6]);
    assert_eq!(
        kinds[6..],
        [
            "deployment.canary.adjusted",
            "deployment.state.changed",
            "deployment.state.changed",
            "deployment.rolled-back",
            "deployment.state.changed",
        ]
    );
}

#[tokio::test]
async fn a_forbidden_transition_changes_nothing_and_is_audited() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    let before = list(&host).await;
    let others = |left_out: &[Scope]| -> Vec<Scope> {
        let all = Scope::ALL.iter().copied();
        all.filter(|scope| !left_out.contains(scope)).collect()
    };
    let cases = [
        ("promote", Scope::DeployPromote),
        ("adjust-canary", Scope::DeployPromote),
        ("pause", Scope::DeployPause),
        ("deprecate", Scope::DeployPause),
        ("rollback", Scope::DeployRollback),
    ];
    for (transition, scope) in cases {
        let key = host.key_with(&others(&[scope])).await;
        // Legal or not, from every state: a caller without the scope learns nothing about the
        // state.
        for version in ["1.0.0", "1.1.0"] {
            let body = json!({"version": version, "transition": transition, "canaryPercent": 5});
            let reply = host
                .request(Method::POST, &path())
                .key(&key)
                .json(&body)
                .send()
                .await;
            let details = refused(&reply, StatusCode::FORBIDDEN, "forbidden");
            assert_eq!(details["scopeRequired"], scope.as_str());
            let run = RunId::from(details["runId"].as_str().unwrap());
            let events = host.ended(&run).await;
            let types: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
            assert_eq!(
                types,
                ["run.started", "authorization.decided", "run.failed"]
            );
            let decided = &events[1]["payload"];
            assert_eq!(decided["allowed"], false);
            assert_eq!(decided["action"], scope.as_str());
            assert_eq!(decided["resource"], format!("{AGENT}@{version}"));
        }
    }
    assert_eq!(list(&host).await, before);
    let denied = audit(&host).await;
    assert_eq!(
        denied
            .iter()
            .filter(|entry| entry["outcome"] == "denied")
            .count(),
        10
    );
}

#[tokio::test]
async fn invalid_evidence_is_refused_by_field_and_changes_nothing() {
    let host = host().await;
    let of_another = eval(&host, "1.1.0").await;
    let mut failing = crate::http::support::host::suite(&says(&["a", "wrong"]));
    failing["version"] = json!("2.0.0");
    let imported = host.post("/v1/host/touchstone/suites", &failing).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let mut body = create_body();
    body["evalSuiteRef"] = json!(format!("{SUITE}@2.0.0"));
    body["configurable"] = json!({"agentVersion": "1.0.0"});
    let failed = host.post("/v1/runs", &body).await.json()["runId"].clone();
    host.ended(&RunId::from(failed.as_str().unwrap())).await;
    for _ in 0..2 {
        moved(&host, json!({"version": "1.0.0", "transition": "promote"})).await;
    }
    let before = list(&host).await;
    let a_transition = audit(&host).await.last().unwrap()["runId"].clone();
    let cases = [
        (Value::Null, vec!["eval-run"]),
        (json!("run_absent"), vec!["eval-run"]),
        (a_transition, vec!["eval-run"]),
        (json!(of_another), vec!["version"]),
        (failed.clone(), vec!["passed"]),
    ];
    for (evidence, expected) in cases {
        let mut body = json!({"version": "1.0.0", "transition": "promote", "channel": "stable"});
        if !evidence.is_null() {
            body["evalRunId"] = evidence.clone();
        }
        let reply = host.post(&path(), &body).await;
        let details = refused(&reply, StatusCode::FORBIDDEN, "eval_gate_unmet");
        let names: Vec<&str> = details["unmet"]
            .as_array()
            .unwrap()
            .iter()
            .map(|unmet| unmet["condition"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{evidence}");
        let run = RunId::from(details["runId"].as_str().unwrap());
        let events = host.ended(&run).await;
        let types: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
        assert_eq!(
            types,
            ["run.started", "authorization.decided", "run.failed"]
        );
        assert_eq!(events[2]["payload"]["error"]["code"], "eval_gate_unmet");
        let entry = audit(&host).await.pop().unwrap();
        assert_eq!(entry["outcome"], "refused");
        let reason = entry["reasons"][0].as_str().unwrap();
        assert!(reason.starts_with(expected[0]), "{reason}");
    }
    assert_eq!(list(&host).await, before);
    // Evidence given in the request is checked on every step.
    let body = json!({"version": "1.1.0", "transition": "promote", "evalRunId": failed});
    let reply = host.post(&path(), &body).await;
    refused(&reply, StatusCode::FORBIDDEN, "eval_gate_unmet");
}

/// An eval that keeps the passed tasks and repeats only the rest is not evidence for the whole
/// suite.
#[tokio::test]
async fn a_branch_that_keeps_judged_tasks_and_its_forks_are_not_evidence() {
    let host = host().await;
    let run = RunId::from(eval(&host, "1.0.0").await);
    let after_the_first_score = |log: &[Value]| {
        let scored = log.iter().find(|event| event["type"] == "eval.scored");
        scored.unwrap()["sequence"].as_u64().unwrap() + 1
    };
    let fork = async |of: &RunId, mode: &str, from: u64| -> RunId {
        let body = json!({"mode": mode, "fromSeq": from});
        let forked = host.post(&format!("/v1/runs/{of}:fork"), &body).await;
        assert_eq!(forked.status, StatusCode::CREATED, "{forked:?}");
        let forked = RunId::from(forked.json()["runId"].as_str().unwrap());
        host.ended(&forked).await;
        forked
    };
    let log = host.ended(&run).await;
    let end = log.len() as u64;
    let picked = fork(&run, "branch", after_the_first_score(&log)).await;
    let log_of_picked = host.ended(&picked).await;
    let last_of_picked = log_of_picked.len() as u64;
    let picked_again = after_the_first_score(&log_of_picked);
    for (evidence, kept_of) in [
        (picked.clone(), Some(&run)),
        (fork(&picked, "replay", 0).await, Some(&run)),
        (fork(&picked, "branch", last_of_picked).await, Some(&run)),
        (fork(&picked, "branch", picked_again).await, Some(&picked)),
        (fork(&picked, "branch", 0).await, None),
        (fork(&run, "replay", 0).await, None),
        (fork(&run, "branch", 0).await, None),
        (fork(&run, "branch", end).await, None),
    ] {
        let ask = json!({"agentId": AGENT, "version": "1.0.0", "evalRunId": evidence});
        let check = host.post("/v1/host/touchstone/gates/check", &ask).await;
        let unmet = check.json()["unmet"].as_array().unwrap().clone();
        let path = format!("/v1/host/touchstone/runs/{evidence}/report");
        let report = host.get(&path).await.json();
        assert_eq!(report["lenientVerdict"], "pass");
        match kept_of {
            None => assert_eq!((unmet, report.get("partialRerun")), (Vec::new(), None)),
            Some(source) => {
                assert_eq!(unmet.len(), 1, "{unmet:?}");
                assert_eq!(unmet[0]["condition"], "whole-run");
                let message = unmet[0]["message"].as_str().unwrap();
                let kept = format!("reused 1 task judged in {source}");
                assert!(message.contains(&kept), "{message}");
                assert_eq!(
                    report["partialRerun"],
                    json!({"sourceRunId": source, "keptTasks": 1})
                );
            }
        }
    }

    for _ in 0..2 {
        moved(&host, json!({"version": "1.0.0", "transition": "promote"})).await;
    }
    let body = json!({"version": "1.0.0", "transition": "promote", "channel": "stable", "evalRunId": picked});
    let reply = host.post(&path(), &body).await;
    refused(&reply, StatusCode::FORBIDDEN, "eval_gate_unmet");
    let entry = audit(&host).await.pop().unwrap();
    let reason = entry["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("whole-run: "), "{reason}");
    let lenient = json!({"policy": {"eval": {"requireSignedSuite": false, "confidence": "lenient", "minTasks": 1, "allowPartialRerun": true}}});
    let set = host.post("/v1/host/touchstone/gates", &lenient).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    assert_eq!(moved(&host, body).await["state"], "active");
}

#[tokio::test]
async fn another_tenants_eval_and_agent_are_not_accepted() {
    let host = host().await;
    let run = eval(&host, "1.0.0").await;
    let foreign = |method: Method, path: String, body: Value| {
        let call = host.request(method, &path).key(&host.other_key);
        async move {
            match body {
                Value::Null => call.send().await,
                body => call.json(&body).send().await,
            }
        }
    };
    let before = list(&host).await;
    for reply in [
        foreign(Method::GET, path(), Value::Null).await,
        foreign(
            Method::POST,
            path(),
            json!({"version": "1.0.0", "transition": "promote"}),
        )
        .await,
    ] {
        refused(&reply, StatusCode::NOT_FOUND, "not_found");
    }
    assert_eq!(list(&host).await, before);
    let pack = json!({"tarball": base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD, crate::http::support::host::echo_pack())});
    foreign(Method::POST, "/v1/host/touchstone/packs".to_owned(), pack).await;
    let body = json!({"version": "1.0.0", "transition": "promote", "evalRunId": run});
    let reply = foreign(Method::POST, path(), body).await;
    refused(&reply, StatusCode::FORBIDDEN, "eval_gate_unmet");
    let theirs = foreign(
        Method::GET,
        "/v1/host/touchstone/audit".to_owned(),
        Value::Null,
    )
    .await;
    assert_eq!(
        theirs.json()["head"]["sequence"],
        2,
        "the log of each tenant is separate"
    );
}

#[rstest]
#[case(json!({"version": "9.9.9", "transition": "pause"}), StatusCode::NOT_FOUND, "not_found")]
#[case(json!({"version": "1.0.0", "transition": "pause"}), StatusCode::BAD_REQUEST, "validation_error")]
#[case(json!({"version": "1.0.0", "transition": "promote", "toState": "active"}), StatusCode::BAD_REQUEST, "validation_error")]
#[case(json!({"version": "1.0.0", "transition": "promote", "channel": "beta"}), StatusCode::BAD_REQUEST, "validation_error")]
#[case(json!({"version": "1.0.0", "transition": "promote", "extra": 1}), StatusCode::BAD_REQUEST, "validation_error")]
#[case(json!([]), StatusCode::BAD_REQUEST, "validation_error")]
#[tokio::test]
async fn invalid_transition_requests_leave_no_trace(
    #[case] body: Value,
    #[case] status: StatusCode,
    #[case] code: &str,
) {
    let host = host().await;
    let (before, entries) = (list(&host).await, audit(&host).await);
    refused(&host.post(&path(), &body).await, status, code);
    assert_eq!(list(&host).await, before);
    assert_eq!(audit(&host).await, entries);
    let nobody = host
        .post("/v1/agents/absent.agents.x/deployments", &body)
        .await;
    assert!(nobody.status.is_client_error());
}

#[tokio::test]
async fn a_forbidden_caller_gets_no_validation_details() {
    let host = host().await;
    let (before, entries) = (list(&host).await, audit(&host).await);
    let without = |left_out: &[Scope]| -> Vec<Scope> {
        let all = Scope::ALL.iter().copied();
        all.filter(|scope| !left_out.contains(scope)).collect()
    };
    let none = [
        Scope::DeployPromote,
        Scope::DeployPause,
        Scope::DeployRollback,
    ];
    let none = host.key_with(&without(&none)).await;
    let no_rollback = host.key_with(&without(&[Scope::DeployRollback])).await;
    let cases = [
        (&none, json!([])),
        (&none, json!({})),
        (&none, json!({"version": "1.0.0", "transition": "launch"})),
        (&none, json!({"version": 3, "transition": "promote"})),
        (&none, json!({"version": "9.9.9", "transition": "pause"})),
        (&no_rollback, json!({"transition": "rollback", "extra": 1})),
        (
            &no_rollback,
            json!({"version": "9.9.9", "transition": "rollback"}),
        ),
    ];
    for (key, body) in &cases {
        for path in [path(), "/v1/agents/absent.agents.x/deployments".to_owned()] {
            let call = host.request(Method::POST, &path).key(key).json(body);
            let details = refused(&call.send().await, StatusCode::FORBIDDEN, "forbidden");
            assert!(details["scopeRequired"].is_string(), "{path} {body}");
        }
    }
    let call = host.request(Method::POST, &path()).key(&none);
    let reply = call.raw("application/json", "{").send().await;
    refused(&reply, StatusCode::FORBIDDEN, "forbidden");
    // A caller with another scope gets the specific error.
    let call = host.request(Method::POST, &path()).key(&no_rollback);
    let reply = call.json(&json!({"transition": "launch"})).send().await;
    refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    assert_eq!(list(&host).await, before);
    assert_eq!(audit(&host).await, entries);
}

#[tokio::test]
async fn an_idempotency_key_applies_a_transition_once() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    let body = json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 40});
    let send = || {
        let call = host.request(Method::POST, &path());
        call.header("idempotency-key", "k1").json(&body).send()
    };
    let first = send().await;
    assert_eq!(first.status, StatusCode::OK, "{first:?}");
    let back = json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 100});
    moved(&host, back).await;
    let again = send().await;
    assert_eq!(again.json(), first.json());
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
    assert_eq!(list(&host).await[0]["canaryPercent"], 100);
}

#[tokio::test]
async fn of_concurrent_transitions_one_wins() {
    let host = host().await;
    let bodies = ["1.0.0", "1.1.0", "1.2.0"].repeat(4);
    let asked = bodies.iter().map(|version| {
        let body = json!({"version": version, "transition": "promote", "toState": "test"});
        let host = &host;
        async move { host.post(&path(), &body).await.status }
    });
    let statuses = futures_util::future::join_all(asked).await;
    let granted = statuses.iter().filter(|status| **status == StatusCode::OK);
    assert_eq!(granted.count(), 3, "{statuses:?}");
    let refused = |status: &&StatusCode| **status == StatusCode::BAD_REQUEST;
    assert_eq!(statuses.iter().filter(refused).count(), 9, "{statuses:?}");
    let states: Vec<Value> = list(&host)
        .await
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["state"].clone())
        .collect();
    assert_eq!(states, ["test"; 3]);
    assert_eq!(audit(&host).await.len(), 4);
}

#[tokio::test]
async fn gates_are_set_asked_and_removed() {
    let host = host().await;
    let gates = "/v1/host/touchstone/gates";
    let run = eval(&host, "1.0.0").await;
    let ask = json!({"agentId": AGENT, "version": "1.0.0", "channel": "stable"});
    let check = async |ask: &Value| {
        let reply = host.post("/v1/host/touchstone/gates/check", ask).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        reply.json()
    };
    let found = check(&ask).await;
    assert_eq!(found["allowed"], true, "{found}");
    assert_eq!(found["evalRunId"], run.as_str(), "the newest eval");
    let stricter = json!({"agentId": AGENT, "channel": "stable",
        "policy": {"eval": {"minTasks": 20, "suiteId": "vendor.acme.evals.other"}}});
    let set = host.post(gates, &stricter).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    let found = check(&ask).await;
    let names: Vec<&Value> = found["unmet"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unmet| &unmet["condition"])
        .collect();
    assert_eq!(names, ["suite", "signed-suite", "confidence", "min-tasks"]);
    assert_eq!(
        found["setFor"],
        json!({"agentId": AGENT, "channel": "stable"})
    );
    let other = json!({"agentId": AGENT, "version": "1.0.0", "channel": "canary"});
    assert_eq!(check(&other).await["allowed"], true, "another channel");
    let none = json!({"agentId": AGENT, "version": "1.1.0", "channel": "canary"});
    assert_eq!(check(&none).await["unmet"][0]["condition"], "eval-run");

    let shown = host.get(gates).await.json();
    assert_eq!(shown["policies"].as_array().unwrap().len(), 2);
    assert_eq!(shown["default"]["eval"]["requireSignedSuite"], true);
    let of_it = format!("{gates}?agentId={AGENT}&channel=stable");
    let removed = host.request(Method::DELETE, &of_it).send().await;
    assert_eq!(removed.status, StatusCode::OK, "{removed:?}");
    let again = host.request(Method::DELETE, &of_it).send().await;
    refused(&again, StatusCode::NOT_FOUND, "not_found");
    assert_eq!(check(&ask).await["allowed"], true);
    let actions: Vec<Value> = audit(&host)
        .await
        .iter()
        .map(|entry| entry["action"].clone())
        .collect();
    assert_eq!(actions, ["gates:set", "gates:set", "gates:remove"]);
}

#[rstest]
#[case(json!({}), "policy")]
#[case(json!({"policy": {"eval": {"requiredPassScore": 2}}}), "policy")]
#[case(json!({"policy": {"eval": {"requiredPassScore": "high"}}}), "policy.eval.requiredPassScore")]
#[case(json!({"policy": {"eval": {"minimumTasks": 2}}}), "policy.eval.minimumTasks")]
#[case(json!({"policy": {"approval": {"override": {"audited": true, "requiredRole": 5}}}}), "policy.approval.override.requiredRole")]
#[case(json!({"policy": [null, null]}), "policy")]
#[case(json!({"policy": {"eval": [true]}}), "policy.eval")]
#[case(json!({"policy": {"approval": {"requiredRole": "owner", "override": ["owner"]}}}), "policy.approval.override")]
#[case(json!({"policy": {"evals": null}}), "policy.evals")]
#[case(json!({"policy": {"rating": 5}}), "policy.rating")]
#[case(json!({"policy": {"rating": ["Expert"]}}), "policy.rating")]
#[case(json!({"policy": {"rating": {"tier": "Expert"}}}), "policy.rating.tier")]
#[case(json!({"policy": {"rating": {"evidenceSources": ["host", 1]}}}), "policy.rating.evidenceSources[1]")]
#[case(json!({"policy": {"rating": {"minimumEvidencePercent": 50}}}), "policy")]
#[case(json!({"policy": {"agentCard": {"minimumTrust": 50}}}), "policy.agentCard.url")]
#[case(json!({"policy": {"oasis": {"profile": "p", "minimumTier": 4}}}), "policy")]
#[case(json!([null, "stable", {}]), "")]
#[case(json!({"policy": {}, "agentId": 5}), "agentId")]
#[case(json!({"policy": {}, "channel": "beta"}), "channel")]
#[case(json!({"policy": {}, "channel": "latest"}), "channel")]
#[case(json!({"policy": {}, "agentId": ""}), "agentId")]
#[tokio::test]
async fn invalid_gate_policies_are_rejected_by_field(#[case] body: Value, #[case] field: &str) {
    let host = TestHost::idle().await;
    let reply = host.post("/v1/host/touchstone/gates", &body).await;
    let details = refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    assert_eq!(details["field"], field, "{reply:?}");
    assert_eq!(audit(&host).await.len(), 0);
}

/// Values are completed; members and conditions keep their order in the text.
#[tokio::test]
async fn conditions_are_shown_whole_and_in_their_order() {
    let host = TestHost::idle().await;
    host.install("1.0.0").await;
    let gates = "/v1/host/touchstone/gates";
    let policy = json!({"eval": null, "approval": null, "agentCard": null,
        "oasis": {"profile": "p", "minimumTier": 2}, "rating": {"maxAgeDays": 9}});
    let set = host.post(gates, &json!({"policy": policy})).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    let ask = json!({"agentId": AGENT, "version": "1.0.0"});
    let checked = host.post(&format!("{gates}/check"), &ask).await;
    assert_eq!(checked.status, StatusCode::OK, "{checked:?}");
    let expected = r#""policy":{"eval":null,"rating":{"minimumPerformanceTier":null,"minimumCapabilityTier":null,"validBadge":true,"maxAgeDays":9,"evidenceSources":null,"minimumEvidencePercent":null},"oasis":{"profile":"p","minimumTier":2,"requireSignedSuite":true,"requireComplete":true,"allowVacuous":false,"allowRaisedTolerances":false,"allowSubstitute":false}}"#;
    assert!(checked.text().contains(expected), "{checked:?}");
    let unmet = checked.json()["unmet"].clone();
    let kinds: Vec<&str> = unmet
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["rating", "oasis"]);
    let shown = host.get(gates).await.json();
    assert_eq!(shown["policies"][0]["policy"], set.json()["policy"]);
    assert_eq!(shown["policies"][0]["policy"]["rating"]["validBadge"], true);
}

#[tokio::test]
async fn trials_are_judged_together() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let start = async |index: u32, of: u32| {
        let mut body = create_body();
        body["configurable"] =
            json!({"trial": {"experimentId": "exp-1", "index": index, "of": of}});
        let created = host.post("/v1/runs", &body).await;
        assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
        let run = RunId::from(created.json()["runId"].as_str().unwrap());
        host.ended(&run).await;
        run
    };
    let first = start(1, 2).await;
    let path = format!("/v1/host/touchstone/runs/{first}/statistics");
    let alone = host.get(&path).await.json();
    assert_eq!(alone["gate"]["reasons"][0], "1 of 2 trials are available");
    let second = start(2, 2).await;
    // A second run with the same number: the first one counts.
    let again = start(2, 2).await;
    let both = host.get(&path).await.json();
    assert_eq!(both["run_ids"], json!([first, second]));
    assert_eq!(both["trials_per_task"], json!({"min": 2, "max": 2}));
    assert_eq!(both["pass_hat_k"], json!({"1": 1.0, "2": 1.0}));
    let other = host
        .get(&format!("/v1/host/touchstone/runs/{again}/statistics"))
        .await;
    assert_eq!(other.json()["gate"]["verdict"], "inconclusive");
    let report = host
        .get(&format!("/v1/host/touchstone/runs/{first}/report"))
        .await;
    assert_eq!(report.json()["trial"]["experimentId"], "exp-1");
}

#[rstest]
#[case(json!({"experimentId": "exp 1", "index": 1, "of": 2}), "configurable.trial.experimentId")]
#[case(json!({"experimentId": "e", "index": 3, "of": 2}), "configurable.trial.index")]
#[case(json!({"experimentId": "e", "index": 1, "of": 101}), "configurable.trial.of")]
#[case(json!({"experimentId": "e", "index": 1}), "configurable.trial.of")]
#[case(json!({"experimentId": "e", "index": 1, "of": 2, "seed": 4}), "configurable.trial.seed")]
#[case(json!([1, 2]), "configurable.trial")]
#[tokio::test]
async fn invalid_trials_are_rejected_by_field(#[case] trial: Value, #[case] field: &str) {
    let host = TestHost::idle().await;
    let mut body = create_body();
    body["configurable"] = json!({"trial": trial});
    let reply = host.post("/v1/runs", &body).await;
    let details = refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    assert_eq!(details["field"], field, "{reply:?}");
}

#[tokio::test]
async fn statistics_are_available_only_for_ended_eval_runs() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let path = format!("/v1/host/touchstone/runs/{run}/statistics");
    refused(&host.get(&path).await, StatusCode::CONFLICT, "conflict");
    host.work();
    host.ended(&run).await;
    let found = host.get(&path).await.json();
    assert_eq!(found["n_tasks"], 1);
    let absent = host
        .get("/v1/host/touchstone/runs/run_absent/statistics")
        .await;
    refused(&absent, StatusCode::NOT_FOUND, "not_found");
}

#[tokio::test]
async fn the_chain_is_verified_in_parts() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    for (query, from, to) in [
        ("?fromSeq=2&toSeq=3", 2, 3),
        ("?fromSeq=8", 8, 8),
        ("?toSeq=100", 0, 8),
        ("?fromSeq=3&toSeq=100", 3, 8),
    ] {
        let found = host.get(&format!("/v1/audit/verify{query}")).await.json();
        assert_eq!(
            found,
            json!({"fromSeq": from, "toSeq": to, "chainValid": true, "checkpoints": [], "anomalies": []}),
            "{query}"
        );
    }
    let backwards = host.get("/v1/audit/verify?fromSeq=3&toSeq=2").await;
    refused(&backwards, StatusCode::BAD_REQUEST, "validation_error");
    // A range of entries that do not exist cannot be verified.
    for query in ["?fromSeq=9", "?fromSeq=50&toSeq=60"] {
        let beyond = host.get(&format!("/v1/audit/verify{query}")).await;
        let details = refused(&beyond, StatusCode::BAD_REQUEST, "validation_error");
        assert_eq!(details["field"], "fromSeq");
    }
    let nothing = TestHost::idle().await;
    let found = nothing.get("/v1/audit/verify?fromSeq=1").await.json();
    assert_eq!(
        (&found["fromSeq"], &found["toSeq"], &found["chainValid"]),
        (&json!(1), &json!(0), &json!(true))
    );
}

/// Read as the upstream scenarios `audit-log-integrity` and `audit-checkpoint-signature` do.
#[tokio::test]
async fn a_checkpoint_verifies_with_the_key_in_discovery() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    assert_eq!(host.sign_audit().await, 1);
    let discovery = host.get("/.well-known/openwop").await.json();
    let key = &discovery["auth"]["auditLogIntegrity"]["checkpointPublicKey"];
    let key = PublicKey::from_text(key.as_str().unwrap()).unwrap();
    let reply = host.get("/v1/audit/verify?fromSeq=0&toSeq=1000000").await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let found = reply.json();
    assert_eq!(
        (&found["chainValid"], &found["checkpointsValid"]),
        (&json!(true), &json!(true))
    );
    let [checkpoint] = found["checkpoints"].as_array().unwrap().as_slice() else {
        panic!("{found}");
    };
    assert_eq!(checkpoint["atSequence"], 8);
    let root = checkpoint["merkleRoot"].as_str().unwrap();
    let root: Vec<u8> = (0..32)
        .map(|n| u8::from_str_radix(&root[2 * n..2 * n + 2], 16).unwrap())
        .collect();
    let signature = STANDARD.decode(checkpoint["signature"].as_str().unwrap());
    assert!(key.verifies(&root, &signature.unwrap()));
    let entries = host.get("/v1/host/touchstone/audit").await.json();
    assert_eq!(entries["entries"][0]["entry"]["prevHash"], Value::Null);
}

#[rstest]
#[tokio::test]
async fn a_version_reinstalled_with_another_pack_is_a_draft(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = TestHost::over(database.open().await, HttpSettings::default()).await;
    host.equip(&says(&["a"])).await;
    let again = async |description: &str| {
        let installed = "/v1/host/touchstone/packs/community.bench.echo/1.0.0";
        let removed = host.request(Method::DELETE, installed).send().await;
        assert_eq!(removed.status, StatusCode::OK, "{removed:?}");
        host.install_pack(&echo_pack_that("1.0.0", description))
            .await;
    };
    let state = async || list(&host).await[0]["state"].clone();
    for expected in ["test", "staged"] {
        let body = json!({"version": "1.0.0", "transition": "promote"});
        assert_eq!(moved(&host, body).await["state"], expected);
    }
    again("Says it back.").await;
    assert_eq!(state().await, "staged", "the same content keeps its stage");
    again("Says something else.").await;
    assert_eq!(state().await, "draft");
    let body = json!({"version": "1.0.0", "transition": "promote", "toState": "active"});
    let reply = host.post(&path(), &body).await;
    refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    let body = json!({"version": "1.0.0", "transition": "promote"});
    assert_eq!(moved(&host, body).await["state"], "test");
    again("Says it back.").await;
    assert_eq!(state().await, "draft", "that is forgotten");
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_promotion_and_a_removal_at_once_one_is_refused(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = TestHost::over(database.open().await, HttpSettings::default()).await;
    let policy = json!({"policy": {"eval": null}});
    let set = host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    host.install("0.1.0").await;
    let path = path();
    for n in 0..12 {
        let version = format!("1.0.{n}");
        host.install(&version).await;
        let mut body = json!({"version": version, "transition": "promote"});
        for _ in 0..2 {
            moved(&host, body.clone()).await;
        }
        body["channel"] = json!("stable");
        let pack = format!("/v1/host/touchstone/packs/community.bench.echo/{version}");
        let removal = host.request(Method::DELETE, &pack);
        let (promoted, removed) = tokio::join!(host.post(&path, &body), removal.send());
        let (promoted, removed) = (promoted.status, removed.status);
        assert_ne!(
            promoted == StatusCode::OK,
            removed == StatusCode::OK,
            "{version}: {promoted}, {removed}"
        );
        let installed = host.get("/v1/host/touchstone/packs").await;
        assert_eq!(
            installed.text().contains(&format!("\"{version}\"")),
            promoted == StatusCode::OK,
            "{version}"
        );
    }
}

#[tokio::test]
async fn a_run_on_a_channel_is_pinned_to_what_it_found_there_once() {
    let host = host().await;
    let on = |channel: &str| {
        let mut body = create_body();
        body["configurable"] = json!({"agentChannel": channel});
        body
    };
    for channel in ["stable", "latest", "beta"] {
        let reply = host.post("/v1/runs", &on(channel)).await;
        refused(&reply, StatusCode::BAD_REQUEST, "no_active_deployment");
    }
    let mut both = on("stable");
    both["configurable"]["agentVersion"] = json!("1.0.0");
    let reply = host.post("/v1/runs", &both).await;
    let details = refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    assert_eq!(details["field"], "configurable.agentChannel");

    into_service(&host, "1.0.0", json!({})).await;
    let started = async |channel: &str| {
        let created = host.post("/v1/runs", &on(channel)).await;
        assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
        let run = RunId::from(created.json()["runId"].as_str().unwrap());
        let events = host.ended(&run).await;
        let of_agent: Vec<Value> = events
            .iter()
            .filter(|event| event["type"] == "agent.invocation.started")
            .map(|event| event["payload"].clone())
            .collect();
        assert_eq!(of_agent.len(), 2, "both tasks");
        for payload in &of_agent {
            assert_eq!(payload["resolvedChannel"], channel);
            assert_eq!(
                payload["resolvedAgentVersion"], of_agent[0]["resolvedAgentVersion"],
                "one draw per run"
            );
        }
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        assert_eq!(
            snapshot["agent"]["version"],
            of_agent[0]["resolvedAgentVersion"]
        );
        of_agent[0]["resolvedAgentVersion"].clone()
    };
    assert_eq!(started("stable").await, "1.0.0");
    into_service(&host, "1.1.0", json!({"canaryPercent": 0})).await;
    assert_eq!(started("stable").await, "1.0.0", "a canary of none");
    assert_eq!(started("latest").await, "1.1.0");
    moved(
        &host,
        json!({"version": "1.1.0", "transition": "adjust-canary", "canaryPercent": 100}),
    )
    .await;
    assert_eq!(started("stable").await, "1.1.0");
    let plain = eval(&host, "1.0.0").await;
    let events = host.ended(&RunId::from(plain.as_str())).await;
    assert!(
        events
            .iter()
            .all(|event| event["payload"].get("resolvedChannel").is_none())
    );
}

#[tokio::test]
async fn a_pack_in_service_stays_installed() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    let path = |version: &str| format!("/v1/host/touchstone/packs/community.bench.echo/{version}");
    let kept = host.request(Method::DELETE, &path("1.0.0")).send().await;
    refused(&kept, StatusCode::CONFLICT, "conflict");
    let unused = host.request(Method::DELETE, &path("1.2.0")).send().await;
    assert_eq!(unused.status, StatusCode::OK, "{unused:?}");
    moved(
        &host,
        json!({"version": "1.0.0", "transition": "deprecate"}),
    )
    .await;
    let gone = host.request(Method::DELETE, &path("1.0.0")).send().await;
    assert_eq!(gone.status, StatusCode::OK, "{gone:?}");
}

/// `stable` requires evidence and `canary` does not: a rollback must not move a version from
/// `canary` to `stable`.
#[tokio::test]
async fn a_rollback_does_not_move_a_version_to_a_channel_with_another_gate() {
    let host = host().await;
    let open = json!({"channel": "canary", "policy": {"eval": null}});
    let set = host.post("/v1/host/touchstone/gates", &open).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    into_service(&host, "1.0.0", json!({})).await;
    let gone = json!({"version": "1.0.0", "transition": "deprecate"});
    moved(&host, gone).await;
    for to in [json!({}), json!({}), json!({"channel": "canary"})] {
        let mut body = json!({"version": "1.1.0", "transition": "promote"});
        if let Some(channel) = to.get("channel") {
            body["channel"] = channel.clone();
        }
        moved(&host, body).await;
    }
    into_service(&host, "1.2.0", json!({})).await;
    let before = list(&host).await;
    let back = json!({"version": "1.2.0", "transition": "rollback"});
    let reply = host.post(&path(), &back).await;
    let details = refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    assert_eq!(details["field"], "transition");
    assert!(reply.text().contains("on channel stable"), "{reply:?}");
    assert_eq!(list(&host).await, before);
    // The emergency exit stays open.
    moved(&host, json!({"version": "1.2.0", "transition": "pause"})).await;
}

#[rstest]
#[case::pause("pause")]
#[case::deprecate("deprecate")]
#[tokio::test]
async fn removing_a_version_does_not_raise_another_versions_share(#[case] transition: &str) {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    into_service(&host, "1.1.0", json!({"canaryPercent": 5})).await;
    let before = list(&host).await;
    let away = json!({"version": "1.0.0", "transition": transition});
    let reply = host.post(&path(), &away).await;
    let details = refused(&reply, StatusCode::BAD_REQUEST, "validation_error");
    assert_eq!(
        details["raises"],
        json!({"version": "1.1.0", "channel": "stable", "canaryPercent": 100, "givenPercent": 5})
    );
    assert_eq!(list(&host).await, before);
    moved(&host, json!({"version": "1.1.0", "transition": "pause"})).await;
    moved(&host, away).await;
    let states: Vec<Value> = list(&host).await.as_array().unwrap()[..2]
        .iter()
        .map(|record| record["state"].clone())
        .collect();
    assert_eq!(states[1], "paused");
    assert_ne!(states[0], "active");
}

#[tokio::test]
async fn retries_and_forks_keep_the_version_a_channel_had() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({})).await;
    let mut body = create_body();
    body["configurable"] = json!({"agentChannel": "stable"});
    let created = host.post("/v1/runs", &body).await.json();
    let run = RunId::from(created["runId"].as_str().unwrap());
    let log = host.ended(&run).await;
    let draw = |run: RunId| {
        let store = host.store.clone();
        async move {
            let record = run_store::runs::find(&store, &"acme".into(), &run)
                .await
                .unwrap()
                .unwrap();
            record.spec.eval().unwrap().agent_channel.clone().unwrap()
        }
    };
    let pinned = draw(run.clone()).await;
    assert_eq!(pinned.channel.as_str(), "stable");
    assert!(pinned.draw < 100);
    // The channel moves to another version; existing assignments stay.
    into_service(&host, "1.1.0", json!({"canaryPercent": 100})).await;
    let scored = log
        .iter()
        .find(|event| event["type"] == "eval.scored")
        .unwrap();
    let from = scored["sequence"].as_u64().unwrap() + 1;
    for fork in [
        json!({"mode": "replay", "fromSeq": 0}),
        json!({"mode": "branch", "fromSeq": from}),
        json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"tags": ["other"]}}),
    ] {
        let forked = host.post(&format!("/v1/runs/{run}:fork"), &fork).await;
        assert_eq!(forked.status, StatusCode::CREATED, "{forked:?}");
        let forked = RunId::from(forked.json()["runId"].as_str().unwrap());
        let events = host.ended(&forked).await;
        let invoked: Vec<&Value> = events
            .iter()
            .filter(|event| event["type"] == "agent.invocation.started")
            .map(|event| &event["payload"])
            .collect();
        assert!(!invoked.is_empty());
        for payload in invoked {
            assert_eq!(payload["resolvedAgentVersion"], "1.0.0");
            assert_eq!(payload["resolvedChannel"], "stable");
        }
        assert_eq!(draw(forked).await, pinned);
    }
    let now = host.post("/v1/runs", &body).await.json();
    let now = RunId::from(now["runId"].as_str().unwrap());
    host.ended(&now).await;
    let record = run_store::runs::find(&host.store, &"acme".into(), &now)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.spec.eval().unwrap().agent_version, "1.1.0");
}

#[tokio::test]
async fn a_version_that_comes_back_meets_the_gates_of_all_its_channels() {
    let host = host().await;
    into_service(&host, "1.0.0", json!({"channel": "canary"})).await;
    moved(&host, json!({"version": "1.0.0", "transition": "pause"})).await;
    let strict = json!({"channel": "canary", "policy": {"eval": {"requireSignedSuite": false, "confidence": "lenient", "minTasks": 500}}});
    let set = host.post("/v1/host/touchstone/gates", &strict).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    // It would be on `canary` again, whichever channel is also named.
    let back = json!({"version": "1.0.0", "transition": "promote", "channel": "stable"});
    let details = refused(
        &host.post(&path(), &back).await,
        StatusCode::FORBIDDEN,
        "eval_gate_unmet",
    );
    assert_eq!(details["unmet"][0]["condition"], "min-tasks");
}
