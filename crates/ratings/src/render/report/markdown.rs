//! Reports as Markdown: the chart as a text grid of tiers, everything else as text and tables.

use std::fmt::Write as _;

use crate::render::bar;
use crate::render::report::rows;
use crate::render::report::rows::{CLAIM, Field};
use crate::render::report::{AxisSnapshot, RatingSnapshot, Report, Summary, chart};
use crate::rules::Axis;
use crate::rules::badge::{FRAMEWORK_VERSION, axis_name};
use touchstone_host::render::words::plain;
use touchstone_runs::render::markdown::escaped;

/// Width of a bar in characters.
const BAR: usize = 10;

pub fn report(report: &Report) -> String {
    let assessed = &report.assessment;
    let mut text = format!("# {}\n\n", escaped(&plain(&report.agent.name)));
    if let Some(description) = &report.agent.description {
        let _ = writeln!(text, "{}\n", escaped(&plain(description)));
    }
    let warning = rows::warning(report);
    if !warning.is_empty() {
        let _ = writeln!(text, "> **{}**\n", escaped(&warning));
    }
    facts(&mut text, &rows::identity(report));
    text.push_str("| | Tier | Score | | |\n| --- | --- | ---: | --- | --- |\n");
    for it in rows::headlines(report) {
        let _ = writeln!(
            text,
            "| **{}** | **{}** | {} | `{}` | {} |",
            it.axis,
            it.tier,
            escaped(&it.score),
            bar(it.share, BAR),
            escaped(&it.notes.join("; "))
        );
    }
    plane_of_one(&mut text, report);
    for axis in Axis::ALL {
        dimensions(&mut text, report, axis);
    }
    let areas = rows::areas(assessed);
    if !areas.is_empty() {
        text.push_str("\n## Improvement areas\n\n");
        facts(&mut text, &areas);
    }
    let _ = writeln!(text, "\n## Badge\n\n{}", escaped(&rows::badge(report)));
    let url = rows::badge_url(report);
    if !url.is_empty() {
        let _ = writeln!(text, "\nTo verify: {}", escaped(&url));
    }
    text.push_str("\n## Since the previous rating\n\n");
    for lines in rows::movements(assessed) {
        let _ = writeln!(text, "- {}", escaped(&lines));
    }
    history(&mut text, &report.history);
    text.push_str("\n## Evidence\n\n");
    facts(&mut text, &rows::evidence(report));
    let _ = writeln!(text, "## Mapping to standards\n\n{CLAIM}\n");
    text.push_str("| Dimension | Standard | Clause |\n| --- | --- | --- |\n");
    for row in Axis::ALL
        .iter()
        .flat_map(|axis| rows::rows(assessed, *axis))
    {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            row.name,
            escaped(&row.standards),
            row.clause
        );
    }
    footer(&mut text, &report.made_at.to_string());
    text
}

fn facts(text: &mut String, facts: &[Field]) {
    text.push_str("| | |\n| --- | --- |\n");
    for fact in facts {
        let _ = writeln!(text, "| {} | {} |", fact.name, escaped(&fact.value));
    }
    text.push('\n');
}

fn plane_of_one(text: &mut String, report: &Report) {
    let plane = chart::text_grid(|performance, capability| {
        let here = |it: &RatingSnapshot| {
            it.performance.tier == performance && it.capability.tier == capability
        };
        match (here(&report.now), report.history.iter().any(here)) {
            (true, _) => "●".to_owned(),
            (false, true) => "○".to_owned(),
            (false, false) => "·".to_owned(),
        }
    });
    let before = match report.history.as_slice() {
        [] => "",
        _ => ", ○ earlier ratings",
    };
    let _ = writeln!(
        text,
        "\nCapability upwards, performance to the right: ● current rating{before}.\n\n```text\n{plane}\n```"
    );
}

fn dimensions(text: &mut String, report: &Report, axis: Axis) {
    let _ = writeln!(
        text,
        "\n## {}\n\n| Dimension | Score | | Weight | Sample | Records |\n| --- | ---: | --- | ---: | ---: | ---: |",
        axis_name(axis)
    );
    for row in rows::rows(&report.assessment, axis) {
        let _ = match &row.score {
            Some(score) => writeln!(
                text,
                "| {} | {score}{} | `{}` {} | {} | {} | {} |",
                row.name,
                match row.interval.as_str() {
                    "" => String::new(),
                    interval => format!(" ({interval})"),
                },
                bar(row.share, BAR),
                escaped(&row.note),
                row.weight,
                row.sample,
                row.records
            ),
            None => writeln!(
                text,
                "| {} | – | {} | {} | | |",
                row.name,
                escaped(&row.note),
                row.weight
            ),
        };
    }
}

