//! `GET /v1/host/touchstone/runs/{runId}/tasks`, `…/tasks/{taskId}` and `…/results`, and reports without
//! tasks.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;

use crate::http::support::host::{TestHost, says};

fn path(run: &RunId, rest: &str) -> String {
    format!("/v1/host/touchstone/runs/{run}/tasks{rest}")
}

/// The suite's tasks expect their own input; the last one gets another answer.
async fn evaluated() -> (TestHost, RunId) {
    let host = TestHost::working(&says(&["a", "b", "wrong"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    (host, run)
}

async fn audited(host: &TestHost) -> Vec<Value> {
    let entries = host.store.audit_entries(&"acme".into(), 0, 100).await;
    let entries = entries.unwrap().into_iter();
    entries
        .map(|entry| serde_json::from_str::<Value>(&entry.body).unwrap())
        .filter(|entry| entry["action"] == "runs:content")
        .collect()
}

#[tokio::test]
async fn a_failed_task_is_shown_with_expected_and_actual_answer() {
    let (host, run) = evaluated().await;
    let reply = host.get(&path(&run, "/task-2")).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let task = reply.json();
    assert_eq!(task["outcome"], "failed");
    assert_eq!(task["expected"]["strategy"], "exact");
    let [difference] = task["differences"].as_array().unwrap().as_slice() else {
        panic!("{task}");
    };
    assert_eq!(
        (&difference["path"], &difference["kind"]),
        (&json!(""), &json!("changed"))
    );
    assert_eq!(difference["actual"], task["actual"]);
    let steps: Vec<&str> = task["transcript"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["step"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["started", "modelCalled", "answered"]);
}

#[tokio::test]
async fn tasks_are_listed_in_pages_and_by_outcome() {
    let (host, run) = evaluated().await;
    let ids = |page: &Value| -> Vec<String> {
        let tasks = page["tasks"].as_array().unwrap().iter();
        tasks
            .map(|task| task["taskId"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = host.get(&path(&run, "?limit=2")).await.json();
    assert_eq!(ids(&first), ["task-0", "task-1"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = host
        .get(&path(&run, &format!("?limit=2&cursor={cursor}")))
        .await
        .json();
    assert_eq!(
        (ids(&second), &second["nextCursor"]),
        (vec!["task-2".to_owned()], &Value::Null)
    );
    let failed = host.get(&path(&run, "?outcome=failed")).await.json();
    assert_eq!(ids(&failed), ["task-2"]);
}

fn results(run: &RunId, rest: &str) -> String {
    format!("/v1/host/touchstone/runs/{run}/results{rest}")
}

#[tokio::test]
async fn results_have_the_numbers_and_reasons_of_the_report() {
    let (host, run) = evaluated().await;
    let note = json!({"signal": {"kind": "flag"}, "target": {"nodeId": "task-1"}});
    let path = format!("/v1/runs/{run}/annotations");
    let reply = host.post(&path, &note).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    let report = format!("/v1/host/touchstone/runs/{run}/report");
    let report = host.get(&report).await.json();
    let page = host.get(&results(&run, "")).await.json();
    let rows = |document: &Value| document.as_array().unwrap().clone();
    let numbers = rows(&report["summary"]["tasks"]).into_iter();
    let expected: Vec<Value> = numbers
        .zip(rows(&report["tasks"]))
        .map(|(mut numbers, task)| {
            let task = task.as_object().unwrap().clone();
            numbers.as_object_mut().unwrap().extend(task);
            numbers
        })
        .collect();
    assert_eq!(page, json!({"results": expected, "total": 3}));
    assert_eq!(
        page["results"][1]["annotations"].as_array().unwrap().len(),
        1
    );
    assert_eq!(audited(&host).await, Vec::<Value>::new());
}

#[tokio::test]
async fn results_are_listed_in_pages_by_order_outcome_and_name() {
    let (host, run) = evaluated().await;
    let ids = async |query: &str| -> Vec<String> {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = host
                .get(&results(&run, &format!("?limit=1{query}{cursor}")))
                .await;
            assert_eq!(page.status, StatusCode::OK, "{page:?}");
            let page = page.json();
            let found = page["results"].as_array().unwrap().iter();
            ids.extend(found.map(|it| it["taskId"].as_str().unwrap().to_owned()));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ids,
            }
        }
    };
    assert_eq!(ids("").await, ["task-0", "task-1", "task-2"]);
    assert_eq!(ids("&order=score").await, ["task-2", "task-0", "task-1"]);
    assert_eq!(ids("&outcome=passed").await, ["task-0", "task-1"]);
    assert_eq!(ids("&q=SK-1").await, ["task-1"]);
}

#[rstest]
#[case("?order=size", "`order` must be")]
#[case("?outcome=good", "`outcome` must be")]
#[case("?limit=1001", "`limit` must be")]
#[case("?cursor=task-9", "`cursor` is not from a page of this run")]
#[tokio::test]
async fn a_wrong_parameter_of_results_is_refused_by_name(#[case] query: &str, #[case] says: &str) {
    let (host, run) = evaluated().await;
    let reply = host.get(&results(&run, query)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with(says), "{message}");
}

#[tokio::test]
async fn a_report_without_tasks_has_their_numbers_and_is_otherwise_the_same() {
    let (host, run) = evaluated().await;
    let flag = json!({"signal": {"kind": "flag"}});
    let mut of_task = flag.clone();
    of_task["target"] = json!({"nodeId": "task-1"});
    for note in [&flag, &of_task, &of_task] {
        let reply = host
            .post(&format!("/v1/runs/{run}/annotations"), note)
            .await;
        assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    }
    let path = format!("/v1/host/touchstone/runs/{run}/report");
    // In both orders, because each may use what the other one keeps in memory.
    let totals = host.get(&format!("{path}?tasks=none")).await.json();
    let mut report = host.get(&path).await.json();
    assert_eq!(host.get(&format!("{path}?tasks=none")).await.json(), totals);
    assert_eq!(host.get(&format!("{path}?tasks=all")).await.json(), report);
    assert_eq!(report["tasks"].as_array().unwrap().len(), 3);
    report["tasks"] = json!([]);
    report["summary"]["tasks"] = json!([]);
    let counts = &totals["taskTotals"];
    assert_eq!(
        (&counts["passed"], &counts["failed"], &counts["unjudged"]),
        (&json!(2), &json!(1), &json!(0))
    );
    report["taskTotals"] = counts.clone();
    assert_eq!(totals, report);
    let reply = host.get(&format!("{path}?tasks=some")).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
}

#[tokio::test]
async fn content_needs_its_own_scope() {
    let (host, run) = evaluated().await;
    let reader = host.key_with(&[Scope::RunsRead]).await;
    for rest in ["", "/task-2"] {
        let path = path(&run, rest);
        let reply = host.request(Method::GET, &path).key(&reader).send().await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
    }
    assert_eq!(audited(&host).await, Vec::<Value>::new());
    let entitled = host.key_with(&[Scope::RunsContent]).await;
    let path = path(&run, "/task-2");
    let reply = host.request(Method::GET, &path).key(&entitled).send().await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
}

#[tokio::test]
async fn events_and_differences_show_answers_only_with_the_scope_of_content() {
    let host = TestHost::working(&says(&["secret-answer"])).await;
    let runs = [host.create().await, host.create().await];
    for run in &runs {
        host.ended(run).await;
    }
    let run = &runs[0];
    let views = [
        format!("/v1/runs/{run}/events?streamMode=debug"),
        format!("/v1/runs/{run}/events?streamMode=debug&bufferMs=100"),
        format!("/v1/runs/{run}/events/poll"),
        format!("/v1/runs/{run}:diff?against={}", runs[1]),
    ];
    let reader = host.key_with(&[Scope::RunsRead]).await;
    let entitled = host.key_with(&[Scope::RunsRead, Scope::RunsContent]).await;
    for path in &views {
        let read = async |key: &str| {
            let reply = host.request(Method::GET, path).key(key).send().await;
            assert_eq!(reply.status, StatusCode::OK, "{path}: {reply:?}");
            reply.text()
        };
        let (plain, full) = (read(&reader).await, read(&entitled).await);
        assert!(!plain.contains("secret-answer"), "{path}: {plain}");
        if !path.contains(":diff") {
            assert!(full.contains("secret-answer"), "{path}: {full}");
            assert!(plain.contains("eval.scored"), "{path}: {plain}");
        }
    }
}

#[tokio::test]
async fn every_read_of_content_is_audited_without_the_content() {
    let (host, run) = evaluated().await;
    host.get(&path(&run, "/task-2")).await;
    host.get(&path(&run, "?limit=2")).await;
    let entries = audited(&host).await;
    let reasons: Vec<&Value> = entries.iter().map(|entry| &entry["reasons"]).collect();
    assert_eq!(
        reasons,
        [&json!(["tasks: task-2"]), &json!(["tasks: task-0, task-1"])]
    );
    assert!(entries.iter().all(|entry| entry["runId"] == json!(run)));
}

#[rstest]
#[case::unknown_task("/task-9", StatusCode::NOT_FOUND)]
#[case::unknown_outcome("?outcome=lost", StatusCode::BAD_REQUEST)]
#[case::unknown_cursor("?cursor=task-9", StatusCode::BAD_REQUEST)]
#[case::no_limit("?limit=0", StatusCode::BAD_REQUEST)]
#[case::high_limit("?limit=101", StatusCode::BAD_REQUEST)]
#[tokio::test]
async fn a_wrong_request_is_refused(#[case] rest: &str, #[case] status: StatusCode) {
    let (host, run) = evaluated().await;
    let reply = host.get(&path(&run, rest)).await;
    assert_eq!(reply.status, status, "{reply:?}");
}

#[tokio::test]
async fn another_tenant_sees_no_task() {
    let (host, run) = evaluated().await;
    for rest in ["", "/task-2"] {
        let path = path(&run, rest);
        let reply = host
            .request(Method::GET, &path)
            .key(&host.other_key)
            .send()
            .await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{reply:?}");
    }
}

#[tokio::test]
async fn a_replay_shows_the_same_answer_as_its_source() {
    let (host, run) = evaluated().await;
    let fork = host
        .post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "replay"}))
        .await
        .json();
    let fork = RunId::from(fork["runId"].as_str().unwrap());
    host.ended(&fork).await;
    let original = host.get(&path(&run, "/task-2")).await.json();
    let replayed = host.get(&path(&fork, "/task-2")).await.json();
    assert_eq!(replayed["actual"], original["actual"]);
}
