//! Installed packs and suites.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::{Revision, StoreError};
use crate::domain::ids::{AgentId, TenantId};

/// An installed pack version of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct InstallRecord {
    pub tenant: TenantId,
    pub name: String,
    /// Pack version, SemVer.
    pub version: String,
    /// `sha256-<base64>` of the archive; the key of its blob.
    pub integrity: String,
    pub installed_at: Timestamp,
    /// All other displayed facts: signature state, degraded capabilities, warnings, agents.
    pub facts: Value,
}

/// A suite a tenant may run.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteRecord {
    pub tenant: TenantId,
    pub suite_id: String,
    pub version: String,
    /// `sha256-<base64>` of the canonical document; the key of its blob.
    pub digest: String,
    /// Number of tasks, for lists.
    pub task_count: u32,
    /// The pack it came with, `name@version`; `None` for an imported suite, which is unsigned.
    pub pack: Option<String>,
    /// Whether a trusted signature covers the suite itself: only with `tarball` coverage.
    pub signed: bool,
    pub added_at: Timestamp,
}

/// Installed packs and suites.
#[async_trait]
pub trait Inventory: Send + Sync {
    /// Makes a pack and its suites visible in one step. [`StoreError::Exists`] if the name and
    /// version, or one of the suites, exists with different content; installing the same again is not
    /// an error.
    async fn install(&self, pack: &InstallRecord, suites: &[SuiteRecord])
    -> Result<(), StoreError>;
    /// Removes a pack and its suites; `false` if it was not installed. [`StoreError::Stale`], and
    /// nothing is removed, if the deployments of one of these agents have changed since that
    /// revision.
    async fn remove(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
        seen: &[(AgentId, Revision)],
    ) -> Result<bool, StoreError>;
    /// All packs of a tenant by name and version.
    async fn installs(&self, tenant: &TenantId) -> Result<Vec<InstallRecord>, StoreError>;
    /// The versions of one pack of a tenant, in any order.
    async fn installs_of(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Vec<InstallRecord>, StoreError>;
    /// Adds an imported suite. [`StoreError::Exists`] as in `install`.
    async fn add_suite(&self, suite: &SuiteRecord) -> Result<(), StoreError>;
    /// Removes an imported suite; `false` if it does not exist or came with a pack.
    async fn remove_suite(
        &self,
        tenant: &TenantId,
        suite_id: &str,
        version: &str,
    ) -> Result<bool, StoreError>;
    async fn suite(
        &self,
        tenant: &TenantId,
        suite_id: &str,
        version: &str,
    ) -> Result<Option<SuiteRecord>, StoreError>;
    /// All suites of a tenant by id and version.
    async fn suites(&self, tenant: &TenantId) -> Result<Vec<SuiteRecord>, StoreError>;
}
