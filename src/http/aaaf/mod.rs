//! The AAAF API (AAAF S14), `/api/v1`: routes of its own, an envelope of its own, and keys of organizations.
//!
//! What differs from the OpenWOP surface is here; body reading, idempotency, limits and the observer are shared.

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

/// Where the API begins.
const ROOT: &str = "/api/v1";

/// Whether a path belongs to the API.
pub(super) fn owns(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
