//! The AAAF API (AAAF S14) under `/api/v1`, with its own routes, error envelope and organization
//! keys.
//!
//! It shares body parsing, idempotency, limits and the observer with the OpenWOP API.

pub mod agents;
pub mod appeals;
pub mod assessments;
pub mod audits;
pub mod badges;
pub mod config;
pub mod dimensions;
pub mod door;
pub mod envelope;
pub mod events;
pub mod issuer_keys;
pub mod organizations;
pub mod page;
pub mod profiles;
pub mod public;
pub mod rates;
pub mod routes;
pub mod stress_tests;
pub mod webhooks;

pub use crate::ratings::http::rates::{AaafRates, Allowances};
pub use crate::ratings::http::routes::operations as aaaf_operations;

/// The path prefix of the API.
const ROOT: &str = "/api/v1";

pub(crate) fn owns(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
