//! Which capabilities a pack may ask a host for, and what becomes of those this host lacks.
//!
//! `peerDependencies` are required unless marked optional (RFC 0072 §C). By the letter most published agent packs could
//! then be installed nowhere but on a full workflow host, so what the protocol defines and this host lacks *degrades* by
//! default: the pack installs, and the capability is listed in `degraded[]`. What no OpenWOP host is specified to have
//! cannot degrade: nobody can say what is lost without it. See ADR 0005.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::protocol::openwop::pack::PackManifest;

/// Families of the discovery document, and surfaces of the host capability registry that it lists under other names.
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

/// What to do about a defined capability this host lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerPolicy {
    /// Install, and list it in `degraded[]`.
    #[default]
    Degrade,
    /// Refuse.
    Strict,
}

/// Whether the protocol knows a capability: `aiProviders`, `host.workspace`, `openwop.agents.memoryBackends`.
pub fn is_defined(capability: &str) -> bool {
    let plain = capability.strip_prefix("openwop.").unwrap_or(capability);
    let plain = plain.strip_prefix("host.").unwrap_or(plain);
    plain
        .split('.')
        .next()
        .is_some_and(|family| FAMILIES.binary_search(&family).is_ok())
}

/// What a host can do, as far as packs may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCapabilities(BTreeSet<String>);

impl Default for HostCapabilities {
    fn default() -> Self {
        // An evaluation host calls models and interprets agents, and does nothing else for a pack.
        Self::new([
            "aiProviders",
            "agents",
            "agents.manifestRuntime",
            "agents.evalSuite",
        ])
    }
}

impl HostCapabilities {
    /// A host that has these, in their plain form.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// Whether the host has a capability at the level asked for. Levels other than plain support are more than it has.
    fn satisfy(&self, capability: &str, level: &str) -> bool {
        let plain = capability.strip_prefix("openwop.").unwrap_or(capability);
        let plain = plain.strip_prefix("host.").unwrap_or(plain);
        self.0.contains(plain) && matches!(level, "supported" | "required" | "true" | "*")
    }
}

/// The peers of a pack, sorted by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// The pack cannot be installed without these.
    pub refused: Vec<String>,
    /// Absent, and inert for this installation.
    pub degraded: Vec<String>,
}

/// Sorts the peers of a pack.
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

/// What an agent lacks here: the pack's degraded peers and those of its own `requiresCapabilities` (RFC 0092).
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
    fn the_families_are_sorted() {
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
    fn a_peer_is_there_degrades_or_refuses(
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
