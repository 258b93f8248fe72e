//! What packs need from features that use them.

use async_trait::async_trait;
use semver::Version;

use crate::ports::inventory::Revision;
use touchstone_host::ports::store::StoreError;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_openwop::channel::Channel;

/// What packs and suites add to the storage of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addition {
    pub packs: u64,
    pub suites: u64,
    pub bytes: u64,
}

/// The storage of a tenant, which packs and suites share with runs.
#[async_trait]
pub trait SharedStorage: Send + Sync {
    /// Counts an addition towards the tenant's quotas.
    ///
    /// # Errors
    /// `quota_exceeded`; then nothing is counted.
    async fn reserve(&self, tenant: &TenantId, adding: Addition) -> Result<(), Problem>;

    /// Checks that an addition would not exceed the tenant's quotas.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    async fn check(&self, tenant: &TenantId, adding: Addition) -> Result<(), Problem>;

    /// Deletes those of these bytes that nothing refers to, because a pack or suite of the tenant
    /// was removed, or not added after all. What was reserved for them is counted again.
    async fn release(&self, tenant: &TenantId, digests: &[&str]) -> Result<(), StoreError>;
}

/// The deployments of agents, for the features below them.
#[async_trait]
pub trait AgentDeployments: Send + Sync {
    /// The active version of an agent on a channel, for a run with this draw. `field` of the
    /// request names the channel.
    ///
    /// # Errors
    /// `no_active_deployment`.
    async fn resolve(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        channel: &Channel,
        draw: u8,
        field: &str,
    ) -> Result<String, Problem>;

    /// Whether a version in service, or one that may return to service, was promoted with this run
    /// as evidence.
    async fn rests_on(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        run: &RunId,
    ) -> Result<bool, StoreError>;

    /// Whether a version of an agent serves traffic or can return to service, and the revision on
    /// which this was decided.
    async fn in_service(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &Version,
    ) -> Result<(bool, Revision), StoreError>;
}
