//! Reports as HTML pages without scripts or external resources. The template engine escapes all
//! text; control characters are removed before.

use askama::Template;

use crate::render::report::chart;
use crate::render::report::chart::Plane;
use crate::render::report::rows;
use crate::render::report::rows::{CLAIM, DimensionSection, Evidence, Field, Headline, Row};
use crate::render::report::{
    AgentSummary, AxisSnapshot, RatingSnapshot, RenderError, Report, Summary,
};
use crate::rules::Axis;
use crate::rules::badge::{FRAMEWORK_VERSION, axis_name};
use touchstone_host::render::words::plain;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    version: &'static str,
    framework: &'static str,
    made_at: String,
    name: String,
    description: String,
    identity: Vec<Field>,
    warning: String,
    headlines: Vec<Headline>,
    plane: Plane,
    tables: Vec<Table>,
    areas: Vec<Field>,
    badge: String,
    badge_url: String,
    movements: Vec<String>,
    history: Vec<RatingRow>,
    evidence: Vec<Field>,
    claim: &'static str,
}

struct Table {
    axis: &'static str,
    rows: Vec<Row>,
}

struct RatingRow {
    day: String,
    performance: AxisCell,
    capability: AxisCell,
    state: String,
}

struct AxisCell {
    score: String,
    tier: &'static str,
    rank: u8,
}

impl std::fmt::Display for AxisCell {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.score, self.tier)
    }
}

impl AxisCell {
    fn of(snapshot: &AxisSnapshot) -> Self {
        Self {
            score: plain(&snapshot.display),
            tier: snapshot.tier.name(),
            rank: snapshot.tier.rank(),
        }
    }
}

impl RatingRow {
    fn of(moment: &RatingSnapshot, review_required: bool) -> Self {
        Self {
            day: rows::day(moment.at),
            performance: AxisCell::of(&moment.performance),
            capability: AxisCell::of(&moment.capability),
            state: rows::state(moment.badge_state.as_deref(), review_required),
        }
    }
}

#[derive(Template)]
#[template(path = "summary.html")]
struct SummaryPage {
    version: &'static str,
    framework: &'static str,
    made_at: String,
    heading: String,
    counts: String,
    plane: Plane,
    agents: Vec<AgentListing>,
    task_progress: Vec<Evidence>,
    dimension_sections: Vec<DimensionSection>,
}

struct AgentListing {
    number: usize,
    name: String,
    now: Option<RatingRow>,
    note: String,
}

pub fn report(report: &Report) -> Result<String, RenderError> {
    let assessed = &report.assessment;
    let table = |axis: Axis| Table {
        axis: axis_name(axis),
        rows: rows::rows(assessed, axis),
    };
    let page = AgentPage {
        version: VERSION,
        framework: FRAMEWORK_VERSION,
        made_at: report.made_at.to_string(),
        name: plain(&report.agent.name),
        description: plain(report.agent.description.as_deref().unwrap_or_default()),
        identity: rows::identity(report),
        warning: rows::warning(report),
        headlines: rows::headlines(report),
        plane: chart::agent_plane(&report.history, &report.now),
        tables: Axis::ALL.map(table).into(),
        areas: rows::areas(assessed),
        badge: rows::badge(report),
        badge_url: rows::badge_url(report),
        movements: rows::movements(assessed),
        history: rows::latest_first(&report.history)
            .map(|moment| RatingRow::of(moment, false))
            .collect(),
        evidence: rows::evidence(report),
        claim: CLAIM,
    };
    Ok(page.render()?)
}

pub fn summary(summary: &Summary) -> Result<String, RenderError> {
    let numbered = || (1..).zip(&summary.agents);
    let plane = chart::summary_plane(numbered().filter_map(
        |(number, line): (usize, &AgentSummary)| {
            Some((number, line.agent.name.as_str(), line.now.as_ref()?))
        },
    ));
    let listed = |(number, line): (usize, &AgentSummary)| AgentListing {
        number,
        name: plain(&line.agent.name),
        now: line
            .now
            .as_ref()
            .map(|now| RatingRow::of(now, line.review_required)),
        note: rows::note(line),
    };
    let page = SummaryPage {
        version: VERSION,
        framework: FRAMEWORK_VERSION,
        made_at: summary.made_at.to_string(),
        heading: rows::heading(summary),
        counts: rows::counts(summary),
        plane,
        agents: numbered().map(listed).collect(),
        task_progress: rows::task_progress(summary),
        dimension_sections: rows::dimension_sections(summary),
    };
    Ok(page.render()?)
}
