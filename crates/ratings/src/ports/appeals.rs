//! Store access to appeals.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ports::Position;
use crate::ports::agents::AgentNumber;
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord};
use crate::ports::badges::{BadgeRecord, Revocation};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::Dimension;
use crate::rules::appeal::Override;
use crate::rules::appeal::filing::Filing;

/// State of an appeal; accepted and rejected are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppealState {
    /// No reviewer has started.
    Filed,
    /// A reviewer has started.
    UnderReview,
    /// The reviewer's overrides apply to the evidence.
    Accepted,
    Rejected,
}

impl AppealState {
    const ALL: &'static [Self] = &[
        Self::Filed,
        Self::UnderReview,
        Self::Accepted,
        Self::Rejected,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filed => "filed",
            Self::UnderReview => "under_review",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }

    /// Whether the appeal still needs a decision.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Filed | Self::UnderReview)
    }
}

/// The effect of an accepted appeal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amendment {
    pub overrides: Vec<Override>,
    /// The dimensions whose score changed.
    pub changed: Vec<Dimension>,
    /// Whether the appeal saw other evidence than the assessment did; then scores may also differ
    /// for that reason.
    pub evidence_differs: bool,
    /// The badge that replaced the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub badge_id: Option<String>,
}

/// A decision by a principal that did not file the appeal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppealDecision {
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The effect, if the appeal was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amendment: Option<Amendment>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AppealRecord {
    pub id: String,
    pub organization: OrganizationNumber,
    pub agent: AgentNumber,
    pub assessment: String,
    pub state: AppealState,
    pub filing: Filing,
    pub filed_by: String,
    /// The reviewer's decision.
    pub handling: Option<AppealDecision>,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
}

impl AppealRecord {
    /// The position of this record in a list.
    pub fn position(&self) -> Position {
        Position::new(self.created_at, self.id.clone())
    }
}

/// Everything else that an accepted appeal changes, stored in one transaction.
#[derive(Clone, Copy, Debug)]
pub struct AppealEffect<'a> {
    /// Number of this appeal among the accepted appeals of its assessment, from 1.
    pub place: u32,
    pub assessment: &'a AssessmentRecord,
    /// The new finding.
    pub outcome: &'a AssessmentOutcome,
    /// The badge to revoke.
    pub revoked: Option<(&'a BadgeRecord, &'a Revocation)>,
    /// The badge that replaces the revoked one.
    pub issued: Option<&'a BadgeRecord>,
}
