//! Badges of the AI Agent Assessment Framework (AAAF 1.0.0): what they say, the credential that proves it, and how anybody
//! checks that credential.
//!
//! Nothing is scored here. A badge says what an assessment came to, in the words it was shown in.

mod credential;
mod document;
mod standards;
mod verification;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use credential::{Issuance, Unissuable, issue};
pub use document::document;
pub use verification::{Reason, Standing, Verification, verify};

/// Version of the framework.
pub const FRAMEWORK_VERSION: &str = "1.0.0";
/// Characters a name may have.
pub const MAX_NAME: usize = 200;

/// One of the two scores that never mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// How well the agent executes.
    Performance,
    /// What it can do.
    Capability,
}

impl Axis {
    /// Both, in the order they are shown.
    pub const ALL: [Self; 2] = [Self::Performance, Self::Capability];

    /// As keys have it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Performance => "performance",
            Self::Capability => "capability",
        }
    }

    /// As people read it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Performance => "Performance",
            Self::Capability => "Capability",
        }
    }

    /// Names of the tiers, from the lowest.
    pub const fn tiers(self) -> [&'static str; 5] {
        match self {
            Self::Performance => ["Novice", "Competent", "Proficient", "Expert", "Elite"],
            Self::Capability => [
                "Narrow",
                "Functional",
                "Versatile",
                "Specialist",
                "Full-Stack",
            ],
        }
    }

    /// Its dimensions in the order of the framework: key and name.
    pub const fn dimensions(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Performance => &[
                ("task_completion_rate", "Task Completion Rate"),
                ("accuracy", "Accuracy"),
                ("speed", "Speed to Delivery"),
                ("consistency", "Consistency"),
                ("review_compliance", "Review Compliance"),
            ],
            Self::Capability => &[
                ("domain_breadth", "Domain Breadth"),
                ("complexity_ceiling", "Complexity Ceiling"),
                ("tool_proficiency", "Tool Proficiency"),
                ("autonomy_level", "Autonomy Level"),
                ("learning_rate", "Learning Rate"),
                ("delegation_capability", "Delegation Capability"),
                ("orchestration_skills", "Orchestration Skills"),
            ],
        }
    }
}

/// Rank of a tier, from the lowest, 0, to the highest, 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TierRank(u8);

impl TierRank {
    /// A rank; `None` above 4.
    pub const fn new(rank: u8) -> Option<Self> {
        if rank < 5 { Some(Self(rank)) } else { None }
    }

    /// The rank of a tier by its name.
    pub fn of(axis: Axis, name: &str) -> Option<Self> {
        let place = axis.tiers().iter().position(|it| *it == name)?;
        u8::try_from(place).ok().map(Self)
    }

    /// As a place in a list.
    pub const fn place(self) -> usize {
        self.0 as usize
    }

    /// The tier's name.
    pub fn name(self, axis: Axis) -> &'static str {
        axis.tiers().get(self.place()).copied().unwrap_or_default()
    }
}

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

/// What an axis came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisRating {
    /// The composite, as it is shown.
    pub score: Shown,
    /// The tier.
    pub tier: TierRank,
    /// Share of the weights that was assessed. Less than 1.00 is said on the badge.
    pub coverage: Shown,
}

impl AxisRating {
    /// The share that was assessed, if it is not all.
    pub fn partial_coverage(self) -> Option<Shown> {
        (self.coverage.0 < 100).then_some(self.coverage)
    }
}

/// A dimension's score, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DimensionResult {
    /// Its key, one of [`Axis::dimensions`].
    pub key: &'static str,
    /// The score; `None` if it was not assessed.
    pub score: Option<Shown>,
}

/// Whom something is about, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Id.
    pub id: Uuid,
    /// Name.
    pub name: String,
}

/// What a badge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// Its id.
    pub id: Uuid,
    /// The agent.
    pub agent: Party,
    /// Who assessed it.
    pub organization: Party,
    /// How well it executes.
    pub performance: AxisRating,
    /// What it can do.
    pub capability: AxisRating,
    /// The dimensions, in any order. One that is not named was not assessed.
    pub dimensions: Vec<DimensionResult>,
    /// The assessment behind it.
    pub assessment_id: Uuid,
    /// When it was issued.
    pub certified_at: Timestamp,
    /// When it ceases to hold.
    pub valid_until: Timestamp,
    /// Where it can be verified.
    pub verification_url: String,
}

impl Badge {
    /// What an axis came to.
    pub const fn rating(&self, axis: Axis) -> AxisRating {
        match axis {
            Axis::Performance => self.performance,
            Axis::Capability => self.capability,
        }
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

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
