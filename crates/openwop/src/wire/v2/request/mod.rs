//! Requests of major 2 in the inner form, and the refusals of inner parsers in the form of major 2.

mod create;
mod fields;
mod options;
mod run;
#[cfg(test)]
mod tests;
mod webhook;

use serde_json::Value;

use crate::wire::id::Seat;
use crate::wire::v2::translation::{Context, Inner, Refusal, opaque_id};
use touchstone_kit::fields::{Fields, Nulls};

pub use fields::refusal;
pub(super) use options::nested;
pub use run::MAX_PAGE;
pub(super) use run::refused_entry;

/// The id of no run. It stands for ids of other tenants where the refusal must be the one of an
/// unknown run.
const NO_RUN: &str = "/";

/// The inner form of query and body.
///
/// What major 1 checks alike is left to the parsers inside. [`refusal`] translates what they refuse.
///
/// # Errors
/// A member that major 2 does not have or types otherwise; an id of another tenant.
pub fn request(operation: &str, context: &Context<'_>, given: Inner) -> Result<Inner, Refusal> {
    let Inner { query, body } = given;
    let query = Inner { query, body: None };
    let query = match operation {
        "listRuns" => run::list(&query)?,
        "listWebhookDeadLetters" => run::page(&query, &["limit", "cursor"])?,
        "diffRun" => run::diff(context, &query)?,
        "pollRunEvents" => run::poll(&query)?,
        // Under major 1, `tenantId` may repeat the tenant of the key.
        "unregisterWebhook" | "rotateWebhookSecret" => Vec::new(),
        _ => query.query,
    };
    let body = match body {
        None => None,
        Some(body) => Some(translated(operation, context, body)?),
    };
    Ok(Inner { query, body })
}

fn translated(operation: &str, context: &Context<'_>, body: Value) -> Result<Value, Refusal> {
    match operation {
        "createRun" => create::create(context, body),
        "cancelRun" | "resumeRun" => closed(body, &["reason"]),
        "pauseRun" => closed(body, &["reason", "drainPolicy"]),
        "bulkCancelRuns" => run::bulk(context, body),
        "forkRun" => run::fork(context, body),
        "registerWebhook" => webhook::register(body),
        "transitionAgentDeployment" => transition(context, body),
        _ => Ok(body),
    }
}

/// A body that has only these members, none of them null.
fn closed(body: Value, known: &[&str]) -> Result<Value, Refusal> {
    let fields = Fields::closed(&body, "", known, Nulls::Wrong)?;
    let null = known
        .iter()
        .find(|name| fields.get(name).is_some_and(Value::is_null));
    match null {
        None => Ok(body),
        Some(name) => Err(options::not_null(name)),
    }
}

/// The run of a promotion's evidence. A run of another tenant is an unknown one.
fn transition(context: &Context<'_>, mut body: Value) -> Result<Value, Refusal> {
    if let Some(Value::String(run)) = body.get_mut("evalRunId") {
        *run = or_no_run(context, "evalRunId", run)?;
    }
    Ok(body)
}

/// The run that a member names, or the id of none if it is another tenant's.
fn or_no_run(context: &Context<'_>, field: &str, given: &str) -> Result<String, Refusal> {
    match opaque_id(context.tenant, Seat::Body, field, given) {
        Err(Refusal::OtherTenant(_)) => Ok(NO_RUN.to_owned()),
        found => found,
    }
}
