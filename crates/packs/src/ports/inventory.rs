//! Installed packs and suites.

use jiff::Timestamp;
use serde_json::Value;

use touchstone_kit::ids::TenantId;

/// Revision of an agent's deployments; increases with every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub i64);

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
    /// `sha256-<base64>` of its scoring document, if it has one; the key of that blob.
    pub scoring: Option<String>,
    /// Number of tasks, for lists.
    pub task_count: u32,
    /// The pack it came with, `name@version`; `None` for an imported suite, which is unsigned.
    pub pack: Option<String>,
    /// Whether a trusted signature covers the suite itself: only with `tarball` coverage.
    pub signed: bool,
    pub added_at: Timestamp,
    /// Size in bytes of what was stored for it, which counts as its tenant's: the document, or the
    /// compressed chunks of its tasks. `None` if an earlier version stored it.
    pub bytes: Option<u64>,
}
