//! Badges of the AI Agent Assessment Framework (AAAF 1.0.0): their content, the credential that
//! proves it, and its verification.
//!
//! This module computes no scores. A badge states the result of an assessment in the form it is
//! shown.

pub mod agreement;
mod credential;
mod document;
pub mod host_url;
mod names;
mod picture;
mod read_back;
mod standards;
pub mod validity;
mod verification;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::rules::evidence::Sources;
use crate::rules::{Axis, Dimension, Rating, Score, Tier};

pub use credential::{Issuance, IssueError, issue};
pub use document::{DocumentShape, document};
pub use names::{axis_name, dimension_name};
pub use picture::{Mark, Scale};
pub use read_back::badge_from_credential;
pub use verification::{
    Inspection, Reason, StoredBadge, Verification, VerificationContext, check_proof, verify,
    verify_at,
};

pub const FRAMEWORK_VERSION: &str = "1.0.0";
/// Maximum length of a name, in characters.
pub const MAX_NAME: usize = 200;

/// A score as it is shown: hundredths from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisplayScore(u8);

impl DisplayScore {
    /// A score of this many hundredths; `None` above 100.
    pub const fn hundredths(hundredths: u8) -> Option<Self> {
        if hundredths <= 100 {
            Some(Self(hundredths))
        } else {
            None
        }
    }

    /// The score as a number with two decimals.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// Rounds a stored score half up.
    pub fn of(score: Score) -> Self {
        let hundredths = (score.ten_thousandths() + 50) / 100;
        Self(u8::try_from(hundredths).unwrap_or(100).min(100))
    }

    /// Truncates a share, so that a partial share is never shown as 1.00.
    fn of_share(share: f64) -> Self {
        let floor = Score::of(share).ten_thousandths() / 100;
        let hundredths = u8::try_from(floor).unwrap_or(100).min(100);
        Self(if share < 1.0 {
            hundredths.min(99)
        } else {
            hundredths
        })
    }
}

impl fmt::Display for DisplayScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// Not a score with two decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a score is shown with two decimals, from 0.00 to 1.00")]
pub struct DisplayScoreError;

impl FromStr for DisplayScore {
    type Err = DisplayScoreError;

    fn from_str(text: &str) -> Result<Self, DisplayScoreError> {
        let hundredths = text
            .split_once('.')
            .filter(|(whole, part)| whole.len() == 1 && part.len() == 2)
            .map(|(whole, part)| format!("{whole}{part}"))
            .filter(|digits| digits.bytes().all(|octet| octet.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok());
        hundredths
            .and_then(Self::hundredths)
            .ok_or(DisplayScoreError)
    }
}

impl Serialize for DisplayScore {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DisplayScore {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The result of an axis, as a badge states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisResult {
    pub score: DisplayScore,
    pub tier: Tier,
    /// Share of the weights that was assessed. The badge mentions it if it is less than 1.00.
    pub coverage: DisplayScore,
}

impl AxisResult {
    /// The share that was assessed, if it is partial.
    pub fn partial_coverage(self) -> Option<DisplayScore> {
        (self.coverage.0 < 100).then_some(self.coverage)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionResult {
    pub dimension: Dimension,
    /// `None` if the dimension was not assessed.
    pub score: Option<DisplayScore>,
}

/// The window of an assessment: start inclusive, end exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub start: Timestamp,
    pub end: Timestamp,
}

/// An agent or organization, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    pub id: Uuid,
    pub name: String,
}

/// The content of a badge. Its JSON is what hosts store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Badge {
    pub id: Uuid,
    pub agent: Party,
    /// The organization that assessed the agent.
    pub organization: Party,
    pub performance: AxisResult,
    pub capability: AxisResult,
    /// The dimensions in any order; absent ones were not assessed.
    pub dimensions: Vec<DimensionResult>,
    /// Number of evidence events by kind of recorder; empty on badges from before this was stored.
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
    pub assessment_id: Uuid,
    /// `None` on badges from before this was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    pub certified_at: Timestamp,
    pub valid_until: Timestamp,
    /// The address at which the badge can be verified.
    pub verification_url: String,
}

/// The content of a badge apart from the rating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadgeMetadata {
    pub id: Uuid,
    pub agent: Party,
    /// The organization that assessed the agent.
    pub organization: Party,
    pub assessment_id: Uuid,
    pub window: Option<Window>,
    /// When the badge is issued.
    pub certified_at: Timestamp,
    pub valid_until: Timestamp,
    /// The address at which the badge can be verified.
    pub verification_url: String,
}

/// A rating that cannot be certified, because an axis has no score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} has no score, so there is nothing to certify")]
pub struct MissingScore(pub Axis);

impl Badge {
    /// The mark across the badge at this time.
    pub fn mark(&self, revoked: bool, now: Timestamp) -> Mark {
        match (revoked, now >= self.valid_until) {
            (true, _) => Mark::Revoked,
            (false, true) => Mark::Expired,
            (false, false) => Mark::None,
        }
    }

