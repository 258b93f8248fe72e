//! The rating of one agent: dimensions, badge, assessments.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::ConsoleApi;
use crate::page::answer::{html, see_other};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::{Time, count};
use crate::page::visit::Visit;
use crate::ratings::leaderboard::{Rated, badge, status, view};
use crate::ratings::measures::{rated_at, score};
use crate::ratings::{
    agent_address, assessment_address, chart, membership, no_organization, writer,
};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_ratings::ports::assessments::{AssessmentRecord, Stage};
use touchstone_ratings::render::report::RatingSnapshot;
use touchstone_ratings::render::report::chart::{Plane, agent_plane};
use touchstone_ratings::render::report::rows::{self, Field};
use touchstone_ratings::render::view::AssessmentView;
use touchstone_ratings::rules::assessment::order::Order;
use touchstone_ratings::rules::badge::{axis_name, dimension_name};
use touchstone_ratings::rules::{Axis, Dimension};
use touchstone_ratings::service::assessments::valid_until;
use touchstone_ratings::service::{Member, Ratings};

/// Ratings of a trend.
const HISTORY: usize = 50;
/// Assessments of the list.
const LISTED: usize = 20;

#[derive(Template)]
#[template(path = "ratings/agent.html")]
struct Page {
    chrome: Chrome,
    href: String,
    id: String,
    name: String,
    description: String,
    version: String,
    domains: Vec<String>,
    status: Option<Badge>,
    /// `None` without `assessments:read`.
    progress: Option<[Progress; 2]>,
    rating: Option<Rating>,
    assessments: Vec<Assessed>,
    may_read: bool,
    may_assess: bool,
    kinds: &'static [(&'static str, &'static str)],
    dimensions: Vec<(&'static str, &'static str)>,
}

/// Kinds of assessments, as the form offers them.
const KINDS: &[(&str, &str)] = &[
    ("passive_only", "The recorded evidence alone"),
    ("full", "The evidence and a stress test"),
    ("stress_test_only", "A stress test alone"),
    ("single_dimension", "One dimension"),
];

/// Collected and needed tasks of an axis.
struct Progress {
    name: &'static str,
    so_far: usize,
    needed: usize,
    text: String,
}

struct Rating {
    href: String,
    at: Time,
    axes: Vec<AxisSection>,
    plane: Option<Plane>,
    badge: Badge,
    certificate: Option<Certificate>,
    movements: Vec<String>,
    areas: Vec<Field>,
}

struct AxisSection {
    name: &'static str,
    rated: Option<Rated>,
    notes: Vec<String>,
    rows: Vec<DimensionRow>,
}

struct DimensionRow {
    href: String,
    row: rows::Row,
    trend: String,
}

/// An issued badge and how others show and check it.
struct Certificate {
    until: Option<Time>,
    picture: String,
    verify: String,
    markdown: String,
    html: String,
}

struct Assessed {
    href: String,
    at: Time,
    kind: &'static str,
    state: Badge,
    performance: Option<Rated>,
    capability: Option<Rated>,
    badge: Badge,
}

/// `GET /console/ratings/{agentId}`.
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
    let may_read = visit.may(Scope::AssessmentsRead);
    let (mut rating, mut assessments, mut progress) = (None, Vec::new(), None);
    if may_read {
        let history = ratings.rating_history(&member, &agent.id, HISTORY).await?;
        if let Some(found) = ratings.published_rating(&member, &agent).await? {
            rating = Some(Rating::of(&found, &history, &member, ratings).await?);
        }
        assessments = listed(&member, ratings, &agent.id).await?;
        progress = counted(ratings.progress(&member, &agent.id).await)?;
    }
    let profile = &agent.profile;
    html(&Page {
        chrome: visit.chrome(Section::Ratings),
        href: agent_address(&agent.id),
        name: plain(&agent.name),
        description: plain(profile.description.as_deref().unwrap_or_default()),
        version: plain(profile.rated_version().unwrap_or_default()),
        domains: profile.domains.iter().map(|it| plain(it)).collect(),
        status: status(agent.status()),
        progress,
        rating,
        assessments,
        may_read,
        may_assess: visit.may(Scope::AssessmentsWrite) && agent.status().hinders().is_none(),
        kinds: KINDS,
        dimensions: Axis::ALL
            .iter()
            .flat_map(|axis| axis.dimensions())
            .map(|it| (it.as_str(), dimension_name(*it)))
            .collect(),
        id: agent.id,
    })
}

