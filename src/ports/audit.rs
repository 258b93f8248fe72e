//! The audit log of decisions.

use async_trait::async_trait;

use super::StoreError;
use crate::domain::audit::{ChainHead, Link};
use crate::domain::ids::TenantId;

/// One chain of entries a tenant. An entry is added in the transaction that changes what was decided about (see the other
/// ports); here the chain is read.
#[async_trait]
pub trait AuditLog: Send + Sync {
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
