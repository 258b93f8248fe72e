//! Refusals of the inner parsers, with the names of major 2.

use std::borrow::Cow;

use serde_json::Value;

use super::options;
use touchstone_kit::error::{ErrorCode, Problem};

const CONFIGURABLE: &str = "configurable.";
const OVERLAY: &str = "runOptionsOverlay.";

/// One answer for all reasons why a run cannot be the baseline or the source of fixtures, so that
/// it does not tell which runs exist.
const UNUSABLE: &[(&str, &str)] = &[
    (
        "baselineRunId",
        "`baselineRunId` must name a finished eval run of this tenant that can be compared with \
         this run: the same suite, version, tasks, scoring and judge, with every task judged",
    ),
    (
        "fixtureRuns",
        "`fixtureRuns` must name at most 100 finished eval runs of this tenant over the same suite \
         and version that recorded tool calls of the task, which must be one of this run",
    ),
];

/// What an inner parser refuses, with the fields that the client sent.
pub fn refusal(operation: &str, mut problem: Problem) -> Problem {
    let field = problem.details.get("field").and_then(Value::as_str);
    let Some(field) = field.map(|field| outer_name(operation, field).into_owned()) else {
        problem.message = renamed(operation, &problem.message);
        return problem;
    };
    if problem.code == ErrorCode::ValidationError && operation == "createRun" {
        let unusable = UNUSABLE.iter().find(|(of, _)| field == *of);
        if let Some((field, message)) = unusable {
            return Problem::validation(field, *message);
        }
    }
    problem.message = renamed(operation, &problem.message);
    problem.with("field", field)
}

/// The name under major 2 of a field of the inner form.
fn outer_name<'a>(operation: &str, name: &'a str) -> Cow<'a, str> {
    let (overlay, field) = match (operation, name.strip_prefix(OVERLAY)) {
        ("createRun", _) => ("", name),
        ("forkRun", Some(field)) => (OVERLAY, field),
        _ => return name.into(),
    };
    match field.strip_prefix(CONFIGURABLE) {
        Some(field) => format!("{overlay}{}", options::path(field)).into(),
        None => name.into(),
    }
}

/// A message with other names between its backticks.
fn renamed(operation: &str, message: &str) -> String {
    let mut parts = message.split('`');
    let mut outer = parts.next().unwrap_or_default().to_owned();
    let mut is_name = true;
    for part in parts {
        outer.push('`');
        match is_name {
            true => outer.push_str(&outer_name(operation, part)),
            false => outer.push_str(part),
        }
        is_name = !is_name;
    }
    outer
}
