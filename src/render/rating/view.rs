//! An assessment as its document says it (AAAF S7, S14), read back for people: the same for what a host found and for what a
//! file was scored to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::aaaf::assessment::EvidenceBasis;
use crate::domain::aaaf::calibration::Calibration;
use crate::domain::aaaf::improvement::Area;
use crate::domain::aaaf::interval::Intervals;
use crate::domain::aaaf::{Axis, Dimension, Score, Tier};

/// An assessment.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Assessed {
    /// Its id.
    pub id: String,
    /// Whose.
    pub agent_id: String,
    /// Which evidence counted.
    #[serde(rename = "type")]
    pub kind: String,
    /// How far it is.
    pub status: String,
    /// Passive evidence counted from here on,
    pub window_start: Timestamp,
    /// and before this.
    pub window_end: Timestamp,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default)]
    pub completed_at: Option<Timestamp>,
    /// What it was scored by.
    pub config_snapshot: Value,
    /// What was found.
    #[serde(default)]
    pub result: Option<Found>,
    /// What moved since the one before.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// Whether a person has to decide about it.
    #[serde(default)]
    pub review_required: bool,
    /// What a person decided.
    #[serde(default)]
    pub review: Option<Value>,
    /// How far scores may be off by chance.
    #[serde(default)]
    pub intervals: Intervals,
    /// The dimensions to work on.
    #[serde(default)]
    pub improvement_areas: Vec<Area>,
    /// Why it has no result.
    #[serde(default)]
    pub error: Option<Fault>,
    /// The badge that was issued for it.
    #[serde(default)]
    pub badge_id: Option<String>,
    /// What became of its badge.
    #[serde(default)]
    pub badge_state: Option<String>,
    /// Why no badge comes of it.
    #[serde(default)]
    pub not_certified: Option<String>,
}

impl Assessed {
    /// Whether anything will still become of it.
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed")
    }

    /// When what it says was found out.
    pub fn at(&self) -> Timestamp {
        self.completed_at.unwrap_or(self.created_at)
    }

    /// Both axes, if it rated them.
    pub fn rated(&self) -> Option<&Rated> {
        match self.result.as_ref()? {
            Found::Rated(rated) => Some(rated),
            Found::Single(_) => None,
        }
    }
}

/// Why an assessment has failed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Fault {
    /// A stable code.
    pub code: String,
    /// In words.
    pub message: String,
    /// For programs.
    #[serde(default)]
    pub details: Map<String, Value>,
}

/// What was found.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Found {
    /// Both axes.
    Rated(Box<Rated>),
    /// One dimension.
    Single(Box<Single>),
}

/// Both axes.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Rated {
    /// Task records that performance is of.
    pub tasks_performance: u64,
    /// Tasks with any evidence, that capability is of.
    pub tasks_capability: u64,
    performance: AxisFound,
    capability: AxisFound,
    /// What it was found from.
    pub evidence: EvidenceBasis,
}

impl Rated {
    /// One of the axes.
    pub const fn axis(&self, axis: Axis) -> &AxisFound {
        match axis {
            Axis::Performance => &self.performance,
            Axis::Capability => &self.capability,
        }
    }
}

/// One dimension.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Single {
    /// Which.
    pub dimension: Dimension,
    /// What was found of it.
    pub result: Measured,
    /// What it was found from.
    pub evidence: EvidenceBasis,
}

/// An axis.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AxisFound {
    /// As it is stored.
    pub composite_score: Option<Score>,
    /// With two decimals, as it is shown.
    pub display: Option<String>,
    /// The tier.
    pub tier: Option<Tier>,
    /// Whether the top tier was not granted because something is not assessed.
    #[serde(default)]
    pub tier_capped: bool,
    /// The share of the weights that is assessed.
    pub weight_coverage: f64,
    /// The dimensions, in the framework's order.
    pub dimensions: BTreeMap<Dimension, Measured>,
}

/// A dimension.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    /// `None` if it is not assessed.
    pub score: Option<Score>,
    /// How many of the dimension's own unit.
    #[serde(default)]
    pub sample_size: u64,
    /// How many records were read for it.
    #[serde(default)]
    pub evidence_count: u64,
    /// Why it is not assessed.
    #[serde(default)]
    pub reason: Option<String>,
    /// The appeal that changed it.
    #[serde(default)]
    pub appeal_id: Option<String>,
}

impl Measured {
    /// Why it is not assessed, in any case something.
    pub fn why_not(&self) -> &str {
        self.reason.as_deref().unwrap_or("no reason is given")
    }
}
