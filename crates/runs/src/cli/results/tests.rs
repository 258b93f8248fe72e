use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use rstest::rstest;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::*;
use crate::cli::watch::{print_document, write_document};
use crate::render::document::json::ReportJson;
use crate::render::document::list::JsonForm;
use crate::render::sample;
use touchstone_host::cli::client::Embedded;
use touchstone_host::cli::terminal::Terminal;

/// Tasks on the first page of the host.
const FIRST_PAGE: usize = 2;

/// A host with one run of two pages.
struct Host {
    report: EvalReport,
    /// Its totals at an earlier moment.
    totals: RunTotals,
    /// Requests for the second page that are refused.
    refused: usize,
    refusal: &'static str,
    /// Requests for the second page.
    asked: AtomicUsize,
}

impl Host {
    fn with(report: EvalReport) -> Self {
        Self {
            totals: report.totals(),
            report,
            refused: 0,
            refusal: "unavailable",
            asked: AtomicUsize::new(0),
        }
    }

    fn client(self) -> (Arc<Self>, Client) {
        let host = Arc::new(self);
        let router = Router::new()
            .route(&format!("{RUNS}/{{run}}/report"), get(report))
            .route(&format!("{RUNS}/{{run}}/results"), get(results))
            .with_state(host.clone());
        let embedded = Embedded::new(router, &SecretString::from("key")).unwrap();
        (host, Client::new(embedded))
    }
}

fn refusal(code: &str) -> Response {
    let body = json!({"error": code, "message": "not now"});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

async fn report(State(host): State<Arc<Host>>, RawQuery(query): RawQuery) -> Response {
    if query.is_some() {
        return Json(&host.totals).into_response();
    }
    Json(&host.report).into_response()
}

async fn results(State(host): State<Arc<Host>>, RawQuery(query): RawQuery) -> Response {
    let (numbers, tasks) = (&host.report.summary.tasks, &host.report.tasks);
    let results: Vec<Value> = numbers
        .iter()
        .zip(tasks)
        .map(|(numbers, task)| {
            let mut result = json!(task);
            result["score"] = json!(numbers.score);
            result["passed"] = json!(numbers.passed);
            result["costUsd"] = json!(numbers.cost_usd);
            result["latencyMs"] = json!(numbers.latency_ms);
            result["schemaValid"] = json!(numbers.schema_valid);
            result["safetyFindings"] = json!(numbers.safety_findings);
            result
        })
        .collect();
    let (first, second) = results.split_at(FIRST_PAGE);
    if !query.unwrap_or_default().contains("cursor=") {
        let next = &first[FIRST_PAGE - 1]["taskId"];
        return Json(json!({"results": first, "nextCursor": next})).into_response();
    }
    match host.asked.fetch_add(1, Ordering::SeqCst) < host.refused {
        true => refusal(host.refusal),
        false => Json(json!({"results": second})).into_response(),
    }
}

async fn tasks(found: &RunReport, client: &Client) -> Result<Vec<TaskRow>, Failure> {
    let mut tasks = Vec::new();
    let mut pages = found.pages(client);
    while let Some(page) = pages.next().await? {
        tasks.extend(page.into_owned());
    }
    Ok(tasks)
}

fn all(report: &EvalReport) -> Vec<TaskRow> {
    let rows = rows(report).map(|(numbers, task)| (numbers.clone(), task.clone()));
    rows.collect()
}

fn pending(mut report: EvalReport) -> EvalReport {
    report.verdict = Verdict::Pending;
    report
}

#[rstest]
#[case::at_its_limit("unavailable")]
#[case::over_the_rate("rate_limited")]
#[tokio::test(start_paused = true)]
async fn a_page_that_is_refused_for_a_moment_is_requested_again(#[case] refusal: &'static str) {
    let host = Host {
        refused: WAITS_MS.len(),
        refusal,
        ..Host::with(sample::mixed())
    };
    let (host, client) = host.client();
    let found = RunReport::fetch(&client, "run_after").await.unwrap();
    assert!(matches!(found.tasks, Tasks::Paged));
    assert_eq!(tasks(&found, &client).await.unwrap(), all(&host.report));
    assert_eq!(found.totals, host.report.totals());
    assert_eq!(host.asked.load(Ordering::SeqCst), WAITS_MS.len() + 1);
}

#[tokio::test]
async fn a_page_that_is_refused_for_good_is_requested_once() {
    let host = Host {
        refused: usize::MAX,
        refusal: "not_found",
        ..Host::with(sample::mixed())
    };
    let (host, client) = host.client();
    let found = RunReport::fetch(&client, "run_after").await.unwrap();
    let failure = tasks(&found, &client).await.unwrap_err();
    assert_eq!(failure.code, "not_found");
    assert_eq!(host.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fails_between_pages_leaves_the_earlier_file_and_prints_nothing() {
    let host = Host {
        refused: usize::MAX,
        ..Host::with(sample::mixed())
    };
    let (_, client) = host.client();
    let found = RunReport::fetch(&client, "run_after").await.unwrap();
    let document = || ReportJson::new(&found.totals, JsonForm::Indented).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    for earlier in [None, Some("earlier")] {
        if let Some(earlier) = earlier {
            std::fs::write(&file, earlier).unwrap();
        }
        let written = write_document(&client, &found, &mut document(), &file).await;
        assert_eq!(written.unwrap_err().code, "unavailable");
        assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), earlier);
    }
    let out = Terminal::new(true, true).printer();
    let printed = print_document(out, &client, &found, &mut document()).await;
    assert_eq!(printed.unwrap_err().code, "unavailable");
}

#[tokio::test]
async fn a_complete_document_replaces_the_earlier_file() {
    let (host, client) = Host::with(sample::mixed()).client();
    let found = RunReport::fetch(&client, "run_after").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    std::fs::write(&file, "earlier ".repeat(10_000)).unwrap();
    let mut document = ReportJson::new(&found.totals, JsonForm::Indented).unwrap();
    let written = write_document(&client, &found, &mut document, &file).await;
    written.unwrap();
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        JsonForm::Indented.text(&host.report).unwrap()
    );
}

