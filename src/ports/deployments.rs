//! Deployments of agents, and the policies of their gates.

use async_trait::async_trait;

use super::{IdempotencyCompletion, StoreError, StoredEvent};
use crate::domain::audit::Decision;
use crate::domain::deployment::Lifecycle;
use crate::domain::ids::{AgentId, TenantId};
use crate::domain::promotion::{PolicyScope, ScopedPolicy};
use crate::domain::run::record::RunRecord;

/// Revision of an agent's deployments; increases with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub i64);

/// The outcome of a transition request, granted or not: its run with the whole log, the new
/// deployments, the audit entry and the response. Recorded all or nothing.
pub struct DeploymentCommit<'a> {
    /// The run that holds the events; it has ended.
    pub run: &'a RunRecord,
    /// Its log, from the first event to the terminal one.
    pub events: &'a [StoredEvent],
    pub agent: &'a AgentId,
    /// The new deployments, and the revision they were decided on; `None` if nothing changes.
    pub after: Option<(&'a Lifecycle, Revision)>,
    /// The digest of the requested version's pack, if the version is in service afterwards. A
    /// concurrent removal of the pack then waits, or the commit is stale.
    pub serves: Option<&'a str>,
    /// Runs created with it, to be executed by workers.
    pub opens: &'a [RunRecord],
    /// The audit entry.
    pub decision: &'a Decision,
    /// The idempotency record it completes.
    pub completes: Option<&'a IdempotencyCompletion>,
}

/// Deployments and their promotion policies.
#[async_trait]
pub trait Deployments: Send + Sync {
    /// The deployments of an agent; an agent without deployments has none at revision 0.
    async fn deployments(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
    ) -> Result<(Lifecycle, Revision), StoreError>;
    /// Records a transition. [`StoreError::Stale`] if the deployments have changed since that
    /// revision, or the pack that goes into service is no longer installed.
    async fn commit_deployment(&self, commit: &DeploymentCommit<'_>) -> Result<(), StoreError>;
    /// The policies of a tenant.
    async fn policies(&self, tenant: &TenantId) -> Result<Vec<ScopedPolicy>, StoreError>;
    /// Sets a policy, replacing one with the same scope, together with the audit entry.
    async fn set_policy(
        &self,
        tenant: &TenantId,
        policy: &ScopedPolicy,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// Removes a policy, together with the audit entry; `false`, and nothing is recorded, if no
    /// policy has this scope.
    async fn remove_policy(
        &self,
        tenant: &TenantId,
        scope: &PolicyScope,
        decision: &Decision,
    ) -> Result<bool, StoreError>;
}
