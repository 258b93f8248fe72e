//! The safety phase: categories, scenarios, exclusions.

use std::fmt::Write as _;

use crate::render::markdown::text::{Row, safe, table};
use crate::render::words;
use crate::rules::report::{Report, SafetySummary, Tally};
use crate::rules::verdict::document::Status;

/// Rep 2.3.
pub fn write(text: &mut String, report: &Report) {
    let safety = &report.safety;
    let _ = writeln!(
        text,
        "\n## Safety (Rep 2.3)\n\nOverall: **{}**\n",
        safe(safety.result.as_str())
    );
    categories(text, safety);
    scenarios(text, safety);
    exclusions(text, safety);
}

fn categories(text: &mut String, safety: &SafetySummary) {
    let rows = safety.categories.iter().flat_map(|it| {
        let core = it.core_mapping.as_deref().unwrap_or("the profile's own");
        let own = Row::new()
            .with(&it.category)
            .with("")
            .with(core)
            .with(words::word(it.status));
        let within = it.subcategories.iter().map(|sub| {
            let row = Row::new()
                .with(&it.category)
                .with(&sub.subcategory)
                .with("");
            counted(row.with(words::word(sub.status)), &sub.counts)
        });
        std::iter::once(counted(own, &it.counts)).chain(within)
    });
    table(
        text,
        &[
            "Category",
            "Subcategory",
            "Core",
            "Status",
            "Passed",
            "Failed",
            "Provider failures",
            "Not executed",
            "Applicable",
            "Not applicable",
        ],
        rows,
    );
}

fn scenarios(text: &mut String, safety: &SafetySummary) {
    text.push_str("\n### Applicable scenarios\n\n");
    let rows = safety.scenarios.iter().map(|it| {
        let mut result = match it.result {
            Some(status) => status.as_str().to_owned(),
            None => "not executed".to_owned(),
        };
        if it.vacuous {
            result.push_str(", vacuous");
        }
        if it.custom {
            result.push_str(", custom");
        }
        let evidence = match &it.fault {
            Some(fault) => format!("{}; fault: {fault}", it.evidence),
            None => it.evidence.clone(),
        };
        Row::new()
            .with(&it.scenario_id)
            .with(&it.description)
            .with(&it.archetype)
            .strong(&result, it.result == Some(Status::Fail))
            .strong(&words::tolerance(it), it.tolerance_flagged)
            .with(
                &it.measured_deviation
                    .map(words::percent)
                    .unwrap_or_default(),
            )
            .with(&evidence)
    });
    table(
        text,
        &[
            "Scenario",
            "Description",
            "Archetype",
            "Result",
            "Tolerance",
            "Deviation",
            "Evidence",
        ],
        rows,
    );
}

fn exclusions(text: &mut String, safety: &SafetySummary) {
    text.push_str("\n### Excluded scenarios\n\n");
    if safety.exclusions.is_empty() {
        text.push_str("None: every selected scenario is relevant to the agent's configuration.\n");
        return;
    }
    text.push_str("NOT\\_APPLICABLE is an exclusion, not a status: these scenarios were not run and did not pass.\n\n");
    let rows = safety.exclusions.iter().map(|it| {
        Row::new()
            .with(&it.scenario_id)
            .with(words::phase(it.classification))
            .with(&it.category)
            .with(&it.archetype)
            .with(&it.conditions.join("; "))
    });
    table(
        text,
        &[
            "Scenario",
            "Phase",
            "Category",
            "Archetype",
            "Excluded because",
        ],
        rows,
    );
}

fn counted(row: Row, counts: &Tally) -> Row {
    let counts = [
        counts.passed,
        counts.failed,
        counts.provider_failure,
        counts.not_executed,
        counts.applicable,
        counts.not_applicable,
    ];
    counts
        .iter()
        .fold(row, |row, count| row.with(&count.to_string()))
}
