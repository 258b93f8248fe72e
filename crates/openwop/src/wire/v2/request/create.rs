//! The body of `POST /runs` (OpenWOP v2 runs, "Create"). It is closed, and the members about an
//! evaluation are at its top level; inside, they are members of `configurable`.

use serde_json::{Map, Value};

use super::options::{EVAL_MEMBERS, flat};
use super::{closed, or_no_run};
use crate::wire::v2::names;
use crate::wire::v2::translation::{Context, Refusal, invalid};

const MEMBERS: &[&str] = &[
    "workflowId",
    "inputs",
    "residency",
    "tenantId",
    "scopeId",
    "callbackUrl",
    "mode",
    "evalSuiteRef",
    "agentId",
    "evalModes",
    "baselineRunId",
    "fixtureRuns",
    "configurable",
    "tags",
    "metadata",
];
const REGRESSION: &str = "regression";

/// The body that the inner parser takes.
///
/// # Errors
/// A member that is unknown, null or of another type; an id without tenant.
pub fn create(context: &Context<'_>, body: Value) -> Result<Value, Refusal> {
    let Value::Object(mut body) = closed(body, MEMBERS)? else {
        return Ok(Value::Null);
    };
    // Nothing is delivered to it: the host does not advertise `interrupt.callbackDelivery`.
    if body.contains_key("callbackUrl") {
        let rule = "is not supported by this host; leave it out, and register a webhook";
        return Err(invalid("callbackUrl", rule));
    }
    if body
        .get("tenantId")
        .is_some_and(|it| it.as_str() != Some(context.tenant))
    {
        return Err(invalid(
            "tenantId",
            "is not the tenant of this key; leave it out",
        ));
    }
    let eval = eval_members(context, &mut body)?;
    let mut configurable = match body.get("configurable") {
        Some(configurable) => flat(context, configurable)?,
        None => Map::new(),
    };
    configurable.extend(eval);
    if !configurable.is_empty() || body.contains_key("configurable") {
        body.insert("configurable".to_owned(), Value::Object(configurable));
    }
    if let Some(Value::String(id)) = body.get_mut("workflowId")
        && let Some(stored) = names::stored_workflow(id)
    {
        *id = stored;
    }
    Ok(Value::Object(body))
}

/// Takes the members about an evaluation out of a body.
fn eval_members(
    context: &Context<'_>,
    body: &mut Map<String, Value>,
) -> Result<Map<String, Value>, Refusal> {
    let is_eval = body.get("mode").and_then(Value::as_str) == Some("eval");
    let mut found = Map::new();
    for name in EVAL_MEMBERS {
        let Some(value) = body.remove(*name) else {
            continue;
        };
        if !is_eval {
            return Err(invalid(name, "is only allowed with `mode: \"eval\"`"));
        }
        found.insert((*name).to_owned(), value);
    }
    let is_compared = found
        .get("evalModes")
        .and_then(Value::as_array)
        .is_some_and(|modes| modes.iter().any(|mode| mode == REGRESSION));
    if let Some(run) = found.get_mut("baselineRunId") {
        let field = "baselineRunId";
        if !is_compared {
            return Err(invalid(field, "needs the mode `regression` in `evalModes`"));
        }
        let Value::String(run) = run else {
            return Err(invalid(field, "must be the id of a run"));
        };
        *run = or_no_run(context, field, run)?;
    }
    if let Some(runs) = found.get_mut("fixtureRuns") {
        fixtures(context, runs)?;
    }
    Ok(found)
}

/// The recorded fixtures: the run of each task.
fn fixtures(context: &Context<'_>, runs: &mut Value) -> Result<(), Refusal> {
    let field = "fixtureRuns";
    let runs = match runs {
        Value::Object(runs) if !runs.is_empty() => runs,
        _ => {
            let rule = "must be an object with the id of a run for at least one task";
            return Err(invalid(field, rule));
        }
    };
    for run in runs.values_mut() {
        let Value::String(run) = run else {
            return Err(invalid(field, "must have the id of a run for each task"));
        };
        *run = or_no_run(context, field, run)?;
    }
    Ok(())
}
