//! Judge calibrations (agreement of the judge with people): start, show, list.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::rules::eval::rubric::calibration::Sample;
use crate::rules::eval::suite_rules::{NotASuiteRef, SuiteRef};
use crate::service::runs::calibrations::Comparison;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::http::routes::Table;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::undescribed;
use touchstone_kit::error::Problem;
use touchstone_kit::money::NanoUsd;

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let (get, post) = (&Method::GET, &Method::POST);
    table
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations",
            Scope::ManifestRead,
            list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/judge/calibrations",
            Scope::GatesWrite,
            calibrate,
        )
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations/{calibrationId}",
            Scope::ManifestRead,
            show,
        )
}

/// `GET /v1/host/touchstone/judge/calibrations`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let calibrations = state.runs.calibrations(&caller.tenant).await?;
    json(StatusCode::OK, &json!({"calibrations": calibrations}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CalibrationRequest {
    suite: String,
    samples: Vec<Sample>,
    #[serde(default)]
    allow_few: bool,
    #[serde(default)]
    max_cost_usd: Option<NanoUsd>,
}

/// `GET /v1/host/touchstone/judge/calibrations/{calibrationId}`.
pub async fn show(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let id = path.get("calibrationId");
    let attempt = state.runs.calibration_attempt(&caller.tenant, id).await?;
    json(StatusCode::OK, &attempt)
}

/// `POST /v1/host/touchstone/judge/calibrations`. Responds once the calibration has started.
pub async fn calibrate(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let why = "an agent's own key cannot calibrate judges, which score agents; use another \
        principal's key";
    state.reviews.refuse_own(&caller, why).await?;
    let body_fields = read(&body)?;
    let suite: SuiteRef = body_fields
        .suite
        .parse()
        .map_err(|fault: NotASuiteRef| Problem::validation("suite", format!("`suite` {fault}")))?;
    let request = Comparison {
        suite,
        samples: body_fields.samples,
        allow_few: body_fields.allow_few,
        max_cost: body_fields.max_cost_usd,
    };
    let (runs, asker) = (state.runs.clone(), caller.clone());
    let endpoint = "POST /v1/host/touchstone/judge/calibrations".to_owned();
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let begun = runs.calibrate(&asker, request, claim.as_ref()).await?;
        Ok(Done::new(StatusCode::ACCEPTED, json!(begun)).recorded(claim.is_some()))
    };
    once(&state.host, &caller, endpoint, key, &body, operation).await
}

/// Reads the body. The error names the member, never the value that was sent.
fn read(body: &Value) -> Result<CalibrationRequest, Problem> {
    // serde would accept an array in place of an object, with the members in order.
    let samples = body.get("samples").and_then(Value::as_array);
    let listed = samples.is_some_and(|samples| !samples.iter().all(Value::is_object));
    if listed || !body.is_object() {
        return Err(undescribed("samples"));
    }
    serde_path_to_error::deserialize(body).map_err(|fault| undescribed(&fault.path().to_string()))
}
