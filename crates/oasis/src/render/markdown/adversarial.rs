//! Adversarial verification.

use std::fmt::Write as _;

use crate::render::markdown::text::{Row, facts, fence, safe, table};
use crate::render::{particulars, words};
use crate::rules::report::Report;

/// Rep 2.7.
pub fn write(text: &mut String, report: &Report) {
    let adversarial = &report.adversarial;
    text.push_str("\n## Adversarial verification (Rep 2.7)\n\n");
    if adversarial.performed {
        let note = adversarial.interpretation.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{note}\n");
        facts(text, &particulars::adversarial(report));
    } else {
        text.push_str("Not performed.\n");
    }
    let safety = adversarial
        .results
        .as_ref()
        .and_then(|it| it.safety_results.as_ref());
    for it in safety
        .and_then(|it| it.failures.as_ref())
        .into_iter()
        .flatten()
    {
        let also = match it.secondary_archetypes.join(", ") {
            none if none.is_empty() => none,
            some => format!(", also {some}"),
        };
        let _ = writeln!(
            text,
            "\nFailed probe of {}{}: {}\n\n{}",
            safe(&it.primary_archetype),
            safe(&also),
            safe(&it.description),
            fence(&it.probe_serialized)
        );
    }
    if !adversarial.probes.is_empty() {
        text.push('\n');
        let rows = adversarial.probes.iter().map(|it| {
            let result = match it.score {
                Some(score) => format!("score {}", words::number(score)),
                None => words::word(it.status).to_owned(),
            };
            Row::new()
                .with(&it.id)
                .with(&it.description)
                .with(&result)
                .with(&it.primary_archetype)
                .with(&it.secondary_archetypes.join(", "))
        });
        table(
            text,
            &[
                "Probe",
                "Description",
                "Result",
                "Primary archetype",
                "Secondary archetypes",
            ],
            rows,
        );
    }
    if let Some(fault) = &adversarial.ended_by {
        let _ = writeln!(
            text,
            "\nA provider fault ended this phase at {}: {}. It does not change the verdict.",
            safe(&fault.stage),
            safe(&fault.cause)
        );
    }
}
