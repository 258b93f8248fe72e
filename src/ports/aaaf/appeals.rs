//! Appeals: filed, looked into, resolved once.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    AgentNumber, AssessmentRecord, BadgeRecord, Finding, OrganizationNumber, Position, Revocation,
};
use crate::domain::aaaf::Dimension;
use crate::domain::aaaf::appeal::Override;
use crate::domain::aaaf::filing::Filing;
use crate::domain::audit::Decision;
use crate::domain::ids::TenantId;
use crate::ports::StoreError;

/// How far an appeal is; the last two are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppealState {
    /// Nobody has looked into it.
    Filed,
    /// Somebody does.
    UnderReview,
    /// The evidence is seen otherwise.
    Accepted,
    /// It is not.
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

    /// The state with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }

    /// Whether somebody still has to decide.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Filed | Self::UnderReview)
    }
}

/// What an accepted appeal came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amendment {
    /// How the evidence is seen.
    pub overrides: Vec<Override>,
    /// The dimensions whose score is another one now.
    pub changed: Vec<Dimension>,
    /// Whether other evidence was at hand than the assessment saw; then scores may differ for that reason too.
    pub evidence_differs: bool,
    /// The badge that took the old one's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub badge_id: Option<String>,
}

/// What somebody who did not file it decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handling {
    /// Who.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What came of it, if it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amendment: Option<Amendment>,
}

/// An appeal.
#[derive(Clone, Debug, PartialEq)]
pub struct AppealRecord {
    /// A UUID.
    pub id: String,
    /// Whose.
    pub organization: OrganizationNumber,
    /// About whom.
    pub agent: AgentNumber,
    /// Of which assessment.
    pub assessment: String,
    /// How far it is.
    pub state: AppealState,
    /// What was filed.
    pub filing: Filing,
    /// By whom.
    pub filed_by: String,
    /// What a reviewer did.
    pub handling: Option<Handling>,
    /// When it was filed.
    pub created_at: Timestamp,
    /// When it was decided.
    pub resolved_at: Option<Timestamp>,
}

impl AppealRecord {
    /// Where a list goes on after this one.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.id.clone(),
        }
    }
}

/// What an accepted appeal changes beside itself, all of it or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Amended<'a> {
    /// The how-manieth accepted one of its assessment it is, from 1.
    pub place: u32,
    /// The assessment.
    pub assessment: &'a AssessmentRecord,
    /// What it finds now.
    pub finding: &'a Finding,
    /// The badge that does not hold any more.
    pub revoked: Option<(&'a BadgeRecord, &'a Revocation)>,
    /// The one in its place.
    pub issued: Option<&'a BadgeRecord>,
}

/// Appeals of organizations.
#[async_trait]
pub trait Appeals: Send + Sync {
    /// Files one, and records the decision; [`StoreError::Exists`] if a dimension has an open one.
    async fn file_appeal(
        &self,
        appeal: &AppealRecord,
        tenant: &TenantId,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// The one of this id.
    async fn appeal(
        &self,
        organization: OrganizationNumber,
        assessment: &str,
        id: &str,
    ) -> Result<Option<AppealRecord>, StoreError>;
    /// Those of an assessment after a position, in the order in which they were filed.
    async fn appeals(
        &self,
        organization: OrganizationNumber,
        assessment: &str,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<AppealRecord>, StoreError>;
    /// The accepted ones of an assessment, in the order in which they were.
    async fn accepted_appeals(
        &self,
        organization: OrganizationNumber,
        assessment: &str,
    ) -> Result<Vec<AppealRecord>, StoreError>;
    /// Whether an assessment has an open one.
    async fn is_appealed(&self, assessment: &str) -> Result<bool, StoreError>;
    /// Keeps how far an open one is now, with what it changes, and records the decision; [`StoreError::Stale`] if it is
    /// decided already, or if what it changes is no longer as it was read, [`StoreError::Exists`] if a badge's bit is given
    /// out already.
    async fn handle_appeal(
        &self,
        appeal: &AppealRecord,
        amended: Option<Amended<'_>>,
        tenant: &TenantId,
        decision: &Decision,
    ) -> Result<(), StoreError>;
}
