//! Suites that are imported as streams of tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::http::support::host::{Lab, Reply, SUITE, TestHost, create_body, says, suite};
use touchstone_host::http::HttpSettings;
use touchstone_host::store::sql::query;
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use touchstone_packs::store::suites;
use touchstone_runs::storage::Quotas;

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
    let mut document = tasks(TASKS);
    // The first worker stops before it comes to an end.
    for last in TASKS - 4..TASKS {
        document["tasks"][last]["input"]["delayMs"] = json!(2_000);
    }
    let host = host_with(&document).await;
    let first = host.work();
    let run = host.create().await;
    host.get(&format!(
        "/v1/runs/{run}/events/poll?lastSequence=10&timeout=30"
    ))
    .await;
    first.cancel();
    let has_ended: bool = loop {
        let row = query("SELECT ended FROM run WHERE run_id = $1 AND lease_owner IS NULL");
        let row = row.bind(run.as_str()).fetch_optional(host.store.readers());
        // Once the first worker has given the run back.
        match row.await.unwrap() {
            Some(has_ended) => break has_ended,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(!has_ended, "the first worker did all");
    // Another process opens the suite itself.
    let other = TestHost::over(host.store.clone(), HttpSettings::default()).await;
    other.work();
    let events = host.ended(&run).await;
    let scored = events.iter().filter(|it| it["type"] == "eval.scored");
    let scored: Vec<&str> = scored
        .map(|it| it["payload"]["taskId"].as_str().unwrap())
        .collect();
    let once: BTreeSet<&str> = scored.iter().copied().collect();
    assert_eq!((scored.len(), once.len()), (TASKS, TASKS));
}

#[tokio::test]
async fn a_run_fails_if_its_suite_is_damaged_meanwhile() {
    let document = tasks(TASKS);
    let host = host_with(&document).await;
    // The suite is opened when the run is planned.
    let run = host.create().await;
    let digest = integrity::of(canonical_text(&document).as_bytes());
    let stream = suites::stream(&host.store, &digest).await.unwrap().unwrap();
    query("UPDATE suite_chunk SET octets = $2 WHERE upload = $1 AND chunk = 1")
        .bind(&stream.upload)
        .bind(&b"damaged"[..])
        .execute(host.store.writer().unwrap())
        .await
        .unwrap();
    host.work();
    let events = host.ended(&run).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "run.failed", "{last}");
    assert_eq!(last["payload"]["error"]["code"], "internal_error");
}

/// Sends a body that arrives as this stream.
async fn send(
    host: &TestHost,
    body: impl futures_util::Stream<Item = Result<String, std::io::Error>> + Send + 'static,
) -> axum::response::Response {
    let request = Request::builder()
        .method(Method::POST)
        .uri(SUITES)
        .header("authorization", format!("Bearer {}", host.key))
        .header("content-type", "application/x-ndjson")
        .body(Body::from_stream(body))
        .unwrap();
    host.router.clone().oneshot(request).await.unwrap()
}

async fn open_uploads(host: &TestHost) -> i64 {
    let open = query("SELECT COUNT(*) FROM suite_upload");
    open.fetch_one(host.store.readers()).await.unwrap()
}

#[tokio::test]
async fn a_client_that_disconnects_leaves_nothing() {
    let host = TestHost::idle().await;
    let begun = lines(&tasks(TASKS));
    let body = stream::iter([Ok(begun)]).chain(stream::pending());
    let mut sending = Box::pin(send(&host, body));
    let bytes = async |host: &TestHost| {
        let usage = host.get("/v1/host/touchstone/usage").await.json();
        usage["bytes"]["used"].as_u64().unwrap()
    };
    // Until chunks are stored; they count while they arrive.
    while bytes(&host).await == 0 {
        let waiting = tokio::time::sleep(Duration::from_millis(5));
        tokio::select! {
            answered = &mut sending => panic!("{answered:?}"),
            () = waiting => {}
        }
    }
    assert_eq!(open_uploads(&host).await, 1);
    drop(sending);
    while open_uploads(&host).await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bytes(&host).await, 0);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_named() {
    let settings = HttpSettings {
        max_body_bytes: 400_000,
        ..HttpSettings::default()
    };
    let host = TestHost::with(settings).await;
    let mut document = tasks(3);
    document["tasks"][1]["input"]["say"] = json!("x".repeat(390_000));
    let imported = import(&host, lines(&document)).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    document["version"] = json!("2.0.0");
    document["tasks"][1]["input"]["say"] = json!("x".repeat(400_000));
    let refused = import(&host, lines(&document)).await;
    assert_eq!(refused.code(), "payload_too_large", "{}", refused.text());
    assert_eq!(refused.json()["details"]["line"], 3);
    assert_eq!(open_uploads(&host).await, 0);
}

#[tokio::test]
async fn quotas_are_checked_while_a_suite_arrives() {
    let quotas = Quotas {
        max_suites: 1,
        max_bytes: 2_000,
        ..Quotas::default()
    };
    let lab = Lab {
        quotas,
        ..Lab::default()
    };
    let host = TestHost::with_lab(HttpSettings::default(), lab).await;
    let imported = import(&host, lines(&tasks(2))).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    // The body does not end, so the answer comes before everything is there.
    let refused_early = async |document: &Value| {
        let begun = lines(document) + "\n";
        let body = stream::iter([Ok(begun)]).chain(stream::pending());
        let refused = send(&host, body).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"], "quota_exceeded");
        assert_eq!(open_uploads(&host).await, 0);
        body["details"]["quota"].clone()
    };
    let mut other = tasks(1);
    other["version"] = json!("2.0.0");
    assert_eq!(refused_early(&other).await, "max_suites");
    assert_eq!(refused_early(&tasks(4 * TASKS)).await, "max_bytes");
    // The same suite again needs no further room.
    for _ in 0..3 {
        let again = import(&host, lines(&tasks(2))).await;
        assert_eq!(again.status, StatusCode::CREATED, "{again:?}");
        let again = host.post(SUITES, &tasks(2)).await;
        assert_eq!(again.status, StatusCode::CREATED, "{again:?}");
    }
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
