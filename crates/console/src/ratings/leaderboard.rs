//! The agents of the organization by their ratings.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::page::answer::html;
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::ratings::measures::rated_at;
use crate::ratings::{agent_address, membership, no_organization};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_ratings::http::assessments::to_json;
use touchstone_ratings::ports::assessments::AssessmentRecord;
use touchstone_ratings::ports::badges::BadgeState;
use touchstone_ratings::render::report::RatingSnapshot;
use touchstone_ratings::render::report::chart::{Plane, summary_plane};
use touchstone_ratings::render::view::AssessmentView;
use touchstone_ratings::rules::agent::Status;
use touchstone_ratings::rules::{Axis, Tier};
use touchstone_ratings::service::assessments::needs_review;
use touchstone_ratings::service::standings::{Standing, StandingFilter, StandingOrder, ranked};
use touchstone_ratings::service::{Member, Ratings};

#[derive(Template)]
#[template(path = "ratings/leaderboard.html")]
struct Page {
    chrome: Chrome,
    organization: String,
    orders: Vec<Choice>,
    tiers: Vec<(&'static str, Vec<Choice>)>,
    has_filter: bool,
    rows: Vec<Row>,
    all: usize,
    more: bool,
    may_read_ratings: bool,
    /// `None` without a rated agent.
    plane: Option<Plane>,
}

struct Choice {
    value: String,
    label: &'static str,
    is_chosen: bool,
}

struct Row {
    /// Place in the list and the label in the plot.
    number: usize,
    href: String,
    id: String,
    name: String,
    status: Option<Badge>,
    performance: Option<Rated>,
    capability: Option<Rated>,
    badge: Badge,
    rated: Option<Time>,
}

pub struct Rated {
    pub score: String,
    pub tier: &'static str,
    /// The score in thousandths.
    pub share: u16,
}

impl Rated {
    pub fn on(assessment: &AssessmentRecord, axis: Axis) -> Option<Self> {
        let (score, tier) = touchstone_ratings::service::standings::on_axis(assessment, axis)?;
        Some(Self {
            score: score.display(axis),
            tier: tier.name(),
            share: score.ten_thousandths() / 10,
        })
    }
}

impl Row {
    fn of(number: usize, standing: &Standing) -> Self {
        let agent = &standing.agent;
        let rating = standing.rating.as_ref();
        let on = |axis| Rated::on(rating?, axis);
        Self {
            number,
            href: agent_address(&agent.id),
            id: agent.id.clone(),
            name: plain(&agent.name),
            status: status(agent.status()),
            performance: on(Axis::Performance),
            capability: on(Axis::Capability),
            badge: badge(rating),
            rated: rating.map(|it| rated_at(it).into()),
        }
    }
}

/// The status of an agent, if it is not the usual one.
pub fn status(status: Status) -> Option<Badge> {
    match status {
        Status::Active => None,
        Status::Enrolled => Some(Badge::plain("–", "No evidence yet")),
        Status::Suspended => Some(Badge::warn("Suspended")),
        Status::Archived => Some(Badge::plain("⊘", "Archived")),
    }
}

/// The state of the badge of an assessment.
pub fn badge(assessment: Option<&AssessmentRecord>) -> Badge {
    let Some(assessment) = assessment else {
        return Badge::plain("–", "Not rated");
    };
    if needs_review(assessment) {
        return Badge::info("Waits for review");
    }
    match assessment.badge.as_ref().map(|it| it.state) {
        None => Badge::plain("–", "No badge"),
        Some(BadgeState::Withheld) => Badge::info("Withheld"),
        Some(BadgeState::Rejected) => Badge::bad("Rejected"),
        Some(BadgeState::Revoked) => Badge::bad("Revoked"),
        Some(_) => Badge::good("Issued"),
    }
}

/// An assessment as pages and reports show it.
///
/// # Errors
/// The stored assessment is corrupt.
pub fn view(
    assessment: &AssessmentRecord,
    member: &Member,
    ratings: &Ratings,
) -> Result<AssessmentView, Problem> {
    let document = to_json(assessment, member, ratings);
    let read = serde_json::from_value(document);
    read.map_err(|cause| touchstone_host::service::fault::internal(&cause))
}

/// `GET /console/ratings`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let Some(member) = membership(&api, &visit).await? else {
        return no_organization(&visit);
    };
    let query = query.filled();
    let ratings = &api.ratings.ratings;
    let standings = ratings.standings(&member).await?;
    let all = standings.agents.len();
    let (order, tier) = (query.get("sort"), query.get("tier"));
    let shown = ranked(
        standings.agents,
        order_of(order),
        StandingFilter {
            tier: tier.and_then(tier_of),
        },
    );
    let mut moments = Vec::new();
    for (number, standing) in (1..).zip(&shown) {
        if let Some(rating) = &standing.rating {
            let moment = RatingSnapshot::of(&view(rating, &member, ratings)?);
            moments.extend(moment.map(|it| (number, standing.agent.name.as_str(), it)));
        }
    }
    let plane = (!moments.is_empty()).then(|| {
        summary_plane(
            moments
                .iter()
                .map(|(number, name, it)| (*number, *name, it)),
        )
    });
    html(&Page {
        chrome: visit.chrome(Section::Ratings),
        organization: plain(&member.organization.name),
        orders: orders(order),
        tiers: Axis::ALL.map(|axis| tiers(axis, tier)).into(),
        has_filter: tier.is_some(),
        rows: (1..).zip(&shown).map(|(n, it)| Row::of(n, it)).collect(),
        all,
        more: standings.more,
        may_read_ratings: visit.may(Scope::AssessmentsRead),
        plane,
    })
}

fn order_of(name: Option<&str>) -> StandingOrder {
    match name {
        Some("name") => StandingOrder::Name,
        Some("capability") => StandingOrder::By(Axis::Capability),
        _ => StandingOrder::By(Axis::Performance),
    }
}

fn orders(chosen: Option<&str>) -> Vec<Choice> {
    let chosen = order_of(chosen);
    let known = [
        ("performance", "Performance"),
        ("capability", "Capability"),
        ("name", "Name"),
    ];
    let choice = |(value, label): (&str, &'static str)| Choice {
        value: value.to_owned(),
        label,
        is_chosen: order_of(Some(value)) == chosen,
    };
    known.map(choice).into()
}

fn tier_value(tier: Tier) -> String {
    format!("{}:{}", tier.axis(), tier.rank())
}

fn tier_of(value: &str) -> Option<Tier> {
    let mut all = Axis::ALL.into_iter().flat_map(Tier::all);
    all.find(|tier| tier_value(*tier) == value)
}

fn tiers(axis: Axis, chosen: Option<&str>) -> (&'static str, Vec<Choice>) {
    let choice = |tier: Tier| {
        let value = tier_value(tier);
        Choice {
            is_chosen: chosen == Some(&value),
            label: tier.name(),
            value,
        }
    };
    let name = touchstone_ratings::rules::badge::axis_name(axis);
    (name, Tier::all(axis).map(choice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_of_both_axes_can_be_chosen() {
        for axis in Axis::ALL {
            for tier in Tier::all(axis) {
                assert_eq!(tier_of(&tier_value(tier)), Some(tier));
            }
        }
        assert_eq!(tier_of("performance:9"), None);
    }
}
