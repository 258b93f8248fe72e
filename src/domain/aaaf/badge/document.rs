//! A badge as plain JSON: the `AgentAssessmentBadge` of the framework, with the credential as one more member.

use serde_json::{Map, Value, json};

use super::{Axis, Badge, FRAMEWORK_VERSION};
use crate::domain::aaaf::evidence::shares;

/// The document; `credential` as it is served.
pub fn document(badge: &Badge, credential: &Value) -> Value {
    let rating = |axis: Axis| {
        let rating = badge.rating(axis);
        let dimensions: Map<String, Value> = axis
            .dimensions()
            .iter()
            .map(|it| (it.as_str().to_owned(), json!(badge.scored(*it))))
            .collect();
        json!({
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
        "agent": badge.agent,
        "organization": badge.organization,
        "performance": rating(Axis::Performance),
        "capability": rating(Axis::Capability),
        "evidence_sources": shares(&badge.sources),
        "certified_date": badge.certified_at,
        "valid_until": badge.valid_until,
        "assessment_id": badge.assessment_id,
        "verification_url": badge.verification_url,
        "credential": credential,
    })
}
