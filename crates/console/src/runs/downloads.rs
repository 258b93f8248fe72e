//! Documents of a run to keep: reports and the attestation.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::Response;
use serde_json::json;

use crate::api::ConsoleApi;
use crate::page::answer::add_headers;
use crate::page::visit::Visit;
use crate::runs::baseline::comparison;
use touchstone_host::http::answer::{Answer, own_header};
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_runs::http::documents::document;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::render::document::json::ReportJson;
use touchstone_runs::render::document::list::JsonForm;
use touchstone_runs::render::junit::Junit;
use touchstone_runs::render::markdown::Markdown;
use touchstone_runs::render::report_page::failures::{FirstTasks, LISTED};
use touchstone_runs::render::report_page::{ReportPage, report_page};
use touchstone_runs::rules::eval::report::{RunTotals, ScoredTask, TaskOutcome};
use touchstone_runs::rules::eval::task_list::{PageStart, TaskListQuery, TaskOrder};

/// The name of a document, its label, and its media type.
pub const DOCUMENTS: [(&str, &str, &str); 5] = [
    ("report.html", "Report (HTML)", "text/html; charset=utf-8"),
    (
        "report.md",
        "Summary (Markdown)",
        "text/markdown; charset=utf-8",
    ),
    ("report.json", "Report (JSON)", "application/json"),
    ("junit.xml", "Tests (JUnit XML)", "application/xml"),
    ("attestation.json", "Signed verdict", "application/json"),
];

/// A browser that shows a document anyway runs nothing in it.
const POLICY: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// `GET /console/runs/{runId}/download/{name}`.
pub async fn get(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    parameters: PathParameters,
    query: Query,
) -> Answer {
    let name = parameters.get("name");
    let known = DOCUMENTS.iter().find(|(known, _, _)| *known == name);
    let Some((name, _, media_type)) = known else {
        let message = "a run has no such document";
        return Err(Problem::new(ErrorCode::NotFound, message).into());
    };
    let body = body(&api, &visit, &run, name, &query.filled()).await?;
    let mut response = Response::new(body);
    add_headers(&mut response);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    let disposition = format!("attachment; filename=\"{run}-{name}\"");
    headers.insert(CONTENT_DISPOSITION, own_header(&disposition));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}

async fn body(
    api: &ConsoleApi,
    visit: &Visit,
    run: &RunId,
    name: &str,
    query: &Query,
) -> Result<Body, Problem> {
    let (runs, tenant) = (&api.runs.runs, visit.tenant());
    match name {
        "attestation.json" => {
            let attestations = &api.deployments.attestations;
            let found = attestations.attest(&visit.caller, run, None).await?;
            Ok(Body::from(json!({"attestations": found}).to_string()))
        }
        "junit.xml" => {
            let of = |totals: &RunTotals| Ok::<_, Infallible>(Junit::new(totals));
            document(runs, tenant, run, of).await
        }
        "report.md" => {
            let found = runs.own_statistics(tenant, run).await?;
            let of = |totals: &RunTotals| Ok::<_, Infallible>(Markdown::new(totals, &found, None));
            document(runs, tenant, run, of).await
        }
        "report.json" => {
            let of = |totals: &RunTotals| ReportJson::new(totals, JsonForm::Indented);
            document(runs, tenant, run, of).await
        }
        _ => page(api, tenant, run, query).await.map(Body::from),
    }
}

/// The report as a page. It lists a limited number of tasks.
async fn page(
    api: &ConsoleApi,
    tenant: &TenantId,
    run: &RunId,
    query: &Query,
) -> Result<String, Problem> {
    let runs = &api.runs.runs;
    let assessed = runs.shared_totals(tenant, run).await?;
    let mut tasks = FirstTasks::default();
    for (outcome, first) in [
        (TaskOutcome::Failed, &mut tasks.failed),
        (TaskOutcome::Unjudged, &mut tasks.unjudged),
        (TaskOutcome::Passed, &mut tasks.passed),
    ] {
        let listed = TaskListQuery {
            name: String::new(),
            outcome: Some(outcome),
            order: TaskOrder::Suite,
            start: PageStart::At(0),
            limit: LISTED,
        };
        let page = runs.results(tenant, run, &listed).await?;
        *first = page.results.into_iter().map(ScoredTask::into_row).collect();
    }
    let comparison = comparison(api, tenant, run, query).await?;
    report_page(ReportPage {
        report: &assessed.report,
        figures: &assessed.figures,
        tasks: &tasks,
        statistics: &assessed.statistics,
        comparison: comparison.map(|it| it.short()).as_ref(),
        content: None,
        made_at: api.host.clock.now(),
    })
    .map_err(|cause| internal(&cause))
}
