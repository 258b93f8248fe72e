//! The versions of an agent that a tenant has installed.

use std::collections::BTreeMap;

use semver::Version;

use crate::rules::inventory::PackFacts;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, TenantId};
use touchstone_kit::near::did_you_mean;

/// The versions of an agent, each with the digest of its pack.
#[derive(Default)]
pub struct Installed(BTreeMap<Version, String>);

impl Installed {
    /// The versions in ascending order.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.0.keys()
    }

    /// The digest of a version's pack.
    pub fn integrity(&self, version: &Version) -> Option<&str> {
        self.0.get(version).map(String::as_str)
    }

    /// The digest of a version's pack.
    ///
    /// # Errors
    /// `not_found`.
    pub fn pack_of(&self, version: &Version) -> Result<&str, Problem> {
        self.integrity(version).ok_or_else(|| {
            Problem::new(
                ErrorCode::NotFound,
                "this version of the agent is not installed",
            )
        })
    }
}

/// Every installed agent of a tenant, with its versions.
///
/// # Errors
/// An internal error.
pub async fn all_installed(
    store: &Database,
    tenant: &TenantId,
) -> Result<BTreeMap<AgentId, Installed>, Problem> {
    let installs = store::inventory::installs(store, tenant)
        .await
        .map_err(|cause| internal(&cause))?;
    let mut agents = BTreeMap::new();
    for install in installs {
        let facts: PackFacts =
            serde_json::from_value(install.facts).map_err(|cause| internal(&cause))?;
        let Ok(version) = Version::parse(&install.version) else {
            continue;
        };
        for entry in &facts.agents {
            let agent = AgentId::from(entry.agent_id.as_str());
            let versions: &mut Installed = agents.entry(agent).or_default();
            versions
                .0
                .insert(version.clone(), install.integrity.clone());
        }
    }
    Ok(agents)
}

/// The installed versions of an agent.
///
/// # Errors
/// `not_found` for an agent that is not installed, or is another tenant's.
pub async fn installed(
    store: &Database,
    tenant: &TenantId,
    agent: &AgentId,
) -> Result<Installed, Problem> {
    // An agent's id is its pack's name and one more segment (RFC 0003 §B).
    let Some((pack, _)) = agent.as_str().rsplit_once('.') else {
        return Err(unknown(store, tenant, agent).await);
    };
    let installs = store::inventory::installs(store, tenant)
        .await
        .map_err(|cause| internal(&cause))?;
    let mut versions = BTreeMap::new();
    for install in installs.into_iter().filter(|install| install.name == pack) {
        let facts: PackFacts =
            serde_json::from_value(install.facts).map_err(|cause| internal(&cause))?;
        let holds = facts
            .agents
            .iter()
            .any(|entry| entry.agent_id == agent.as_str());
        if let (true, Ok(version)) = (holds, Version::parse(&install.version)) {
            versions.insert(version, install.integrity);
        }
    }
    if versions.is_empty() {
        return Err(unknown(store, tenant, agent).await);
    }
    Ok(Installed(versions))
}

/// There is no such agent; with similar names.
async fn unknown(store: &Database, tenant: &TenantId, agent: &AgentId) -> Problem {
    let known = match all_installed(store, tenant).await {
        Ok(known) => known,
        Err(problem) => return problem,
    };
    let message = match did_you_mean(agent.as_str(), known.keys().map(AgentId::as_str)) {
        Some(near) => format!("no such agent; {near}"),
        None => "no such agent".to_owned(),
    };
    Problem::new(ErrorCode::NotFound, message)
}
