//! What every form of a report says, in words and numbers.

use jiff::Timestamp;
use serde_json::Value;

use super::{Badge, Line, Moment, Report, Summary};
use crate::domain::aaaf::badge::{Shown, axis_name, dimension_name};
use crate::domain::aaaf::evidence::{Sources, in_words};
use crate::domain::aaaf::improvement::Area;
use crate::domain::aaaf::interval::ScoreInterval;
use crate::domain::aaaf::overview::{AgentScore, DimensionOverview};
use crate::domain::aaaf::{Axis, Config, Dimension, Score, standards};
use crate::render::plain;
use crate::render::rating::dimensions::interval;
use crate::render::rating::progress::TaskCount;
use crate::render::rating::view::Assessed;

/// What a report claims of standards: no more than its mapping does.
pub const CLAIM: &str = "Dimensions map to the standards named. That is no certification by any of them, and no audit against \
                         them.";

/// An axis at a glance.
pub struct Headline {
    pub axis: &'static str,
    pub tier: &'static str,
    /// From 0 to 4.
    pub rank: u8,
    pub score: String,
    pub share: f64,
    /// What limits it.
    pub notes: Vec<String>,
}

/// A dimension.
pub struct Row {
    pub name: &'static str,
    /// `None` if it is not assessed.
    pub score: Option<String>,
    /// Its 95 % interval; empty where it is not known.
    pub interval: String,
    pub share: f64,
    pub weight: String,
    pub sample: u64,
    pub records: u64,
    /// Why it is not assessed, or what is to be known of its score.
    pub note: String,
    pub standards: String,
    pub clause: &'static str,
}

