//! Why a dimension has its score: formula, values, evidence, and its scores over time.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::Value;

use crate::api::ConsoleApi;
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::ratings::chart::{self, Chart, Line};
use crate::ratings::measures::{measure, rated_at, score};
use crate::ratings::{agent_address, assessment_address, membership, no_organization};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_ratings::ports::assessments::{AssessmentOutcome, AssessmentRecord};
use touchstone_ratings::ports::events::{EventFilter, EventRecord};
use touchstone_ratings::rules::badge::{axis_name, dimension_name};
use touchstone_ratings::rules::scoring::explanation::{self, Explanation};
use touchstone_ratings::rules::{Axis, Config, Dimension, standards};

/// Ratings of the chart.
const HISTORY: usize = 50;
/// Evidence events of the page.
const EVENTS: u32 = 50;
/// Longest shown data of an event, in characters.
const LONGEST: usize = 400;

#[derive(Template)]
#[template(path = "ratings/dimension.html")]
struct Page {
    chrome: Chrome,
    agent: String,
    agent_href: String,
    name: &'static str,
    axis: &'static str,
    assessment: String,
    at: Time,
    score: String,
    interval: String,
    reason: String,
    why: Why,
    in_axis: Why,
    weight: String,
    sample: String,
    records: String,
    standards: String,
    appeal: String,
    chart: Option<Chart>,
    table: Vec<Past>,
    events: Vec<Event>,
    may_read_events: bool,
    more_events: bool,
}

/// A formula with its values.
struct Why {
    formula: String,
    terms: Vec<Term>,
    value: String,
}

struct Term {
    name: String,
    value: String,
    factor: String,
    product: String,
}

struct Past {
    at: Time,
    score: String,
    interval: String,
    href: String,
}

struct Event {
    id: String,
    kind: String,
    at: Time,
    by: String,
    data: String,
}

impl Why {
    fn of(explained: &Explanation, name: impl Fn(&str) -> String) -> Self {
        let term = |it: &explanation::Term| Term {
            name: plain(&name(&it.name)),
            value: number(it.value),
            factor: it.factor.map_or_else(String::new, number),
            product: it
                .factor
                .map_or_else(String::new, |factor| number(it.value * factor)),
        };
        Self {
            formula: explained.formula.clone(),
            terms: explained.terms.iter().map(term).collect(),
            value: explained.value.map_or_else(String::new, number),
        }
    }
}

fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    short.to_owned()
}

/// `GET /console/ratings/{agentId}/dimensions/{dimension}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let Some(member) = membership(&api, &visit).await? else {
        return no_organization(&visit);
    };
    let ratings = &api.ratings.ratings;
    let agent = ratings.agent(&member, path.get("agentId")).await?;
    let (axis, dimension) = found(path.get("dimension"))?;
    let rating = ratings.published_rating(&member, &agent).await?;
    let Some(rating) = rating else {
        let message = "this agent has no rating yet; request an assessment on the agent's page";
        return Err(Problem::new(ErrorCode::NotFound, message).into());
    };
    let history = ratings.rating_history(&member, &agent.id, HISTORY).await?;
    let filter = EventFilter {
        from: Some(rating.request.assessment.window_start),
        to: Some(rating.request.assessment.window_end),
        ..EventFilter::default()
    };
    let may_read_events = visit.may(Scope::EventsRead);
    let mut events = match may_read_events {
        true => {
            let found = ratings.events(&member, Some(&agent.id), filter, None, EVENTS + 1);
            found.await?
        }
        false => Vec::new(),
    };
    let more_events = events.len() > EVENTS as usize;
    events.truncate(EVENTS as usize);
    let nothing = Value::Null;
    let stored = measure(&rating, axis, dimension).unwrap_or(&nothing);
    // With other settings the terms would not explain the recorded number.
    let config = Config::read(&rating.request.config).map_err(|cause| internal(&cause))?;
    let explained = explanation::of_dimension(dimension, stored, &config.rules);
    let rated = touchstone_ratings::service::standings::result(&rating);
    let rated = rated
        .and_then(|it| it.get(axis.as_str()))
        .unwrap_or(&nothing);
    let of_axis = explanation::of_axis(axis, rated, &config);
    let (standards, clause) = standards::of(dimension);
    let text = |name: &str| match stored.get(name) {
        Some(Value::String(text)) => plain(text),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let past: Vec<Past> = history
        .iter()
        .rev()
        .filter_map(|it| past(it, axis, dimension))
        .collect();
    html(&Page {
        chrome: visit.chrome(Section::Ratings),
        agent: plain(&agent.name),
        agent_href: agent_address(&agent.id),
        name: dimension_name(dimension),
        axis: axis_name(axis),
        assessment: assessment_address(&agent.id, &rating.id),
        at: rated_at(&rating).into(),
        score: score(&rating, axis, dimension)
            .map_or_else(|| "–".to_owned(), |it| format!("{it:.2}")),
        interval: interval(&rating, dimension).map_or_else(String::new, shown),
        reason: text("reason"),
        why: Why::of(&explained, str::to_owned),
        in_axis: Why::of(&of_axis, |name| {
            Dimension::named(name)
                .map_or_else(|| name.to_owned(), |it| dimension_name(it).to_owned())
        }),
        weight: number(config.weights(axis).share(dimension)),
        sample: text("sample_size"),
        records: text("evidence_count"),
        standards: format!("{} ({clause})", standards.join(", ")),
        appeal: text("appeal_id"),
        chart: trend(&history, axis, dimension),
        table: past,
        events: events.iter().map(Event::of).collect(),
        may_read_events,
        more_events,
    })
}

