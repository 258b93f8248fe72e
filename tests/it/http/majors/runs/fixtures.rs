//! `fixtureRuns`: tool calls that an earlier run recorded answer the calls of a task.

use axum::http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_openwop::wire::Major;

use crate::http::majors::foreign_run;
use crate::http::majors::runs::calling::{ACT, Calling, LOOK, opaque, payloads};
use crate::http::support::host::{Reply, SUITE};
use crate::store::Engine;

const MAJORS: [Major; 2] = [Major::V1, Major::V2];

impl Calling {
    async fn create(&self, major: Major, body: &Value) -> Reply {
        match major {
            Major::V1 => self.create_v1(body).await,
            Major::V2 => self.create_v2(body).await,
        }
    }

    /// A golden run whose `task-0` is answered by an earlier run.
    fn with_fixtures(&self, run: &str) -> Value {
        let runs = json!({"fixtureRuns": {"task-0": format!("acme/{run}")}});
        self.body(&["golden"], runs)
    }

    async fn delete_content(&self, run: &str) {
        let sql = format!("UPDATE run SET content = 'none' WHERE run_id = '{run}'");
        self.database.execute(sql).await;
    }
}

fn returned(log: &[Value]) -> Vec<(Value, Value)> {
    let events = payloads(log, "agent.tool-returned").into_iter();
    events
        .map(|it| (it["status"].clone(), it["outcome"].clone()))
        .collect()
}

#[rstest]
#[tokio::test]
async fn recorded_calls_answer_by_their_arguments_and_no_tool_is_called(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(Major::V1, Major::V2)] major: Major,
) {
    let Some(calling) = Calling::on(engine).await else {
        return;
    };
    let one = (LOOK, json!({"n": 1, "m": [2]}));
    let (two, fails) = ((LOOK, json!({"n": 2})), (ACT, json!({"fails": true})));
    let recorded = [one.clone(), two.clone(), fails.clone(), one.clone()];
    calling.agent.plan("a", &recorded);
    let source = calling.recorded().await;
    assert_eq!(calling.tools.calls().len(), 4);

    let turned = (LOOK, json!({"m": [2], "n": 1}));
    calling.agent.plan("a", &[fails, one, turned, two]);
    let body = calling.with_fixtures(source.as_str());
    let created = calling.create(major, &body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text());
    let run = opaque(&created);
    let log = calling.log(&run).await;
    let expected = [
        (json!("error"), json!("no")),
        (json!("ok"), json!({"nth": 1})),
        (json!("ok"), json!({"nth": 4})),
        (json!("ok"), json!({"nth": 2})),
    ];
    assert_eq!(returned(&log), expected);
    assert_eq!(calling.tools.calls().len(), 4, "no tool was called");
    let scored = payloads(&log, "eval.scored");
    assert!(scored.len() == 2 && scored.iter().all(|it| it["passed"] == true));
    assert!(payloads(&log, "touchstone.fixture.missing").is_empty());

    // Both majors show the sources, each with its ids.
    let started = payloads(&log, "eval.started")[0];
    let bound = format!("acme/{source}");
    assert_eq!(started["fixtureRuns"], json!({"task-0": bound}));
    let path = format!("/v1/runs/{run}/events/poll?timeout=1");
    let page = calling.host.get(&path).await.json();
    let events = page["events"].as_array().unwrap();
    let started = payloads(events, "eval.started")[0];
    assert_eq!(started["fixtureRuns"], json!({"task-0": source}));
    let shown = calling.host.get(&format!("/v1/runs/{run}")).await.json();
    let configurable = &shown["configurable"];
    assert_eq!(configurable["fixtureRuns"], json!({"task-0": source}));
}

