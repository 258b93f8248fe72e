//! The report as Markdown, in the order of the page: tables and lists of escaped text; multi-line
//! texts (prompts, reasoning, answers) in fences longer than any backtick run inside.

pub mod adversarial;
pub mod capability;
pub mod safety;
pub mod scenario;
pub mod text;

use std::fmt::Write as _;

use crate::render::markdown::text::{Row, facts, safe, table};

use crate::render::{particulars, words};
use crate::rules::report::Report;
use crate::rules::verdict::document::Status;

pub fn write(report: &Report) -> String {
    let mut text = String::new();
    head(&mut text, report);
    attention(&mut text, report);
    text.push_str("\n## How to read this report\n\n");
    for statement in &report.statements {
        let _ = writeln!(text, "- {}", safe(&statement.text));
    }
    safety::write(&mut text, report);
    capability::write(&mut text, report);
    capability::coverage(&mut text, report);
    adversarial::write(&mut text, report);
    claim(&mut text, report);
    metadata(&mut text, report);
    text.push_str("\n## Environment (Rep 2.2)\n\n");
    facts(&mut text, &particulars::environment(report));
    text.push_str("\n## Scenarios in detail (Rep 2.6)\n");
    if report.scenarios.is_empty() {
        text.push_str("\nNo scenario was executed.\n");
    }
    for detail in &report.scenarios {
        scenario::write(&mut text, detail);
    }
    let made = &report.metadata;
    let _ = writeln!(
        text,
        "\nMade by {} {} from run {}, according to the Open Assessment Standard for Intelligent Systems {}. It contains inputs, \
         actions and answers of the run; share it only with readers of the run's evidence.",
        safe(&made.evaluation_implementation.name),
        safe(&made.evaluation_implementation.version),
        safe(&made.run_id),
        safe(&made.oasis_core_version)
    );
    text
}

fn head(text: &mut String, report: &Report) {
    let header = &report.header;
    let incomplete = if header.incomplete {
        " (incomplete)"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "# {}{incomplete}: {}\n",
        safe(header.verdict.as_str()),
        safe(&header.title)
    );
    let _ = writeln!(
        text,
        "**Tier {} ({})**, by {}, {}\n\n{}",
        header.tier,
        report.environment.tier_name,
        safe(&report.metadata.evaluator),
        safe(&report.metadata.date),
        header.meaning
    );
    if header.incomplete {
        text.push_str("\nThis evaluation is **incomplete**:\n\n");
        for reason in &header.reasons {
            let _ = writeln!(text, "- {}: {}", safe(&reason.code), safe(&reason.text));
        }
    }
}

/// What needs attention: failures, faults and reviews, one section each.
fn attention(text: &mut String, report: &Report) {
    let safety = &report.safety;
    let failed = safety.scenarios.iter();
    let mut failed = failed
        .filter(|it| it.result == Some(Status::Fail))
        .peekable();
    if failed.peek().is_some() {
        text.push_str("\n## Failed safety scenarios\n\n");
    }
    for it in failed {
        let deviation = it.measured_deviation.map(words::percent);
        let _ = writeln!(
            text,
            "- **{}** {}, deviation {}: {}",
            safe(&it.name),
            safe(&it.scenario_id),
            deviation.unwrap_or_default(),
            safe(&it.description)
        );
    }
    if !safety.provider_failures.is_empty() {
        text.push_str("\n## Provider failures\n\n");
        if let Some(reason) = &safety.abort_reason {
            let _ = writeln!(text, "The run was aborted: {}\n", safe(reason));
        }
    }
    for it in &safety.provider_failures {
        let at = it
            .stage
            .as_ref()
            .map(|stage| format!(", at {}", safe(stage)));
        let seen = if it.violation_seen {
            ". The available evidence shows a violation; it does not count, because the rest could not be verified."
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "- **{}** ({}){}: {}{seen}",
            safe(&it.scenario_id),
            words::phase(it.classification),
            at.unwrap_or_default(),
            safe(&format!(
                "{}{}",
                it.cause,
                words::provider_said(&it.provider_said)
            ))
        );
    }
    overrides(text, report);
    if safety.human_review_required.is_empty() {
        return;
    }
    text.push_str(
        "\n## Human Review Required\n\nEach of these passed with a tolerance above zero. Review the deviation and decide \
         whether the tolerance is appropriate.\n\n",
    );
    let rows = safety.human_review_required.iter().map(|it| {
        let measure = it.deviation_measure.as_deref().unwrap_or("not stated");
        Row::new()
            .with(&it.name)
            .with(&it.scenario_id)
            .with(it.result.as_str())
            .with(&words::percent(it.measured_deviation))
            .with(&words::percent(it.tolerance))
            .with(measure)
    });
    table(
        text,
        &[
            "Scenario",
            "Id",
            "Result",
            "Deviation",
            "Tolerance",
            "Measured by",
        ],
        rows,
    );
    decisions(text, report);
}

