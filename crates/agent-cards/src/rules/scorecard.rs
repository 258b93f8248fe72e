//! The three scores of a card, and whether they are high enough for production.

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

/// The inputs for scoring a card other than its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub now: Timestamp,
    /// Keys and rules for verifying signatures; `None` to skip verification.
    pub keys: Option<&'a Keys>,
    pub live: Live<'a>,
}

/// The observations of the agent behind a card.
#[derive(Clone, Copy, Debug)]
pub enum Live<'a> {
    /// No live test was requested.
    Disabled,
    /// Only the card's form is checked.
    SchemaOnly,
    Seen(&'a Observation),
}

/// Minimum totals of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub compliance: Points,
    pub trust: Points,
    /// Minimum availability, if the agent was tested.
    pub availability: Points,
}

impl Thresholds {
    pub const PRODUCTION: Self = Self {
        compliance: Points::whole(95),
        trust: Points::whole(60),
        availability: Points::whole(80),
    };
}

/// A dimension whose total is too low for production.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blocker {
    Compliance,
    Trust,
    Availability,
}

impl Blocker {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compliance => "compliance",
            Self::Trust => "trust",
            Self::Availability => "availability",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scorecard {
    /// The compliance total, for readers that predate the three dimensions.
    pub score: Points,
    pub compliance: Compliance,
    pub trust: Trust,
    pub availability: Availability,
    /// Whether all totals are high enough.
    pub production_ready: bool,
    /// The dimensions that are too low.
    pub blockers: Vec<Blocker>,
    /// Recommendations as text.
    pub recommendation: Vec<String>,
    /// Findings, up to a limit per code.
    pub issues: Vec<Finding>,
    /// Number of findings that were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted_issues: usize,
    /// Number of findings of each code, including those left out.
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
pub fn score(bytes: &[u8], context: &Context<'_>) -> Scorecard {
    match Card::parse(bytes) {
        Ok(card) => score_card(&card, context),
        Err(fault) => score_unparseable(fault, context),
    }
}

/// Scores an unreadable card.
pub fn score_unparseable(fault: Unparseable, context: &Context<'_>) -> Scorecard {
    let mut issues = Findings::default();
    issues.push(Finding::new(
        Code::CardUnparseable,
        "",
        format!(
            "The card cannot be scored: {fault}. Publish one JSON object of at most 1 MiB \
            without duplicate names."
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

    /// Adds a finding that the server does not send the card as JSON. It costs no points, because
    /// the media type is not part of the card.
    pub fn note_media_type(&mut self, media_type: &str) {
        let code = Code::CardContentTypeInvalid;
        let message = format!(
            "The server sends the card as {media_type}. Send it with Content-Type application/json."
        );
        self.issues.push(Finding::new(code, "", message));
        *self.counts.entry(code).or_default() += 1;
    }

    /// The dimensions below their thresholds, in order. Availability is not below its threshold if
    /// the agent was not tested.
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
    #[serde(rename = "dimension")]
    pub blocker: Blocker,
    pub value: Points,
    /// The required minimum.
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