#[rstest]
#[case::once_more_than_recorded(&[(LOOK, json!({"n": 1})), (LOOK, json!({"n": 1}))], 1)]
#[case::other_arguments(&[(LOOK, json!({"n": 2}))], 0)]
#[case::another_tool(&[(ACT, json!({"n": 1}))], 0)]
#[tokio::test]
async fn a_call_that_was_not_recorded_fails_the_task(
    #[case] calls: &[(&'static str, Value)],
    #[case] answered: usize,
) {
    let calling = Calling::on(Engine::Sqlite).await.unwrap();
    calling.agent.plan("a", &[(LOOK, json!({"n": 1}))]);
    let source = calling.recorded().await;
    calling.agent.plan("a", calls);
    // The other task has no recorded calls, and the suite has no fixtures: its agent gets an error.
    calling.agent.plan("b", &[(LOOK, json!({"n": 1}))]);
    let run = calling.start(&calling.with_fixtures(source.as_str())).await;
    let log = calling.log(&run).await;
    let of = |kind: &str, task: &str| -> Vec<Value> {
        let events = log.iter().filter(|it| it["nodeId"] == task);
        let events = events.filter(|it| it["type"] == kind);
        events.map(|it| it["payload"].clone()).collect()
    };
    let scored = &of("eval.scored", "task-0")[0];
    assert_eq!(
        (&scored["passed"], &scored["score"]),
        (&json!(false), &json!(0.0))
    );
    let failed = &of("touchstone.task.failed", "task-0")[0];
    assert_eq!(failed["reason"], "call_not_recorded");
    assert_eq!(of("touchstone.fixture.missing", "task-0").len(), 1);
    let returned = of("agent.tool-returned", "task-0");
    let ok = returned.iter().filter(|it| it["status"] == "ok").count();
    assert_eq!(ok, answered);
    assert_eq!(of("eval.scored", "task-1")[0]["passed"], true);
    assert_eq!(of("touchstone.fixture.missing", "task-1").len(), 1);
    assert_eq!(calling.tools.calls().len(), 1, "nothing goes live");
}

#[rstest]
#[tokio::test]
async fn every_unusable_source_gets_the_same_answer(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(calling) = Calling::on(engine).await else {
        return;
    };
    let host = &calling.host;
    calling.agent.plan("a", &[(LOOK, json!({}))]);
    let good = calling.recorded().await;
    let deleted = calling.recorded().await;
    calling.delete_content(deleted.as_str()).await;
    let foreign = foreign_run(host).await;
    let noop = json!({"workflowId": "conformance-noop"});
    let workflow = opaque(&host.post("/v1/runs", &noop).await);
    let mut other = calling.body(&["live-shadow"], json!({}));
    other["evalSuiteRef"] = json!(format!("{SUITE}@1.1.0"));
    let other = calling.start(&other).await;
    host.ended_of(&other).await;
    let source = |task: &str, run: &str| json!({"fixtureRuns": {task: run}});
    let own = |run: &str| format!("acme/{run}");
    let cases = [
        ("unknown", source("task-0", "acme/run_0123456789abcdef")),
        ("foreign", source("task-0", &format!("globex/{foreign}"))),
        ("invented", source("task-0", "globex/run_0123456789abcdef")),
        ("not an eval run", source("task-0", &own(workflow.as_str()))),
        ("another version", source("task-0", &own(other.as_str()))),
        ("deleted content", source("task-0", &own(deleted.as_str()))),
        ("no such task", source("task-9", &own(good.as_str()))),
        ("no calls", source("task-1", &own(good.as_str()))),
        (
            "one of two",
            json!({"fixtureRuns": {"task-0": own(good.as_str()), "task-1": own(good.as_str())}}),
        ),
    ];
    for major in MAJORS {
        let mut seen = Vec::new();
        for (why, runs) in &cases {
            let body = calling.body(&["golden"], runs.clone());
            // Major 1 has no form for an id of another tenant.
            let body: Value = match major {
                Major::V1 => {
                    let text = body.to_string().replace("globex/", "");
                    serde_json::from_str(&text).unwrap()
                }
                Major::V2 => body,
            };
            let refused = calling.create(major, &body).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{why}");
            assert_eq!(refused.code(), "validation_error", "{why}");
            seen.push(refused.json());
        }
        seen.dedup();
        assert_eq!(seen.len(), 1, "{seen:?}");
        let field = match major {
            Major::V1 => "configurable.fixtureRuns",
            Major::V2 => "fixtureRuns",
        };
        assert_eq!(seen[0]["details"], json!({"field": field}));
    }
    let created = calling
        .create(Major::V2, &calling.with_fixtures(good.as_str()))
        .await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text());
}

#[tokio::test]
async fn a_run_that_has_not_ended_is_no_source() {
    let calling = Calling::on(Engine::Sqlite).await.unwrap();
    calling.agent.plan("a", &[(LOOK, json!({}))]);
    let calling = calling.restarted().await;
    // The host has no workers.
    let pending = calling
        .start(&calling.body(&["live-shadow"], json!({})))
        .await;
    for major in MAJORS {
        let body = calling.with_fixtures(pending.as_str());
        let refused = calling.create(major, &body).await;
        assert_eq!(refused.code(), "validation_error", "{}", refused.text());
    }
}

