//! Stress tests: run once against the agent; tests that cannot run are reported.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::ports::model::{Model, ModelError, ModelInfo};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::{Message, ModelReply, ModelRequest, RetryPolicy, ToolCall};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_packs::store as pack_store;
use touchstone_ratings::rules::badge::host_url::HostUrl;

use crate::http::support::clerk::{self, CLERK, TOOLS};
use crate::http::support::host::{Lab, Reply, TestHost, UNLIMITED, agent_pack};
use crate::ratings::api::evidence::profiles::copied;
use crate::ratings::api::{Engine, Organization, Site, refusal, site};

/// The organization of the tenant in which the clerk is installed.
async fn face(site: &Site) -> Organization {
    let face =
        crate::ratings::api::found(&site.host, &json!({"name": "Face", "tenant": "acme"})).await;
    site.host
        .install_pack(&agent_pack("community.bench.clerk", &TOOLS))
        .await;
    face
}

async fn send(site: &Site, face: &Organization, path: &str, body: &Value) -> Reply {
    site.send_as(face, Method::POST, path, Some(body)).await
}

async fn get(site: &Site, face: &Organization, path: &str) -> Value {
    site.send_as(face, Method::GET, path, None).await.json()
}

async fn enrol(site: &Site, face: &Organization, body: &Value) -> String {
    let enrolled = send(site, face, "agents", body).await;
    assert_eq!(enrolled.status, StatusCode::CREATED, "{enrolled:?}");
    enrolled.json()["id"].as_str().unwrap().to_owned()
}

fn clerk() -> Value {
    json!({"name": "clerk", "openwop_agent": CLERK, "domains": ["legal", "code"], "tools": TOOLS})
}

