//! Assertions: one that a suite can hold becomes the expectation of the task; all others become a
//! task's entry in the scoring document. Model-graded ones become a rubric.

use serde_json::{Map, Value, json};

use super::template::fill;
use crate::rules::eval::import::draft::{Draft, short};
use crate::rules::eval::import::scoring::{self, Expectation, any_answer, golden};
use crate::rules::eval::import::source::{Files, document};
use crate::rules::eval::scoring_document::limits;
use touchstone_openwop::suite::MatchStrategy;

use super::files::is_external;

/// Maximum depth of sets of assertions.
const MAX_DEPTH: usize = 4;

/// Maximum number of assertions of a test, beside its rubric.
const MAX_ASSERTIONS: usize = limits::MAX_ASSERTIONS - 1;

/// Assertions that run code.
const CODE: [&str; 4] = ["javascript", "python", "ruby", "webhook"];

/// The context of a test's assertions.
pub struct Context<'a> {
    pub vars: &'a Map<String, Value>,
    pub files: &'a dyn Files,
    pub place: &'a str,
}

/// The parts of an expectation.
#[derive(Default)]
struct Parts {
    /// The first assertion that a suite can hold, without its weight and metric.
    golden: Option<Value>,
    /// All assertions that code can check.
    checks: Vec<Value>,
    criteria: Vec<(String, f64)>,
    /// Whether a suite cannot hold the checks.
    needs_scoring: bool,
}

/// The expectation of a test. `None` if it has assertions and none of them can be imported.
pub fn expectation(
    asserts: &[Value],
    threshold: Option<f64>,
    context: &Context<'_>,
    draft: &mut Draft,
) -> Option<Expectation> {
    if asserts.is_empty() {
        draft.report_loss(
            context.place,
            "a test without assertions: as in promptfoo, every answer passes",
        );
        return Some(Expectation::plain(any_answer()));
    }
    let mut parts = Parts::default();
    for assert in asserts {
        add(assert, context, 0, &mut parts, draft);
    }
    let rubric = rubric(&parts.criteria);
    let weight: f64 = parts.criteria.iter().map(|(_, weight)| weight).sum();
    if parts.checks.is_empty() && threshold.is_none() {
        return rubric.map(Expectation::plain);
    }
    let (expected, mut assertions) = match (rubric, parts.golden) {
        (Some(rubric), _) => {
            let judged = match weight == 1.0 {
                true => json!({"type": "expected"}),
                false => json!({"type": "expected", "weight": weight}),
            };
            (rubric, vec![judged])
        }
        (None, Some(golden)) => (golden, Vec::new()),
        (None, None) if parts.checks.is_empty() => return None,
        (None, None) => (any_answer(), Vec::new()),
    };
    let is_rubric = !assertions.is_empty();
    let single = parts.checks.len() == 1 && !is_rubric;
    if single && !parts.needs_scoring {
        return Some(Expectation::plain(expected));
    }
    assertions.extend(parts.checks);
    let mut scored = json!({"assertions": assertions});
    if let (Some(threshold), Some(members)) = (threshold, scored.as_object_mut()) {
        members.insert("threshold".to_owned(), json!(threshold));
    }
    Some(Expectation {
        expected,
        scoring: Some(scored),
    })
}

fn rubric(criteria: &[(String, f64)]) -> Option<Value> {
    let sum: f64 = criteria.iter().map(|(_, weight)| weight).sum();
    (sum > 0.0 && sum.is_finite()).then(|| {
        let shares: Vec<Value> = criteria
            .iter()
            .map(|(criterion, weight)| json!({"criterion": criterion, "weight": weight / sum}))
            .collect();
        json!({"kind": "rubric", "rubric": shares})
    })
}

