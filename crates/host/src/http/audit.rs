//! Verification of the audit log's hash chain (OpenWOP audit-log-integrity).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::HostApi;
use crate::http::answer::{Answer, json};
use crate::http::extract::Query;
use crate::service::access::Caller;

/// `GET /v1/audit/verify`.
pub async fn verify(
    State(api): State<Arc<HostApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Answer {
    let from = query.whole("fromSeq", 0, u64::MAX)?;
    let to = query.whole("toSeq", 0, u64::MAX)?;
    let found = api.audit.verify(&caller.tenant, from, to).await?;
    json(StatusCode::OK, &found)
}
