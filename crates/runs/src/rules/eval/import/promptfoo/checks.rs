//! Single assertions: their values with variables filled in, in the terms of scoring documents.

use serde_json::{Map, Value, json};

use super::asserts::Context;
use super::files::{is_external, variable};
use super::judged;
use super::template::{any_string, fill};
use crate::rules::eval::import::source::document;

/// Assertions that run code.
const CODE: [&str; 4] = ["javascript", "python", "ruby", "webhook"];

pub enum Check {
    Assertion(Value),
    Criteria(Vec<String>),
    /// The assertion that a program of the user decides instead of this code.
    Code(Value),
}

/// The assertion of the scoring document, or the criteria of the rubric.
///
/// # Errors
/// Why the assertion cannot be imported, as the end of a sentence.
pub fn check(
    kind: &str,
    assert: &mut Map<String, Value>,
    has_metric: bool,
    context: &Context<'_>,
) -> Result<Check, String> {
    let (plain, is_negated) = match kind.strip_prefix("not-") {
        Some(plain) => (plain, true),
        None => (kind, false),
    };
    if CODE.contains(&plain) {
        return Ok(Check::Code(decided_by_a_program(plain, is_negated, assert)));
    }
    let value = match assert.remove("value").filter(|value| !value.is_null()) {
        Some(value) => Some(filled(value, context)?),
        None => None,
    };
    let threshold = assert.get("threshold").and_then(Value::as_f64);
    let is_alone = !(is_negated || context.in_set || has_metric);
    let criteria = criteria(plain, value.as_ref())?;
    let mut assertion = match criteria {
        // A rubric of the suite says the same, and other hosts can judge it.
        Some(criteria) if is_alone => return Ok(Check::Criteria(criteria)),
        Some(criteria) => {
            let each = |text: String| json!({"criterion": text});
            let criteria: Vec<Value> = criteria.into_iter().map(each).collect();
            json!({"type": "rubric", "criteria": criteria})
        }
        None => match judged::assertion(plain, value.as_ref(), threshold, context.vars)? {
            Some(assertion) => assertion,
            None => deterministic(plain, value, threshold)?,
        },
    };
    assert.remove("threshold");
    if is_negated && let Some(members) = assertion.as_object_mut() {
        members.insert("not".to_owned(), json!(true));
    }
    Ok(Check::Assertion(assertion))
}

/// The assertion `command` with everything that the code assertion holds.
fn decided_by_a_program(kind: &str, is_negated: bool, assert: &mut Map<String, Value>) -> Value {
    let mut assertion = json!({"type": "command", "name": kind});
    let members = ["value", "threshold", "config"];
    let taken = members.map(|name| Some((name.to_owned(), assert.remove(name)?)));
    let config: Map<String, Value> = taken.into_iter().flatten().collect();
    if let Some(members) = assertion.as_object_mut() {
        if !config.is_empty() {
            members.insert("config".to_owned(), Value::Object(config));
        }
        if is_negated {
            members.insert("not".to_owned(), json!(true));
        }
    }
    assertion
}

/// The value with files read and variables filled in.
fn filled(value: Value, context: &Context<'_>) -> Result<Value, String> {
    let value = match &value {
        Value::String(text) if is_external(text) => variable(value.clone(), context.files)
            .map_err(|reason| format!(" whose value cannot be read: it is {reason}"))?,
        _ => value,
    };
    if any_string(&value, |text| {
        is_external(text) && text.starts_with("file://")
    }) {
        return Err(" whose value is in another file".to_owned());
    }
    fill(&value, context.vars).map_err(|it| format!(" whose value is {}", it.reason()))
}

/// The criteria of an assertion that a rubric can hold.
fn criteria(kind: &str, value: Option<&Value>) -> Result<Option<Vec<String>>, String> {
    match kind {
        "llm-rubric" | "model-graded-closedqa" | "g-eval" => judged::texts(value).map(Some),
        _ => Ok(None),
    }
}

