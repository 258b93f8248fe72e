//! The eval runs of one version of an agent, as attempts that are pooled.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{IdempotencyCompletion, StoreError, StoredEvent};
use crate::domain::audit::Decision;
use crate::domain::eval::attempts::Voided;
use crate::domain::ids::{AgentId, RunId, TenantId};
use crate::domain::run::record::RunRecord;

/// The eval runs of one version of an agent.
#[async_trait]
pub trait Attempts: Send + Sync {
    /// Up to `limit` eval runs of a version with a number above `after`, in any state, oldest
    /// first, each with its number.
    async fn evals_of(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, RunRecord)>, StoreError>;
    /// As [`read`](super::RunLog::read), but only events that report how a run or one of its tasks
    /// ended.
    async fn verdicts(
        &self,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Declares a run void, together with the audit entry and the response to the request, all or
    /// nothing.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if it is already void.
    async fn void(
        &self,
        tenant: &TenantId,
        run: &RunId,
        voided: &Voided,
        decision: &Decision,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    /// The runs of a version that were voided.
    async fn voided(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &str,
    ) -> Result<HashMap<RunId, Voided>, StoreError>;
}
