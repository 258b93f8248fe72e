//! Store access for periodic jobs: reassessment notices, and deleting expired data (AAAF S7, S12,
//! S15).

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{AgentNumber, OrganizationNumber};
use crate::domain::aaaf::notice::Notice;
use crate::ports::StoreError;

/// An agent that a periodic job examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    pub organization: OrganizationNumber,
    pub agent: AgentNumber,
    pub id: String,
    /// Whether no notices are sent for the agent: it is archived or suspended, or its organization
    /// is not active.
    pub retired: bool,
}

/// A badge that is about to expire or has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Orders badges that expire at the same time.
    pub number: i64,
    pub organization: OrganizationNumber,
    pub badge: String,
    pub agent: String,
    pub assessment: String,
    pub valid_until: Timestamp,
}

/// Periodic jobs, each run by one replica at a time.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Starts a job that has not been done since `before`, unless another replica holds its lease.
    /// The store's clock decides.
    async fn begin_job(
        &self,
        name: &str,
        owner: &str,
        before: Timestamp,
        ttl: Duration,
    ) -> Result<bool, StoreError>;
    /// Extends the lease to `ttl` from now; [`StoreError::Fenced`] if another replica has the job.
    async fn hold_job(&self, name: &str, owner: &str, ttl: Duration) -> Result<(), StoreError>;
    /// Marks the job as done.
    async fn end_job(&self, name: &str, owner: &str, now: Timestamp) -> Result<(), StoreError>;

    /// Agents of every organization after `after`, in order of enrollment.
    async fn every_agent(&self, after: AgentNumber, limit: u32) -> Result<Vec<Looked>, StoreError>;
    /// Number of tasks that an agent has completed since a given time, counted up to `most`.
    async fn completed_since(
        &self,
        organization: OrganizationNumber,
        agent: AgentNumber,
        since: Timestamp,
        most: u32,
    ) -> Result<u32, StoreError>;
    /// Valid badges of every active organization, by expiry: those after the position `after` that
    /// expire until `until`.
    async fn ending_badges(
        &self,
        after: (Timestamp, i64),
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Ending>, StoreError>;
    /// Records that the schedule tries to assess an agent. Returns `false` if there was a try after
    /// `before`.
    async fn claim_reassessment(
        &self,
        agent: AgentNumber,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;
    /// Sends a notice unless the organization already has it. Returns whether it is new.
    async fn tell(
        &self,
        organization: OrganizationNumber,
        notice: &Notice,
    ) -> Result<bool, StoreError>;
    /// Deletes at most `limit` events about an agent that are older than `before`, and returns how
    /// many were deleted. Nothing is deleted during an assessment of the agent or while an appeal
    /// is open.
    async fn forget_evidence(
        &self,
        organization: OrganizationNumber,
        agent: AgentNumber,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError>;
}
