//! Spec compliance: whether a card conforms to A2A 0.3.0, out of 100 points.
//!
//! Core fields 60, skills 20, formats 15, data quality 5 (CapiscIO's three-dimensional scoring,
//! October 2025). A format or data check without any value to check passes.

mod core_fields;
mod format;
mod quality;
mod skills;

use serde::Serialize;

pub use core_fields::{CORE_FIELDS, CoreFields};
pub use format::FormatCompliance;
pub use quality::DataQuality;
pub use skills::SkillsQuality;

use super::document::Card;
use super::finding::Findings;
use super::points::Points;
use super::rating::ComplianceRating;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compliance {
    /// Of 100.
    pub total: Points,
    pub rating: ComplianceRating,
    /// Display name of the band.
    pub rating_label: &'static str,
    /// Points by category; `None` for an unreadable card.
    pub breakdown: Option<Breakdown>,
}

/// Points by category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breakdown {
    pub core_fields: CoreFields,
    pub skills_quality: SkillsQuality,
    pub format_compliance: FormatCompliance,
    pub data_quality: DataQuality,
}

impl Compliance {
    fn of(total: Points, breakdown: Option<Breakdown>) -> Self {
        let rating = ComplianceRating::of(total);
        Self {
            total,
            rating,
            rating_label: rating.label(),
            breakdown,
        }
    }

    /// The score of an unreadable card.
    pub fn none() -> Self {
        Self::of(Points::default(), None)
    }
}

pub fn score(card: &Card, findings: &mut Findings) -> Compliance {
    let core_fields = core_fields::score(card, findings);
    let skills_quality = skills::score(card, findings);
    let format_compliance = format::score(card, findings);
    let data_quality = quality::score(card, findings);
    // In ninths of a point, because each core field is worth 60/9.
    let fields = 60 * core_fields.present.len() as u64;
    let others = skills_quality.score + format_compliance.score + data_quality.score;
    let total = Points::ratio(fields + 9 * others, 9);
    let breakdown = Breakdown {
        core_fields,
        skills_quality,
        format_compliance,
        data_quality,
    };
    Compliance::of(total, Some(breakdown))
}
