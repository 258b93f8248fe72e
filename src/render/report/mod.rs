//! What is known of an agent's rating, or of everybody's, as something to hand on: Markdown, or a page of HTML that needs
//! nothing beside itself.

mod chart;
mod html;
mod markdown;
mod rows;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::rating::progress::CollectionProgress;
use super::rating::view::Assessed;
use crate::domain::aaaf::overview::DimensionOverview;
use crate::domain::aaaf::{Axis, Score, Tier};

/// How many earlier ratings are listed.
pub const HISTORY: usize = 50;

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For terminals, issues, repositories.
    Markdown,
    /// For people.
    Html,
}

/// An agent as it is enrolled.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Subject {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Which version of it is rated.
    #[serde(default)]
    pub version: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
}

/// A rating that was, as far as a chart shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// Of which assessment.
    pub assessment_id: String,
    /// When.
    pub at: Timestamp,
    /// Which evidence counted.
    #[serde(rename = "type")]
    pub kind: String,
    /// Both axes.
    pub performance: Standing,
    /// Both axes.
    pub capability: Standing,
    /// What became of its badge.
    pub badge_state: Option<String>,
}

/// Where somebody stands on an axis.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// As it is stored.
    pub score: Score,
    /// As it is shown.
    pub display: String,
    /// The tier.
    pub tier: Tier,
}

impl Moment {
    /// The moment of an assessment, if it rated both axes.
    pub fn of(assessed: &Assessed) -> Option<Self> {
        let rated = assessed.rated()?;
        let standing = |axis: Axis| {
            let found = rated.axis(axis);
            Some(Standing {
                score: found.composite_score?,
                display: found.display.clone()?,
                tier: found.tier?,
            })
        };
        Some(Self {
            assessment_id: assessed.id.clone(),
            at: assessed.at(),
            kind: assessed.kind.clone(),
            performance: standing(Axis::Performance)?,
            capability: standing(Axis::Capability)?,
            badge_state: assessed.badge_state.clone(),
        })
    }

    /// One of the axes.
    pub const fn axis(&self, axis: Axis) -> &Standing {
        match axis {
            Axis::Performance => &self.performance,
            Axis::Capability => &self.capability,
        }
    }
}

/// How a badge stands, as its verification says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Badge {
    /// Its id.
    pub badge_id: String,
    /// Whether it holds.
    pub valid: bool,
    /// Until when.
    pub valid_until: Timestamp,
    /// Whether it is past its time.
    #[serde(default)]
    pub expired: bool,
    /// Whether it was revoked.
    #[serde(default)]
    pub revoked: bool,
    /// Why.
    #[serde(default)]
    pub revoke_reason: Option<String>,
    /// Where anybody checks it.
    #[serde(default)]
    pub verification_url: Option<String>,
}

/// A report on one agent.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// When it was made.
    pub made_at: Timestamp,
    /// Whose agent it is.
    pub organization: Option<String>,
    /// The agent.
    pub agent: Subject,
    /// Its last rating.
    pub assessment: Assessed,
    /// What was scored there, for the chart.
    pub now: Moment,
    /// The badge of that.
    pub badge: Option<Badge>,
    /// Ratings before, the oldest first.
    pub history: Vec<Moment>,
    /// An attempt since then that came to nothing.
    pub failed_since: Option<Assessed>,
}

/// A report on all agents of an organization.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// When it was made.
    pub made_at: Timestamp,
    /// Whose agents they are.
    pub organization: Option<String>,
    /// The agents, as they were enrolled.
    pub agents: Vec<Line>,
    /// Every dimension over them, weakest first.
    pub dimensions: Vec<DimensionOverview>,
}

/// An agent in a summary.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The agent.
    pub agent: Subject,
    /// Its last rating.
    pub now: Option<Moment>,
    /// Whether a person has to decide about that.
    pub review_required: bool,
    /// Why the last attempt came to nothing, if it is newer.
    pub failed_since: Option<String>,
    /// How much of the evidence that a rating needs is there, where the key may know.
    pub progress: Option<CollectionProgress>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[error("the page cannot be made: {0}")]
pub struct NoPage(#[from] askama::Error);

impl Report {
    /// Writes it.
    ///
    /// # Errors
    /// A template failed.
    pub fn write(&self, format: Format) -> Result<String, NoPage> {
        match format {
            Format::Markdown => Ok(markdown::report(self)),
            Format::Html => html::report(self),
        }
    }
}

impl Summary {
    /// Writes it.
    ///
    /// # Errors
    /// A template failed.
    pub fn write(&self, format: Format) -> Result<String, NoPage> {
        match format {
            Format::Markdown => Ok(markdown::summary(self)),
            Format::Html => html::summary(self),
        }
    }
}

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
