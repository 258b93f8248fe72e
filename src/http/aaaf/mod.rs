//! The AAAF API (AAAF S14) under `/api/v1`, with its own routes, error envelope and organization
//! keys.
//!
//! It shares body parsing, idempotency, limits and the observer with the OpenWOP API.

mod agents;
mod appeals;
mod assessments;
mod audits;
mod badges;
mod config;
mod dimensions;
mod door;
pub(super) mod envelope;
mod events;
mod issuer_keys;
mod organizations;
mod page;
mod profiles;
pub(super) mod public;
mod rates;
pub(super) mod routes;
mod stress_tests;
mod webhooks;

pub use rates::{AaafRates, Allowances};
pub use routes::operations as aaaf_operations;

/// The path prefix of the API.
const ROOT: &str = "/api/v1";

pub(super) fn owns(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