fn add(assert: &Value, context: &Context<'_>, depth: usize, parts: &mut Parts, draft: &mut Draft) {
    let place = context.place;
    let Some(assert) = assert.as_object() else {
        draft.report_loss(place, "an assertion in another file");
        return;
    };
    let mut assert = assert.clone();
    let kind = match assert.remove("type") {
        Some(Value::String(kind)) => kind,
        _ => {
            draft.report_loss(place, "an assertion without a type");
            return;
        }
    };
    let weight = match assert.remove("weight") {
        None | Some(Value::Null) => None,
        Some(weight) => match weight.as_f64().filter(|it| it.is_finite() && *it >= 0.0) {
            Some(0.0) => {
                draft.report_loss(place, "an assertion of weight 0, which cannot fail a test");
                return;
            }
            Some(weight) => Some(weight),
            None => {
                draft.report_loss(place, "a weight that is not a positive number; 1 is used");
                None
            }
        },
    };
    let metric = match assert.remove("metric") {
        Some(Value::String(metric)) => Some(metric),
        _ => None,
    };
    let metric = metric.filter(|metric| {
        let usable = is_metric(metric) && draft.use_metric(metric);
        if !usable {
            draft.report_loss(
                place,
                "the name of a metric: a suite can have 100, of 1 to 64 letters, digits, spaces or \
                 any of `_-./:`",
            );
        }
        usable
    });
    for code in ["transform", "contextTransform"] {
        if assert.remove(code).is_some() {
            draft.report_loss(
                place,
                format!("`{code}` of an assertion of type {:?}, which changes the answer with code: the whole answer is checked", short(&kind)),
            );
        }
    }
    let common = Common { weight, metric };
    if kind == "assert-set" {
        set(assert, common, context, depth, parts, draft);
        return;
    }
    match check(&kind, &mut assert, context) {
        Ok(Check::Criteria(texts)) => {
            if common.metric.is_some() {
                draft.report_loss(place, "the metric of a model-graded assertion");
            }
            let weight = common.weight.unwrap_or(1.0);
            parts
                .criteria
                .extend(texts.into_iter().map(|text| (text, weight)));
        }
        Ok(Check::Assertion(assertion)) => {
            let assertion = common.applied_to(assertion);
            if let Err(reason) = scoring::check(&assertion) {
                draft.report_loss(
                    place,
                    format!("an assertion of type {:?}: {reason}", short(&kind)),
                );
                return;
            }
            if parts.checks.len() == MAX_ASSERTIONS {
                draft.report_loss(place, "an assertion after the first 199 of a test");
                return;
            }
            let plain = held_by_a_suite(&assertion);
            let is_first = parts.checks.is_empty();
            parts.needs_scoring |= plain.is_none() || assertion.get("metric").is_some();
            // In a set, the assertion is not the expectation of the task.
            if depth == 0 && parts.golden.is_none() {
                parts.golden = plain;
            } else if depth > 0 {
                parts.needs_scoring = true;
            }
            parts.needs_scoring |= !is_first;
            parts.checks.push(assertion);
        }
        Err(reason) => {
            draft.report_loss(
                place,
                format!("an assertion of type {:?}{reason}", short(&kind)),
            );
            return;
        }
    }
    draft.report_unknown(place, "an assertion", &assert);
}

/// Whether reports can show the name of a metric.
fn is_metric(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || " _-./:".contains(c);
    (1..=64).contains(&name.chars().count()) && name.trim() == name && name.chars().all(allowed)
}

struct Common {
    weight: Option<f64>,
    metric: Option<String>,
}

impl Common {
    fn applied_to(self, mut assertion: Value) -> Value {
        if let Some(members) = assertion.as_object_mut() {
            if let Some(weight) = self.weight.filter(|weight| *weight != 1.0) {
                members.insert("weight".to_owned(), json!(weight));
            }
            if let Some(metric) = self.metric {
                members.insert("metric".to_owned(), json!(metric));
            }
        }
        assertion
    }
}

/// The expectation of a suite that says the same.
fn held_by_a_suite(assertion: &Value) -> Option<Value> {
    if assertion.get("not").is_some() {
        return None;
    }
    let value = assertion.get("value")?;
    match assertion.get("type")?.as_str()? {
        "equals" if value.is_object() || value.is_array() => {
            Some(golden(MatchStrategy::JsonMatch, value.clone()))
        }
        "equals" => Some(golden(MatchStrategy::Exact, value.clone())),
        "contains" => Some(golden(MatchStrategy::Contains, value.clone())),
        _ => None,
    }
}