    /// The end of its validity in whole seconds, as credential and picture state it.
    pub fn shown_until(&self) -> Timestamp {
        credential::ceiling(self.valid_until)
    }

    /// The badge of a rating.
    ///
    /// # Errors
    /// An axis has no score.
    pub fn of(rating: &Rating, metadata: BadgeMetadata) -> Result<Self, MissingScore> {
        let axes = [&rating.performance, &rating.capability];
        let mut results = Axis::ALL.into_iter().zip(axes).map(|(axis, rated)| {
            let shown = rated.display.as_deref().and_then(|it| it.parse().ok());
            Ok(AxisResult {
                score: shown.ok_or(MissingScore(axis))?,
                tier: rated.tier.ok_or(MissingScore(axis))?,
                coverage: DisplayScore::of_share(rated.weight_coverage),
            })
        });
        let mut next = |axis| results.next().unwrap_or(Err(MissingScore(axis)));
        let measured = axes.into_iter().flat_map(|rated| &rated.dimensions);
        Ok(Self {
            performance: next(Axis::Performance)?,
            capability: next(Axis::Capability)?,
            dimensions: measured
                .map(|(dimension, measure)| DimensionResult {
                    dimension: *dimension,
                    score: measure.raw.map(|raw| DisplayScore::of(Score::of(raw))),
                })
                .collect(),
            sources: rating.evidence.sources.clone(),
            id: metadata.id,
            agent: metadata.agent,
            organization: metadata.organization,
            assessment_id: metadata.assessment_id,
            window: metadata.window,
            certified_at: metadata.certified_at,
            valid_until: metadata.valid_until,
            verification_url: metadata.verification_url,
        })
    }

    pub const fn rating(&self, axis: Axis) -> AxisResult {
        match axis {
            Axis::Performance => self.performance,
            Axis::Capability => self.capability,
        }
    }

    /// The score of a dimension; `None` if it was not assessed.
    pub fn scored(&self, dimension: Dimension) -> Option<DisplayScore> {
        let named = self.dimensions.iter().find(|it| it.dimension == dimension);
        named.and_then(|it| it.score)
    }
}

/// Why a badge was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationReason {
    /// A newer revision replaced it.
    Superseded,
    /// An appeal changed its content.
    Appeal,
    /// The signing key was exposed.
    KeyCompromise,
    /// The evidence turned out to be wrong.
    EvidenceInvalid,
    /// The issuer withdrew it.
    Withdrawn,
}

impl RevocationReason {
    pub const ALL: &'static [Self] = &[
        Self::Superseded,
        Self::Appeal,
        Self::KeyCompromise,
        Self::EvidenceInvalid,
        Self::Withdrawn,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::Appeal => "appeal",
            Self::KeyCompromise => "key_compromise",
            Self::EvidenceInvalid => "evidence_invalid",
            Self::Withdrawn => "withdrawn",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "samples for tests")]
pub mod sample;
#[cfg(test)]
mod tests;
