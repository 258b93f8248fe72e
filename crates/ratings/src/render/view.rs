//! An assessment parsed from its document (AAAF S7, S14), so that results of hosts and files are
//! displayed by the same code.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rules::assessment::EvidenceBasis;
use crate::rules::assessment::calibration::Calibration;
use crate::rules::assessment::improvement::Area;
use crate::rules::scoring::interval::Intervals;
use crate::rules::{Axis, Dimension, Score, Tier};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AssessmentView {
    pub id: String,
    pub agent_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    /// Start of the window for passive evidence.
    pub window_start: Timestamp,
    /// End of the window, exclusive.
    pub window_end: Timestamp,
    /// When it was requested.
    pub created_at: Timestamp,
    #[serde(default)]
    pub completed_at: Option<Timestamp>,
    pub config_snapshot: Value,
    #[serde(default)]
    pub result: Option<ResultView>,
    /// Comparison with the previous assessment.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// Whether it needs a review.
    #[serde(default)]
    pub review_required: bool,
    /// The reviewer's decision.
    #[serde(default)]
    pub review: Option<Value>,
    #[serde(default)]
    pub intervals: Intervals,
    #[serde(default)]
    pub improvement_areas: Vec<Area>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<AssessmentError>,
    #[serde(default)]
    pub badge_id: Option<String>,
    #[serde(default)]
    pub badge_state: Option<String>,
    /// Why it gets no badge.
    #[serde(default)]
    pub not_certified: Option<String>,
}

impl AssessmentView {
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed")
    }

    /// When it ended, or was requested if it has not ended.
    pub fn at(&self) -> Timestamp {
        self.completed_at.unwrap_or(self.created_at)
    }

    /// Both axes, unless it assessed a single dimension.
    pub fn rated(&self) -> Option<&RatingView> {
        match self.result.as_ref()? {
            ResultView::Rating(rated) => Some(rated),
            ResultView::Dimension(_) => None,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AssessmentError {
    pub code: String,
    pub message: String,
    #[serde(default)]
    pub details: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ResultView {
    Rating(Box<RatingView>),
    Dimension(Box<DimensionView>),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RatingView {
    /// Tasks that count for performance.
    pub tasks_performance: u64,
    /// Tasks that count for capability: those with any evidence.
    pub tasks_capability: u64,
    performance: AxisView,
    capability: AxisView,
    pub evidence: EvidenceBasis,
}

impl RatingView {
    pub const fn axis(&self, axis: Axis) -> &AxisView {
        match axis {
            Axis::Performance => &self.performance,
            Axis::Capability => &self.capability,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DimensionView {
    pub dimension: Dimension,
    pub result: MeasureView,
    pub evidence: EvidenceBasis,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AxisView {
    pub composite_score: Option<Score>,
    /// The score with two decimals, for display.
    pub display: Option<String>,
    pub tier: Option<Tier>,
    /// Whether the top tier was withheld because some dimensions are not assessed.
    #[serde(default)]
    pub tier_capped: bool,
    /// Share of the weights that is assessed, 0 to 1.
    pub weight_coverage: f64,
    /// In the framework's order.
    pub dimensions: BTreeMap<Dimension, MeasureView>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MeasureView {
    /// `None` if the dimension is not assessed.
    pub score: Option<Score>,
    /// Sample size in the dimension's own unit.
    #[serde(default)]
    pub sample_size: u64,
    /// Number of records that were read.
    #[serde(default)]
    pub evidence_count: u64,
    /// Why the dimension is not assessed.
    #[serde(default)]
    pub reason: Option<String>,
    /// The appeal that changed the score.
    #[serde(default)]
    pub appeal_id: Option<String>,
}

impl AxisView {
    /// Notes on a rating that does not rest on all weights.
    pub fn coverage_notes(&self) -> Vec<String> {
        let coverage = (self.weight_coverage < 1.0)
            .then(|| format!("{:.0} % of weights assessed", self.weight_coverage * 100.0));
        let cap = self
            .tier_capped
            .then(|| "the top tier requires all".to_owned());
        coverage.into_iter().chain(cap).collect()
    }
}

impl MeasureView {
    /// Why the dimension is not assessed; never empty.
    pub fn unassessed_reason(&self) -> &str {
        self.reason.as_deref().unwrap_or("no reason given")
    }
}
