//! Requests about runs.

use serde_json::Value;

use super::closed;
use super::options::{flat, not_null};
use crate::wire::id::Seat;
use crate::wire::v2::names;
use crate::wire::v2::translation::{Context, Inner, Refusal, invalid, opaque_id};
use touchstone_kit::fields::{Fields, Nulls};

/// Most entries of a page. Discovery advertises it as `maxPageSize`.
pub const MAX_PAGE: u64 = 100;

type Query = Vec<(String, String)>;

/// Parameters of a page. A page has at most the advertised number of entries, and parameters that
/// are not advertised are ignored.
pub fn page(given: &Inner, known: &[&str]) -> Result<Query, Refusal> {
    let mut query = Query::new();
    for (name, value) in &given.query {
        if !known.contains(&name.as_str()) {
            continue;
        }
        let value = match name.as_str() {
            "limit" => limit(value)?,
            "workflowId" => {
                let stored = names::stored_workflow(value);
                stored.unwrap_or_else(|| value.clone())
            }
            _ => value.clone(),
        };
        query.push((name.clone(), value));
    }
    Ok(query)
}

fn limit(given: &str) -> Result<String, Refusal> {
    let is_number = !given.is_empty() && given.bytes().all(|it| it.is_ascii_digit());
    // A number that does not fit is above every limit.
    let asked = given.parse().unwrap_or(u64::MAX);
    if !is_number || asked == 0 {
        return Err(invalid("limit", "must be an integer of at least 1"));
    }
    Ok(asked.min(MAX_PAGE).to_string())
}

pub fn list(given: &Inner) -> Result<Query, Refusal> {
    page(given, &["limit", "cursor", "workflowId", "status"])
}

pub fn diff(context: &Context<'_>, given: &Inner) -> Result<Query, Refusal> {
    let against = given
        .get("against")
        .ok_or_else(|| invalid("against", "is required: the run to compare with"))?;
    let against = opaque_id(context.tenant, Seat::Url, "against", against)?;
    Ok(vec![("against".to_owned(), against)])
}

/// A poll without the names of major 1, which mean nothing. The sequence after which it starts stays
/// as it is, because what it means to the host depends on the run.
pub fn poll(given: &Inner) -> Result<Query, Refusal> {
    let mut query = Query::new();
    if let Some(after) = given.get("afterSequence") {
        let is_sequence = after.parse::<u64>().is_ok() && !after.starts_with('+');
        // The `lastSequence` of an empty log, which clients send back, is not a sequence.
        if is_sequence {
            query.push(("afterSequence".to_owned(), after.to_owned()));
        } else if after != "-1" {
            return Err(invalid("afterSequence", "must be an integer of at least 0"));
        }
    }
    if let Some(timeout) = given.get("timeout") {
        query.push(("timeout".to_owned(), timeout.to_owned()));
    }
    Ok(query)
}

/// The first character of an entry of a bulk request that names no run of the caller's tenant.
/// No run id has it.
const REFUSED: char = '/';

/// The runs to cancel. An id that is not one of the tenant is refused in its entry of the answer,
/// so it is kept as the client sent it, marked.
pub fn bulk(context: &Context<'_>, body: Value) -> Result<Value, Refusal> {
    let mut body = closed(body, &["runIds", "reason"])?;
    if let Some(Value::Array(ids)) = body.get_mut("runIds") {
        for id in ids {
            if let Value::String(id) = id {
                *id = opaque_id(context.tenant, Seat::Body, "runIds", id)
                    .unwrap_or_else(|_| format!("{REFUSED}{id}"));
            }
        }
    }
    Ok(body)
}

/// What the client sent for a marked entry; `None` for an id of the tenant.
pub fn refused_entry(id: &str) -> Option<&str> {
    id.strip_prefix(REFUSED)
}

/// A fork with its options in the inner form.
pub fn fork(context: &Context<'_>, body: Value) -> Result<Value, Refusal> {
    let mut body = closed(body, &["mode", "fromSeq", "runOptionsOverlay"])?;
    let is_replay = body.get("mode").is_some_and(|mode| mode == "replay");
    if let Some(overlay) = body.get_mut("runOptionsOverlay") {
        let field = "runOptionsOverlay";
        let known = ["configurable", "tags", "metadata"];
        let fields = Fields::closed(overlay, field, &known, Nulls::Wrong)?;
        for name in known {
            if fields.get(name).is_some_and(Value::is_null) {
                return Err(not_null(&format!("{field}.{name}")));
            }
        }
        // An overlay with `version` alone is empty inside.
        if is_replay && overlay.as_object().is_some_and(|it| !it.is_empty()) {
            let rule = "is only allowed for a branch, because a replay repeats the recording";
            return Err(invalid(field, rule));
        }
        if let Some(configurable) = overlay.get_mut("configurable") {
            let inner = flat(context, configurable).map_err(within_overlay)?;
            *configurable = Value::Object(inner);
        }
    }
    Ok(body)
}

/// Names the field as the client wrote it.
fn within_overlay(refusal: Refusal) -> Refusal {
    let Refusal::Invalid(mut problem) = refusal else {
        return refusal;
    };
    if let Some(Value::String(field)) = problem.details.get_mut("field") {
        let outer = format!("runOptionsOverlay.{field}");
        problem.message = problem
            .message
            .replace(&format!("`{field}`"), &format!("`{outer}`"));
        *field = outer;
    }
    Refusal::Invalid(problem)
}
