//! The append-only event log and the runs it belongs to.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Fence, IdempotencyCompletion, StoreError};
use crate::domain::audit::Decision;
use crate::domain::ids::{AgentId, RunId, TenantId};
use crate::domain::run::record::RunRecord;

/// One entry of a run's log as stored and streamed: the document is serialized once, when it is
/// appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Position in the log, from 1, without gaps.
    pub sequence: u64,
    /// The event type, for filters.
    pub kind: Arc<str>,
    /// The complete event document as JSON text on one line.
    pub body: Bytes,
}

/// Bytes of event documents after which a read stops. The last document may exceed it.
pub const READ_BYTES: usize = 4 * 1024 * 1024;

/// Whether a read of up to `limit` events that returned these reached the end of the log.
pub fn reaches_end(events: &[StoredEvent], limit: u32) -> bool {
    let bytes: usize = events.iter().map(|event| event.body.len()).sum();
    events.len() < limit as usize && bytes < READ_BYTES
}

/// The end of a run's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The highest sequence, 0 for an empty log.
    pub sequence: u64,
    /// Whether the last entry is the terminal event.
    pub ended: bool,
}

/// Records written together with events, in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Beside {
    /// The audit entry of the decision.
    Decision(Box<Decision>),
    /// The run resumes: the pause request is done.
    Resumed,
}

/// The append-only event log and the runs it belongs to.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Records a new run and, unless it is a journal, its place in the queue; completes the
    /// idempotency record. All or nothing.
    async fn create(
        &self,
        run: &RunRecord,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    /// The immutable record of a run of this tenant.
    async fn run(&self, tenant: &TenantId, run: &RunId) -> Result<Option<RunRecord>, StoreError>;
    /// Appends `events` (consecutive, the first one directly after the head) if `fence` is still
    /// the newest claim. `ends` marks the last one as terminal and takes the run out of the queue.
    /// Durable when this returns.
    async fn append(
        &self,
        run: &RunId,
        fence: Fence,
        events: &[StoredEvent],
        ends: bool,
    ) -> Result<(), StoreError>;
    /// As [`append`](Self::append) of at least one event, together with another record: both are
    /// written, or neither.
    async fn append_with(
        &self,
        run: &RunRecord,
        fence: Fence,
        events: &[StoredEvent],
        ends: bool,
        beside: &Beside,
    ) -> Result<(), StoreError>;
    /// Up to `limit` events with a sequence above `after`, in order; stops once their documents
    /// exceed [`READ_BYTES`]; see [`reaches_end`].
    async fn read(
        &self,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// The end of the log.
    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError>;
    /// The sequence of an event id within a run, for `Last-Event-ID`. An event at the position its
    /// id names is found directly; one copied from another log to another position is searched for.
    async fn sequence_of(&self, run: &RunId, event_id: &str) -> Result<Option<u64>, StoreError>;
    /// The newest eval run of this version of an agent among those that have ended and were not
    /// deleted.
    async fn newest_eval(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &str,
    ) -> Result<Option<RunId>, StoreError>;
    /// The newest finished OASIS evaluation of this version of an agent by a profile, whatever its
    /// outcome.
    async fn newest_oasis(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &str,
        profile: &str,
    ) -> Result<Option<RunId>, StoreError>;
    /// The number of the last retry of a run, retries of its retries included; 0 without retries.
    async fn retries(&self, tenant: &TenantId, root: &RunId) -> Result<u32, StoreError>;
    /// The first `limit` runs of an experiment, in the order of their creation.
    async fn trials(
        &self,
        tenant: &TenantId,
        experiment: &str,
        limit: u32,
    ) -> Result<Vec<RunRecord>, StoreError>;
}
