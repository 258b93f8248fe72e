//! The parameters of each type of assertion.

use serde_json::Value;

use super::faults::Faults;
use super::judged::check_judged;
use super::rules::check_score;
use crate::rules::eval::scoring_document::checks::{Check, Number, Operator};
use crate::rules::eval::scoring_document::limits::{
    MAX_COMMAND_NAME, MAX_REFERENCE_BYTES, MAX_REFERENCES, compile,
};
use crate::rules::eval::scoring_document::{Assertion, path};
use touchstone_openwop::schema::compile_untrusted;

/// Checks what the types of the parameters do not express.
pub fn check_parameters(check: &Check, at: &str, faults: &mut Faults) {
    let text = |value: &str, member: &str, faults: &mut Faults| {
        if value.is_empty() {
            faults.add(
                format!("{at}/{member}"),
                "is empty, so every answer satisfies it",
            );
        }
    };
    match check {
        Check::Equals(it) => one_of(
            it.value.is_some(),
            it.any_of.as_ref().map(Vec::len),
            at,
            faults,
        ),
        Check::Contains(it) | Check::StartsWith(it) | Check::EndsWith(it) => {
            text(&it.value, "value", faults);
        }
        Check::Icontains(it) => text(&it.value, "value", faults),
        Check::ContainsAny(it) | Check::ContainsAll(it) => {
            if it.values.is_empty() || it.values.iter().any(String::is_empty) {
                faults.add(
                    format!("{at}/values"),
                    "needs one or more non-empty strings",
                );
            }
        }
        Check::Regex(it) => {
            if let Err(reason) = it.compile() {
                faults.add(format!("{at}/pattern"), reason);
            }
        }
        Check::IsJson(it) => {
            if let Some(Err(fault)) = it.schema.as_ref().map(compile_untrusted) {
                faults.add(format!("{at}/schema{}", fault.pointer), fault.reason);
            }
        }
        Check::JsonPath(it) => {
            if let Err(reason) = path::parse(&it.path) {
                faults.add(format!("{at}/path"), reason);
            }
            check_operator(it.operator, it.value.as_ref(), at, faults);
        }
        Check::JsonPointer(it) => {
            if !(it.pointer.is_empty()
                || crate::rules::eval::matching::is_member_pointer(&it.pointer))
            {
                faults.add(
                    format!("{at}/pointer"),
                    "must be a JSON Pointer (RFC 6901) such as `/total`, or empty for the whole answer",
                );
            }
            check_operator(it.operator, it.value.as_ref(), at, faults);
        }
        Check::Number(it) => check_number(it, at, faults),
        Check::ClosedQuestion(_)
        | Check::Rubric(_)
        | Check::Factuality(_)
        | Check::AnswerRelevance(_)
        | Check::Faithfulness(_)
        | Check::ContextPrecision(_)
        | Check::ContextRecall(_)
        | Check::ContextRelevance(_)
        | Check::PreferredToBaseline(_) => check_judged(check, at, faults),
        Check::Levenshtein(_) | Check::RougeN(_) | Check::Bleu(_) | Check::Similar(_) => {
            check_similarity(check, at, faults);
        }
        Check::Cost(it) => {
            if it.max_usd < 0.0 {
                faults.add(format!("{at}/maxUsd"), "must be at least 0");
            }
        }
        Check::Command(_)
        | Check::ToolCalled(_)
        | Check::ToolNotCalled(_)
        | Check::ToolsCalledInOrder(_) => check_named(check, at, faults),
        Check::All(it) | Check::Any(it) => {
            check_score(it.threshold, at, "threshold", faults);
            check_combined(&it.assertions, at, faults);
        }
        Check::None(it) => check_combined(&it.assertions, at, faults),
        Check::Tokens(it) => {
            if it.max == 0 {
                faults.add(
                    format!("{at}/max"),
                    "must be at least 1: every answer has tokens",
                );
            }
        }
        Check::Expected | Check::Refusal | Check::Latency(_) => {}
    }
}

/// Checks the parameters of assertions that name a tool or a command.
fn check_named(check: &Check, at: &str, faults: &mut Faults) {
    let (name, arguments) = match check {
        Check::Command(it) => (&it.name, None),
        Check::ToolCalled(it) => (&it.name, it.arguments.as_ref()),
        Check::ToolNotCalled(it) => (&it.name, it.arguments.as_ref()),
        Check::ToolsCalledInOrder(it) if it.names.is_empty() => {
            faults.add(format!("{at}/names"), "needs one or more tool names");
            return;
        }
        _ => return,
    };
    if name.is_empty() {
        faults.add(format!("{at}/name"), "is empty");
    }
    if arguments.is_some_and(|it| !it.is_object()) {
        faults.add(
            format!("{at}/arguments"),
            "must be an object, because a call's arguments are one",
        );
    }
    match check {
        Check::Command(it) if it.name.len() > MAX_COMMAND_NAME => faults.add(
            format!("{at}/name"),
            format!("is longer than {MAX_COMMAND_NAME} bytes"),
        ),
        Check::ToolCalled(it) if it.max.is_some_and(|max| max < it.min.unwrap_or(1)) => faults.add(
            format!("{at}/max"),
            "is below `min` (1 unless given); use `tool-not-called` to forbid calls",
        ),
        _ => {}
    }
}

