//! What tenants store: how much it is, and how runs are deleted or held.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{StoreError, StoredEvent};
use crate::domain::audit::Decision;
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::record::RunRecord;
use crate::domain::storage::{LegalHold, Usage};

/// What remains of a run that is deleted.
#[derive(Clone, Debug)]
pub enum Remains {
    /// Nothing.
    Nothing,
    /// This record and a log without content: gates still count the run as an attempt.
    Attempt(Box<RunRecord>),
}

/// What came of a request to delete a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDeletion {
    /// The run is deleted. The content of what remains still has to be masked.
    Deleted,
    /// The tenant has no such run, or it was deleted before.
    NotFound,
    /// The run has not ended.
    InProgress,
    /// The run is under a legal hold.
    Held,
}

/// A deleted run whose log still holds content.
#[derive(Clone, Debug)]
pub struct Unmasked {
    /// The run.
    pub record: RunRecord,
    /// The last sequence that was masked.
    pub masked_to: u64,
}

/// What tenants store.
#[async_trait]
pub trait TenantStorage: Send + Sync {
    /// What a tenant stores now. Reads every run's size, so callers keep the answer for a moment.
    async fn usage(&self, tenant: &TenantId) -> Result<Usage, StoreError>;
    /// Deletes a run that has ended, with its annotations, together with the entry of the audit log.
    async fn delete_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        remains: &Remains,
        decision: &Decision,
    ) -> Result<RunDeletion, StoreError>;
    /// The next deleted run whose log still holds content.
    async fn next_unmasked(&self) -> Result<Option<Unmasked>, StoreError>;
    /// Replaces these events of a deleted run and remembers how far its log is masked; `done` at its end.
    async fn mask_events(
        &self,
        run: &RunId,
        events: &[StoredEvent],
        masked_to: u64,
        done: bool,
    ) -> Result<(), StoreError>;
    /// Places (`Some`) or releases (`None`) a legal hold, together with the entry of the audit log; `false` if the tenant has
    /// no such run.
    async fn hold_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        hold: Option<&LegalHold>,
        decision: &Decision,
    ) -> Result<bool, StoreError>;
    /// The legal hold of a run, if it is under one.
    async fn legal_hold(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Option<LegalHold>, StoreError>;
    /// Up to `limit` runs that have ended, were created before `before`, are not deleted and under no hold, by number,
    /// behind the run numbered `after`. Each with its number.
    async fn deletable_runs(
        &self,
        before: Timestamp,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, RunRecord)>, StoreError>;
    /// Deletes the bytes under a digest if no pack, suite or run of any tenant refers to them.
    async fn drop_unreferenced(&self, digest: &str) -> Result<(), StoreError>;
}
