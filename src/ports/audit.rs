//! The audit log of decisions.

use async_trait::async_trait;

use super::StoreError;
use crate::domain::audit::checkpoint::Checkpoint;
use crate::domain::audit::{ChainHead, Link};
use crate::domain::ids::TenantId;

/// One chain of entries per tenant. Entries are added in the transaction of the decided change (see
/// the other ports); this port reads the chain.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Up to `limit` entries with a sequence above `after`, in order, as stored.
    async fn audit_entries(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Link>, StoreError>;
    /// The head of the chain.
    async fn audit_head(&self, tenant: &TenantId) -> Result<ChainHead, StoreError>;
    /// Up to `limit` tenants that follow `after` by name and whose last entry is in no checkpoint,
    /// each with its last entry that is.
    async fn audit_unanchored(
        &self,
        after: &str,
        limit: u32,
    ) -> Result<Vec<(TenantId, u64)>, StoreError>;
    /// Adds a checkpoint after the last one; `false` if another one was added first.
    async fn add_audit_checkpoint(
        &self,
        tenant: &TenantId,
        checkpoint: &Checkpoint,
    ) -> Result<bool, StoreError>;
    /// The checkpoints whose last entry is from `first` to `last`, in order.
    async fn audit_checkpoints(
        &self,
        tenant: &TenantId,
        first: u64,
        last: u64,
    ) -> Result<Vec<Checkpoint>, StoreError>;
}
