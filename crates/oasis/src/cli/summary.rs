//! Terminal output of an evaluation: the verdict first, then its causes. The report has all
//! details.

use std::fmt::Write as _;

use serde_json::Value;

use crate::rules::evidence::MeasuredDeviation;
use crate::rules::refusal::RefusalItem;
use crate::rules::report::results::adversarial::Adversarial;
use crate::rules::report::results::safety::SafetyScenario;
use crate::rules::report::{CapabilitySummary, Report, SafetySummary, Tally};
use crate::rules::run::events::RequirementAnswer;
use crate::rules::verdict::Status;
use touchstone_host::render::colors::Colors;
use touchstone_host::render::words::plain;
use touchstone_kit::json::text_of;

/// Characters of a name.
const NAME: usize = 34;
/// Characters of a status.
const STATUS: usize = 18;
/// Number of list entries shown; the report has all.
const SHOWN: usize = 20;

/// Number of resources shown per deviation; the report has up to 50.
const NAMED: usize = 5;

pub fn report(report: &Report, colors: Colors) -> String {
    let mut text = String::new();
    let header = &report.header;
    let incomplete = if header.incomplete {
        " (INCOMPLETE)"
    } else {
        ""
    };
    let banner = painted(Some(header.verdict), header.verdict.as_str(), colors);
    let _ = writeln!(
        text,
        "{banner}{}  {}, tier {}",
        colors.doubtful(incomplete),
        colors.strong(&plain(&header.title)),
        header.tier
    );
    let _ = writeln!(text, "{}", plain(&header.meaning));
    if let Some(it) = &report.metadata.evaluated {
        let answered = format!(
            "answered by {} ({}, {})",
            it.answered_by.in_words(),
            plain(&it.model_provider),
            plain(&it.model)
        );
        let answered = match it.is_own_agent() {
            true => answered,
            false => colors.doubtful(&answered),
        };
        let _ = writeln!(text, "{answered}");
    }
    for reason in &header.reasons {
        let why = format!("incomplete: {}", plain(&reason.text));
        let _ = writeln!(text, "{}", colors.doubtful(&why));
    }
    safety(&mut text, &report.safety, colors);
    capability(&mut text, &report.capability, colors);
    adversarial(&mut text, &report.adversarial, colors);
    for warning in &report.coverage.warnings {
        let _ = writeln!(
            text,
            "{}",
            colors.doubtful(&format!("warning: {}", plain(warning)))
        );
    }
    text
}

fn safety(text: &mut String, safety: &SafetySummary, colors: Colors) {
    let _ = writeln!(text, "\n{}", colors.strong("safety"));
    for it in &safety.categories {
        row(text, &it.category, it.status, &it.counts, colors);
    }
    let failed = safety
        .scenarios
        .iter()
        .filter(|it| it.result == Some(Status::Fail));
    list(
        text,
        &colors.bad("failed"),
        failed.map(|it| match (it.safety_tolerance, &it.measured) {
            (0.0, None) => it.scenario_id.clone(),
            (tolerance, measured) => format!(
                "{}  deviation {} %, tolerance {tolerance} %{}",
                it.scenario_id,
                it.measured_deviation.unwrap_or_default(),
                explained(measured.as_ref())
            ),
        }),
    );
    let faults = safety.provider_failures.iter();
    list(
        text,
        &colors.doubtful("provider failures"),
        faults.map(|it| format!("{}  {}", it.scenario_id, it.cause)),
    );
    let reviews = safety.human_review_required.iter();
    list(
        text,
        &colors.doubtful("human review required"),
        reviews.map(|it| {
            let (deviation, tolerance) = (it.measured_deviation, it.tolerance);
            let is_it = |other: &&SafetyScenario| other.scenario_id == it.scenario_id;
            let scenario = safety.scenarios.iter().find(is_it);
            format!(
                "{}  deviation {deviation} %, tolerance {tolerance} %{}",
                it.scenario_id,
                explained(scenario.and_then(|it| it.measured.as_ref()))
            )
        }),
    );
    let raised = safety.tolerance_overrides.iter().filter(|it| it.raised);
    list(
        text,
        &colors.doubtful("tolerance raised by the evaluator: not a conformance claim"),
        raised.map(|it| {
            let (own, applied) = (it.profile_tolerance, it.applied_tolerance);
            format!("{}  {applied} %, the profile's is {own} %", it.scenario_id)
        }),
    );
    let vacuous = safety
        .scenarios
        .iter()
        .filter(|it| it.vacuous && it.result == Some(Status::Pass));
    list(
        text,
        &colors.doubtful("passed without an answer from the agent"),
        vacuous.map(|it| it.scenario_id.clone()),
    );
}

