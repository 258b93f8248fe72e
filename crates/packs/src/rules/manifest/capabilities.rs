//! Which capabilities a pack may request from a host, and what happens when this host lacks one.
//!
//! `peerDependencies` are required unless marked optional (RFC 0072 §C). Read literally, most
//! published agent packs could only be installed on a full workflow host. A capability that the
//! protocol defines and this host lacks therefore *degrades* by default: the pack installs, and the
//! capability is listed in `degraded[]`. A capability that OpenWOP does not define cannot degrade,
//! because its effect on the pack is unknown. See ADR 0005.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use touchstone_openwop::pack::PackManifest;

/// Families of the discovery document, and surfaces of the host capability registry that the
/// discovery document lists under other names.
const FAMILIES: &[&str] = &[
    "a2a",
    "agentRuntime",
    "agents",
    "aiEnvelope",
    "aiProviders",
    "artifactTypes",
    "auth",
    "authorization",
    "blobStorage",
    "budget",
    "cache",
    "canvas",
    "chat",
    "compliance",
    "connections",
    "content",
    "conversationPrimitive",
    "credentials",
    "deadLetter",
    "eventLog",
    "feedback",
    "fs",
    "heartbeat",
    "http",
    "httpClient",
    "i18n",
    "idempotency",
    "interrupt",
    "kvStorage",
    "mcp",
    "memory",
    "messaging",
    "modelCapabilities",
    "multiAgent",
    "multiPartyConversation",
    "nodePackRuntimes",
    "nondeterminismPolicy",
    "nosql",
    "oauth",
    "observability",
    "packs",
    "portability",
    "prompts",
    "providerUsage",
    "queueBus",
    "runtimeCapabilities",
    "sandbox",
    "scheduling",
    "searchIndex",
    "secrets",
    "sql",
    "subWorkflow",
    "tableStorage",
    "testing",
    "toolCatalog",
    "toolHooks",
    "triggerBridge",
    "vectorStore",
    "webhooks",
    "workflowChainPacks",
    "workspace",
];

/// How to treat a defined capability that this host lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerPolicy {
    /// Install the pack and list the capability in `degraded[]`.
    #[default]
    Degrade,
    /// Refuse the pack.
    Strict,
}

/// Whether the protocol defines a capability, such as `aiProviders`, `host.workspace` or
/// `openwop.agents.memoryBackends`.
pub fn is_defined(capability: &str) -> bool {
    let plain = capability.strip_prefix("openwop.").unwrap_or(capability);
    let plain = plain.strip_prefix("host.").unwrap_or(plain);
    plain
        .split('.')
        .next()
        .is_some_and(|family| FAMILIES.binary_search(&family).is_ok())
}

/// The capabilities of a host that packs may request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCapabilities(BTreeSet<String>);

impl Default for HostCapabilities {
    fn default() -> Self {
        // An evaluation host calls models and interprets agents; it executes nothing else from a
        // pack.
        Self::new([
            "aiProviders",
            "agents",
            "agents.manifestRuntime",
            "agents.evalSuite",
        ])
    }
}

impl HostCapabilities {
    /// A host with these capabilities at the plain support level.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// Whether the host has a capability at the requested level. Levels above plain support are
    /// never satisfied.
    fn satisfy(&self, capability: &str, level: &str) -> bool {
        let plain = capability.strip_prefix("openwop.").unwrap_or(capability);
        let plain = plain.strip_prefix("host.").unwrap_or(plain);
        self.0.contains(plain) && matches!(level, "supported" | "required" | "true" | "*")
    }
}

/// The peers of a pack that this host lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Peers without which the pack cannot be installed.
    pub refused: Vec<String>,
    /// Peers that are missing and unused by this installation.
    pub degraded: Vec<String>,
}

/// Sorts the missing peers of a pack into refused and degraded ones.
pub fn resolve(manifest: &PackManifest, host: &HostCapabilities, policy: PeerPolicy) -> Peers {
    let mut peers = Peers::default();
    for (capability, level) in &manifest.peer_dependencies {
        if host.satisfy(capability, level) {
            continue;
        }
        let optional = manifest
            .peer_dependencies_meta
            .get(capability)
            .is_some_and(|meta| meta.optional);
        let degrades = optional || (policy == PeerPolicy::Degrade && is_defined(capability));
        if degrades {
            &mut peers.degraded
        } else {
            &mut peers.refused
        }
        .push(capability.clone());
    }
    peers
}

/// Capabilities that an agent lacks here: the pack's degraded peers and the missing ones of the
/// agent's own `requiresCapabilities` (RFC 0092).
pub fn degraded_of(
    manifest: &PackManifest,
    peers: &Peers,
    host: &HostCapabilities,
) -> BTreeMap<String, Vec<String>> {
    let of_agent = |required: &[String]| {
        let lacking = required
            .iter()
            .filter(|key| !host.satisfy(key, "supported"));
        let all: BTreeSet<&String> = peers.degraded.iter().chain(lacking).collect();
        all.into_iter().cloned().collect::<Vec<_>>()
    };
    manifest
        .agents
        .iter()
        .map(|agent| {
            (
                agent.agent_id.clone(),
                of_agent(&agent.requires_capabilities),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[test]
    fn host_capability_families_are_sorted() {
        assert!(FAMILIES.is_sorted());
    }

    #[rstest]
    #[case("aiProviders", "supported", PeerPolicy::Strict, false, (0, 0))]
    #[case("host.aiProviders", "supported", PeerPolicy::Strict, false, (0, 0))]
    #[case("aiProviders", ">=9", PeerPolicy::Strict, false, (1, 0))]
    #[case("host.agentRuntime", "supported", PeerPolicy::Degrade, false, (0, 1))]
    #[case("host.agentRuntime", "supported", PeerPolicy::Strict, false, (1, 0))]
    #[case("host.agentRuntime", "supported", PeerPolicy::Strict, true, (0, 1))]
    #[case("openwop.agents.memoryBackends", ">=longTerm", PeerPolicy::Degrade, false, (0, 1))]
    #[case("host.corpusTeleport", "supported", PeerPolicy::Degrade, false, (1, 0))]
    #[case("host.corpusTeleport", "supported", PeerPolicy::Degrade, true, (0, 1))]
    fn a_missing_peer_capability_is_an_error_or_a_degradation(
        #[case] capability: &str,
        #[case] level: &str,
        #[case] policy: PeerPolicy,
        #[case] optional: bool,
        #[case] expected: (usize, usize),
    ) {
        let manifest: PackManifest = serde_json::from_value(json!({
            "name": "community.x.pack", "version": "1.0.0", "engines": {"openwop": "*"},
            "peerDependencies": {capability: level},
            "peerDependenciesMeta": {capability: {"optional": optional}}
        }))
        .unwrap();
        let peers = resolve(&manifest, &HostCapabilities::default(), policy);
        assert_eq!((peers.refused.len(), peers.degraded.len()), expected);
    }
}
