//! The AAAF API (AAAF S14) under `/api/v1`, with its own routes, error envelope and organization
//! keys.
//!
//! It shares body parsing, idempotency, limits and the observer with the OpenWOP API.

pub mod agents;
pub mod assessments;
pub mod badges;
pub mod dimensions;
pub mod envelope;
pub mod events;
pub mod guard;
pub mod organizations;
pub mod page;
pub mod rates;
pub mod routes;
pub mod stress_tests;
pub mod webhooks;

use std::sync::Arc;

use crate::http::rates::Allowances;
use crate::service::Ratings;
use touchstone_host::http::{Dialect, HttpHost};
use touchstone_kit::json::text_of;

/// The path prefix of the API.
const ROOT: &str = "/api/v1";

/// State that the routes of ratings share.
pub struct RatingsApi {
    pub host: Arc<HttpHost>,
    pub ratings: Arc<Ratings>,
    pub allowances: Allowances,
}

impl AsRef<Arc<HttpHost>> for RatingsApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

/// The error envelope of this API.
pub const DIALECT: Dialect = Dialect {
    owns,
    code: envelope::code,
    headers: &[("content-type", "application/json")],
    envelope: |problem, _| text_of(&envelope::of(problem)).into_bytes(),
};

fn owns(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
