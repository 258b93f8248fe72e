//! A badge as plain JSON: the framework's `AgentAssessmentBadge`, with the credential as an
//! additional member.

use serde_json::{Map, Value, json};

use super::standards::ALIGNMENT;
use super::{Axis, Badge, DisplayScore, FRAMEWORK_VERSION};
use crate::credential::proof::moment;
use crate::rules::evidence::shares;

/// Which member types to use where the host's original answers differ from the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentShape {
    /// The host's: dimensions are strings with two decimals. Used when a badge is requested by its
    /// own id.
    Host,
    /// The specification's: dimensions are numbers. Used when a badge is requested by the id of its
    /// assessment.
    Specification,
}

/// The document; `credential` is included as it is served.
pub fn document(badge: &Badge, credential: &Value, shape: DocumentShape) -> Value {
    let dimension = |score: DisplayScore| match shape {
        DocumentShape::Host => json!(score),
        DocumentShape::Specification => json!(score.as_f64()),
    };
    let rating = |axis: Axis| {
        let rating = badge.rating(axis);
        let dimensions: Map<String, Value> = axis
            .dimensions()
            .iter()
            .map(|it| {
                (
                    it.as_str().to_owned(),
                    json!(badge.scored(*it).map(dimension)),
                )
            })
            .collect();
        json!({
            "composite_score": rating.score.as_f64(),
            "score": rating.score,
            "tier": rating.tier,
            "coverage": rating.coverage,
            "dimensions": dimensions,
        })
    };
    json!({
        "type": "AgentAssessmentBadge",
        "version": FRAMEWORK_VERSION,
        "badge_id": badge.id,
        "agent": {
            "id": badge.agent.id,
            "name": badge.agent.name,
            "organization_id": badge.organization.id,
        },
        "organization": badge.organization,
        "assessment": {
            "id": badge.assessment_id,
            "timestamp": badge.certified_at,
            "valid_until": badge.valid_until,
            // In whole seconds, as signed.
            "window_start": badge.window.map(|it| moment(it.start)),
            "window_end": badge.window.map(|it| moment(it.end)),
        },
        "performance": rating(Axis::Performance),
        "capability": rating(Axis::Capability),
        "standards_alignment": ALIGNMENT.map(|(name, ..)| name),
        "evidence_sources": shares(&badge.sources),
        "certified_date": badge.certified_at,
        "valid_until": badge.valid_until,
        "assessment_id": badge.assessment_id,
        "verification_url": badge.verification_url,
        "credential": credential,
    })
}
