//! The entries of the audit log, and the verification of its hash chain (OpenWOP
//! audit-log-integrity).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::HostApi;
use crate::http::answer::{Answer, json};
use crate::http::extract::Query;
use crate::service::access::Caller;

const MOST: u64 = 1000;
const USUAL: u32 = 100;

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

/// `GET /v1/host/touchstone/audit`.
pub async fn list(
    State(api): State<Arc<HostApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Answer {
    let from = query.whole("fromSeq", 0, u64::MAX)?.unwrap_or(1);
    let limit = query
        .whole("limit", 1, MOST)?
        .and_then(|limit| u32::try_from(limit).ok())
        .unwrap_or(USUAL);
    let found = api.audit.entries(&caller.tenant, from, limit).await?;
    json(StatusCode::OK, &found)
}