impl Headline {
    /// Its score as a part of 100.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

impl Row {
    /// Its score as a part of 100.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}", share.clamp(0.0, 1.0) * 100.0)
}

/// A name and what it stands for.
pub struct Fact {
    pub name: &'static str,
    pub value: String,
}

/// Both axes at a glance.
pub fn headlines(report: &Report) -> Vec<Headline> {
    let headline = |axis: Axis| {
        let standing = report.now.axis(axis);
        let found = report.assessment.rated()?.axis(axis);
        let mut notes = Vec::new();
        if found.weight_coverage < 1.0 {
            notes.push(format!(
                "{:.0} % of its weights assessed",
                found.weight_coverage * 100.0
            ));
        }
        if found.tier_capped {
            notes.push("the top tier takes all of them".to_owned());
        }
        Some(Headline {
            axis: axis_name(axis),
            tier: standing.tier.name(),
            rank: standing.tier.rank(),
            score: plain(&standing.display),
            share: standing.score.as_f64(),
            notes,
        })
    };
    Axis::ALL.into_iter().filter_map(headline).collect()
}

/// The dimensions of an axis.
pub fn rows(assessed: &Assessed, axis: Axis) -> Vec<Row> {
    let Some(rated) = assessed.rated() else {
        return Vec::new();
    };
    // Weights that nobody can read are not made up.
    let config = Config::read(&assessed.config_snapshot).ok();
    let row = |dimension: &Dimension| {
        let measured = rated.axis(axis).dimensions.get(dimension)?;
        let (standards, clause) = standards::of(*dimension);
        let interval = assessed.intervals.get(dimension);
        let weight = config.as_ref().map(|it| it.weights(axis).share(*dimension));
        let note = match (&measured.score, &measured.appeal_id) {
            (None, _) => format!("not assessed: {}", plain(measured.why_not())),
            (Some(_), Some(_)) => "changed by an appeal".to_owned(),
            (Some(_), None) => compared(interval),
        };
        Some(Row {
            name: dimension_name(*dimension),
            score: measured.score.map(|score| Shown::of(score).to_string()),
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

/// How a score compares with the rating before, beyond chance.
fn compared(interval: Option<&ScoreInterval>) -> String {
    let Some((it, before)) = interval.and_then(|it| Some((it, it.previous?))) else {
        return String::new();
    };
    let before = before.as_f64();
    match it.within_noise {
        Some(true) => format!("{before:.2} before: within noise"),
        Some(false) => format!("{before:.2} before: more than noise"),
        None => String::new(),
    }
}

/// The dimensions to work on, and how.
pub fn areas(assessed: &Assessed) -> Vec<Fact> {
    let areas = assessed.improvement_areas.iter();
    let fact = |area: &Area| Fact {
        name: dimension_name(area.dimension),
        value: match area.gain {
            Some(gain) => format!("{} (up to {gain:+.2} for the axis)", plain(&area.advice)),
            None => plain(&area.advice),
        },
    };
    areas.map(fact).collect()
}

/// Whose rating it is, and of when.
pub fn identity(report: &Report) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name, value: &str| {
        facts.push(Fact {
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

/// What it was found from.
pub fn evidence(report: &Report) -> Vec<Fact> {
    let assessed = &report.assessment;
    let mut facts = Vec::new();
    let mut add = |name, value: String| facts.push(Fact { name, value });
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
        add("Digest of their ids", plain(&rated.evidence.digest));
    }
    facts
}

fn recorded_by(sources: &Sources) -> String {
    match in_words(sources) {
        words if words.is_empty() => "not known: rated before this was kept".to_owned(),
        words => words,
    }
}

/// What moved since the rating before, and who has decided about it.
pub fn movements(assessed: &Assessed) -> Vec<String> {
    let mut told = Vec::new();
    match &assessed.calibration {
        None => told.push("It was not compared with an earlier rating.".to_owned()),
        Some(calibration) if calibration.flags.is_empty() => {
            told.push("No score moved far since the rating before.".to_owned());
        }
        Some(calibration) => told.extend(calibration.flags.iter().map(|flag| {
            format!(
                "{} moved by {:+.4}, from {:.4} to {:.4}",
                plain(&flag.subject).replace('_', " "),
                flag.delta,
                flag.previous.as_f64(),
                flag.current.as_f64()
            )
        })),
    }
    if assessed.review_required {
        told.push("A person has to decide about it before it certifies anything.".to_owned());
    }
    if let Some(decision) = assessed
        .review
        .as_ref()
        .and_then(|it| it.get("decision"))
        .and_then(Value::as_str)
    {
        told.push(format!("A person decided: {}.", plain(decision)));
    }
    told
}

/// How the badge stands, in a sentence.
pub fn badge(report: &Report) -> String {
    let Some(badge) = &report.badge else {
        return match report.assessment.badge_state.as_deref() {
            Some("withheld") => "The badge is withheld until a person has decided.".to_owned(),
            Some("rejected") => "A person decided against a badge.".to_owned(),
            _ => "No badge was issued for this rating.".to_owned(),
        };
    };
    let until = day(badge.valid_until);
    match badge {
        Badge { valid: true, .. } => format!("It holds, until {until}."),
        Badge { revoked: true, .. } => {
            let reason = badge.revoke_reason.as_deref().unwrap_or("no reason given");
            format!("It was revoked: {}.", plain(reason).replace('_', " "))
        }
        Badge { expired: true, .. } => format!("It expired on {until}."),
        _ => "It does not hold; its verification says why.".to_owned(),
    }
}

/// A state in a word or two, for lists.
pub fn state(badge_state: Option<&str>, review_required: bool) -> String {
    match badge_state {
        _ if review_required => "in review".to_owned(),
        Some("none") | None => "–".to_owned(),
        Some(state) => format!("badge {}", plain(state)),
    }
}

/// The day of a moment.
pub fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// That something is newer than what is shown.
pub fn warning(report: &Report) -> String {
    match &report.failed_since {
        None => String::new(),
        Some(failed) => {
            let reason = failed.error.as_ref().map(|fault| plain(&fault.message));
            format!(
                "The assessment of {} came to nothing: {}",
                day(failed.at()),
                reason.unwrap_or_else(|| "no reason is given".to_owned())
            )
        }
    }
}

/// Where anybody checks the badge.
pub fn badge_url(report: &Report) -> String {
    let url = report
        .badge
        .as_ref()
        .and_then(|it| it.verification_url.as_deref());
    plain(url.unwrap_or_default())
}

/// Earlier ratings as they are listed.
pub fn latest_first(history: &[Moment]) -> impl Iterator<Item = &Moment> {
    history.iter().rev()
}

/// What is to be known of an agent in a summary.
pub fn note(line: &Line) -> String {
    line.failed_since.as_deref().map(plain).unwrap_or_default()
}

/// An agent in a dimension.
pub struct Ranked {
    pub name: String,
    /// `None` if the dimension is not assessed.
    pub score: Option<String>,
    pub share: f64,
    /// Its 95 % interval; empty where it is not known.
    pub interval: String,
    pub tier: String,
}

impl Ranked {
    /// Its score as a part of 100.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

/// A dimension over all agents.
pub struct Gap {
    pub name: &'static str,
    /// How the agents stand in it together.
    pub standing: String,
    /// Weakest first. Empty if none is assessed.
    pub agents: Vec<Ranked>,
}

/// The dimensions over all agents, weakest first.
pub fn gaps(summary: &Summary) -> Vec<Gap> {
    let ranked = |agent: &AgentScore| Ranked {
        name: plain(&agent.name),
        score: agent.score.map(|score| Shown::of(score).to_string()),
        share: agent.score.map_or(0.0, Score::as_f64),
        interval: interval(agent),
        tier: plain(agent.tier.as_deref().unwrap_or_default()),
    };
    let gap = |it: &DimensionOverview| Gap {
        name: dimension_name(it.dimension),
        standing: match it.mean {
            Some(mean) => format!("Mean {} of {} assessed.", Shown::of(mean), it.assessed),
            None => "No agent is assessed.".to_owned(),
        },
        agents: match it.assessed {
            0 => Vec::new(),
            _ => it.agents.iter().map(ranked).collect(),
        },
    };
    summary.dimensions.iter().map(gap).collect()
}

/// The tasks of an axis, against what a rating needs.
pub struct Gathered {
    pub count: String,
    pub share: f64,
}

impl Gathered {
    /// What is there as a part of 100.
    pub fn percent(&self) -> String {
        percent(self.share)
    }
}

/// The evidence about an agent.
pub struct Evidence {
    pub name: String,
    pub performance: Gathered,
    pub capability: Gathered,
}

/// The evidence about the agents, as far as it is known.
pub fn gathered(summary: &Summary) -> Vec<Evidence> {
    let count = |count: &TaskCount| Gathered {
        count: count.to_string(),
        share: count.share(),
    };
    let of = |line: &Line| {
        let progress = line.progress.as_ref()?;
        Some(Evidence {
            name: plain(&line.agent.name),
            performance: count(&progress.performance),
            capability: count(&progress.capability),
        })
    };
    summary.agents.iter().filter_map(of).collect()
}

/// The name of a summary.
pub fn heading(summary: &Summary) -> String {
    match &summary.organization {
        Some(name) => format!("Agents of {}", plain(name)),
        None => "Agents and their ratings".to_owned(),
    }
}

/// How many there are.
pub fn counts(summary: &Summary) -> String {
    let rated = summary.agents.iter().filter(|line| line.now.is_some());
    format!(
        "{} enrolled, {} of them rated",
        summary.agents.len(),
        rated.count()
    )
}
