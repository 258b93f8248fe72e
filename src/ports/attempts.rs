//! The eval runs of one version of an agent, as attempts that are judged together.

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
    /// Up to `limit` eval runs of a version, whatever became of them, in the order of creation, each with its number; those
    /// above `after`.
    async fn evals_of(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, RunRecord)>, StoreError>;
    /// As [`read`](super::RunLog::read), but only events that say how a run or a task of it ended.
    async fn verdicts(
        &self,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Declares a run void, with the audit entry and the answer to the request, or none of it.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if it was declared void before.
    async fn void(
        &self,
        tenant: &TenantId,
        run: &RunId,
        voided: &Voided,
        decision: &Decision,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    /// The runs of a version that were declared void.
    async fn voided(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &str,
    ) -> Result<HashMap<RunId, Voided>, StoreError>;
}
