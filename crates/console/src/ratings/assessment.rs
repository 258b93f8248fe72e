//! One assessment: scores, review, appeals.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::json;

use crate::api::ConsoleApi;
use crate::page::answer::{html, see_other};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::ratings::agent::{kind, stage};
use crate::ratings::appeals::Appeal;
use crate::ratings::leaderboard::{Rated, badge, view};
use crate::ratings::{agent_address, assessment_address, membership, no_organization, writer};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_ratings::ports::assessments::{AssessmentOutcome, AssessmentRecord, Stage};
use touchstone_ratings::render::report::rows;
use touchstone_ratings::rules::assessment::order::{Review, Verdict};
use touchstone_ratings::rules::badge::{axis_name, dimension_name};
use touchstone_ratings::rules::{Axis, Dimension};
use touchstone_ratings::service::assessments::needs_review;
use touchstone_ratings::service::{Member, Ratings};

/// Appeals of the page.
const APPEALS: u32 = 100;

#[derive(Template)]
#[template(path = "ratings/assessment.html")]
struct Page {
    chrome: Chrome,
    href: String,
    agent: String,
    agent_href: String,
    id: String,
    at: Time,
    ended: Option<Time>,
    kind: &'static str,
    by: String,
    from: Time,
    until: Time,
    state: Badge,
    failure: String,
    badge: Badge,
    axes: Vec<AxisSection>,
    movements: Vec<String>,
    needs_review: bool,
    may_review: bool,
    review: Option<Decided>,
    appeals: Vec<Appeal>,
    may_appeal: bool,
    dimensions: Vec<(&'static str, &'static str)>,
}

struct AxisSection {
    name: &'static str,
    rated: Option<Rated>,
    rows: Vec<rows::Row>,
}

struct Decided {
    badge: Badge,
    by: String,
    at: Time,
    reason: String,
}

/// The assessment of an address; the agent must be its own.
pub async fn find(
    ratings: &Ratings,
    member: &Member,
    path: &PathParameters,
) -> Result<AssessmentRecord, Problem> {
    let found = ratings.assessment(member, path.get("assessmentId")).await?;
    match found.agent == path.get("agentId") {
        true => Ok(found),
        false => Err(Problem::new(ErrorCode::NotFound, "no such assessment")),
    }
}

/// `GET /console/ratings/{agentId}/assessments/{assessmentId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let Some(member) = membership(&api, &visit).await? else {
        return no_organization(&visit);
    };
    let ratings = &api.ratings.ratings;
    let found = find(ratings, &member, &path).await?;
    let agent = ratings.agent(&member, &found.agent).await?;
    let shown = view(&found, &member, ratings)?;
    let appeals = ratings.appeals(&member, &found.id, None, APPEALS).await?;
    let section = |axis| AxisSection {
        name: axis_name(axis),
        rated: Rated::on(&found, axis),
        rows: rows::rows(&shown, axis),
    };
    let scored = shown.rated().is_some();
    let (failure, review) = outcome(&found);
    let needs_review = needs_review(&found);
    let all = Axis::ALL.iter().flat_map(|axis| axis.dimensions());
    let named = all.map(|it: &Dimension| (it.as_str(), dimension_name(*it)));
    html(&Page {
        chrome: visit.chrome(Section::Ratings),
        href: assessment_address(&found.agent, &found.id),
        agent: plain(&agent.name),
        agent_href: agent_address(&agent.id),
        at: found.created_at.into(),
        ended: found.ended_at.map(Time::from),
        kind: kind(&found),
        by: plain(&found.request.triggered_by),
        from: found.request.assessment.window_start.into(),
        until: found.request.assessment.window_end.into(),
        state: stage(found.stage),
        failure,
        badge: badge(Some(&found)),
        axes: match scored {
            true => Axis::ALL.map(section).into(),
            false => Vec::new(),
        },
        movements: match scored {
            true => rows::movements(&shown),
            false => Vec::new(),
        },
        needs_review,
        may_review: needs_review && visit.may(Scope::AssessmentsReview),
        review,
        appeals: appeals.iter().map(|it| Appeal::of(it, &visit)).collect(),
        may_appeal: scored && found.stage == Stage::Completed && visit.may(Scope::AppealsFile),
        dimensions: named.collect(),
        id: found.id,
    })
}

/// Why the assessment failed, and the review of one that did not.
fn outcome(found: &AssessmentRecord) -> (String, Option<Decided>) {
    match &found.outcome {
        Some(AssessmentOutcome::Failed { message, .. }) => (plain(message), None),
        Some(AssessmentOutcome::Scored {
            review: Some(review),
            ..
        }) => {
            let decided = Decided {
                badge: match review.decision {
                    Verdict::Approve => Badge::good("Approved"),
                    Verdict::Reject => Badge::bad("Rejected"),
                },
                by: plain(&review.by),
                at: review.at.into(),
                reason: plain(review.reason.as_deref().unwrap_or_default()),
            };
            (String::new(), Some(decided))
        }
        _ => (String::new(), None),
    }
}

/// `POST /console/ratings/{agentId}/assessments/{assessmentId}/review`.
pub async fn review(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = writer(&api, &visit).await?;
    let found = find(ratings, &member, &path).await?;
    let mut body = json!({"decision": form.required("decision")?});
    if let (Some(reason), Some(members)) = (form.get("reason"), body.as_object_mut()) {
        members.insert("reason".to_owned(), json!(reason));
    }
    let review = Review::parse(&body)?;
    ratings.review(&member, &found.id, review).await?;
    let place = assessment_address(&found.agent, &found.id);
    Ok(see_other(&format!("{place}?done=assessment-reviewed")))
}
