//! What is done again and again: looking at who is to be told by the clock, and deleting what is past its time (AAAF S7, S12,
//! S15).

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{AgentNumber, OrganizationNumber};
use crate::domain::aaaf::notice::Notice;
use crate::ports::StoreError;

/// An agent that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Whose it is.
    pub organization: OrganizationNumber,
    /// What the store calls it.
    pub agent: AgentNumber,
    /// Its id.
    pub id: String,
    /// Whether nobody is told of it: it was archived or is suspended, or its organization is not active.
    pub retired: bool,
}

/// A badge that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Its place among those that end at the same time.
    pub number: i64,
    /// Whose it is.
    pub organization: OrganizationNumber,
    /// Its id.
    pub badge: String,
    /// The id of its agent.
    pub agent: String,
    /// The assessment it certifies.
    pub assessment: String,
    /// When it ends.
    pub valid_until: Timestamp,
}

/// Work that is done again and again.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Begins a job that was not done since `before`, unless somebody is at it; the lease is told by the store's own clock.
    async fn begin_job(
        &self,
        name: &str,
        owner: &str,
        before: Timestamp,
        ttl: Duration,
    ) -> Result<bool, StoreError>;
    /// Holds the lease for `ttl` from now on; [`StoreError::Fenced`] if somebody else has the job.
    async fn hold_job(&self, name: &str, owner: &str, ttl: Duration) -> Result<(), StoreError>;
    /// Ends it, done.
    async fn end_job(&self, name: &str, owner: &str, now: Timestamp) -> Result<(), StoreError>;

    /// Agents of every organization after one of them, in the order in which they were enrolled.
    async fn every_agent(&self, after: AgentNumber, limit: u32) -> Result<Vec<Looked>, StoreError>;
    /// How many tasks of an agent were completed from a moment on, counted up to `most`.
    async fn completed_since(
        &self,
        organization: OrganizationNumber,
        agent: AgentNumber,
        since: Timestamp,
        most: u32,
    ) -> Result<u32, StoreError>;
    /// Badges that hold, of every active organization, by their ends: those after `after` (an end, and a place among the like) that end
    /// until `until`.
    async fn ending_badges(
        &self,
        after: (Timestamp, i64),
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Ending>, StoreError>;
    /// Notes that the schedule tries to have an agent assessed, unless it tried after `before`; whether it may try now.
    async fn claim_reassessment(
        &self,
        agent: AgentNumber,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;
    /// Tells an organization, if it was not told before; whether it is news.
    async fn tell(
        &self,
        organization: OrganizationNumber,
        notice: &Notice,
    ) -> Result<bool, StoreError>;
    /// Deletes evidence about an agent that is older than `before`, at most `limit` events; how many there were. While an
    /// assessment of it is under way, or an appeal is open, nothing is deleted.
    async fn forget_evidence(
        &self,
        organization: OrganizationNumber,
        agent: AgentNumber,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError>;
}
