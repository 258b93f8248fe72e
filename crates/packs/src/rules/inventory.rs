//! Facts about an installed pack that are stored and shown, without its content (RFC 0072, 0080).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::contents::{PackAgent, PackContents};
use crate::rules::verify::{SignatureCoverage, SignatureState, VerifiedPack};
use touchstone_openwop::pack::{AgentInventoryEntry, LockedSignature, MemoryShape};

/// The facts of an installed pack, recorded when it was verified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackFacts {
    pub name: String,
    pub version: String,
    /// `node` or `prompt`.
    pub kind: String,
    /// `sha256-<base64>` of the archive.
    pub integrity: String,
    /// The signer, and what the signature covers.
    pub signature: SignatureState,
    /// The verified signature, in the form a lockfile records; absent for an unsigned pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_signature: Option<LockedSignature>,
    /// Capabilities that the pack requests and this host lacks.
    pub degraded: Vec<String>,
    /// Packs that the manifest names, with the version range. They are shown but not installed (ADR
    /// 10).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
    /// The agents, sorted by id.
    pub agents: Vec<AgentInventoryEntry>,
    /// The suites, by the references that runs use.
    pub suites: Vec<SuiteFacts>,
    /// The facts of other features' parts of the pack, by name.
    #[serde(flatten)]
    pub extensions: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteFacts {
    /// `suiteId@version`.
    pub reference: String,
    /// `sha256-<base64>` of the canonical document.
    pub digest: String,
    /// `sha256-<base64>` of the suite's scoring document, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring_digest: Option<String>,
    pub task_count: usize,
    /// Whether the pack's signature covers the suite.
    pub signed: bool,
}

pub fn facts(pack: &VerifiedPack) -> PackFacts {
    let signed = pack.signature.coverage == SignatureCoverage::Tarball;
    let mut agents: Vec<_> = pack
        .contents
        .agents
        .iter()
        .map(|agent| entry(&pack.contents, agent))
        .collect();
    agents.sort_by(|a, b| a.agent_id.cmp(&b.agent_id));
    let suites = pack.contents.suites.iter().map(|suite| SuiteFacts {
        reference: suite.suite().reference(),
        digest: suite.digest.clone(),
        scoring_digest: suite.scoring.as_ref().map(|it| it.digest.clone()),
        task_count: suite.suite().tasks.len(),
        signed,
    });
    let mut extensions = pack.contents.extensions.clone();
    for facts in extensions.values_mut().filter_map(Value::as_object_mut) {
        facts.insert("signed".to_owned(), signed.into());
    }
    PackFacts {
        name: pack.id.name.clone(),
        version: pack.id.version.to_string(),
        kind: pack
            .contents
            .manifest
            .kind
            .clone()
            .unwrap_or_else(|| "node".to_owned()),
        integrity: pack.integrity.clone(),
        signature: pack.signature.clone(),
        checked_signature: pack.pin.signature.clone(),
        degraded: pack.contents.degraded.clone(),
        dependencies: pack.contents.manifest.dependencies.clone(),
        warnings: pack.warnings.clone(),
        agents,
        suites: suites.collect(),
        extensions,
    }
}

fn entry(pack: &PackContents, agent: &PackAgent) -> AgentInventoryEntry {
    let manifest = &agent.manifest;
    let dimensions = lacking_memory(manifest.memory_shape.unwrap_or_default());
    AgentInventoryEntry {
        agent_id: manifest.agent_id.clone(),
        persona: manifest.persona.clone(),
        label: manifest
            .label
            .clone()
            .unwrap_or_else(|| manifest.persona.clone()),
        description: manifest.description.clone(),
        model_class: manifest.model_class,
        pack_name: pack.manifest.name.clone(),
        pack_version: pack.manifest.version.clone(),
        tool_allowlist: agent.tools().to_vec(),
        has_handoff_schemas: agent.task_schema.is_some() || agent.return_schema.is_some(),
        memory_shape: manifest.memory_shape,
        confidence_threshold: manifest.confidence.and_then(|c| c.default_threshold),
        degraded: agent.degraded.clone(),
        memory_degraded: (!dimensions.is_empty()).then_some(true),
        degraded_memory_dimensions: dimensions,
    }
}

/// An invocation reads the memory that its task seeds and has its own scratchpad; neither is kept
/// after the invocation.
fn lacking_memory(shape: MemoryShape) -> Vec<String> {
    let mut dimensions = Vec::new();
    if shape.conversation == Some(true) || shape.long_term == Some(true) {
        dimensions.push("write".to_owned());
    }
    if shape.long_term == Some(true) {
        dimensions.push("long-term-durability".to_owned());
    }
    dimensions
}
