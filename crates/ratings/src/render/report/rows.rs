//! Wording of values, shared by all formats of a report.

use jiff::Timestamp;
use serde_json::Value;

use crate::render::dimensions::interval;
use crate::render::progress::TaskCount;
use crate::render::report::{AgentSummary, Badge, RatingSnapshot, Report, Summary};
use crate::render::view::AssessmentView;
use crate::rules::assessment::improvement::Area;
use crate::rules::assessment::overview::{AgentScore, DimensionOverview};
use crate::rules::badge::{DisplayScore, axis_name, dimension_name};
use crate::rules::evidence::{Sources, in_words};
use crate::rules::scoring::interval::ScoreInterval;
use crate::rules::{Axis, Config, Dimension, Score, standards};
use touchstone_host::render::words::plain;

/// The disclaimer about standards.
pub const CLAIM: &str = "The dimensions are mapped to these standards. This is neither a certification nor an audit by any of \
                         them.";

pub struct Headline {
    pub axis: &'static str,
    pub tier: &'static str,
    /// Rank of the tier, 0 to 4.
    pub rank: u8,
    pub score: String,
    pub share: f64,
    /// What limits the tier.
    pub notes: Vec<String>,
}

pub struct Row {
    pub name: &'static str,
    /// `None` if the dimension is not assessed.
    pub score: Option<String>,
    /// The 95 % interval; empty if unknown.
    pub interval: String,
    pub share: f64,
    pub weight: String,
    pub sample: u64,
    pub records: u64,
    /// Why the dimension is not assessed, or a note on its score.
    pub note: String,
    pub standards: String,
    pub clause: &'static str,
}

