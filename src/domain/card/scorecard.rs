//! The three scores of a card side by side, and whether they are enough for production.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::compliance::{self, Compliance};
use super::document::{Card, Unparseable};
use super::finding::{Code, Finding, Findings};
use super::live::availability::{Availability, NotTested};
use super::live::{Observation, Plan};
use super::points::Points;
use super::signature::{self, Keys};
use super::trust::{self, Trust};

/// What a card is scored with, beside its octets.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Now.
    pub now: Timestamp,
    /// What signatures are checked with; `None` if they are not to be.
    pub keys: Option<&'a Keys>,
    /// What was seen of the agent.
    pub live: Live<'a>,
}

/// What was seen of the agent behind a card.
#[derive(Clone, Copy, Debug)]
pub enum Live<'a> {
    /// Nothing, because nobody wanted it.
    Disabled,
    /// Nothing, because only the card's form is looked at.
    SchemaOnly,
    /// This.
    Seen(&'a Observation),
}

/// What a card needs for production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The least compliance.
    pub compliance: Points,
    /// The least trust.
    pub trust: Points,
    /// The least availability, if the agent was asked.
    pub availability: Points,
}

impl Thresholds {
    /// For production.
    pub const PRODUCTION: Self = Self {
        compliance: Points::whole(95),
        trust: Points::whole(60),
        availability: Points::whole(80),
    };
}

/// A dimension that keeps a card from production.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blocker {
    /// The card is not what it should be.
    Compliance,
    /// It cannot be relied on.
    Trust,
    /// The agent does not answer.
    Availability,
}

impl Blocker {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compliance => "compliance",
            Self::Trust => "trust",
            Self::Availability => "availability",
        }
    }
}

/// The scores of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scorecard {
    /// Compliance once more, for readers of before there were three dimensions.
    pub score: Points,
    /// Compliance.
    pub compliance: Compliance,
    /// Trust.
    pub trust: Trust,
    /// Availability.
    pub availability: Availability,
    /// Whether all of them are enough.
    pub production_ready: bool,
    /// Which are not.
    pub blockers: Vec<Blocker>,
    /// The same in words.
    pub recommendation: Vec<String>,
    /// What was found, up to a limit for each code.
    pub issues: Vec<Finding>,
    /// How much more was found.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted_issues: usize,
    /// How many there are of each code, kept or not.
    #[serde(skip)]
    pub counts: BTreeMap<Code, u32>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Scores a card.
pub fn score(octets: &[u8], context: &Context<'_>) -> Scorecard {
    match Card::parse(octets) {
        Ok(card) => score_card(&card, context),
        Err(fault) => score_unparseable(fault, context),
    }
}

/// Scores a card nothing can be said about.
pub fn score_unparseable(fault: Unparseable, context: &Context<'_>) -> Scorecard {
    let mut issues = Findings::default();
    issues.push(Finding::new(
        Code::CardUnparseable,
        "",
        format!(
            "The card cannot be scored: {fault}. Publish one JSON object of at most 1 MiB in which no name occurs twice."
        ),
    ));
    Scorecard::of(
        Compliance::none(),
        Trust::none(context.keys.is_none()),
        Availability::not_tested(NotTested::CardUnparseable, &mut issues),
        issues,
    )
}

fn score_card(card: &Card, context: &Context<'_>) -> Scorecard {
    let mut issues = Findings::default();
    let compliance = compliance::score(card, &mut issues);
    let checked = context
        .keys
        .map(|keys| signature::check(card, keys, context.now));
    let provider_reachable = match context.live {
        Live::Seen(seen) => seen.provider_reachable,
        Live::Disabled | Live::SchemaOnly => None,
    };
    let trust = trust::score(card, checked.as_deref(), provider_reachable, &mut issues);
    let availability = match context.live {
        Live::Disabled => Availability::not_tested(NotTested::LiveTestingDisabled, &mut issues),
        Live::SchemaOnly => Availability::not_tested(NotTested::SchemaOnly, &mut issues),
        Live::Seen(seen) => Availability::of(&Plan::of(card), seen, &mut issues),
    };
    Scorecard::of(compliance, trust, availability, issues)
}

impl Scorecard {
    fn of(
        compliance: Compliance,
        trust: Trust,
        availability: Availability,
        issues: Findings,
    ) -> Self {
        let count = issues.count();
        let (issues, counts) = issues.into_parts();
        let omitted_issues = count - issues.len();
        let mut scorecard = Self {
            score: compliance.total,
            compliance,
            trust,
            availability,
            production_ready: false,
            blockers: Vec::new(),
            recommendation: Vec::new(),
            issues,
            omitted_issues,
            counts,
        };
        let below = scorecard.below(&Thresholds::PRODUCTION);
        scorecard.production_ready = below.is_empty();
        scorecard.recommendation = vec![recommendation(&below)];
        scorecard.blockers = below.into_iter().map(|it| it.blocker).collect();
        scorecard
    }

    /// Adds that its server calls the card something else than JSON. It costs no points: how a card is served is not part of it.
    pub fn note_media_type(&mut self, media_type: &str) {
        let code = Code::CardContentTypeInvalid;
        let message = format!(
            "The server sends the card as {media_type}. Send it with Content-Type application/json."
        );
        self.issues.push(Finding::new(code, "", message));
        *self.counts.entry(code).or_default() += 1;
    }

    /// The dimensions below their thresholds, in order. An agent that was not asked is not below its own.
    pub fn below(&self, thresholds: &Thresholds) -> Vec<Shortfall> {
        let dimensions = [
            (
                Blocker::Compliance,
                Some(self.compliance.total),
                thresholds.compliance,
            ),
            (Blocker::Trust, Some(self.trust.total), thresholds.trust),
            (
                Blocker::Availability,
                self.availability.total,
                thresholds.availability,
            ),
        ];
        let short = dimensions
            .into_iter()
            .filter_map(|(blocker, value, least)| {
                let value = value.filter(|value| *value < least)?;
                Some(Shortfall {
                    blocker,
                    value,
                    least,
                })
            });
        short.collect()
    }
}

/// A dimension below its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shortfall {
    /// The dimension.
    #[serde(rename = "dimension")]
    pub blocker: Blocker,
    /// Its total.
    pub value: Points,
    /// What it should be at least.
    pub least: Points,
}

fn recommendation(below: &[Shortfall]) -> String {
    if below.is_empty() {
        return "✅ Production ready".to_owned();
    }
    let named = below
        .iter()
        .map(|it| format!("{} {} is below {}", it.blocker.name(), it.value, it.least));
    format!(
        "Not production ready: {}.",
        named.collect::<Vec<_>>().join(", ")
    )
}
