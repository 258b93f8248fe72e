//! Storage of tenants: usage, deletion of runs, legal holds.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{StoreError, StoredEvent};
use crate::domain::audit::Decision;
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::record::RunRecord;
use crate::domain::storage::{LegalHold, Usage};

/// What remains of a deleted run.
#[derive(Clone, Debug)]
pub enum Remains {
    Nothing,
    /// This record and a log without content: gates still count the run as an attempt.
    Attempt(Box<RunRecord>),
}

/// The result of deleting a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDeletion {
    /// The run is deleted. The content of what remains still has to be masked.
    Deleted,
    /// The tenant has no such run, or it was already deleted.
    NotFound,
    /// The run has not ended.
    InProgress,
    /// The run is under a legal hold.
    Held,
}

/// A deleted run whose log still has content.
#[derive(Clone, Debug)]
pub struct Unmasked {
    pub record: RunRecord,
    /// The last sequence that was masked.
    pub masked_to: u64,
}

#[async_trait]
pub trait TenantStorage: Send + Sync {
    /// The tenant's current usage. Reads every run's size, so callers should cache the result
    /// briefly.
    async fn usage(&self, tenant: &TenantId) -> Result<Usage, StoreError>;
    /// Deletes a finished run and its annotations, together with the audit entry.
    async fn delete_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        remains: &Remains,
        decision: &Decision,
    ) -> Result<RunDeletion, StoreError>;
    /// The next deleted run whose log still has content.
    async fn next_unmasked(&self) -> Result<Option<Unmasked>, StoreError>;
    /// Replaces these events of a deleted run and records how far its log is masked; `done` at its
    /// end.
    async fn mask_events(
        &self,
        run: &RunId,
        events: &[StoredEvent],
        masked_to: u64,
        done: bool,
    ) -> Result<(), StoreError>;
    /// Places (`Some`) or releases (`None`) a legal hold, together with the audit entry; `false` if
    /// the tenant has no such run.
    async fn hold_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        hold: Option<&LegalHold>,
        decision: &Decision,
    ) -> Result<bool, StoreError>;
    /// The legal hold of a run, if any.
    async fn legal_hold(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Option<LegalHold>, StoreError>;
    /// Up to `limit` finished runs, by number, that follow the run numbered `after`, were created
    /// before `before`, are not deleted and not under a hold. Each with its number.
    async fn deletable_runs(
        &self,
        before: Timestamp,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, RunRecord)>, StoreError>;
    /// Deletes the bytes under a digest if no pack, suite or run of any tenant refers to them.
    async fn drop_unreferenced(&self, digest: &str) -> Result<(), StoreError>;
}