#[tokio::test]
async fn recorded_fixtures_need_a_run_without_live_tools() {
    let calling = Calling::on(Engine::Sqlite).await.unwrap();
    calling.agent.plan("a", &[(LOOK, json!({}))]);
    let source = calling.recorded().await;
    let runs = json!({"fixtureRuns": {"task-0": format!("acme/{source}")}});
    for (major, field) in [
        (Major::V1, "configurable.evalModes"),
        (Major::V2, "evalModes"),
    ] {
        let body = calling.body(&["live-shadow"], runs.clone());
        let refused = calling.create(major, &body).await;
        assert_eq!(refused.code(), "validation_error");
        assert_eq!(refused.json()["details"]["field"], field);
    }
    for shape in [
        json!({}),
        json!([]),
        json!({"task-0": 7}),
        json!({"task-0": ""}),
    ] {
        let body = calling.body(&["golden"], json!({"fixtureRuns": shape}));
        for major in MAJORS {
            let refused = calling.create(major, &body).await;
            assert_eq!(refused.code(), "validation_error", "{shape}");
        }
    }
    // Each source is read.
    let many: serde_json::Map<String, Value> = (0..101)
        .map(|n| (format!("task-{n}"), json!(format!("acme/run_{n:016}"))))
        .collect();
    let body = calling.body(&["golden"], json!({"fixtureRuns": many}));
    let refused = calling.create(Major::V1, &body).await;
    let message = refused.json()["message"].to_string();
    assert!(message.contains("at most 100"), "{message}");
}

#[rstest]
#[tokio::test]
async fn recorded_fixtures_survive_a_restart_and_forks(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(calling) = Calling::on(engine).await else {
        return;
    };
    calling.agent.plan("a", &[(LOOK, json!({"n": 1}))]);
    let source = calling.recorded().await;
    let calling = calling.restarted().await;
    calling.agent.plan("a", &[(LOOK, json!({"n": 1}))]);
    let run = calling.start(&calling.with_fixtures(source.as_str())).await;
    // Another host executes it.
    let calling = calling.restarted().await;
    calling.agent.plan("a", &[(LOOK, json!({"n": 1}))]);
    calling.host.work();
    let log = calling.log(&run).await;
    assert_eq!(returned(&log), [(json!("ok"), json!({"nth": 1}))]);
    for body in [
        json!({"mode": "replay"}),
        json!({"mode": "branch", "fromSeq": 0}),
    ] {
        let path = format!("/v1/runs/{run}:fork");
        let forked = calling.host.post(&path, &body).await;
        assert_eq!(forked.status, StatusCode::CREATED, "{}", forked.text());
        let log = calling.log(&opaque(&forked)).await;
        let started = payloads(&log, "eval.started")[0];
        assert_eq!(started["fixtureRuns"]["task-0"], format!("acme/{source}"));
        assert_eq!(returned(&log), [(json!("ok"), json!({"nth": 1}))], "{body}");
    }
    assert!(calling.tools.calls().is_empty());
}

#[tokio::test]
async fn a_task_whose_recorded_calls_were_deleted_is_unjudged() {
    let calling = Calling::on(Engine::Sqlite).await.unwrap();
    calling.agent.plan("a", &[(LOOK, json!({}))]);
    let source = calling.recorded().await;
    let calling = calling.restarted().await;
    let run = calling.start(&calling.with_fixtures(source.as_str())).await;
    calling.delete_content(source.as_str()).await;
    calling.host.work();
    let log = calling.log(&run).await;
    let unjudged = payloads(&log, "touchstone.task.unjudged");
    let expected = json!({"taskId": "task-0", "reason": "fixture_content_deleted"});
    assert_eq!(unjudged, [&expected]);
    assert_eq!(payloads(&log, "eval.scored").len(), 2);
}

#[tokio::test]
async fn every_unusable_baseline_gets_the_same_answer_under_major_2() {
    let calling = Calling::on(Engine::Sqlite).await.unwrap();
    let host = &calling.host;
    let foreign = foreign_run(host).await;
    let live = calling.recorded().await;
    let noop = json!({"workflowId": "conformance-noop"});
    let workflow = opaque(&host.post("/v1/runs", &noop).await);
    let mut other = calling.body(&["golden"], json!({}));
    other["evalSuiteRef"] = json!(format!("{SUITE}@1.1.0"));
    let other = calling.start(&other).await;
    host.ended_of(&other).await;
    let mut seen = Vec::new();
    for run in [
        "acme/run_0123456789abcdef".to_owned(),
        format!("globex/{foreign}"),
        "globex/run_0123456789abcdef".to_owned(),
        format!("acme/{workflow}"),
        format!("acme/{other}"),
        format!("acme/{live}"),
    ] {
        let baseline = json!({"baselineRunId": run});
        let body = calling.body(&["golden", "regression"], baseline);
        let refused = calling.create_v2(&body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{run}");
        seen.push(refused.json());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0]["details"], json!({"field": "baselineRunId"}));
}
