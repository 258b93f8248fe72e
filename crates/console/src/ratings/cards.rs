//! Agent cards: watched ones with their scores, the history of one, scoring one.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::page::answer::{html, see_other};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::ratings::CARDS;
use crate::ratings::chart::{self, Chart, Line};
use touchstone_agent_cards::rules::history::{AlertBelow, CardScoring, Scores};
use touchstone_agent_cards::rules::points::Points;
use touchstone_agent_cards::rules::web_url;
use touchstone_agent_cards::service::ContactPolicy;
use touchstone_agent_cards::service::history::{MOST_SHOWN, Subject};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;

/// Scores of a small line.
const RECENT: u32 = 20;
/// Intervals of a watch, in hours.
const INTERVALS: [(&str, &str); 4] = [
    ("24", "Every day"),
    ("6", "Every 6 hours"),
    ("1", "Every hour"),
    ("168", "Every week"),
];

#[derive(Template)]
#[template(path = "ratings/cards.html")]
struct Page {
    chrome: Chrome,
    rows: Vec<Watched>,
    may_write: bool,
    alerts: bool,
    intervals: &'static [(&'static str, &'static str)],
}

struct Watched {
    url: String,
    href: String,
    last: Look,
    trend: String,
    every: String,
    live: bool,
    due: Time,
}

/// One scoring of a card.
struct Look {
    at: Option<Time>,
    verdict: Badge,
    compliance: String,
    trust: String,
    availability: String,
    fault: String,
    live: bool,
    digest: String,
    findings: Vec<(String, u32)>,
}

impl Look {
    fn none() -> Self {
        Self {
            at: None,
            verdict: Badge::plain("–", "Not scored yet"),
            compliance: String::new(),
            trust: String::new(),
            availability: String::new(),
            fault: String::new(),
            live: false,
            digest: String::new(),
            findings: Vec::new(),
        }
    }

    fn of(scoring: &CardScoring) -> Self {
        let scores = scoring.scores.as_ref();
        let text = |found: Option<(Points, &'static str)>| {
            found.map_or_else(String::new, |(total, band)| format!("{total} {band}"))
        };
        let availability = scores.and_then(|it| it.availability);
        let findings = scores.into_iter().flat_map(|it| &it.findings);
        Self {
            at: Some(scoring.scored_at.into()),
            verdict: verdict(scores),
            compliance: text(scores.map(|it| (it.compliance.total, it.compliance.rating.label()))),
            trust: text(scores.map(|it| (it.trust.total, it.trust.rating.label()))),
            availability: text(availability.map(|it| (it.total, it.rating.label()))),
            fault: plain(scoring.fault.as_deref().unwrap_or_default()),
            live: scoring.live,
            digest: scoring.digest.as_deref().map_or_else(String::new, plain),
            findings: findings
                .map(|(code, count)| (plain(code), *count))
                .collect(),
        }
    }
}

fn verdict(scores: Option<&Scores>) -> Badge {
    match scores {
        None => Badge::bad("No card found"),
        Some(scores) if scores.production_ready => Badge::good("Ready for production"),
        Some(scores) => {
            let low: Vec<&str> = scores.blockers.iter().map(|it| it.name()).collect();
            Badge::warn(format!("Too low: {}", low.join(", ")))
        }
    }
}

fn address(url: &str) -> String {
    let url: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
    format!("{CARDS}/history?url={url}")
}

fn points(points: Points) -> f64 {
    u32::try_from(points.hundredths()).map_or(0.0, |it| f64::from(it) / 100.0)
}

/// `GET /console/cards`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let cards = &api.cards.cards;
    let mut rows = Vec::new();
    let mut alerts = false;
    for (watch, due, alerted) in cards.watches(visit.tenant()).await? {
        alerts |= alerted;
        let looks = match web_url::card_place(&watch.url) {
            Some(url) => cards.history(visit.tenant(), &url, RECENT).await?,
            None => Vec::new(),
        };
        let trend: Vec<_> = looks
            .iter()
            .rev()
            .filter_map(|it| Some((it.scored_at, points(it.scores.as_ref()?.compliance.total))))
            .collect();
        rows.push(Watched {
            href: address(&watch.url),
            url: plain(&watch.url),
            last: looks.first().map_or_else(Look::none, Look::of),
            trend: chart::small(&trend, 100.0),
            every: every(watch.every_hours),
            live: watch.live,
            due: due.into(),
        });
    }
    html(&Page {
        chrome: visit.chrome(Section::Cards),
        rows,
        may_write: visit.may(Scope::AssessmentsWrite),
        alerts,
        intervals: &INTERVALS,
    })
}

