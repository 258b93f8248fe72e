//! Documents of a run to keep: reports and the attestation.

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
use touchstone_kit::ids::RunId;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::render::junit::junit;
use touchstone_runs::render::markdown::markdown;
use touchstone_runs::render::report_page::{ReportPage, report_page};

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
    let text = document(&api, &visit, &run, name, &query.filled()).await?;
    let mut response = Response::new(Body::from(text));
    add_headers(&mut response);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    let disposition = format!("attachment; filename=\"{run}-{name}\"");
    headers.insert(CONTENT_DISPOSITION, own_header(&disposition));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}

async fn document(
    api: &ConsoleApi,
    visit: &Visit,
    run: &RunId,
    name: &str,
    query: &Query,
) -> Result<String, Problem> {
    let (runs, tenant) = (&api.runs.runs, visit.tenant());
    if name == "attestation.json" {
        let attestations = &api.deployments.attestations;
        let found = attestations.attest(&visit.caller, run, None).await?;
        return Ok(json!({"attestations": found}).to_string());
    }
    let assessed = runs.shared(tenant, run).await?;
    let report = &assessed.report;
    match name {
        "junit.xml" => junit(report).map_err(|cause| internal(&cause)),
        "report.md" => Ok(markdown(report, None)),
        "report.json" => serde_json::to_string_pretty(report).map_err(|cause| internal(&cause)),
        _ => {
            let comparison = comparison(api, tenant, run, query).await?;
            report_page(ReportPage {
                report,
                statistics: &assessed.statistics,
                comparison: comparison.as_deref(),
                content: None,
                made_at: api.host.clock.now(),
            })
            .map_err(|cause| internal(&cause))
        }
    }
}