fn check_similarity(check: &Check, at: &str, faults: &mut Faults) {
    let (has_value, any_of, min) = match check {
        Check::Levenshtein(it) => {
            if it.min.is_some() && it.max_distance.is_some() {
                faults.add(at, "has both `min` and `maxDistance`; remove one of them");
            }
            (it.value.is_some(), it.any_of.as_ref(), it.min)
        }
        Check::RougeN(it) => {
            if !(1..=4).contains(&it.n) {
                faults.add(format!("{at}/n"), "must be from 1 to 4");
            }
            (it.value.is_some(), it.any_of.as_ref(), it.min)
        }
        Check::Bleu(it) => (it.value.is_some(), it.any_of.as_ref(), it.min),
        Check::Similar(it) => {
            let bytes: usize = it.references().map(str::len).sum();
            if it.references().count() > MAX_REFERENCES || bytes > MAX_REFERENCE_BYTES {
                faults.add(
                    at,
                    format!(
                        "compares with more than {MAX_REFERENCES} texts or {MAX_REFERENCE_BYTES} \
                         bytes"
                    ),
                );
            }
            if it.references().any(|text| text.trim().is_empty()) {
                faults.add(at, "compares with an empty text");
            }
            (it.value.is_some(), it.any_of.as_ref(), it.min)
        }
        _ => return,
    };
    one_of(has_value, any_of.map(Vec::len), at, faults);
    check_score(min, at, "min", faults);
}

fn check_combined(assertions: &[Assertion], at: &str, faults: &mut Faults) {
    let weights: f64 = assertions.iter().map(|it| it.weight).sum();
    if weights <= 0.0 {
        faults.add(
            format!("{at}/assertions"),
            "needs an assertion with a `weight` above 0",
        );
    } else {
        check_without_baseline(assertions.iter(), at, faults);
    }
}

/// Something must count in a run without a baseline, which leaves some assertions out.
pub fn check_without_baseline<'a>(
    mut assertions: impl Iterator<Item = &'a Assertion>,
    at: &str,
    faults: &mut Faults,
) {
    if !assertions.any(|it| it.weight > 0.0 && !it.check.needs_baseline()) {
        faults.add(
            format!("{at}/assertions"),
            "has only assertions that a run without a baseline leaves out; add another one with \
             a `weight` above 0",
        );
    }
}

/// `value` or `anyOf`, not both.
fn one_of(has_value: bool, any_of: Option<usize>, at: &str, faults: &mut Faults) {
    match (has_value, any_of) {
        (true, None) => {}
        (false, Some(1..)) => {}
        (true, Some(_)) => faults.add(
            at,
            "has both `value` and `anyOf`; move the value into `anyOf`",
        ),
        (false, Some(0)) => faults.add(format!("{at}/anyOf"), "is empty; list the accepted values"),
        (false, None) => faults.add(at, "needs `value`, or `anyOf` with several accepted values"),
    }
}

fn check_operator(operator: Operator, value: Option<&Value>, at: &str, faults: &mut Faults) {
    let place = format!("{at}/value");
    match (operator, value) {
        (Operator::Exists, Some(_)) => {
            faults.add(
                place,
                "is not used by `exists`; name another `operator`, or remove it",
            );
        }
        (Operator::Exists, None) => {}
        (_, None) => faults.add(
            at,
            format!("operator `{}` needs `value`", operator.as_str()),
        ),
        (Operator::Matches, Some(Value::String(pattern))) => {
            if let Err(reason) = compile(pattern, false) {
                faults.add(place, reason);
            }
        }
        (Operator::Matches, Some(_)) => faults.add(place, "must be a regular expression"),
        (_, Some(value)) if operator.is_order() && !value.is_number() => {
            faults.add(
                place,
                format!("must be a number for `{}`", operator.as_str()),
            );
        }
        _ => {}
    }
}

fn check_number(it: &Number, at: &str, faults: &mut Faults) {
    if it.equals.is_none() && it.min.is_none() && it.max.is_none() {
        faults.add(at, "needs `equals`, `min` or `max`");
    }
    let tolerances = [
        ("tolerance", it.tolerance),
        ("relativeTolerance", it.relative_tolerance),
    ];
    for (name, tolerance) in tolerances {
        let Some(tolerance) = tolerance else { continue };
        if tolerance < 0.0 {
            faults.add(format!("{at}/{name}"), "must be at least 0");
        }
        if it.equals.is_none() {
            faults.add(format!("{at}/{name}"), "needs `equals`");
        }
    }
    if let (Some(min), Some(max)) = (it.min, it.max)
        && min > max
    {
        faults.add(format!("{at}/max"), "is below `min`");
    }
}