#[rstest]
#[case::in_memory(1000)]
#[case::in_files(2)]
#[tokio::test]
async fn totals_and_tasks_of_a_run_in_progress_are_of_one_moment(#[case] most: usize) {
    let now = pending(sample::mixed());
    let earlier = now.totals().with_tasks([]).totals();
    assert_ne!(earlier.task_totals, Some(now.task_totals()));
    let host = Host {
        totals: earlier,
        ..Host::with(now)
    };
    let (host, client) = host.client();
    let found = RunReport::fetch_holding(&client, "run_after", most).await;
    let found = found.unwrap();
    assert_eq!(matches!(found.tasks, Tasks::Saved(_)), most == 2);
    assert_eq!(found.totals, host.report.totals());
    for _ in 0..2 {
        assert_eq!(tasks(&found, &client).await.unwrap(), all(&host.report));
    }
    let failed = found.first(&client, TaskOutcome::Failed, 1).await.unwrap();
    let expected = all(&host.report).into_iter();
    let expected = expected.filter(|(_, task)| task.outcome == TaskOutcome::Failed);
    assert_eq!(failed, expected.take(1).collect::<Vec<_>>());
    let alone = statistics(&Evidence::of(&host.report), None, None);
    assert_eq!(found.own_statistics(&client, None).await.unwrap(), alone);
    let mut document = ReportJson::new(&found.totals, JsonForm::Indented).unwrap();
    let mut text = Vec::new();
    let written = found.write(&client, &mut document, &mut text).await;
    written.unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text, JsonForm::Indented.text(&host.report).unwrap());
    // The kept tasks are not read again.
    assert_eq!(host.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn results_are_the_same_from_pages_and_from_a_report() {
    let (host, client) = Host::with(sample::mixed()).client();
    let found = RunReport::fetch(&client, "run_after").await.unwrap();
    assert!(matches!(found.tasks, Tasks::Paged));
    let (paged, whole) = (
        found.listed(&client).await.unwrap(),
        ListedRun::of(&host.report),
    );
    assert_eq!(paged.order, whole.order);
    let text = |it: &ListedRun| format!("{:?}", it.run);
    assert_eq!(text(&paged), text(&whole));
}
