//! Checks of assertions that a judge decides.

use serde_json::Value;

use super::faults::Faults;
use super::rules::check_score;
use crate::rules::eval::matching::is_member_pointer;
use crate::rules::eval::scoring_document::Assertion;
use crate::rules::eval::scoring_document::checks::Check;
use crate::rules::eval::scoring_document::judged::{OfContext, Rubric};
use crate::rules::eval::scoring_document::limits::{MAX_CRITERIA, MAX_JUDGED_TEXT, MAX_PARTS};

/// Checks what the types of the parameters do not express.
pub fn check_judged(check: &Check, at: &str, faults: &mut Faults) {
    match check {
        Check::ClosedQuestion(it) => check_text(&it.question, &format!("{at}/question"), faults),
        Check::Rubric(it) => check_rubric(it, at, faults),
        Check::Factuality(it) => {
            check_text(&it.reference, &format!("{at}/reference"), faults);
            if it.accept.as_ref().is_some_and(Vec::is_empty) {
                faults.add(
                    format!("{at}/accept"),
                    "is empty; list the accepted categories",
                );
            }
        }
        Check::AnswerRelevance(it) => check_score(it.min, at, "min", faults),
        Check::Faithfulness(it) | Check::ContextRelevance(it) => {
            if it.reference.is_some() {
                let place = format!("{at}/reference");
                faults.add(
                    place,
                    format!("is not used by `{}`; remove it", check.name()),
                );
            }
            check_context(it, at, faults);
        }
        Check::ContextPrecision(it) => check_context(it, at, faults),
        Check::ContextRecall(it) => {
            if it.reference.is_none() {
                faults.add(at, "needs `reference`, the right answer");
            }
            check_context(it, at, faults);
        }
        Check::PreferredToBaseline(it) => {
            check_score(it.min, at, "min", faults);
            if let Some(criterion) = &it.criterion {
                check_text(criterion, &format!("{at}/criterion"), faults);
            }
        }
        _ => {}
    }
}

fn check_rubric(it: &Rubric, at: &str, faults: &mut Faults) {
    let place = format!("{at}/criteria");
    check_score(it.min, at, "min", faults);
    if it.criteria.len() > MAX_CRITERIA {
        faults.add(&place, format!("has more than {MAX_CRITERIA} criteria"));
    }
    for (n, criterion) in it.criteria.iter().enumerate() {
        check_text(
            &criterion.criterion,
            &format!("{place}/{n}/criterion"),
            faults,
        );
        if !(criterion.weight.is_finite() && criterion.weight >= 0.0) {
            faults.add(format!("{place}/{n}/weight"), "must be at least 0");
        }
    }
    let total: f64 = it.criteria.iter().map(|it| it.weight).sum();
    if !(total > 0.0 && total.is_finite()) {
        faults.add(place, "needs a criterion with a `weight` above 0");
    }
}

fn check_context(it: &OfContext, at: &str, faults: &mut Faults) {
    check_score(it.min, at, "min", faults);
    if let Some(reference) = &it.reference {
        check_text(reference, &format!("{at}/reference"), faults);
    }
    if it.context.is_some() && it.context_pointer.is_some() {
        faults.add(
            at,
            "has both `context` and `contextPointer`; keep one of them",
        );
    }
    if let Some(pointer) = &it.context_pointer
        && !(pointer.is_empty() || is_member_pointer(pointer))
    {
        faults.add(
            format!("{at}/contextPointer"),
            "must be a JSON Pointer (RFC 6901) into the task's input, such as `/context`",
        );
    }
    if let Some(context) = &it.context {
        let parts = context.all();
        if parts.is_empty() || parts.len() > MAX_PARTS {
            faults.add(
                format!("{at}/context"),
                format!("must be a text, or 1 to {MAX_PARTS} texts"),
            );
        }
        for part in parts {
            check_text(part, &format!("{at}/context"), faults);
        }
    }
}

/// A text that a judge is given.
fn check_text(text: &str, at: &str, faults: &mut Faults) {
    if text.trim().is_empty() {
        faults.add(at, "is empty; write the text that the judge is given");
    }
    if text.len() > MAX_JUDGED_TEXT {
        faults.add(at, format!("is longer than {MAX_JUDGED_TEXT} bytes"));
    }
}

/// Pointers to a context that the input of the task does not have.
pub fn missing_context(assertions: &[Assertion], at: &str, input: &Value, faults: &mut Faults) {
    for (n, assertion) in assertions.iter().enumerate() {
        let at = format!("{at}/assertions/{n}");
        if let Some(pointer) = assertion.check.context_pointer()
            && input.pointer(pointer).is_none()
        {
            faults.add(
                format!("{at}/contextPointer"),
                "names nothing in the input of the task",
            );
        }
        missing_context(assertion.check.nested(), &at, input, faults);
    }
}
