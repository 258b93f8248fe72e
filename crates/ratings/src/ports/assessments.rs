//! Store access to assessments, which replicas work on under a lease.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ports::Position;
use crate::ports::agents::AgentNumber;
use crate::ports::badges::BadgeSummary;
use crate::ports::organizations::OrganizationNumber;
use crate::rules::Assessment;
use crate::rules::assessment::calibration::Calibration;
use crate::rules::assessment::order::Verdict;
use crate::rules::scoring::interval::Intervals;
use crate::rules::stress_test::library::Plan;
use touchstone_host::ports::run_log::Fence;
use touchstone_kit::ids::TenantId;

/// State of an assessment (AAAF S7); completed and failed are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not claimed yet.
    Pending,
    /// Claimed by a worker.
    InProgress,
    /// The assessment has scores.
    Completed,
    /// The assessment has no scores.
    Failed,
}

impl Stage {
    pub const ALL: &'static [Self] = &[
        Self::Pending,
        Self::InProgress,
        Self::Completed,
        Self::Failed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

/// The request, and everything besides the evidence that the scores depend on. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssessmentRequest {
    pub assessment: Assessment,
    /// The configuration used for scoring.
    pub config: Value,
    pub triggered_by: String,
    /// Whether the recorder of an event decides which of its statements count (ADR 0030). False for
    /// assessments from before this was stored.
    #[serde(default)]
    pub weighs_sources: bool,
    /// The stress test, if the assessment runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stress_test: Option<StressTest>,
    /// Why a full assessment has no stress test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stress_test_omitted: Option<String>,
    /// The version of the agent, if its profile stated one at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The command that created the assessment; absent for a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The stress test to run before scoring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressTest {
    /// The tenant that owns the runs.
    pub tenant: TenantId,
    pub plan: Plan,
}

/// The outcome of an assessment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssessmentOutcome {
    Scored {
        /// The computed scores, including the digest of the evidence.
        result: Value,
        /// When the newest evidence that was scored had been recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence_until: Option<Timestamp>,
        /// Comparison with the previous rating; `None` for a single dimension.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calibration: Option<Calibration>,
        /// Why both axes have a rating but nothing is certified.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uncertified: Option<String>,
        /// The review, where one was required.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<Reviewed>,
        /// Confidence intervals; empty for assessments from before intervals were stored.
        #[serde(default, skip_serializing_if = "Intervals::is_empty")]
        intervals: Intervals,
    },
    Failed {
        /// An error code of the API.
        code: String,
        message: String,
        details: Value,
    },
}

/// The decision of a reviewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reviewed {
    pub decision: Verdict,
    pub by: String,
    /// The tenant of a third-party auditor; absent for a member of the organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auditor_tenant: Option<TenantId>,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AssessmentRecord {
    /// A UUID.
    pub id: String,
    pub organization: OrganizationNumber,
    pub agent_number: AgentNumber,
    /// The public id of the agent.
    pub agent: String,
    pub stage: Stage,
    pub request: AssessmentRequest,
    pub outcome: Option<AssessmentOutcome>,
    /// State of the newest revision of the badge; `None` if there is nothing to certify.
    pub badge: Option<BadgeSummary>,
    pub created_at: Timestamp,
    /// When the first worker claimed it.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl AssessmentRecord {
    /// The position of this record in a list.
    pub fn position(&self) -> Position {
        Position::new(self.created_at, self.id.clone())
    }
}

/// An assessment that this replica may work on until its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct AssessmentClaim {
    pub record: AssessmentRecord,
    /// Increases with every claim. Holders of an older fence can no longer end the assessment.
    pub fence: Fence,
    /// Number of claims since the assessment was last parked: lost attempts plus this one.
    pub attempts: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssessmentFilter {
    pub agent: Option<AgentNumber>,
    pub stage: Option<Stage>,
}
