//! Stored scores of assessments.

use jiff::Timestamp;
use serde_json::Value;

use touchstone_ratings::ports::assessments::AssessmentRecord;
use touchstone_ratings::rules::{Axis, Dimension};
use touchstone_ratings::service::standings::result;

/// When the agent was rated.
pub fn rated_at(assessment: &AssessmentRecord) -> Timestamp {
    assessment.ended_at.unwrap_or(assessment.created_at)
}

/// The stored measure of a dimension.
pub fn measure(assessment: &AssessmentRecord, axis: Axis, dimension: Dimension) -> Option<&Value> {
    let rated = result(assessment)?.get(axis.as_str())?;
    rated.get("dimensions")?.get(dimension.as_str())
}

/// The score of a dimension, 0.0..=1.0; `None` if it was not assessed.
pub fn score(assessment: &AssessmentRecord, axis: Axis, dimension: Dimension) -> Option<f64> {
    measure(assessment, axis, dimension)?.get("score")?.as_f64()
}
