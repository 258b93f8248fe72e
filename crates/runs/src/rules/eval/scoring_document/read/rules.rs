//! What the types of a document do not express: names, weights, and what an assertion looks at.

use super::faults::{Faults, escaped};
use super::parameters::{check_parameters, check_without_baseline};
use crate::rules::eval::scoring_document::limits::{MAX_METRIC_CHARS, MAX_METRICS, is_label};
use crate::rules::eval::scoring_document::{Assertion, Check, Conversation, ScoringDocument};

pub fn check_rules(document: &ScoringDocument, faults: &mut Faults) {
    let entries = document.tasks.iter();
    let entries = entries.map(|(id, entry)| (format!("/tasks/{}", escaped(id.as_str())), entry));
    let defaults = document.defaults.iter();
    let defaults = defaults.map(|entry| ("/defaults".to_owned(), entry));
    for (at, entry) in defaults.chain(entries) {
        check_score(entry.threshold, &at, "threshold", faults);
        check_assertions(&entry.assertions, &at, faults);
        if at != "/defaults" {
            let conversation = entry.conversation.as_ref();
            let most = conversation.map_or(1, Conversation::most_turns);
            check_turns(&entry.assertions, &at, most, faults);
        }
    }
    for (id, entry) in &document.tasks {
        let at = format!("/tasks/{}", escaped(id.as_str()));
        let has_more =
            entry.conversation.is_some() || !entry.attachments.is_empty() || !entry.tags.is_empty();
        if entry.assertions.is_empty() && has_more {
            continue;
        }
        if entry.assertions.is_empty() {
            faults.add(
                format!("{at}/assertions"),
                "is empty; add an assertion, or remove the entry to score the task by the suite",
            );
            continue;
        }
        let scoring = document.of_task(id);
        let assertions = scoring.map(|it| it.assertions).unwrap_or_default();
        if assertions.iter().map(|it| it.weight).sum::<f64>() <= 0.0 {
            faults.add(
                format!("{at}/assertions"),
                "has weights that add up to 0, so there is no score; give one a `weight` above 0",
            );
        } else {
            check_without_baseline(assertions.into_iter(), &at, faults);
        }
    }
    if document.metrics().len() > MAX_METRICS {
        faults.add("", format!("names more than {MAX_METRICS} metrics"));
    }
}

fn check_assertions(assertions: &[Assertion], at: &str, faults: &mut Faults) {
    for (n, assertion) in assertions.iter().enumerate() {
        let at = format!("{at}/assertions/{n}");
        if !(assertion.weight.is_finite() && assertion.weight >= 0.0) {
            faults.add(format!("{at}/weight"), "must be at least 0");
        }
        if let Some(name) = &assertion.metric
            && !is_label(name, MAX_METRIC_CHARS)
        {
            faults.add(
                format!("{at}/metric"),
                format!(
                    "must be 1 to {MAX_METRIC_CHARS} letters, digits, spaces or any of `_-./:`, \
                     because reports show it"
                ),
            );
        }
        check_scope(assertion, &at, faults);
        check_parameters(&assertion.check, &at, faults);
        check_assertions(assertion.check.nested(), &at, faults);
    }
}

/// The text that an assertion checks, by itself.
fn check_scope(assertion: &Assertion, at: &str, faults: &mut Faults) {
    if assertion.scope().is_none() {
        return;
    }
    if assertion.on.is_some() && assertion.turn.is_some() {
        faults.add(at, "has both `on` and `turn`; keep one of them");
    }
    if assertion.turn == Some(0) {
        faults.add(
            format!("{at}/turn"),
            "must not be 0; 1 is the first turn and -1 the last one",
        );
    }
    let of_task = matches!(
        assertion.check,
        Check::Expected | Check::Latency(_) | Check::Cost(_) | Check::Tokens(_)
    );
    if of_task {
        let name = assertion.check.name();
        faults.add(
            at,
            format!("`{name}` is about the whole task; remove `on` and `turn`"),
        );
    }
    let mut outside = None;
    assertion.visit(&mut |it| {
        if it.check.is_external() {
            outside = Some(it.check.name());
        }
    });
    if let Some(name) = outside {
        faults.add(
            at,
            format!("`{name}` is decided about the last answer; remove `on` and `turn`"),
        );
    }
}

/// Turns that cannot take place.
fn check_turns(assertions: &[Assertion], at: &str, most: usize, faults: &mut Faults) {
    for (n, assertion) in assertions.iter().enumerate() {
        let at = format!("{at}/assertions/{n}");
        let beyond = assertion.turn.filter(|turn| {
            usize::try_from(turn.unsigned_abs()).is_ok_and(|distance| distance > most)
        });
        if let Some(turn) = beyond {
            let reason = match most {
                1 => format!("is {turn}, but the task has no further turns; add a `conversation`"),
                _ => format!("is {turn}, but the conversation has at most {most} turns"),
            };
            faults.add(format!("{at}/turn"), reason);
        }
        check_turns(assertion.check.nested(), &at, most, faults);
    }
}

pub fn check_score(score: Option<f64>, at: &str, member: &str, faults: &mut Faults) {
    if score.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
        faults.add(format!("{at}/{member}"), "must be from 0 to 1");
    }
}
