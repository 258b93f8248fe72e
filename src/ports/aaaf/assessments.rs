//! Assessments: asked for, worked on under a lease, found once.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AgentNumber, BadgeRecord, BadgeStanding, OrganizationNumber, Position};
use crate::domain::aaaf::Assessment;
use crate::domain::aaaf::calibration::Calibration;
use crate::domain::aaaf::interval::Intervals;
use crate::domain::aaaf::library::Plan;
use crate::domain::aaaf::order::Verdict;
use crate::domain::audit::Decision;
use crate::domain::ids::TenantId;
use crate::ports::{Fence, StoreError};

/// How far an assessment is (AAAF S7); the last two are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nobody works on it yet.
    Pending,
    /// Somebody does.
    InProgress,
    /// It has found something.
    Completed,
    /// It has not.
    Failed,
}

impl Stage {
    /// Every stage.
    pub const ALL: &'static [Self] = &[
        Self::Pending,
        Self::InProgress,
        Self::Completed,
        Self::Failed,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// The stage with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

/// What was asked, and everything that the score depends on beside the evidence. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// What is looked at.
    pub assessment: Assessment,
    /// The configuration it is scored by.
    pub config: Value,
    /// Who asked.
    pub triggered_by: String,
    /// Whether what an event states counts by who recorded it (ADR 0030); not for assessments from before that was kept.
    #[serde(default)]
    pub weighs_sources: bool,
    /// The stress test, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stress_test: Option<StressTest>,
    /// Why it has none although a full assessment was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stress_test_omitted: Option<String>,
    /// Which version of the agent it is of, as far as the agent said so then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The command that it was asked of; absent if it was a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What is run of an agent before it is scored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressTest {
    /// Whose runs these are.
    pub tenant: TenantId,
    /// The tests.
    pub plan: Plan,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Scores.
    Scored {
        /// As they were computed, the digest of the evidence among them.
        result: Value,
        /// When the last of the evidence was recorded that was looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence_until: Option<Timestamp>,
        /// How they compare with the time before; `None` for a single dimension.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calibration: Option<Calibration>,
        /// Why both axes are rated and nothing is certified.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uncertified: Option<String>,
        /// What a person decided, where one had to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<Reviewed>,
        /// How far scores may be off by chance; empty for assessments from before intervals were kept.
        #[serde(default, skip_serializing_if = "Intervals::is_empty")]
        intervals: Intervals,
    },
    /// Nothing, and why.
    Failed {
        /// A code of the API.
        code: String,
        /// In words.
        message: String,
        /// Facts.
        details: Value,
    },
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reviewed {
    /// How.
    pub decision: Verdict,
    /// Who.
    pub by: String,
    /// The tenant of a third-party auditor; absent for a member of the organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auditor_tenant: Option<TenantId>,
    /// When.
    pub at: Timestamp,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An assessment.
#[derive(Clone, Debug, PartialEq)]
pub struct AssessmentRecord {
    /// A UUID.
    pub id: String,
    /// Whose agents.
    pub organization: OrganizationNumber,
    /// What the store calls the agent.
    pub agent_number: AgentNumber,
    /// The id of the agent.
    pub agent: String,
    /// How far it is.
    pub stage: Stage,
    /// What was asked.
    pub asked: Asked,
    /// What came of it.
    pub finding: Option<Finding>,
    /// How the newest revision of its badge stands; `None` where there is nothing to certify.
    pub badge: Option<BadgeStanding>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When somebody first worked on it.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl AssessmentRecord {
    /// Where a list goes on after this one.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.id.clone(),
        }
    }
}

/// An assessment that this replica may work on until its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct AssessmentClaim {
    /// The assessment.
    pub record: AssessmentRecord,
    /// How often it was claimed; grows with every claim, and whoever claimed it before can no longer end it.
    pub fence: Fence,
    /// How often it was claimed without being parked: work that was lost, and this claim.
    pub attempts: i64,
}

/// Which assessments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssessmentFilter {
    /// Only of this agent.
    pub agent: Option<AgentNumber>,
    /// Only those that are so far.
    pub stage: Option<Stage>,
}

/// Assessments of organizations.
#[async_trait]
pub trait Assessments: Send + Sync {
    /// Adds one; [`StoreError::Exists`] while another one of the agent is pending or in progress.
    async fn add_assessment(&self, assessment: &AssessmentRecord) -> Result<(), StoreError>;
    /// The one of this id.
    async fn assessment(
        &self,
        organization: OrganizationNumber,
        id: &str,
    ) -> Result<Option<AssessmentRecord>, StoreError>;
    /// Whose agent those of these ids assess that have not ended, by id.
    async fn assessments_under_way(
        &self,
        organization: OrganizationNumber,
        ids: &[&str],
    ) -> Result<HashMap<String, AgentNumber>, StoreError>;
    /// Those after a position, in the order in which they were asked for.
    async fn assessments(
        &self,
        organization: OrganizationNumber,
        filter: AssessmentFilter,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<AssessmentRecord>, StoreError>;
    /// The newest one of an agent that has both axes, asked for before a moment.
    async fn last_rating(
        &self,
        agent: AgentNumber,
        before: Timestamp,
    ) -> Result<Option<AssessmentRecord>, StoreError>;
    /// Claims the oldest one that nobody works on, or whose lease is over by the store's clock; with `only`, one of these ids.
    async fn claim_assessment(
        &self,
        owner: &str,
        only: Option<&[String]>,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<AssessmentClaim>, StoreError>;
    /// Gives one back that waits for something, for anybody to go on with after a while; [`StoreError::Fenced`] as below.
    async fn park_assessment(
        &self,
        id: &str,
        fence: Fence,
        wait: Duration,
    ) -> Result<(), StoreError>;
    /// Ends one, with the badge that comes of it; [`StoreError::Fenced`] if it was claimed again since, or has ended,
    /// [`StoreError::Exists`] if the badge's bit is given out already.
    async fn end_assessment(
        &self,
        id: &str,
        fence: Fence,
        finding: &Finding,
        badge: Option<&BadgeRecord>,
        now: Timestamp,
    ) -> Result<(), StoreError>;
    /// Replaces what was found of one that has ended with the same and a review, and the badge that was withheld with what
    /// became of it, and records the decision for the organization's tenant; [`StoreError::Stale`] if it is no longer as it
    /// was read, [`StoreError::Exists`] if the badge's bit is given out already.
    async fn review_assessment(
        &self,
        assessment: &AssessmentRecord,
        reviewed: &Finding,
        badge: Option<&BadgeRecord>,
        tenant: &TenantId,
        decision: &Decision,
    ) -> Result<(), StoreError>;
}
