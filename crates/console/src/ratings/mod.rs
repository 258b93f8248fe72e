//! Ratings of agents, agent cards and OASIS verdicts.

mod agent;
mod appeals;
mod assessment;
mod cards;
mod chart;
mod dimension;
mod leaderboard;
mod measures;
mod oasis;
mod oasis_review;

use crate::api::ConsoleApi;
use crate::page::answer::{html, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::visit::Visit;
use crate::routes::Pages;
use askama::Template;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_kit::error::Problem;
use touchstone_ratings::service::Member;

const RATINGS: &str = "/console/ratings";
const CARDS: &str = "/console/cards";
const OASIS: &str = "/console/oasis";

pub fn routes(pages: Pages) -> Pages {
    let pages = pages
        .page(RATINGS, Scope::AgentsRead, leaderboard::page)
        .page("/console/ratings/{agentId}", Scope::AgentsRead, agent::page)
        .form(
            "/console/ratings/{agentId}/assess",
            Scope::AssessmentsWrite,
            agent::assess,
        )
        .page(
            "/console/ratings/{agentId}/dimensions/{dimension}",
            Scope::AssessmentsRead,
            dimension::page,
        )
        .page(
            "/console/ratings/{agentId}/assessments/{assessmentId}",
            Scope::AssessmentsRead,
            assessment::page,
        )
        .form(
            "/console/ratings/{agentId}/assessments/{assessmentId}/review",
            Scope::AssessmentsReview,
            assessment::review,
        )
        .form(
            "/console/ratings/{agentId}/assessments/{assessmentId}/appeals",
            Scope::AppealsFile,
            appeals::file,
        )
        .form(
            "/console/ratings/{agentId}/assessments/{assessmentId}/appeals/{appealId}",
            Scope::AppealsReview,
            appeals::resolve,
        );
    let pages = pages
        .page(CARDS, Scope::AssessmentsRead, cards::page)
        .page(
            "/console/cards/history",
            Scope::AssessmentsRead,
            cards::history,
        )
        .form(
            "/console/cards/score",
            Scope::AssessmentsWrite,
            cards::score,
        )
        .form(
            "/console/cards/watch",
            Scope::AssessmentsWrite,
            cards::watch,
        )
        .form(
            "/console/cards/unwatch",
            Scope::AssessmentsWrite,
            cards::unwatch,
        );
    pages
        .page(OASIS, Scope::RunsRead, oasis::list)
        .page("/console/oasis/{runId}", Scope::RunsRead, oasis::page)
        .page(
            "/console/oasis/{runId}/evidence/{scenarioId}",
            Scope::RunsRead,
            oasis::evidence,
        )
        .form(
            "/console/oasis/{runId}/review/{scenarioId}",
            Scope::ReviewsWrite,
            oasis_review::send,
        )
}

/// The page of a tenant without an organization.
#[derive(Template)]
#[template(path = "ratings/no-organization.html")]
struct NoOrganization {
    chrome: Chrome,
}

pub fn no_organization(visit: &Visit) -> Answer {
    let chrome = visit.chrome(Section::Ratings);
    html(&NoOrganization { chrome })
}

/// The organization of the tenant, if it has one. The page counts as a request of the rating API.
pub async fn membership(api: &ConsoleApi, visit: &Visit) -> Result<Option<Member>, Problem> {
    let ratings = &api.ratings.ratings;
    api.ratings.allowances.request(&visit.caller.key_id)?;
    ratings.membership(visit.caller.clone(), false).await
}

/// The organization of the tenant, for changes.
async fn writer(api: &ConsoleApi, visit: &Visit) -> Result<Member, Problem> {
    let ratings = &api.ratings.ratings;
    api.ratings.allowances.request(&visit.caller.key_id)?;
    ratings.member(visit.caller.clone(), true).await
}

fn agent_address(agent: &str) -> String {
    format!("{RATINGS}/{}", segment(agent))
}

fn assessment_address(agent: &str, assessment: &str) -> String {
    let agent = agent_address(agent);
    format!("{agent}/assessments/{}", segment(assessment))
}