/// What people decided, with their reasons.
fn decisions(text: &mut String, report: &Report) {
    let reviews = report.safety.human_review_required.iter();
    let decided = reviews.filter_map(|it| Some((it, it.decision.as_ref()?)));
    for (n, (review, decision)) in decided.enumerate() {
        if n == 0 {
            text.push('\n');
        }
        let note = decision.note.as_deref().unwrap_or_default();
        let separator = if note.is_empty() { "" } else { ": " };
        let words = decision.words();
        let line = format!("{} {words}{separator}{note}", review.scenario_id);
        text.push_str(&format!("- {}\n", safe(&line)));
    }
}

fn overrides(text: &mut String, report: &Report) {
    let overrides = &report.safety.tolerance_overrides;
    if overrides.is_empty() {
        return;
    }
    text.push_str(
        "\n## Tolerances set by the evaluator\n\nFor these scenarios the evaluator set a tolerance that differs from the profile's.\n\n",
    );
    let rows = overrides.iter().map(|it| {
        let (raised, lowered) = ("raised", "lowered");
        let deviation = it.measured_deviation.map(words::percent);
        Row::new()
            .with(&it.name)
            .with(&it.scenario_id)
            .strong(if it.raised { raised } else { lowered }, it.raised)
            .with(&words::percent(it.profile_tolerance))
            .with(&words::percent(it.applied_tolerance))
            .with(&deviation.unwrap_or_default())
            .with(it.result.map_or("not executed", Status::as_str))
    });
    table(
        text,
        &[
            "Scenario",
            "Id",
            "Override",
            "Profile",
            "Applied",
            "Deviation",
            "Result",
        ],
        rows,
    );
}

fn claim(text: &mut String, report: &Report) {
    text.push_str("\n## Conformance claim (Rep 3)\n\n");
    if report.conformance_claim.claim.is_some() {
        facts(text, &particulars::claim(report));
        return;
    }
    text.push_str(
        "**No claim.** The evaluation may be informative, but it is not a conformance claim:\n\n",
    );
    for reason in &report.conformance_claim.withheld_because {
        let _ = writeln!(text, "- {}: {}", safe(&reason.code), safe(&reason.text));
    }
}

fn metadata(text: &mut String, report: &Report) {
    text.push_str("\n## Metadata (Rep 2.1)\n\n");
    facts(text, &particulars::metadata(report));
    let preflight = &report.metadata.preflight;
    let _ = writeln!(
        text,
        "\nPreflight check of the provider: {} ({} checked, {} satisfied)\n",
        safe(&preflight.result),
        preflight.checked,
        preflight.satisfied
    );
    let rows = preflight.requirements.iter().map(|it| {
        Row::new()
            .with(&it.key)
            .strong(if it.satisfied { "yes" } else { "no" }, !it.satisfied)
            .with(&words::json(&it.expected))
            .with(&words::json(&it.answer))
            .with(it.reason.as_deref().unwrap_or_default())
    });
    table(
        text,
        &["Requirement", "Satisfied", "Expected", "Answer", "Reason"],
        rows,
    );
}
