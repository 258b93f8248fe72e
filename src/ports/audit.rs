//! The audit log of decisions.

use async_trait::async_trait;

use super::StoreError;
use crate::domain::audit::{ChainHead, Decision, Link};
use crate::domain::ids::TenantId;

/// One chain of entries a tenant. What a decision is about is changed in the same transaction (see the other ports); here it
/// is read, and decisions that change nothing of ours are added.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Adds a decision to the end of the chain. Durable when this returns.
    async fn record_decision(
        &self,
        tenant: &TenantId,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// Up to `limit` entries with a sequence above `after`, in order, as they are found.
    async fn audit_entries(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Link>, StoreError>;
    /// Where the chain ends.
    async fn audit_head(&self, tenant: &TenantId) -> Result<ChainHead, StoreError>;
}
