//! Badges of the AI Agent Assessment Framework (AAAF 1.0.0): what they say, the credential that proves it, and how anybody
//! checks that credential.
//!
//! Nothing is scored here. A badge says what an assessment came to, in the words it was shown in.

pub mod agreement;
mod credential;
mod document;
mod names;
mod picture;
mod pictured;
mod standards;
mod verification;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::evidence::Sources;
use super::{Axis, Dimension, Rating, Score, Tier};

pub use credential::{Issuance, Unissuable, issue};
pub use document::{Shape, document};
pub use names::{axis_name, dimension_name};
pub use picture::{Mark, Scale};
pub use pictured::pictured;
pub use verification::{
    Inspection, OnRecord, Reason, Standing, Verification, unsound, verify, verify_at,
};

/// Version of the framework.
pub const FRAMEWORK_VERSION: &str = "1.0.0";
/// Characters a name may have.
pub const MAX_NAME: usize = 200;

/// A score as it is shown: hundredths from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown(u8);

impl Shown {
    /// So many hundredths; `None` above 100.
    pub const fn hundredths(hundredths: u8) -> Option<Self> {
        if hundredths <= 100 {
            Some(Self(hundredths))
        } else {
            None
        }
    }

    /// As a number of two decimals.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// A stored score, half up.
    pub fn of(score: Score) -> Self {
        let hundredths = (score.ten_thousandths() + 50) / 100;
        Self(u8::try_from(hundredths).unwrap_or(100).min(100))
    }

    /// A share, cut off: what is not all is never shown as all.
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

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// Not a score of two decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a score is shown with two decimals, from 0.00 to 1.00")]
pub struct NotShown;

impl FromStr for Shown {
    type Err = NotShown;

    fn from_str(text: &str) -> Result<Self, NotShown> {
        let hundredths = text
            .split_once('.')
            .filter(|(whole, part)| whole.len() == 1 && part.len() == 2)
            .map(|(whole, part)| format!("{whole}{part}"))
            .filter(|digits| digits.bytes().all(|octet| octet.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok());
        hundredths.and_then(Self::hundredths).ok_or(NotShown)
    }
}

impl Serialize for Shown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What an axis came to, in the words of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisResult {
    /// The composite, as it is shown.
    pub score: Shown,
    /// The tier.
    pub tier: Tier,
    /// Share of the weights that was assessed. Less than 1.00 is said on the badge.
    pub coverage: Shown,
}

impl AxisResult {
    /// The share that was assessed, if it is not all.
    pub fn partial_coverage(self) -> Option<Shown> {
        (self.coverage.0 < 100).then_some(self.coverage)
    }
}

/// A dimension's score, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionResult {
    /// Which.
    pub dimension: Dimension,
    /// The score; `None` if it was not assessed.
    pub score: Option<Shown>,
}

/// The window of an assessment: evidence counts from its start on and before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the framework's own")]
pub struct Window {
    pub start: Timestamp,
    pub end: Timestamp,
}

/// Whom something is about, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Id.
    pub id: Uuid,
    /// Name.
    pub name: String,
}

/// What a badge says. As a document it is what hosts keep of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Badge {
    /// Its id.
    pub id: Uuid,
    /// The agent.
    pub agent: Party,
    /// Who assessed it.
    pub organization: Party,
    /// How well it executes.
    pub performance: AxisResult,
    /// What it can do.
    pub capability: AxisResult,
    /// The dimensions, in any order. One that is not named was not assessed.
    pub dimensions: Vec<DimensionResult>,
    /// How many events of its evidence which kind of principal recorded; empty on badges from before that was kept.
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
    /// The assessment behind it.
    pub assessment_id: Uuid,
    /// Its window; `None` on badges from before that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// When it was issued.
    pub certified_at: Timestamp,
    /// When it ceases to hold.
    pub valid_until: Timestamp,
    /// Where it can be verified.
    pub verification_url: String,
}

/// What a badge says beside a rating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occasion {
    /// Id of the badge.
    pub id: Uuid,
    /// The agent.
    pub agent: Party,
    /// Who assessed it.
    pub organization: Party,
    /// The assessment.
    pub assessment_id: Uuid,
    /// Its window.
    pub window: Option<Window>,
    /// When the badge is issued.
    pub certified_at: Timestamp,
    /// When it ceases to hold.
    pub valid_until: Timestamp,
    /// Where it can be verified.
    pub verification_url: String,
}

/// A rating that is no ground for a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} has no score, so there is nothing to certify")]
pub struct NoScore(pub Axis);

impl Badge {
    /// What is marked across it now.
    pub fn mark(&self, revoked: bool, now: Timestamp) -> Mark {
        match (revoked, now >= self.valid_until) {
            (true, _) => Mark::Revoked,
            (false, true) => Mark::Expired,
            (false, false) => Mark::None,
        }
    }

    /// The end of its validity to the second, as its credential and its picture state it.
    pub fn shown_until(&self) -> Timestamp {
        credential::ceiling(self.valid_until)
    }

    /// The badge of a rating.
    ///
    /// # Errors
    /// An axis has no score.
    pub fn of(rating: &Rating, occasion: Occasion) -> Result<Self, NoScore> {
        let axes = [&rating.performance, &rating.capability];
        let mut results = Axis::ALL.into_iter().zip(axes).map(|(axis, rated)| {
            let shown = rated.display.as_deref().and_then(|it| it.parse().ok());
            Ok(AxisResult {
                score: shown.ok_or(NoScore(axis))?,
                tier: rated.tier.ok_or(NoScore(axis))?,
                coverage: Shown::of_share(rated.weight_coverage),
            })
        });
        let mut next = |axis| results.next().unwrap_or(Err(NoScore(axis)));
        let measured = axes.into_iter().flat_map(|rated| &rated.dimensions);
        Ok(Self {
            performance: next(Axis::Performance)?,
            capability: next(Axis::Capability)?,
            dimensions: measured
                .map(|(dimension, measure)| DimensionResult {
                    dimension: *dimension,
                    score: measure.raw.map(|raw| Shown::of(Score::of(raw))),
                })
                .collect(),
            sources: rating.evidence.sources.clone(),
            id: occasion.id,
            agent: occasion.agent,
            organization: occasion.organization,
            assessment_id: occasion.assessment_id,
            window: occasion.window,
            certified_at: occasion.certified_at,
            valid_until: occasion.valid_until,
            verification_url: occasion.verification_url,
        })
    }

    /// What an axis came to.
    pub const fn rating(&self, axis: Axis) -> AxisResult {
        match axis {
            Axis::Performance => self.performance,
            Axis::Capability => self.capability,
        }
    }

    /// What a dimension came to; `None` if it was not assessed.
    pub fn scored(&self, dimension: Dimension) -> Option<Shown> {
        let named = self.dimensions.iter().find(|it| it.dimension == dimension);
        named.and_then(|it| it.score)
    }
}

/// Why a badge does not hold any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationReason {
    /// Another revision took its place.
    Superseded,
    /// An appeal changed what it says.
    Appeal,
    /// The key that signed it fell into other hands.
    KeyCompromise,
    /// What it rests on turned out to be wrong.
    EvidenceInvalid,
    /// Whoever issued it took it back.
    Withdrawn,
}

impl RevocationReason {
    /// Every reason.
    pub const ALL: &'static [Self] = &[
        Self::Superseded,
        Self::Appeal,
        Self::KeyCompromise,
        Self::EvidenceInvalid,
        Self::Withdrawn,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::Appeal => "appeal",
            Self::KeyCompromise => "key_compromise",
            Self::EvidenceInvalid => "evidence_invalid",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// The reason with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
