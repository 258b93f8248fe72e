//! Spec compliance: whether a card is what A2A 0.3.0 says a card is, out of 100 points.
//!
//! Core fields 60, skills 20, formats 15, data quality 5 (CapiscIO's three-dimensional scoring, October 2025). A check of
//! format or data that has nothing to look at passes.

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

/// Compliance of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compliance {
    /// Of 100.
    pub total: Points,
    /// Its band.
    pub rating: ComplianceRating,
    /// Its band in words.
    pub rating_label: &'static str,
    /// Where the points come from; `None` of a card that cannot be read.
    pub breakdown: Option<Breakdown>,
}

/// Points by category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breakdown {
    /// The nine core fields.
    pub core_fields: CoreFields,
    /// The skills.
    pub skills_quality: SkillsQuality,
    /// The forms of values.
    pub format_compliance: FormatCompliance,
    /// The sense of values.
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

    /// Of a card that cannot be read.
    pub fn none() -> Self {
        Self::of(Points::default(), None)
    }
}

/// Scores a card.
pub fn score(card: &Card, findings: &mut Findings) -> Compliance {
    let core_fields = core_fields::score(card, findings);
    let skills_quality = skills::score(card, findings);
    let format_compliance = format::score(card, findings);
    let data_quality = quality::score(card, findings);
    // In ninths of a point, because each core field is 60/9.
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