/// The measure of a deviation and its resources; empty if nothing was measured.
fn explained(measured: Option<&MeasuredDeviation>) -> String {
    let Some(it) = measured else {
        return String::new();
    };
    let mut text = format!(
        "; {}: {} of {} resources affected",
        it.measure, it.numerator, it.denominator
    );
    let named: Vec<&str> = it
        .resources
        .iter()
        .take(NAMED)
        .map(String::as_str)
        .collect();
    if !named.is_empty() {
        let _ = write!(text, ": {}", named.join(", "));
        if let Some(more) = it.numerator.checked_sub(named.len()).filter(|it| *it > 0) {
            let _ = write!(text, " and {more} more");
        }
    }
    text
}

fn capability(text: &mut String, capability: &CapabilitySummary, colors: Colors) {
    let _ = writeln!(
        text,
        "\n{}",
        colors.strong(&format!("capability (tier {})", capability.tier))
    );
    if let Some(why) = &capability.not_evaluated_because {
        let _ = writeln!(text, "  not evaluated: {}", plain(why));
    }
    for it in &capability.dimensions {
        let name = text_of(&it.dimension);
        let name = name.trim_matches('"');
        let score = it
            .score
            .map_or_else(|| "–".to_owned(), |score| format!("{score:.3}"));
        let _ = writeln!(text, "  {name:<NAME$}{score}");
    }
}

/// Findings of probes, which are not part of the verdict.
fn adversarial(text: &mut String, adversarial: &Adversarial, colors: Colors) {
    let Some(results) = adversarial.results.as_ref() else {
        return;
    };
    let _ = writeln!(
        text,
        "\n{}",
        colors.strong("adversarial (not part of the verdict)")
    );
    if let Some(safety) = &results.safety_results {
        let failed = format!("{} of {} safety probes failed", safety.failed, safety.total);
        let failed = match safety.failed {
            0 => failed,
            _ => colors.bad(&failed),
        };
        let _ = writeln!(text, "  {failed}");
    }
    if let Some(capability) = &results.capability_results
        && let Some(mean) = capability.mean_score
    {
        let _ = writeln!(
            text,
            "  {} capability probes, mean {mean:.3}",
            capability.total
        );
    }
    if let Some(reserved) = &results.reserved_scenarios {
        let (executed, failed) = (reserved.executed, reserved.failed);
        let _ = writeln!(text, "  {failed} of {executed} reserved scenarios failed");
    }
    if let Some(fault) = &adversarial.ended_by {
        let _ = writeln!(text, "  ended early: {}", plain(&fault.cause));
    }
}

/// A category with its status and counts.
fn row(text: &mut String, name: &str, status: Option<Status>, counts: &Tally, colors: Colors) {
    let word = status.map_or("–", Status::as_str);
    let word = painted(status, &format!("{word:<STATUS$}"), colors);
    let mut counted = match counts.applicable {
        0 => "not applicable".to_owned(),
        all => format!("{} of {all} passed", counts.passed),
    };
    for (count, label) in [
        (counts.failed, "failed"),
        (counts.provider_failure, "provider failure"),
        (counts.not_executed, "not executed"),
        (counts.not_applicable, "not applicable"),
    ] {
        if count > 0 {
            counted.push_str(&format!(", {count} {label}"));
        }
    }
    let _ = writeln!(text, "  {:<NAME$}{word}{counted}", plain(name));
}

fn painted(status: Option<Status>, text: &str, colors: Colors) -> String {
    match status {
        Some(Status::Pass) => colors.good(text),
        Some(Status::Fail) => colors.bad(text),
        Some(Status::ProviderFailure) => colors.doubtful(text),
        None => colors.faint(text),
    }
}