fn found(name: &str) -> Result<(Axis, Dimension), Problem> {
    let named = Dimension::named(name).and_then(|dimension| {
        let mut axes = Axis::ALL.into_iter();
        Some((
            axes.find(|axis| axis.dimensions().contains(&dimension))?,
            dimension,
        ))
    });
    named.ok_or_else(|| Problem::new(ErrorCode::NotFound, "there is no such dimension"))
}

fn interval(assessment: &AssessmentRecord, dimension: Dimension) -> Option<(f64, f64)> {
    match &assessment.outcome {
        Some(AssessmentOutcome::Scored { intervals, .. }) => {
            let found = intervals.get(&dimension)?;
            Some((found.low.as_f64(), found.high.as_f64()))
        }
        _ => None,
    }
}

fn shown((low, high): (f64, f64)) -> String {
    format!("95 % interval {low:.2}–{high:.2}")
}

fn past(assessment: &AssessmentRecord, axis: Axis, dimension: Dimension) -> Option<Past> {
    let value = score(assessment, axis, dimension)?;
    Some(Past {
        at: rated_at(assessment).into(),
        score: format!("{value:.2}"),
        interval: interval(assessment, dimension)
            .map_or_else(String::new, |(low, high)| format!("{low:.2}–{high:.2}")),
        href: assessment_address(&assessment.agent, &assessment.id),
    })
}

fn trend(history: &[AssessmentRecord], axis: Axis, dimension: Dimension) -> Option<Chart> {
    let value = |assessment: &AssessmentRecord| {
        let value = score(assessment, axis, dimension)?;
        let at = rated_at(assessment);
        let range = interval(assessment, dimension);
        let within = range.map_or_else(String::new, |it| format!(", {}", shown(it)));
        Some(chart::Value {
            at,
            value,
            range,
            title: format!("{}: {value:.2}{within}", at.strftime("%Y-%m-%d %H:%M UTC")),
        })
    };
    let name = dimension_name(dimension);
    let line = Line {
        name: name.to_owned(),
        values: history.iter().filter_map(value).collect(),
    };
    Chart::of(&format!("{name} over time"), 1.0, vec![line])
}

impl Event {
    fn of(event: &EventRecord) -> Self {
        let data = facts(&event.data);
        let shown: String = data.chars().take(LONGEST).collect();
        let rest = if shown.len() < data.len() { "…" } else { "" };
        Self {
            id: event.id.clone(),
            kind: plain(&event.kind.replace('_', " ")),
            at: event.occurred_at.into(),
            by: plain(event.recorded_by.as_deref().unwrap_or(&event.source)),
            data: format!("{}{rest}", plain(&shown)),
        }
    }
}

/// The members of an event in words.
fn facts(data: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "none".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        other => other.to_string(),
    };
    let Some(members) = data.as_object() else {
        return text(data);
    };
    let fact = |(name, value): (&String, &Value)| {
        let name = name.replace('_', " ");
        format!("{name}: {}", text(value))
    };
    members.iter().map(fact).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_shown_in_words() {
        let data = json!({"task_id": "t1", "errors": [], "human_intervention": true});
        assert_eq!(
            facts(&data),
            "errors: none · human intervention: yes · task id: t1"
        );
    }

    #[test]
    fn every_dimension_has_a_page_and_other_names_have_none() {
        for axis in Axis::ALL {
            for dimension in axis.dimensions() {
                assert_eq!(found(dimension.as_str()).unwrap(), (axis, *dimension));
            }
        }
        assert_eq!(found("beauty").unwrap_err().code, ErrorCode::NotFound);
    }
}