fn every(hours: u32) -> String {
    match hours {
        1 => "every hour".to_owned(),
        24 => "every day".to_owned(),
        168 => "every week".to_owned(),
        hours => format!("every {hours} hours"),
    }
}

#[derive(Template)]
#[template(path = "ratings/card.html")]
struct History {
    chrome: Chrome,
    url: String,
    looks: Vec<Look>,
    chart: Option<Chart>,
    is_watched: bool,
    may_write: bool,
    intervals: &'static [(&'static str, &'static str)],
}

/// `GET /console/cards/history?url=`.
pub async fn history(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let url = place(query.get("url"))?;
    let cards = &api.cards.cards;
    let looks = cards.history(visit.tenant(), &url, MOST_SHOWN).await?;
    let watches = cards.watches(visit.tenant()).await?;
    html(&History {
        chrome: visit.chrome(Section::Cards),
        chart: Chart::of("Scores over time, of 100", 100.0, lines(&looks)),
        looks: looks.iter().map(Look::of).collect(),
        is_watched: watches.iter().any(|(watch, ..)| watch.url == url.as_str()),
        may_write: visit.may(Scope::AssessmentsWrite),
        intervals: &INTERVALS,
        url: plain(url.as_str()),
    })
}

/// One line for each dimension that was scored.
fn lines(looks: &[CardScoring]) -> Vec<Line> {
    type Total = fn(&Scores) -> Option<Points>;
    let dimensions: [(&str, Total); 3] = [
        ("Compliance", |it| Some(it.compliance.total)),
        ("Trust", |it| Some(it.trust.total)),
        ("Availability", |it| it.availability.map(|it| it.total)),
    ];
    let line = |(name, total): (&str, Total)| {
        let value = |look: &CardScoring| {
            let points_of = total(look.scores.as_ref()?)?;
            Some(chart::Value {
                at: look.scored_at,
                value: points(points_of),
                range: None,
                title: format!(
                    "{name} {points_of}, {}",
                    look.scored_at.strftime("%Y-%m-%d %H:%M UTC")
                ),
            })
        };
        Line {
            name: name.to_owned(),
            values: looks.iter().rev().filter_map(value).collect(),
        }
    };
    let all = dimensions.into_iter().map(line);
    all.filter(|line| !line.values.is_empty()).collect()
}

fn place(url: Option<&str>) -> Result<url::Url, Problem> {
    let url = url.map(str::trim).and_then(web_url::card_place);
    url.ok_or_else(|| {
        Problem::validation(
            "url",
            "the address must be an http or https URL of at most 2048 bytes, without credentials",
        )
    })
}

/// `POST /console/cards/score`.
pub async fn score(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let url = place(form.get("url"))?;
    let back = address(url.as_str());
    let contact = match form.get("live") {
        Some(_) => ContactPolicy::Agent,
        None => ContactPolicy::KeySets,
    };
    let cards = &api.cards.cards;
    cards
        .score(&visit.caller, Subject::At(url), contact)
        .await?;
    Ok(see_other(&format!("{back}&done=card-scored")))
}

/// `POST /console/cards/watch`.
pub async fn watch(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let url = place(form.get("url"))?;
    let hours = form.required("every")?.parse();
    let hours = hours.map_err(|_| Problem::validation("every", "choose an interval"))?;
    let live = form.get("live").is_some();
    let alerts = AlertBelow::default();
    let cards = &api.cards.cards;
    cards
        .watch(&visit.caller, &url, hours, live, alerts)
        .await?;
    Ok(see_other(&format!("{CARDS}?done=card-watched")))
}

/// `POST /console/cards/unwatch`.
pub async fn unwatch(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let url = place(form.get("url"))?;
    api.cards.cards.unwatch(&visit.caller, &url).await?;
    Ok(see_other(&format!("{CARDS}?done=card-unwatched")))
}