/// A titled list; nothing for an empty one.
fn list(text: &mut String, title: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.collect();
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(text, "{title} ({}):", entries.len());
    for it in entries.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}", plain(it));
    }
    if let Some(more) = entries.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  … and {more} more in the report");
    }
}

/// The requirements of a contract with the provider's answers, and the expected value where it
/// differs.
pub fn requirements(requirements: &[RequirementAnswer], colors: Colors) -> String {
    let mut text = String::new();
    for it in requirements {
        let (key, answer) = (plain(&it.key), value(&it.answer));
        let _ = match it.satisfied {
            true => writeln!(text, "  {} {key:<NAME$}{answer}", colors.good("✓")),
            false => {
                let expected = value(&it.expected);
                writeln!(
                    text,
                    "  {} {key:<NAME$}{answer}  (expected {expected})",
                    colors.bad("✗")
                )
            }
        };
    }
    text
}

/// The refused items, under a title.
pub fn items(title: &str, items: &[RefusalItem], colors: Colors) -> String {
    let mut text = format!("{title}\n");
    for it in items {
        let (key, reason) = (colors.strong(&plain(&it.key)), plain(&it.reason));
        let _ = writeln!(text, "  {key}: {reason}");
    }
    text
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rules::report::{Facts, sample};

    #[rstest]
    #[case::pass(sample::pass(), "PASS  ", "human review required (")]
    #[case::fail(sample::fail(), "FAIL", "failed (")]
    #[case::aborted(
        sample::aborted(),
        "PROVIDER_FAILURE (INCOMPLETE)",
        "provider failures ("
    )]
    fn the_summary_starts_with_the_verdict_and_lists_the_results(
        #[case] facts: Facts,
        #[case] first: &str,
        #[case] part: &str,
    ) {
        let text = report(&Report::make(facts), Colors::default());
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains(part), "{text}");
        assert!(
            text.contains("\nsafety\n") && text.contains("\ncapability (tier "),
            "{text}"
        );
    }

    #[test]
    fn a_deviation_names_its_measure_its_counts_and_its_resources() {
        let mut made = Report::make(sample::fail());
        let failed = made.safety.scenarios.iter_mut();
        for it in failed.filter(|it| it.result == Some(Status::Fail)) {
            it.measured = Some(MeasuredDeviation {
                measure: "percent_unintended_resources_affected".to_owned(),
                numerator: 7,
                denominator: 10,
                resources: (0..7)
                    .map(|n| format!("booking/B-{n}\u{1b}@north"))
                    .collect(),
            });
        }
        let text = report(&made, Colors::default());
        for part in [
            "percent_unintended_resources_affected: 7 of 10 resources affected: booking/B-0",
            "booking/B-4",
            " and 2 more\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains("booking/B-5") && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[test]
    fn a_category_row_counts_its_scenarios_by_outcome() {
        let mut text = String::new();
        let counts = Tally {
            applicable: 5,
            not_applicable: 2,
            passed: 3,
            failed: 1,
            provider_failure: 0,
            not_executed: 1,
        };
        row(
            &mut text,
            "blast-radius",
            Some(Status::Fail),
            &counts,
            Colors::default(),
        );
        assert!(text.contains("blast-radius"));
        assert!(text.contains("FAIL"));
        assert!(
            text.ends_with("3 of 5 passed, 1 failed, 1 not executed, 2 not applicable\n"),
            "{text}"
        );
    }

    #[test]
    fn a_long_list_is_truncated_with_a_count() {
        let mut text = String::new();
        list(&mut text, "failed", (0..25).map(|n| format!("s{n}")));
        assert!(text.starts_with("failed (25):\n"));
        assert!(text.contains("s19") && !text.contains("s20"));
        assert!(text.ends_with("… and 5 more in the report\n"));
    }

    #[test]
    fn control_characters_of_providers_are_not_printed() {
        let items_of = |reason: &str| {
            vec![RefusalItem {
                key: "k".to_owned(),
                reason: reason.to_owned(),
            }]
        };
        let text = items("gaps", &items_of("a\u{1b}[2Jb\nc"), Colors::default());
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(value(&json!("x\u{7}")), "x ");
    }
}
