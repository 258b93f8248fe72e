//! Test seams for conformance suites, under `/v1/host/sample` (OpenWOP host-sample test seams).
//! They exist only on a host in conformance mode, and only for test keys.

pub mod agents;
pub mod bundle;
pub mod log;
pub mod people;
pub mod reset;

use crate::host::access::Scope;
use crate::host::http::HttpState;
use crate::host::http::answer::no_such_route_problem;
use crate::host::service::access::{Caller, authorise};
use touchstone_kit::error::Problem;

/// Admits a caller to the test seams.
///
/// # Errors
/// `not_found`, as for a route that does not exist.
fn open_to(state: &HttpState, caller: &Caller) -> Result<(), Problem> {
    if state.settings.conformance && caller.test {
        Ok(())
    } else {
        Err(no_such_route_problem())
    }
}

/// As [`open_to`], for a seam whose action needs a scope on the regular API.
///
/// # Errors
/// `not_found`, `forbidden`.
fn open_to_those_with(state: &HttpState, caller: &Caller, scope: Scope) -> Result<(), Problem> {
    open_to(state, caller)?;
    authorise(caller, scope)
}