fn set(
    mut assert: Map<String, Value>,
    common: Common,
    context: &Context<'_>,
    depth: usize,
    parts: &mut Parts,
    draft: &mut Draft,
) {
    if depth == MAX_DEPTH {
        draft.report_loss(context.place, "assertion sets that are nested too deeply");
        return;
    }
    let threshold = assert.remove("threshold").and_then(|it| it.as_f64());
    let members = match assert.remove("assert") {
        Some(Value::Array(members)) => members,
        _ => Vec::new(),
    };
    draft.report_unknown(context.place, "an assertion set", &assert);
    let mut inside = Parts::default();
    for member in &members {
        add(member, context, depth + 1, &mut inside, draft);
    }
    if !inside.criteria.is_empty() {
        draft.report_loss(
            context.place,
            "the place of a model-graded assertion in a set: it applies to the whole test",
        );
        parts.criteria.extend(inside.criteria);
    }
    if inside.checks.is_empty() {
        return;
    }
    parts.needs_scoring = true;
    let mut all = json!({"type": "all", "assertions": inside.checks});
    if let (Some(threshold), Some(members)) = (threshold, all.as_object_mut()) {
        members.insert("threshold".to_owned(), json!(threshold));
    }
    parts.checks.push(common.applied_to(all));
}

enum Check {
    Assertion(Value),
    Criteria(Vec<String>),
}

/// The assertion of the scoring document, or the criteria of the rubric.
fn check(
    kind: &str,
    assert: &mut Map<String, Value>,
    context: &Context<'_>,
) -> Result<Check, String> {
    let (plain, is_negated) = match kind.strip_prefix("not-") {
        Some(plain) => (plain, true),
        None => (kind, false),
    };
    if CODE.contains(&plain) {
        return Err(" is code, which is not executed".to_owned());
    }
    let value = match assert.remove("value").filter(|value| !value.is_null()) {
        Some(value) => Some(filled(value, context)?),
        None => None,
    };
    let threshold = assert.get("threshold").and_then(Value::as_f64);
    if let Some(criteria) = model_graded(plain, value.as_ref())? {
        return match is_negated {
            true => Err(" negates a judgement, which a rubric cannot".to_owned()),
            false => Ok(Check::Criteria(criteria)),
        };
    }
    let mut assertion = deterministic(plain, value, threshold)?;
    assert.remove("threshold");
    if is_negated && let Some(members) = assertion.as_object_mut() {
        members.insert("not".to_owned(), json!(true));
    }
    Ok(Check::Assertion(assertion))
}

/// The value with files read and variables filled in.
fn filled(value: Value, context: &Context<'_>) -> Result<Value, String> {
    let value = match &value {
        Value::String(text) if is_external(text) => {
            super::files::variable(value.clone(), context.files)
                .map_err(|reason| format!(" whose value cannot be read: it is {reason}"))?
        }
        _ => value,
    };
    if super::template::any_string(&value, |text| {
        is_external(text) && text.starts_with("file://")
    }) {
        return Err(" whose value is in another file".to_owned());
    }
    fill(&value, context.vars).map_err(|it| format!(" whose value is {}", it.reason()))
}

fn model_graded(kind: &str, value: Option<&Value>) -> Result<Option<Vec<String>>, String> {
    let reference =
        |text: String| format!("The answer agrees with the facts of this reference answer: {text}");
    let is_factuality = matches!(kind, "factuality" | "model-graded-factuality");
    if !is_factuality && !matches!(kind, "llm-rubric" | "model-graded-closedqa" | "g-eval") {
        return Ok(None);
    }
    let texts = match value {
        None => return Err(" without a value".to_owned()),
        Some(Value::Array(items)) => items.clone(),
        Some(one) => vec![one.clone()],
    };
    let texts: Option<Vec<String>> = texts
        .into_iter()
        .map(|text| match text {
            Value::String(text) if !text.trim().is_empty() => Some(match is_factuality {
                true => reference(text),
                false => text,
            }),
            _ => None,
        })
        .collect();
    match texts {
        Some(texts) if !texts.is_empty() => Ok(Some(texts)),
        _ => Err(" has a criterion that is empty or not a string".to_owned()),
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

/// A whole number, rounded up.
fn at_least_zero(number: f64) -> Option<u64> {
    let number = number.ceil();
    // Above 2^53, doubles do not hold every integer.
    if !(0.0..=9_007_199_254_740_992.0).contains(&number) {
        return None;
    }
    format!("{number:.0}").parse().ok()
}

fn share(threshold: Option<f64>, usual: f64) -> Result<f64, String> {
    let share = threshold.unwrap_or(usual);
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(" has a threshold that is not from 0 to 1".to_owned()),
    }
}