impl Headline {
    /// The score as a percentage.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

impl Row {
    /// The score as a percentage.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}", share.clamp(0.0, 1.0) * 100.0)
}

/// A name and its value.
pub struct Field {
    pub name: &'static str,
    pub value: String,
}

pub fn headlines(report: &Report) -> Vec<Headline> {
    let headline = |axis: Axis| {
        let snapshot = report.now.axis(axis);
        let found = report.assessment.rated()?.axis(axis);
        Some(Headline {
            axis: axis_name(axis),
            tier: snapshot.tier.name(),
            rank: snapshot.tier.rank(),
            score: plain(&snapshot.display),
            share: snapshot.score.as_f64(),
            notes: found.coverage_notes(),
        })
    };
    Axis::ALL.into_iter().filter_map(headline).collect()
}

pub fn rows(assessed: &AssessmentView, axis: Axis) -> Vec<Row> {
    let Some(rated) = assessed.rated() else {
        return Vec::new();
    };
    // Unreadable weights are shown as unknown.
    let config = Config::read(&assessed.config_snapshot).ok();
    let row = |dimension: &Dimension| {
        let measured = rated.axis(axis).dimensions.get(dimension)?;
        let (standards, clause) = standards::of(*dimension);
        let interval = assessed.intervals.get(dimension);
        let weight = config.as_ref().map(|it| it.weights(axis).share(*dimension));
        let note = match (&measured.score, &measured.appeal_id) {
            (None, _) => format!("not assessed: {}", plain(measured.unassessed_reason())),
            (Some(_), Some(_)) => "changed by an appeal".to_owned(),
            (Some(_), None) => compared(interval),
        };
        Some(Row {
            name: dimension_name(*dimension),
            score: measured
                .score
                .map(|score| DisplayScore::of(score).to_string()),
            interval: interval.map_or_else(String::new, |it| {
                format!("{:.2}–{:.2}", it.low.as_f64(), it.high.as_f64())
            }),
            share: measured.score.map_or(0.0, |score| score.as_f64()),
            weight: weight.map_or_else(|| "?".to_owned(), |it| format!("{it:.2}")),
            sample: measured.sample_size,
            records: measured.evidence_count,
            note,
            standards: standards.join(", "),
            clause,
        })
    };
    axis.dimensions().iter().filter_map(row).collect()
}

/// Comparison of a score with the previous rating.
fn compared(interval: Option<&ScoreInterval>) -> String {
    let Some((it, before)) = interval.and_then(|it| Some((it, it.previous?))) else {
        return String::new();
    };
    let before = before.as_f64();
    match it.within_noise {
        Some(true) => format!("{before:.2} before: not significant"),
        Some(false) => format!("{before:.2} before: significant"),
        None => String::new(),
    }
}

/// Improvement areas with advice.
pub fn areas(assessed: &AssessmentView) -> Vec<Field> {
    let areas = assessed.improvement_areas.iter();
    let fact = |area: &Area| Field {
        name: dimension_name(area.dimension),
        value: match area.gain {
            Some(gain) => format!("{} (up to {gain:+.2} for the axis)", plain(&area.advice)),
            None => plain(&area.advice),
        },
    };
    areas.map(fact).collect()
}

/// The agent, its organization and the date of the rating.
pub fn identity(report: &Report) -> Vec<Field> {
    let mut facts = Vec::new();
    let mut add = |name, value: &str| {
        facts.push(Field {
            name,
            value: plain(value),
        });
    };
    if let Some(organization) = &report.organization {
        add("Organization", organization);
    }
    if let Some(version) = &report.agent.version {
        add("Version", version);
    }
    add("Agent id", &report.agent.id);
    add("Rated", &day(report.now.at));
    facts
}

/// The evidence behind the rating.
pub fn evidence(report: &Report) -> Vec<Field> {
    let assessed = &report.assessment;
    let mut facts = Vec::new();
    let mut add = |name, value: String| facts.push(Field { name, value });
    add("Assessment", plain(&assessed.id));
    add("Type", plain(&assessed.kind));
    add(
        "Window",
        format!("{} until {}", assessed.window_start, assessed.window_end),
    );
    if let Some(rated) = assessed.rated() {
        add(
            "Tasks",
            format!(
                "{} for performance, {} for capability",
                rated.tasks_performance, rated.tasks_capability
            ),
        );
        add("Events", rated.evidence.events.to_string());
        add("Recorded by", recorded_by(&rated.evidence.sources));
        add("Digest of event ids", plain(&rated.evidence.digest));
    }
    facts
}

fn recorded_by(sources: &Sources) -> String {
    match in_words(sources) {
        words if words.is_empty() => "unknown: not recorded at the time of this rating".to_owned(),
        words => words,
    }
}

/// Score changes since the previous rating, and the review.
pub fn movements(assessed: &AssessmentView) -> Vec<String> {
    let mut lines = Vec::new();
    match &assessed.calibration {
        None => lines.push("Not compared with an earlier rating.".to_owned()),
        Some(calibration) if calibration.flags.is_empty() => {
            lines.push("No score changed significantly since the previous rating.".to_owned());
        }
        Some(calibration) => lines.extend(calibration.flags.iter().map(|flag| {
            format!(
                "{} changed by {:+.4}, from {:.4} to {:.4}",
                plain(&flag.subject).replace('_', " "),
                flag.delta,
                flag.previous.as_f64(),
                flag.current.as_f64()
            )
        })),
    }
    if assessed.review_required {
        lines.push("A badge needs a review first.".to_owned());
    }
    if let Some(decision) = assessed
        .review
        .as_ref()
        .and_then(|it| it.get("decision"))
        .and_then(Value::as_str)
    {
        lines.push(format!("Review decision: {}.", plain(decision)));
    }
    lines
}

/// The state of the badge, in a sentence.
pub fn badge(report: &Report) -> String {
    let Some(badge) = &report.badge else {
        return match report.assessment.badge_state.as_deref() {
            Some("withheld") => "The badge is withheld until a review.".to_owned(),
            Some("rejected") => "A review rejected the badge.".to_owned(),
            _ => "No badge was issued for this rating.".to_owned(),
        };
    };
    let until = day(badge.valid_until);
    match badge {
        Badge { valid: true, .. } => format!("Valid until {until}."),
        Badge { revoked: true, .. } => {
            let reason = badge.revoke_reason.as_deref().unwrap_or("no reason given");
            format!("Revoked: {}.", plain(reason).replace('_', " "))
        }
        Badge { expired: true, .. } => format!("Expired on {until}."),
        _ => "Not valid; see its verification for the reason.".to_owned(),
    }
}

/// The state of a badge in a word or two, for lists.
pub fn state(badge_state: Option<&str>, review_required: bool) -> String {
    match badge_state {
        _ if review_required => "in review".to_owned(),
        Some("none") | None => "–".to_owned(),
        Some(state) => format!("badge {}", plain(state)),
    }
}

pub fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// A warning that a newer assessment failed.
pub fn warning(report: &Report) -> String {
    match &report.failed_since {
        None => String::new(),
        Some(failed) => {
            let reason = failed.error.as_ref().map(|fault| plain(&fault.message));
            format!(
                "The assessment of {} failed: {}",
                day(failed.at()),
                reason.unwrap_or_else(|| "no reason given".to_owned())
            )
        }
    }
}

/// The verification URL of the badge.
pub fn badge_url(report: &Report) -> String {
    let url = report
        .badge
        .as_ref()
        .and_then(|it| it.verification_url.as_deref());
    plain(url.unwrap_or_default())
}

/// Earlier ratings, latest first.
pub fn latest_first(history: &[RatingSnapshot]) -> impl Iterator<Item = &RatingSnapshot> {
    history.iter().rev()
}

/// Notes on an agent in a summary.
pub fn note(line: &AgentSummary) -> String {
    line.failed_since.as_deref().map(plain).unwrap_or_default()
}

/// An agent's score in a dimension.
pub struct AgentRow {
    pub name: String,
    /// `None` if the dimension is not assessed.
    pub score: Option<String>,
    pub share: f64,
    /// The 95 % interval; empty if unknown.
    pub interval: String,
    pub tier: String,
}

impl AgentRow {
    /// The score as a percentage.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

/// A dimension across all agents.
pub struct DimensionSection {
    pub name: &'static str,
    /// The mean and the number of assessed agents.
    pub summary: String,
    /// Weakest first; empty if no agent is assessed.
    pub agents: Vec<AgentRow>,
}

/// The dimensions across all agents, weakest first.
pub fn dimension_sections(summary: &Summary) -> Vec<DimensionSection> {
    let ranked = |agent: &AgentScore| AgentRow {
        name: plain(&agent.name),
        score: agent.score.map(|score| DisplayScore::of(score).to_string()),
        share: agent.score.map_or(0.0, Score::as_f64),
        interval: interval(agent),
        tier: plain(agent.tier.as_deref().unwrap_or_default()),
    };
    let gap = |it: &DimensionOverview| DimensionSection {
        name: dimension_name(it.dimension),
        summary: match it.mean {
            Some(mean) => format!(
                "Mean {} of {} assessed.",
                DisplayScore::of(mean),
                it.assessed
            ),
            None => "No agents assessed.".to_owned(),
        },
        agents: match it.assessed {
            0 => Vec::new(),
            _ => it.agents.iter().map(ranked).collect(),
        },
    };
    summary.dimensions.iter().map(gap).collect()
}

/// The tasks of an axis, compared with the required number.
pub struct TaskProgress {
    pub count: String,
    pub share: f64,
}

impl TaskProgress {
    /// The collected share as a percentage.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

pub struct Evidence {
    pub name: String,
    pub performance: TaskProgress,
    pub capability: TaskProgress,
}

/// The evidence about agents for which it is known.
pub fn task_progress(summary: &Summary) -> Vec<Evidence> {
    let count = |count: &TaskCount| TaskProgress {
        count: count.to_string(),
        share: count.share(),
    };
    let of = |line: &AgentSummary| {
        let progress = line.progress.as_ref()?;
        Some(Evidence {
            name: plain(&line.agent.name),
            performance: count(&progress.performance),
            capability: count(&progress.capability),
        })
    };
    summary.agents.iter().filter_map(of).collect()
}

pub fn heading(summary: &Summary) -> String {
    match &summary.organization {
        Some(name) => format!("Agents of {}", plain(name)),
        None => "Agents and their ratings".to_owned(),
    }
}

pub fn counts(summary: &Summary) -> String {
    let rated = summary.agents.iter().filter(|line| line.now.is_some());
    format!("{} enrolled, {} rated", summary.agents.len(), rated.count())
}
