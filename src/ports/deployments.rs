//! The deployments of agents, and the policies of their gates.

use async_trait::async_trait;

use super::{IdempotencyCompletion, StoreError, StoredEvent};
use crate::domain::audit::Decision;
use crate::domain::deployment::Lifecycle;
use crate::domain::ids::{AgentId, TenantId};
use crate::domain::promotion::{PolicyScope, ScopedPolicy};
use crate::domain::run::record::RunRecord;

/// Which state of an agent's deployments somebody has seen: it grows with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub i64);

/// What a request for a transition came to, whether or not it was granted: its run with the whole log, the deployments as
/// they are then, the entry of the audit log and the answer. All of it is recorded, or nothing.
pub struct DeploymentCommit<'a> {
    /// The run that holds the events; it has ended.
    pub run: &'a RunRecord,
    /// Its log, from the first event to the terminal one.
    pub events: &'a [StoredEvent],
    /// The agent.
    pub agent: &'a AgentId,
    /// The deployments after it, and the revision they were decided on; `None` if nothing changes.
    pub after: Option<(&'a Lifecycle, Revision)>,
    /// The integrity of the pack behind the version that was asked about, if that version serves after it, newly or still:
    /// a pack that is being removed at the same moment is then held, or the commit is stale.
    pub serves: Option<&'a str>,
    /// Runs that begin with it, for workers to carry out.
    pub opens: &'a [RunRecord],
    /// For the audit log.
    pub decision: &'a Decision,
    /// The idempotency record it completes.
    pub completes: Option<&'a IdempotencyCompletion>,
}

/// Deployments and the policies they are gated by.
#[async_trait]
pub trait Deployments: Send + Sync {
    /// The deployments of an agent; of one that was never moved, none at revision 0.
    async fn deployments(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
    ) -> Result<(Lifecycle, Revision), StoreError>;
    /// Records a transition. [`StoreError::Stale`] when the deployments have changed since that revision, or the pack that
    /// goes into service is not installed any more.
    async fn commit_deployment(&self, commit: &DeploymentCommit<'_>) -> Result<(), StoreError>;
    /// The policies of a tenant.
    async fn policies(&self, tenant: &TenantId) -> Result<Vec<ScopedPolicy>, StoreError>;
    /// Sets a policy, in the place of one with the same scope, and records who did.
    async fn set_policy(
        &self,
        tenant: &TenantId,
        policy: &ScopedPolicy,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// Removes a policy and records who did; `false`, and nothing is recorded, if there is none with this scope.
    async fn remove_policy(
        &self,
        tenant: &TenantId,
        scope: &PolicyScope,
        decision: &Decision,
    ) -> Result<bool, StoreError>;
}
