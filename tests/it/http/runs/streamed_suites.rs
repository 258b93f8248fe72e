//! Suites that are imported as streams of tasks.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::http::support::host::{Reply, SUITE, TestHost, create_body, says, suite};
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use touchstone_packs::store::suites;

const SUITES: &str = "/v1/host/touchstone/suites";
/// Tasks that fill several chunks.
const TASKS: usize = 1_500;

fn tasks(count: usize) -> Value {
    let texts: Vec<String> = (0..count).map(|at| format!("answer {at}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    suite(&says(&texts))
}

/// The lines of a suite.
fn lines(document: &Value) -> String {
    let mut header = document.clone();
    let tasks = header.as_object_mut().unwrap().remove("tasks").unwrap();
    let tasks = tasks.as_array().unwrap().iter();
    std::iter::once(header.to_string())
        .chain(tasks.map(Value::to_string))
        .collect::<Vec<_>>()
        .join("\n")
}

async fn import(host: &TestHost, lines: String) -> Reply {
    let call = host.request(Method::POST, SUITES);
    call.raw("application/x-ndjson", lines).send().await
}

/// A host with the agent and this suite, imported as a stream.
async fn host_with(document: &Value) -> TestHost {
    let host = TestHost::idle().await;
    host.equip(&says(&["other"])).await;
    let removed = host
        .request(Method::DELETE, &format!("{SUITES}/{SUITE}/1.0.0"))
        .send()
        .await;
    assert_eq!(removed.status, StatusCode::OK);
    let imported = import(&host, lines(document)).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    host
}

#[tokio::test]
async fn a_streamed_suite_is_the_same_suite_as_its_document() {
    let document = tasks(TASKS);
    let host = host_with(&document).await;
    let digest = integrity::of(canonical_text(&document).as_bytes());
    let shown = host.get(&format!("{SUITES}/{SUITE}/1.0.0")).await.json();
    assert_eq!(shown["digest"], digest);
    assert_eq!(shown["taskCount"], TASKS);
    let read = host
        .get(&format!("{SUITES}/{SUITE}/1.0.0/document"))
        .await
        .json();
    assert_eq!(read["suite"], document);
    let stream = suites::stream(&host.store, &digest).await.unwrap().unwrap();
    let second = suites::chunk_of(&host.store, &stream.upload, 1).await;
    assert!(second.unwrap().is_some(), "one chunk has all tasks");

    // Importing it again, as lines or as one document, changes nothing.
    let again = import(&host, lines(&document)).await;
    assert_eq!(again.json()["digest"], digest);
    let as_document = host.post(SUITES, &document).await;
    assert_eq!(as_document.json()["digest"], digest);
    let kept = suites::stream(&host.store, &digest).await.unwrap();
    assert_eq!(kept, Some(stream));

    let other = tasks(3);
    let refused = import(&host, lines(&other)).await;
    assert_eq!(refused.code(), "conflict");
    let later = touchstone_host::system::SystemClock;
    let later = touchstone_host::ports::clock::Clock::now(&later);
    assert_eq!(suites::sweep(&host.store, later).await.unwrap(), 0);
}

#[tokio::test]
async fn a_run_over_a_streamed_suite_scores_every_task() {
    let mut document = tasks(TASKS);
    document["tasks"][TASKS - 1]["expected"]["match"]["value"] = json!("something else");
    let host = host_with(&document).await;
    host.work();
    let run = host.create().await;
    host.ended(&run).await;
    let report = host
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await;
    let summary = &report.json()["summary"];
    assert_eq!(summary["taskCount"], TASKS, "{}", report.text());
    assert_eq!(summary["passedCount"], TASKS - 1);
    let last = TASKS - 1;
    let task = host
        .get(&format!("/v1/host/touchstone/runs/{run}/tasks/task-{last}"))
        .await;
    assert_eq!(task.json()["input"]["say"], format!("answer {last}"));
}

#[tokio::test]
async fn a_run_that_stops_within_a_chunk_resumes() {
    let host = host_with(&tasks(TASKS)).await;
    let first = host.work();
    let run = host.create().await;
    host.get(&format!(
        "/v1/runs/{run}/events/poll?lastSequence=10&timeout=30"
    ))
    .await;
    first.cancel();
    host.work();
    let events = host.ended(&run).await;
    let scored = events.iter().filter(|it| it["type"] == "eval.scored");
    let scored: Vec<&str> = scored
        .map(|it| it["payload"]["taskId"].as_str().unwrap())
        .collect();
    let once: BTreeSet<&str> = scored.iter().copied().collect();
    assert_eq!((scored.len(), once.len()), (TASKS, TASKS));
}

#[tokio::test]
async fn a_removed_suite_is_kept_for_its_runs() {
    let document = tasks(TASKS);
    let digest = integrity::of(canonical_text(&document).as_bytes());
    let host = host_with(&document).await;
    let created = host.post("/v1/runs", &create_body()).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let member = format!("{SUITES}/{SUITE}/1.0.0");
    let removed = host.request(Method::DELETE, &member).send().await;
    assert_eq!(removed.status, StatusCode::OK);
    assert!(
        suites::stream(&host.store, &digest)
            .await
            .unwrap()
            .is_some()
    );
    host.work();
    let run = created.json()["runId"].as_str().unwrap().into();
    host.ended(&run).await;
}

#[tokio::test]
async fn a_removed_suite_leaves_no_chunks() {
    let document = tasks(3);
    let digest = integrity::of(canonical_text(&document).as_bytes());
    let host = host_with(&document).await;
    let stream = suites::stream(&host.store, &digest).await.unwrap().unwrap();
    let member = format!("{SUITES}/{SUITE}/1.0.0");
    host.request(Method::DELETE, &member).send().await;
    assert_eq!(suites::stream(&host.store, &digest).await.unwrap(), None);
    let chunk = suites::chunk_of(&host.store, &stream.upload, 0).await;
    assert_eq!(chunk.unwrap(), None);
}

#[rstest]
#[case::no_lines(String::new(), 0, "")]
#[case::no_tasks("{\"suiteId\":\"a.b.evals.c\",\"version\":\"1.0.0\",\"modes\":[\"golden\"]}".to_owned(), 1, "/tasks")]
#[case::not_json(lines(&tasks(TASKS)) + "\n{", TASKS + 2, "")]
#[case::header(lines(&tasks(2)).replace("1.0.0", "1.0"), 1, "/version")]
#[case::unknown_member(lines(&tasks(2)).replace("\"taskId\":\"task-1\"", "\"taskid\":\"task-1\""), 3, "/tasks/1")]
#[case::same_id(lines(&tasks(2)).replace("task-1", "task-0"), 3, "/tasks/1/taskId")]
#[case::whole_document(tasks(2).to_string(), 1, "/tasks")]
#[case::scenario(lines(&tasks(2)).replace("{\"say\":\"answer 1\"}", "{\"oasis\":{\"scenarioId\":\"x\"}}"), 3, "/tasks/1")]
#[tokio::test]
async fn a_wrong_line_is_named_and_nothing_remains(
    #[case] lines: String,
    #[case] line: usize,
    #[case] pointer: &str,
) {
    let host = TestHost::idle().await;
    let refused = import(&host, lines).await;
    assert_eq!(refused.code(), "validation_error", "{}", refused.text());
    let details = &refused.json()["details"];
    assert_eq!(details["line"], line, "{}", refused.text());
    assert_eq!(details["faults"][0]["pointer"], pointer);
    let listed = host.get(SUITES).await;
    assert_eq!(listed.json()["suites"], json!([]));
    let later = touchstone_host::system::SystemClock;
    let later = touchstone_host::ports::clock::Clock::now(&later);
    assert_eq!(suites::sweep(&host.store, later).await.unwrap(), 0);
}