async fn ended(site: &Site, face: &Organization, asked: &Reply) -> Value {
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{asked:?}");
    let path = format!("assessments/{}", asked.json()["id"].as_str().unwrap());
    loop {
        let now = get(site, face, &path).await;
        if now["completed_at"].is_string() {
            return now;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[rstest]
#[tokio::test]
async fn an_agent_is_rated_by_its_stress_test_alone(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    site.host.work();
    // Two replicas: neither creates a run that the other one has created.
    site.host.assess();
    site.host.assess();
    let order = json!({"agent_id": agent, "type": "stress_test_only"});
    let found = ended(
        &site,
        &face,
        &send(&site, &face, "assessments", &order).await,
    )
    .await;
    assert_eq!(
        (&found["status"], &found["error"]),
        (&json!("completed"), &json!(null)),
        "{found}"
    );
    assert_eq!(found["include_stress_test"], true);
    let stress = &found["stress_test"];
    assert_eq!(stress["openwop_agent"], format!("{CLERK}@1.0.0"));
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap();
        list.iter()
            .map(|it| it["test"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&stress["tests"]),
        [
            "domain-breadth",
            "complexity-ladder",
            "tool-challenge",
            "autonomy-ladder",
            "delegation-mixed",
            "orchestration",
            "learning-series"
        ]
    );
    assert_eq!(stress["left_out"], json!([]));
    let dimensions = &found["result"]["capability"]["dimensions"];
    for (dimension, score) in [
        ("domain_breadth", json!(1.0)),
        ("complexity_ceiling", json!(0.8)),
        ("tool_proficiency", json!(1.0)),
        ("autonomy_level", json!(1.0)),
        ("learning_rate", json!(1.0)),
        ("delegation_capability", json!(1.0)),
        ("orchestration_skills", json!(1.0)),
    ] {
        assert_eq!(
            dimensions[dimension]["score"], score,
            "{dimension}: {found}"
        );
    }
    assert_eq!(found["result"]["tasks_performance"], 61);

    let path = format!("assessments/{}/stress-test", found["id"].as_str().unwrap());
    let results = get(&site, &face, &path).await;
    let results = results["data"].as_array().unwrap();
    let count = |outcome: &str| results.iter().filter(|it| it["outcome"] == outcome).count();
    assert_eq!(
        (results.len(), count("pass"), count("fail")),
        (61, 55, 6),
        "{results:?}"
    );
    // Another one, through the specification's path.
    let again = send(&site, &face, &path, &json!({"dimension": "autonomy_level"})).await;
    let again = ended(&site, &face, &again).await;
    assert_eq!(
        (&again["agent_id"], &again["dimension"], &again["status"]),
        (&json!(agent), &json!("autonomy_level"), &json!("completed"))
    );

    // It counts for this assessment only.
    let collected = send(&site, &face, "events/collect", &json!({"agent_id": agent})).await;
    assert_eq!(
        collected.json(),
        json!({"runs": 0, "events": 0, "more": false, "skipped": []})
    );
    let passive = json!({"agent_id": agent, "type": "passive_only"});
    let refused = send(&site, &face, "assessments", &passive).await;
    assert_eq!(refusal(&refused).1, "INSUFFICIENT_EVIDENCE");
    // A second request starts a new run.
    let one = format!("agents/{agent}/stress-test");
    let again = send(&site, &face, &one, &json!({"dimension": "autonomy_level"})).await;
    let again = ended(&site, &face, &again).await;
    assert_eq!(again["type"], "single_dimension");
    assert_eq!(again["result"]["result"]["score"], 1.0, "{again}");
    assert_eq!(names(&again["stress_test"]["tests"]), ["autonomy-ladder"]);
    assert_ne!(
        again["stress_test"]["tests"][0]["run_id"],
        stress["tests"][3]["run_id"]
    );
    // From an earlier assessment: the same agent and window, and passive evidence counts too.
    let asked = send(&site, &face, &path, &json!({})).await;
    let merged = ended(&site, &face, &asked).await;
    assert_eq!(
        (&merged["type"], &merged["status"]),
        (&json!("full"), &json!("completed")),
        "{merged}"
    );
    for member in ["agent_id", "window_start", "window_end"] {
        assert_eq!(merged[member], found[member], "{member}");
    }
    let nowhere = "assessments/00000000-0000-4000-8000-000000000000/stress-test";
    let refused = send(&site, &face, nowhere, &json!({})).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
}

#[rstest]
#[tokio::test]
async fn a_stress_test_started_by_one_replica_is_finished_by_another(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    let first = site.host.assess();
    let path = format!("agents/{agent}/stress-test");
    let asked = send(&site, &face, &path, &json!({})).await;
    let tests = asked.json()["stress_test"]["tests"].clone();
    let runs: Vec<&str> = tests
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["run_id"].as_str().unwrap())
        .collect();
    // No worker executes the runs, so the stress test waits; then its replica disappears.
    for run in &runs {
        let path = format!("/v1/runs/{run}");
        while site.host.get(&path).await.status == StatusCode::NOT_FOUND {
            crate::support::pause().await;
        }
    }
    first.cancel();
    site.host.work();
    site.host.assess();
    let found = ended(&site, &face, &asked).await;
    assert_eq!(found["status"], "completed", "{found}");
    let path = format!("assessments/{}/stress-test", found["id"].as_str().unwrap());
    let results = get(&site, &face, &path).await;
    let results = results["data"].as_array().unwrap();
    let made_by: std::collections::BTreeSet<&str> = results
        .iter()
        .map(|it| it["run_id"].as_str().unwrap())
        .collect();
    assert_eq!((results.len(), made_by), (61, runs.into_iter().collect()));
}

#[rstest]
#[tokio::test]
async fn a_cancelled_run_is_not_a_stress_test(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    site.host.assess();
    let asked = send(
        &site,
        &face,
        &format!("agents/{agent}/stress-test"),
        &json!({}),
    )
    .await;
    let run = asked.json()["stress_test"]["tests"][1]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let cancelled = loop {
        let cancel = format!("/v1/runs/{run}/cancel");
        let cancelled = site.host.post(&cancel, &json!({"reason": "no time"})).await;
        if cancelled.status != StatusCode::NOT_FOUND {
            break cancelled;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(cancelled.status.is_success(), "{cancelled:?}");
    site.host.work();
    let found = ended(&site, &face, &asked).await;
    assert_eq!(found["status"], "failed");
    let message = found["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("complexity-ladder was cancelled"),
        "{message}"
    );
    // The agent may be assessed again.
    let again = send(
        &site,
        &face,
        &format!("agents/{agent}/stress-test"),
        &json!({}),
    )
    .await;
    assert_eq!(ended(&site, &face, &again).await["status"], "completed");
}

#[tokio::test]
async fn a_stress_test_of_an_agent_that_cannot_run_is_refused_with_a_reason() {
    site!(Engine::Sqlite => site);
    let face = face(&site).await;
    let bare = enrol(&site, &face, &json!({"name": "bare"})).await;
    let absent = json!({"name": "absent", "openwop_agent": "community.bench.nobody.default"});
    let absent = enrol(&site, &face, &absent).await;
    let clerk = enrol(&site, &face, &clerk()).await;
    for (agent, body, field) in [
        (&bare, json!({}), "include_stress_test"),
        (&absent, json!({}), "include_stress_test"),
        (&clerk, json!({"dimension": "speed"}), "dimension"),
        (&clerk, json!({"dimension": "charm"}), "dimension"),
        (&clerk, json!({"type": "full"}), "type"),
    ] {
        let refused = send(&site, &face, &format!("agents/{agent}/stress-test"), &body).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned()),
            "{body}"
        );
        assert_eq!(
            refused.json()["error"]["details"]["field"],
            field,
            "{refused:?}"
        );
    }
    assert_eq!(get(&site, &face, "assessments").await["data"], json!([]));
}

#[rstest]
#[tokio::test]
async fn a_suite_that_replaces_the_librarys_is_not_a_stress_test(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(true, false)] replaced: bool,
) {
    site!(engine => site);
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    site.host.work();
    let assessing = site.host.assess();
    let one = format!("agents/{agent}/stress-test");
    let order = json!({"dimension": "autonomy_level"});
    let run_of = |asked: &Value| -> String {
        let run = &asked["stress_test"]["tests"][0]["run_id"];
        run.as_str().unwrap().to_owned()
    };
    let first = ended(&site, &face, &send(&site, &face, &one, &order).await).await;
    assert_eq!(first["status"], "completed", "{first}");
    assessing.cancel();
    let asked = send(&site, &face, &one, &order).await;
    let (of, run) = (run_of(&first).as_str().into(), run_of(&asked.json()));
    copied(&site, &of, &run, |eval| {
        if replaced {
            eval.suite_digest = "sha256-other".to_owned();
        }
    })
    .await;
    site.host.assess();
    let found = ended(&site, &face, &asked).await;
    if !replaced {
        assert_eq!(found["status"], "completed", "{found}");
        return;
    }
    assert_eq!(found["status"], "failed", "{found}");
    let message = found["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("differs from the library's suite"),
        "{message}"
    );
}

/// An organization's task whose answer is in its input.
fn own_task(value: &str) -> Value {
    json!({"dimension": "complexity_ceiling", "complexity_level": 5, "domain": "code",
        "task_definition": {"input": {"task": "Say what you know.", "own": value}},
        "expected_outcome": {"strategy": "contains", "value": value}})
}

#[rstest]
#[tokio::test]
async fn an_organizations_own_tasks_are_run_and_scored_like_the_librarys(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    let mut added = Vec::new();
    for value in ["OWN=1", "OWN=2"] {
        let made = send(&site, &face, "stress-tests", &own_task(value)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        added.push(made.json());
    }
    assert_eq!(
        get(&site, &face, "stress-tests").await["data"],
        json!(added)
    );
    let first = get(&site, &face, "stress-tests?limit=1").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = get(&site, &face, &format!("stress-tests?cursor={cursor}")).await;
    assert_eq!(rest["data"], json!([added[1]]));
    // Other organizations neither see nor remove it.
    assert_eq!(site.get("stress-tests").await.json()["data"], json!([]));
    let one = format!("stress-tests/{}", added[1]["id"].as_str().unwrap());
    let refused = site.send(Method::DELETE, &one, None).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);

    site.host.work();
    site.host.assess();
    let path = format!("agents/{agent}/stress-test");
    let order = json!({"dimension": "complexity"});
    let asked = send(&site, &face, &path, &order).await;
    // A task removed while the test runs is still part of that test.
    let removed = site.send_as(&face, Method::DELETE, &one, None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{removed:?}");
    let found = ended(&site, &face, &asked).await;
    assert_eq!(found["status"], "completed", "{found}");
    let names = |found: &Value| -> Vec<String> {
        let tests = found["stress_test"]["tests"].as_array().unwrap();
        let name = |it: &Value| it["test"].as_str().unwrap().to_owned();
        tests.iter().map(name).collect()
    };
    assert_eq!(
        names(&found),
        ["complexity-ladder", "own-complexity-ceiling"]
    );
    let path = format!("assessments/{}/stress-test", found["id"].as_str().unwrap());
    let results = get(&site, &face, &path).await;
    let own: Vec<(&Value, &Value)> = results["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["test"] == "own-complexity-ceiling")
        .map(|it| (&it["task"], &it["outcome"]))
        .collect();
    let mut expected: Vec<&Value> = added.iter().map(|it| &it["id"]).collect();
    expected.sort_by_key(|it| it.to_string());
    let tasks: Vec<&Value> = own.iter().map(|(task, _)| *task).collect();
    assert_eq!(tasks, expected, "{results}");
    assert!(
        own.iter().all(|(_, outcome)| **outcome == "pass"),
        "{results}"
    );
    assert_eq!(
        get(&site, &face, "stress-tests").await["data"],
        json!([added[0]])
    );

    let unsound =
        json!({"dimension": "speed", "task_definition": {"input": 1}, "expected_outcome": {}});
    let refused = send(&site, &face, "stress-tests", &unsound).await;
    assert_eq!(refused.json()["error"]["details"]["field"], "dimension");
}

#[rstest]
#[tokio::test]
async fn the_suite_of_own_tasks_is_for_the_runs_of_assessments_alone(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    let made = send(&site, &face, "stress-tests", &own_task("OWN=1")).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    site.host.work();
    site.host.assess();
    let path = format!("agents/{agent}/stress-test");
    let order = json!({"dimension": "complexity"});
    let found = ended(&site, &face, &send(&site, &face, &path, &order).await).await;
    assert_eq!(found["status"], "completed", "{found}");
    let tests = found["stress_test"]["tests"].as_array().unwrap();
    let own = tests
        .iter()
        .find(|it| it["test"] == "own-complexity-ceiling")
        .unwrap();
    let run = own["run_id"].as_str().unwrap();
    let report = format!("/v1/host/touchstone/runs/{run}/report");
    let before = site.host.get(&report).await.json();
    let suite = &before["suite"];
    let id = suite["suiteId"].as_str().unwrap();
    let version = suite["version"].as_str().unwrap();
    assert_eq!(id, "organization.aaaf.evals.own-complexity-ceiling");

    // A key that may read suites and create runs can neither list it nor run it by name.
    let listed = site.host.get("/v1/host/touchstone/suites").await.json();
    let listed = listed["suites"].as_array().unwrap();
    assert!(listed.iter().all(|it| it["suiteId"] != id), "{listed:?}");
    let one = format!("/v1/host/touchstone/suites/{id}/{version}");
    assert_eq!(site.host.get(&one).await.status, StatusCode::NOT_FOUND);
    let named =
        json!({"mode": "eval", "evalSuiteRef": format!("{id}@{version}"), "agentId": CLERK});
    let refused = site.host.post("/v1/runs", &named).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["details"]["field"], "evalSuiteRef");

    // Without the task, the suite exists only in recorded runs.
    let task = format!("stress-tests/{}", made.json()["id"].as_str().unwrap());
    let removed = site.send_as(&face, Method::DELETE, &task, None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{removed:?}");
    assert_eq!(site.host.get(&report).await.json(), before);
    let digest = suite["digest"].as_str().unwrap();
    assert!(
        pack_store::blobs::get(&site.host.store, digest)
            .await
            .unwrap()
            .is_some()
    );
}

#[rstest]
#[tokio::test]
async fn adding_and_removing_stress_tasks_is_audited_without_their_content(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let made = site.post("stress-tests", &own_task("OWN=1")).await.json();
    let id = made["id"].as_str().unwrap();
    let one = format!("stress-tests/{id}");
    // Removing a task that does not exist is not audited.
    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND] {
        let removed = site.send(Method::DELETE, &one, None).await;
        assert_eq!(removed.status, status, "{removed:?}");
    }
    let audit = site
        .host
        .store
        .audit_entries(&site.ours.id.as_str().into(), 0, 100)
        .await
        .unwrap();
    assert!(audit.iter().all(|it| !it.body.contains("OWN=1")));
    let entries = audit
        .iter()
        .map(|it| serde_json::from_str::<Value>(&it.body).unwrap());
    let said: Vec<(Value, Value)> = entries
        .filter(|it| it["resource"] == id)
        .map(|it| (it["action"].clone(), it["outcome"].clone()))
        .collect();
    assert_eq!(
        said,
        [
            (json!("stress-tests:add"), json!("done")),
            (json!("stress-tests:remove"), json!("done"))
        ]
    );
}

#[tokio::test]
async fn stress_tasks_are_bounded_alone_and_together() {
    site!(Engine::Sqlite => site);
    let sized = |bytes: usize| {
        let mut task = own_task("OWN=1");
        task["task_definition"]["input"] = json!("x".repeat(bytes));
        task
    };
    let too_long = site.post("stress-tests", &sized(64 << 10)).await;
    assert_eq!(too_long.status, StatusCode::BAD_REQUEST, "{too_long:?}");
    for _ in 0..4 {
        let made = site.post("stress-tests", &sized(60 << 10)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    }
    let refused = site.post("stress-tests", &sized(60 << 10)).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{refused:?}");
    let made = site.post("stress-tests", &own_task("OWN=1")).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
}

#[tokio::test]
async fn an_agent_neither_reads_nor_adds_stress_tasks() {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    let organization = site.ours.id.clone();
    let key = site
        .host
        .issue(|issue| {
            issue.tenant = organization.as_str().into();
            issue.principal = Some("triage".to_owned());
            issue.scopes = vec![Scope::ConfigRead, Scope::ConfigWrite];
        })
        .await;
    assert!(!agent.is_empty());
    let own = Organization {
        id: organization,
        key,
    };
    for (method, body) in [(Method::GET, None), (Method::POST, Some(own_task("OWN=1")))] {
        let refused = site
            .send_as(&own, method, "stress-tests", body.as_ref())
            .await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    }
}

#[tokio::test]
async fn orchestration_tests_score_delegation_and_recovery_from_worker_failures() {
    site!(Engine::Sqlite => site);
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    site.host.work();
    site.host.assess();
    let path = format!("agents/{agent}/stress-test");
    for (dimension, task, kinds) in [
        (
            "delegation",
            "request-02",
            vec![
                "agent.invocation.started",
                "provider.usage",
                "agent.handoff",
                "agent.invocation.started",
                "agent.invocation.completed",
                "provider.usage",
                "agent.decided",
                "agent.invocation.completed",
                "eval.scored",
            ],
        ),
        (
            "orchestration",
            "quarter-report",
            vec![
                "agent.invocation.started",
                "provider.usage",
                "runOrchestrator.decided",
                "agent.invocation.started",
                "agent.invocation.completed",
                "agent.invocation.started",
                "agent.invocation.completed",
                "provider.usage",
                "runOrchestrator.decided",
                "agent.invocation.started",
                "agent.invocation.completed",
                "provider.usage",
                "runOrchestrator.decided",
                "agent.invocation.started",
                "agent.invocation.completed",
                "provider.usage",
                "runOrchestrator.decided",
                "agent.invocation.started",
                "agent.invocation.completed",
                "provider.usage",
                "agent.decided",
                "agent.invocation.completed",
                "eval.scored",
            ],
        ),
    ] {
        let order = json!({"dimension": dimension});
        let found = ended(&site, &face, &send(&site, &face, &path, &order).await).await;
        assert_eq!(found["result"]["result"]["score"], 1.0, "{found}");
        let run = found["stress_test"]["tests"][0]["run_id"].as_str().unwrap();
        let log = site.host.ended(&run.into()).await;
        let of_task: Vec<&Value> = log.iter().filter(|it| it["nodeId"] == task).collect();
        let found: Vec<&str> = of_task
            .iter()
            .map(|it| it["type"].as_str().unwrap())
            .collect();
        assert_eq!(found, kinds);
        for event in of_task {
            crate::support::asyncapi::check_payload(
                event["type"].as_str().unwrap(),
                &event["payload"],
            );
        }
    }
    let events = format!("events?agent_id={agent}&type=orchestration_result");
    let events = get(&site, &face, &events).await;
    let injected: Vec<(u64, u64)> = events["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let of = |name: &str| it["data"][name].as_u64().unwrap();
            (of("failures_injected"), of("failures_recovered"))
        })
        .collect();
    assert_eq!(injected.len(), 3, "{events}");
    assert!(
        injected
            .iter()
            .all(|(made, mended)| made == mended && *made > 0)
    );
}

/// The clerk, but it makes every call twice, the second time with reordered arguments.
struct Twice(ModelInfo);

#[async_trait]
impl Model for Twice {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let made = request.messages.iter();
        let made = made.filter(|it| matches!(it, Message::Tool { .. })).count();
        let arguments = match made {
            0 => json!({"desk": 1, "file": 2}),
            1 => json!({"file": 2, "desk": 1}),
            _ => return Ok(clerk::answer(request).unwrap()),
        };
        let tool = request.task.unwrap().input["tool"].as_str().unwrap();
        Ok(ModelReply {
            tool_calls: vec![ToolCall {
                id: format!("call-{made}"),
                tool: tool.to_owned(),
                arguments: Ok(arguments),
            }],
            ..ModelReply::default()
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.0
    }
}

#[tokio::test]
async fn a_call_that_is_repeated_is_unnecessary() {
    let database = Engine::Sqlite.database().await.unwrap();
    let info = ModelInfo {
        provider: "bench".to_owned(),
        model: "twice-1".to_owned(),
        price: Some(ModelPrice::configured(1.0, 2.0)),
        max_concurrency: 8,
        timeout: Duration::from_secs(30),
        retry: RetryPolicy::default(),
    };
    let lab = Lab {
        agent: Some(Arc::new(Twice(info))),
        ..Lab::limited(UNLIMITED)
    };
    let place = HostUrl::public("https://assess.example.org").unwrap();
    let store = database.open().await;
    let host = TestHost::lab(store, HttpSettings::default(), place, lab).await;
    let site = Site::of(host, None).await;
    let face = face(&site).await;
    let agent = enrol(&site, &face, &clerk()).await;
    site.host.work();
    site.host.assess();
    let order = json!({"dimension": "tool_proficiency"});
    let path = format!("agents/{agent}/stress-test");
    let found = ended(&site, &face, &send(&site, &face, &path, &order).await).await;
    assert_eq!(found["status"], "completed", "{found}");
    let events = format!("events?agent_id={agent}&type=tool_invoked");
    let events = get(&site, &face, &events).await;
    let calls = events["data"].as_array().unwrap();
    let unnecessary = calls
        .iter()
        .filter(|it| it["data"]["unnecessary"] == true)
        .count();
    assert_eq!((calls.len(), unnecessary), (4, 2), "{events}");
}
