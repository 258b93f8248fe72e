//! Signed attestations of verdicts: `GET /v1/host/touchstone/runs/{runId}/attestation`, and the
//! public key to verify them.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;

use crate::http::DeploymentsApi;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::Query;
use touchstone_host::service::access::Caller;
use touchstone_runs::http::extract::RunPath;

/// `GET /v1/host/touchstone/runs/{runId}/attestation`.
pub async fn get(
    State(state): State<Arc<DeploymentsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    query: Query,
) -> Answer {
    let channel = query.get("channel");
    let attestations = state.attestations.attest(&caller, &run, channel).await?;
    json(StatusCode::OK, &json!({"attestations": attestations}))
}

/// `GET /v1/host/touchstone/attestation-key`.
pub async fn key(State(state): State<Arc<DeploymentsApi>>) -> Answer {
    let key = state.attestations.public_key()?;
    let shown = json!({
        "keyId": key.fingerprint(), "algorithm": "ed25519", "publicKey": key.to_pem(),
    });
    json(StatusCode::OK, &shown)
}
