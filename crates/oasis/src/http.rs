//! OASIS evaluations under `/v1/host/touchstone/`: verdict, report and evidence of a run; profiles,
//! preflight, computation (OASIS.md sections 14 and 15).

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::json;

use crate::rules::report::Form;
use crate::rules::verdict::input;
use crate::rules::verdict::input::Input;
use crate::service::evaluations::Evaluations;
use axum::http::Method;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::answer::{Answer, json as json_answer};
use touchstone_host::http::extract::{JsonBody, PathParameters, Query};
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::service::runs::Runs;

/// State that the routes of OASIS evaluations share.
pub struct OasisApi {
    pub host: Arc<HttpHost>,
    pub runs: Arc<Runs>,
    pub evaluations: Evaluations,
}

impl AsRef<Arc<HttpHost>> for OasisApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

impl AsRef<Runs> for OasisApi {
    fn as_ref(&self) -> &Runs {
        &self.runs
    }
}

pub fn routes(table: Table<OasisApi>) -> Table<OasisApi> {
    let (get, post) = (&Method::GET, &Method::POST);
    table
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-verdict",
            Scope::RunsRead,
            verdict,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-report",
            Scope::RunsRead,
            report,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-evidence/{scenarioId}",
            Scope::RunsRead,
            evidence,
        )
        .keyed(
            get,
            "/v1/host/touchstone/oasis/profiles",
            Scope::ManifestRead,
            profiles,
        )
        .keyed(
            post,
            "/v1/host/touchstone/oasis/preflight",
            Scope::RunsCreate,
            preflight,
        )
        .keyed(
            post,
            "/v1/host/touchstone/oasis/compute",
            Scope::RunsRead,
            compute,
        )
}

/// `GET /v1/host/touchstone/runs/{runId}/oasis-verdict`.
pub async fn verdict(
    State(state): State<Arc<OasisApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    headers: HeaderMap,
) -> Answer {
    let form = accepted(&headers, &[Form::Json, Form::Yaml])?;
    let document = state.evaluations.verdict(&caller.tenant, &run).await?;
    let text = match form {
        Form::Yaml => serde_saphyr::to_string(&document).map_err(|cause| internal(&cause))?,
        _ => document.to_string(),
    };
    Ok(answer(form, text))
}

/// `GET /v1/host/touchstone/runs/{runId}/oasis-report`.
pub async fn report(
    State(state): State<Arc<OasisApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    query: Query,
    headers: HeaderMap,
) -> Answer {
    let form = match query.get("format") {
        None => accepted(&headers, &Form::ALL)?,
        Some(name) => Form::parse(name).ok_or_else(|| {
            Problem::validation("format", "`format` must be json, yaml, markdown or html")
        })?,
    };
    let report = state.evaluations.report(&caller.tenant, &run).await?;
    let text = crate::render::write(&report, form).map_err(|cause| internal(&cause))?;
    Ok(answer(form, text))
}

/// `GET /v1/host/touchstone/runs/{runId}/oasis-evidence/{scenarioId}`.
pub async fn evidence(
    State(state): State<Arc<OasisApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    parameters: PathParameters,
) -> Answer {
    let (tenant, scenario) = (&caller.tenant, parameters.get("scenarioId"));
    let evidence = state.evaluations.evidence(tenant, &run, scenario).await?;
    json_answer(StatusCode::OK, &evidence)
}

/// `GET /v1/host/touchstone/oasis/profiles`.
pub async fn profiles(
    State(state): State<Arc<OasisApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let (profiles, providers) = state.evaluations.profiles(&caller.tenant).await?;
    let shown = json!({"profiles": profiles, "providers": providers});
    json_answer(StatusCode::OK, &shown)
}

/// `POST /v1/host/touchstone/oasis/preflight`. Changes nothing, so it needs no `Idempotency-Key`.
pub async fn preflight(
    State(state): State<Arc<OasisApi>>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Answer {
    let found = state.evaluations.preflight(&caller.tenant, &body).await?;
    json_answer(StatusCode::OK, &found)
}

/// `POST /v1/host/touchstone/oasis/compute`. A pure function of its body.
pub async fn compute(JsonBody(body): JsonBody) -> Answer {
    let computing = tokio::task::spawn_blocking(move || {
        let input = Input::read(&body)?;
        input::compute(&input)
    });
    let computed = computing.await.map_err(|cause| internal(&cause))?;
    let output = computed.map_err(|faults| {
        let field = faults.first().map(|it| it.path.clone()).unwrap_or_default();
        let words: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Problem::validation(&field, words.join("; "))
    })?;
    json_answer(StatusCode::OK, &output)
}

/// The first format of `offered` that the client accepts; without an `Accept` header, the first
/// one.
fn accepted(headers: &HeaderMap, offered: &[Form]) -> Result<Form, Problem> {
    let Some(header) = headers.get(ACCEPT).and_then(|it| it.to_str().ok()) else {
        return offered.first().copied().ok_or_else(not_acceptable);
    };
    let wanted = header.split(',').map(|it| {
        it.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    });
    for range in wanted {
        let found = offered.iter().find(|form| {
            let whole = form.media_type().split(';').next().unwrap_or_default();
            let kind = whole.split('/').next().unwrap_or_default();
            range == "*/*" || range == whole || range == format!("{kind}/*")
        });
        if let Some(form) = found {
            return Ok(*form);
        }
    }
    Err(not_acceptable())
}

fn not_acceptable() -> Problem {
    Problem::new(
        ErrorCode::NotAcceptable,
        "no media type in `Accept` is available here; ask for application/json",
    )
}

fn answer(form: Form, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    // A report contains text of agents. It needs no external resources and may load none.
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
        ),
    );
    response
}
