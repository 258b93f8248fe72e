//! Capability and coverage.

use std::fmt::Write as _;

use crate::render::markdown::text::{Row, bar, safe, table};
use crate::render::words;
use crate::rules::report::{CapabilitySummary, Report};

/// Rep 2.4.
pub fn write(text: &mut String, report: &Report) {
    let capability = &report.capability;
    let _ = writeln!(
        text,
        "\n## Capability at tier {} (Rep 2.4)\n",
        capability.tier
    );
    if let Some(why) = &capability.not_evaluated_because {
        let _ = writeln!(text, "**Not evaluated.** {why}");
        return;
    }
    let _ = writeln!(
        text,
        "{} These scores are for tier {}.\n",
        capability.statement, capability.tier
    );
    dimensions(text, capability);
    text.push('\n');
    categories(text, capability);
    text.push('\n');
    scenarios(text, capability);
}

fn dimensions(text: &mut String, capability: &CapabilitySummary) {
    let rows = capability.dimensions.iter().map(|it| {
        let from = it.contributors.iter().map(|part| {
            format!(
                "{} {} (weight {}, share {})",
                part.category,
                words::number(part.score),
                words::number(part.weight),
                words::number(part.share)
            )
        });
        Row::new()
            .with(words::dimension(it.dimension))
            .with(&it.score.map_or_else(|| "none".to_owned(), words::number))
            .with(&it.tier.to_string())
            .with(&it.score.map(bar).unwrap_or_default())
            .with(&from.collect::<Vec<_>>().join(", "))
    });
    table(text, &["Dimension", "Score", "Tier", "", "From"], rows);
}

fn categories(text: &mut String, capability: &CapabilitySummary) {
    let rows = capability.categories.iter().map(|it| {
        let archetypes = it.archetypes.iter().map(|part| {
            let weight = part
                .weight
                .map(|weight| format!(", weight {}", words::number(weight)));
            let score = words::number(part.score);
            format!(
                "{}: {score} ({} scenarios{})",
                part.archetype,
                part.scenarios,
                weight.unwrap_or_default()
            )
        });
        Row::new()
            .with(&it.category)
            .with(
                &it.score
                    .map_or_else(|| "not evaluated".to_owned(), words::number),
            )
            .with(&it.tier.to_string())
            .with(&it.aggregation)
            .with(&archetypes.collect::<Vec<_>>().join("; "))
            .with(&words::dimensions(&it.maps_to_dimensions))
    });
    table(
        text,
        &[
            "Category",
            "Score",
            "Tier",
            "Aggregation",
            "Archetypes",
            "Maps to",
        ],
        rows,
    );
}

fn scenarios(text: &mut String, capability: &CapabilitySummary) {
    let rows = capability.scenarios.iter().map(|it| {
        Row::new()
            .with(&it.scenario_id)
            .with(&it.category)
            .with(&it.archetype)
            .with(&words::number(it.score))
            .with(&it.tier.to_string())
            .with(it.band.as_deref().unwrap_or_default())
            .with(if it.custom {
                "custom: not aggregated"
            } else {
                ""
            })
    });
    table(
        text,
        &[
            "Scenario",
            "Category",
            "Archetype",
            "Score",
            "Tier",
            "Band",
            "",
        ],
        rows,
    );
}

/// Rep 2.5.
pub fn coverage(text: &mut String, report: &Report) {
    let coverage = &report.coverage;
    let met = if coverage.minimum_met {
        "met"
    } else {
        "not met"
    };
    let _ = writeln!(
        text,
        "\n## Coverage (Rep 2.5)\n\nThe minimum coverage of tier {} is **{met}**.\n",
        coverage.tier
    );
    if !coverage.unscored_dimensions.is_empty() {
        let unscored = words::dimensions(&coverage.unscored_dimensions);
        let _ = writeln!(text, "Core dimensions without a score: {unscored}.\n");
    }
    for warning in &coverage.warnings {
        let _ = writeln!(text, "- **Coverage warning:** {}", safe(warning));
    }
    if !coverage.warnings.is_empty() {
        text.push('\n');
    }
    let rows = coverage.categories.iter().map(|it| {
        let skipped = it
            .skipped
            .iter()
            .map(|it| format!("{}: {}", it.archetype, it.because));
        let conditions = it
            .excluded_by
            .iter()
            .map(|(condition, count)| format!("{count} × {condition}"));
        let excluded =
            std::iter::once(format!("{} of {}", it.not_applicable, it.scenarios)).chain(conditions);
        Row::new()
            .with(&it.category)
            .with(words::phase(it.classification))
            .with(&it.required.to_string())
            .strong(words::minimum(it), it.due && !it.met)
            .with(&it.evaluated.join(", "))
            .with(&skipped.collect::<Vec<_>>().join("; "))
            .with(&excluded.collect::<Vec<_>>().join("; "))
    });
    table(
        text,
        &[
            "Category",
            "Phase",
            "Required",
            "Minimum",
            "Evaluated",
            "Skipped",
            "Not applicable",
        ],
        rows,
    );
}