/// Too much evidence to count is no reason to hide the page.
fn counted(
    progress: Result<touchstone_ratings::service::assessments::Progress, Problem>,
) -> Result<Option<[Progress; 2]>, Problem> {
    let found = match progress {
        Ok(found) => found,
        Err(problem) if problem.code == ErrorCode::ValidationError => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let row = |axis, (so_far, needed): (usize, usize)| Progress {
        name: axis_name(axis),
        so_far: so_far.min(needed),
        needed,
        text: format!("{} of {} tasks", count(so_far), count(needed)),
    };
    Ok(Some([
        row(Axis::Performance, found.performance),
        row(Axis::Capability, found.capability),
    ]))
}

impl Rating {
    async fn of(
        found: &AssessmentRecord,
        history: &[AssessmentRecord],
        member: &Member,
        ratings: &Ratings,
    ) -> Result<Self, Problem> {
        let shown = view(found, member, ratings)?;
        let mut before = Vec::new();
        for earlier in history.iter().filter(|it| it.created_at < found.created_at) {
            before.extend(RatingSnapshot::of(&view(earlier, member, ratings)?));
        }
        let now = RatingSnapshot::of(&shown);
        let section = |axis| axis_section(axis, found, &shown, history);
        Ok(Self {
            href: assessment_address(&found.agent, &found.id),
            at: shown.at().into(),
            axes: Axis::ALL.map(section).into(),
            plane: now.as_ref().map(|now| agent_plane(&before, now)),
            badge: badge(Some(found)),
            certificate: certificate(found, member, ratings).await?,
            movements: rows::movements(&shown),
            areas: rows::areas(&shown),
        })
    }
}

fn axis_section(
    axis: Axis,
    found: &AssessmentRecord,
    shown: &AssessmentView,
    history: &[AssessmentRecord],
) -> AxisSection {
    let dimensions = axis.dimensions().iter();
    let named = rows::rows(shown, axis).into_iter().filter_map(|row| {
        let dimension = dimensions
            .clone()
            .find(|it| dimension_name(**it) == row.name)?;
        Some(DimensionRow {
            href: dimension_address(&found.agent, *dimension),
            trend: chart::small(&trend(history, axis, *dimension), 1.0),
            row,
        })
    });
    let rated = shown.rated();
    AxisSection {
        name: axis_name(axis),
        rated: Rated::on(found, axis),
        notes: rated.map_or_else(Vec::new, |it| it.axis(axis).coverage_notes()),
        rows: named.collect(),
    }
}

pub fn dimension_address(agent: &str, dimension: Dimension) -> String {
    format!("{}/dimensions/{dimension}", agent_address(agent))
}

/// The scores of a dimension over time.
fn trend(history: &[AssessmentRecord], axis: Axis, dimension: Dimension) -> Vec<(Timestamp, f64)> {
    let moment = |it: &AssessmentRecord| Some((rated_at(it), score(it, axis, dimension)?));
    history.iter().filter_map(moment).collect()
}

/// The badge of an assessment, if the caller may see it.
async fn certificate(
    found: &AssessmentRecord,
    member: &Member,
    ratings: &Ratings,
) -> Result<Option<Certificate>, Problem> {
    let Some(own) = found.badge.as_ref().filter(|it| it.state.is_public()) else {
        return Ok(None);
    };
    let visible = match ratings.badge(Some(member), &own.id).await {
        Ok(visible) => visible,
        Err(problem) if matches!(problem.code.status(), 403 | 404) => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let address = ratings.badge_address(&found.id);
    let verify = visible.badge.badge.verification_url.clone();
    let alternative = "AAAF rating badge";
    Ok(Some(Certificate {
        until: valid_until(found).map(Time::from),
        markdown: format!("[![{alternative}]({address}.svg)]({verify})"),
        html: format!("<a href=\"{verify}\"><img src=\"{address}.svg\" alt=\"{alternative}\"></a>"),
        // The picture of a private badge needs a key.
        picture: match visible.organization.private_badges {
            true => String::new(),
            false => format!("/api/v1/badges/{}.svg", found.id),
        },
        verify,
    }))
}

/// The newest assessments of an agent, newest first.
async fn listed(member: &Member, ratings: &Ratings, agent: &str) -> Result<Vec<Assessed>, Problem> {
    let newest = ratings.newest_assessments(member, agent, LISTED).await?;
    let assessed = newest.iter().map(|it| Assessed {
        href: assessment_address(agent, &it.id),
        at: it.created_at.into(),
        kind: kind(it),
        state: stage(it.stage),
        performance: Rated::on(it, Axis::Performance),
        capability: Rated::on(it, Axis::Capability),
        badge: badge(Some(it)),
    });
    Ok(assessed.collect())
}

pub fn kind(assessment: &AssessmentRecord) -> &'static str {
    match assessment.request.assessment.kind.as_str() {
        "full" => "Recorded evidence and stress test",
        "passive_only" => "Recorded evidence",
        "stress_test_only" => "Stress test",
        "single_dimension" => "One dimension",
        _ => "Assessment",
    }
}

pub fn stage(stage: Stage) -> Badge {
    match stage {
        Stage::Pending => Badge::info("Waiting"),
        Stage::InProgress => Badge::info("In progress"),
        Stage::Completed => Badge::good("Completed"),
        Stage::Failed => Badge::bad("Failed"),
    }
}

/// `POST /console/ratings/{agentId}/assess`.
pub async fn assess(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = writer(&api, &visit).await?;
    let agent = path.get("agentId");
    let order = Order::parse(&requested(agent, &form))?;
    ratings.agent(&member, agent).await?;
    api.ratings.allowances.assessment(&visit.caller.key_id)?;
    let ordered = ratings.order(&member, &order).await?;
    let place = assessment_address(agent, &ordered.id);
    Ok(see_other(&format!("{place}?done=assessment-ordered")))
}

/// The order of a form. Days start and end in UTC.
fn requested(agent: &str, form: &Form) -> Value {
    let kind = form.get("kind").unwrap_or("passive_only");
    let mut order = json!({"agent_id": agent, "type": kind});
    let day = |name: &str, time: &str| Some(json!(format!("{}T{time}Z", form.get(name)?)));
    let dimension = form.get("dimension").filter(|_| kind == "single_dimension");
    let optional = [
        ("dimension", dimension.map(|it| json!(it))),
        ("window_start", day("from", "00:00:00")),
        ("window_end", day("until", "23:59:59")),
    ];
    if let Some(members) = order.as_object_mut() {
        let given = optional.into_iter();
        members.extend(given.filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_what_the_form_names() {
        let order = requested("a", &Form::parse(b"").unwrap());
        assert_eq!(order, json!({"agent_id": "a", "type": "passive_only"}));
        let form = b"kind=single_dimension&dimension=speed&from=2026-11-01&until=";
        assert_eq!(
            requested("a", &Form::parse(form).unwrap()),
            json!({"agent_id": "a", "type": "single_dimension", "dimension": "speed",
                "window_start": "2026-11-01T00:00:00Z"})
        );
        let form = b"kind=full&dimension=speed";
        let order = requested("a", &Form::parse(form).unwrap());
        assert_eq!(order.get("dimension"), None);
    }
}