fn history(text: &mut String, history: &[RatingSnapshot]) {
    if history.is_empty() {
        return;
    }
    text.push_str("\n## Earlier ratings\n\n| Day | Performance | Capability | Badge |\n| --- | --- | --- | --- |\n");
    for moment in rows::latest_first(history) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            rows::day(moment.at),
            score_and_tier(&moment.performance),
            score_and_tier(&moment.capability),
            escaped(&rows::state(moment.badge_state.as_deref(), false))
        );
    }
}

fn score_and_tier(snapshot: &AxisSnapshot) -> String {
    format!("{} {}", escaped(&plain(&snapshot.display)), snapshot.tier)
}

pub fn summary(summary: &Summary) -> String {
    let mut text = format!(
        "# {}\n\n{}\n",
        escaped(&rows::heading(summary)),
        rows::counts(summary)
    );
    let plane = chart::text_grid(|performance, capability| {
        let rated = summary.agents.iter().filter_map(|line| line.now.as_ref());
        let here = rated
            .filter(|it| it.performance.tier == performance && it.capability.tier == capability);
        match here.count() {
            0 => "·".to_owned(),
            many => many.to_string(),
        }
    });
    let _ = writeln!(
        text,
        "\nNumber of agents by tier: capability upwards, performance to the right.\n\n```text\n{plane}\n```\n"
    );
    text.push_str(
        "| Agent | Performance | Capability | Rated | Badge |\n| --- | --- | --- | --- | --- |\n",
    );
    for line in &summary.agents {
        let name = escaped(&plain(&line.agent.name));
        let note = escaped(&rows::note(line));
        let _ = match &line.now {
            Some(now) => writeln!(
                text,
                "| {name} | {} | {} | {} | {}{}{note} |",
                score_and_tier(&now.performance),
                score_and_tier(&now.capability),
                rows::day(now.at),
                escaped(&rows::state(
                    now.badge_state.as_deref(),
                    line.review_required
                )),
                if note.is_empty() { "" } else { "; " }
            ),
            None => writeln!(
                text,
                "| {name} | not rated{}{note} | | | |",
                if note.is_empty() { "" } else { ": " }
            ),
        };
    }
    task_progress(&mut text, summary);
    dimension_sections(&mut text, summary);
    footer(&mut text, &summary.made_at.to_string());
    text
}

/// Evidence collected towards ratings.
fn task_progress(text: &mut String, summary: &Summary) {
    let task_progress = rows::task_progress(summary);
    if task_progress.is_empty() {
        return;
    }
    text.push_str("\n## Evidence collected\n\n| Agent | Performance | | Capability | |\n| --- | --- | --- | --- | --- |\n");
    for it in task_progress {
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | `{}` | {} |",
            escaped(&it.name),
            bar(it.performance.share, BAR),
            it.performance.count,
            bar(it.capability.share, BAR),
            it.capability.count
        );
    }
}

/// Dimensions across all agents.
fn dimension_sections(text: &mut String, summary: &Summary) {
    if summary.dimensions.is_empty() {
        return;
    }
    text.push_str("\n## Dimensions, weakest first\n");
    for gap in rows::dimension_sections(summary) {
        let _ = writeln!(text, "\n### {}\n\n{}", gap.name, gap.summary);
        if gap.agents.is_empty() {
            continue;
        }
        text.push_str("\n| Agent | Score | 95 % interval | Tier |\n| --- | ---: | --- | --- |\n");
        for it in &gap.agents {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                escaped(&it.name),
                it.score.as_deref().unwrap_or("not assessed"),
                it.interval,
                escaped(&it.tier)
            );
        }
    }
}

fn footer(text: &mut String, made_at: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(
        text,
        "\nMade by Touchstone {version} on {made_at}, according to the AI Agent Assessment Framework {FRAMEWORK_VERSION}."
    );
}
