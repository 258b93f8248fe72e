//! Reports on one agent's rating, or on all ratings: Markdown, or a self-contained HTML page.

pub mod chart;
pub mod html;
pub mod markdown;
pub mod rows;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::render::progress::CollectionProgress;
use crate::render::view::AssessmentView;
use crate::rules::assessment::overview::DimensionOverview;
use crate::rules::{Axis, Score, Tier};

/// Maximum number of earlier ratings listed.
pub const HISTORY: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Html,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AgentInfo {
    pub id: String,
    pub name: String,
    /// The rated version.
    #[serde(default)]
    pub version: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
}

/// A past rating, as shown in a chart.
#[derive(Clone, Debug, Serialize)]
pub struct RatingSnapshot {
    pub assessment_id: String,
    pub at: Timestamp,
    /// The type of the assessment.
    #[serde(rename = "type")]
    pub kind: String,
    pub performance: AxisSnapshot,
    pub capability: AxisSnapshot,
    pub badge_state: Option<String>,
}

/// The rating on one axis.
#[derive(Clone, Debug, Serialize)]
pub struct AxisSnapshot {
    pub score: Score,
    /// The score with two decimals, for display.
    pub display: String,
    pub tier: Tier,
}

impl RatingSnapshot {
    /// The rating of an assessment; `None` unless it rated both axes.
    pub fn of(assessed: &AssessmentView) -> Option<Self> {
        let rated = assessed.rated()?;
        let snapshot = |axis: Axis| {
            let found = rated.axis(axis);
            Some(AxisSnapshot {
                score: found.composite_score?,
                display: found.display.clone()?,
                tier: found.tier?,
            })
        };
        Some(Self {
            assessment_id: assessed.id.clone(),
            at: assessed.at(),
            kind: assessed.kind.clone(),
            performance: snapshot(Axis::Performance)?,
            capability: snapshot(Axis::Capability)?,
            badge_state: assessed.badge_state.clone(),
        })
    }

    pub const fn axis(&self, axis: Axis) -> &AxisSnapshot {
        match axis {
            Axis::Performance => &self.performance,
            Axis::Capability => &self.capability,
        }
    }
}

/// The state of a badge, from its verification.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Badge {
    pub badge_id: String,
    pub valid: bool,
    pub valid_until: Timestamp,
    #[serde(default)]
    pub expired: bool,
    #[serde(default)]
    pub revoked: bool,
    #[serde(default)]
    pub revoke_reason: Option<String>,
    #[serde(default)]
    pub verification_url: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub made_at: Timestamp,
    /// The name of the agent's organization.
    pub organization: Option<String>,
    pub agent: AgentInfo,
    /// The latest rating.
    pub assessment: AssessmentView,
    /// The latest rating, for the chart.
    pub now: RatingSnapshot,
    /// The badge of the latest rating.
    pub badge: Option<Badge>,
    /// Earlier ratings, oldest first.
    pub history: Vec<RatingSnapshot>,
    /// A failed assessment after the latest rating.
    pub failed_since: Option<AssessmentView>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub made_at: Timestamp,
    /// The name of the organization.
    pub organization: Option<String>,
    /// The agents, in order of enrollment.
    pub agents: Vec<AgentSummary>,
    /// Dimensions across all agents, weakest first.
    pub dimensions: Vec<DimensionOverview>,
}

#[derive(Clone, Debug, Serialize)]
pub struct AgentSummary {
    pub agent: AgentInfo,
    /// The latest rating.
    pub now: Option<RatingSnapshot>,
    /// Whether the latest rating needs a review.
    pub review_required: bool,
    /// Why an assessment after the latest rating failed.
    pub failed_since: Option<String>,
    /// Evidence collected towards a rating; `None` if the key may not read it.
    pub progress: Option<CollectionProgress>,
}

#[derive(Debug, thiserror::Error)]
#[error("could not render the page: {0}")]
pub struct RenderError(#[from] askama::Error);

impl Report {
    /// Renders the report.
    ///
    /// # Errors
    /// A template failed.
    pub fn write(&self, format: Format) -> Result<String, RenderError> {
        match format {
            Format::Markdown => Ok(markdown::report(self)),
            Format::Html => html::report(self),
        }
    }
}

impl Summary {
    /// Renders the summary.
    ///
    /// # Errors
    /// A template failed.
    pub fn write(&self, format: Format) -> Result<String, RenderError> {
        match format {
            Format::Markdown => Ok(markdown::summary(self)),
            Format::Html => html::summary(self),
        }
    }
}