fn deterministic(
    kind: &str,
    value: Option<Value>,
    threshold: Option<f64>,
) -> Result<Value, String> {
    let without_value = || " without a value".to_owned();
    let words = |value: Option<Value>| {
        let words: Option<Vec<String>> = match value {
            Some(Value::Array(items)) => items.iter().map(scalar).collect(),
            Some(Value::String(list)) => {
                Some(list.split(',').map(|it| it.trim().to_owned()).collect())
            }
            Some(_) => None,
            None => return Err(without_value()),
        };
        words
            .filter(|words| !words.is_empty() && words.iter().all(|word| !word.is_empty()))
            .ok_or_else(|| " has a value that is not a list of texts".to_owned())
    };
    let text = |value: Option<Value>| match value.as_ref().map(scalar) {
        Some(Some(text)) if text.is_empty() => Err(" that every answer satisfies".to_owned()),
        Some(Some(text)) => Ok(text),
        Some(None) => Err(" has a value that is not a text".to_owned()),
        None => Err(without_value()),
    };
    Ok(match kind {
        "equals" => json!({"type": kind, "value": value.ok_or_else(without_value)?}),
        "contains" | "icontains" | "starts-with" | "ends-with" => {
            json!({"type": kind, "value": text(value)?})
        }
        "regex" => json!({"type": kind, "pattern": text(value)?}),
        "contains-any" | "contains-all" => json!({"type": kind, "values": words(value)?}),
        "icontains-any" | "icontains-all" => {
            json!({"type": kind.trim_start_matches('i'), "values": words(value)?, "ignoreCase": true})
        }
        "is-json" => match value {
            None => json!({"type": kind}),
            Some(Value::String(schema)) => {
                let schema =
                    document(schema.as_bytes()).map_err(|it| format!(" has a schema, but {it}"))?;
                json!({"type": kind, "schema": schema})
            }
            Some(schema) => json!({"type": kind, "schema": schema}),
        },
        "levenshtein" => {
            let distance = at_least_zero(threshold.unwrap_or(5.0).floor())
                .and_then(|it| u32::try_from(it).ok())
                .ok_or_else(|| " has a threshold that is not a distance".to_owned())?;
            json!({"type": kind, "value": text(value)?, "maxDistance": distance})
        }
        "rouge-n" => json!({"type": kind, "value": text(value)?, "min": share(threshold, 0.75)?}),
        "bleu" => json!({"type": kind, "value": text(value)?, "min": share(threshold, 0.5)?}),
        "similar" => {
            let min = share(threshold, 0.75)?;
            match value {
                Some(Value::Array(items)) => {
                    let texts: Option<Vec<String>> = items.iter().map(scalar).collect();
                    let texts =
                        texts.filter(|it| !it.is_empty() && it.iter().all(|it| !it.is_empty()));
                    let texts = texts
                        .ok_or_else(|| " has a value that is not a list of texts".to_owned())?;
                    json!({"type": kind, "anyOf": texts, "min": min})
                }
                value => json!({"type": kind, "value": text(value)?, "min": min}),
            }
        }
        "latency" => match threshold.and_then(at_least_zero) {
            Some(milliseconds) => json!({"type": kind, "maxMs": milliseconds}),
            None => return Err(" without a threshold in milliseconds".to_owned()),
        },
        "cost" => match threshold.filter(|it| it.is_finite() && *it >= 0.0) {
            Some(usd) => json!({"type": kind, "maxUsd": usd}),
            None => return Err(" without a threshold in USD".to_owned()),
        },
        "is-refusal" => json!({"type": "refusal"}),
        _ => return Err(" has no counterpart in a suite or its scoring document".to_owned()),
    })
}

/// The text of a value that is not structured.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// The integer, rounded up.
fn at_least_zero(number: f64) -> Option<u64> {
    let number = number.ceil();
    // Above 2^53, doubles do not hold every integer.
    if !(0.0..=9_007_199_254_740_992.0).contains(&number) {
        return None;
    }
    format!("{number:.0}").parse().ok()
}

pub(super) fn share(threshold: Option<f64>, usual: f64) -> Result<f64, String> {
    let share = threshold.unwrap_or(usual);
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(" has a threshold that is not from 0 to 1".to_owned()),
    }
}
