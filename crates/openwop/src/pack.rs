//! Pack documents: `pack.json`, the registry's documents about a pack, the discovery document, the
//! lockfile.
//!
//! This module contains only the wire forms; `packs::rules` validates them. Types of
//! closed documents reject unknown members, and types of documents that others serve tolerate them
//! (OpenWOP node-packs, registry-operations; RFC 0003, 0072, 0131).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::suite::ModelClass;

/// `pack.json` of any kind that this host reads: agents, nodes or prompts.
///
/// The schema closes the set of members; this type names only the members that are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackManifest {
    /// `<scope>.<org>.<…>`.
    pub name: String,
    /// SemVer.
    pub version: String,
    /// Absent means `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// SPDX identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Compatible protocol versions.
    pub engines: Engines,
    /// Other packs, by name, with the accepted range.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    /// Capabilities that the host must have, with the expected support.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, String>,
    /// Which peer dependencies are optional.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies_meta: BTreeMap<String, PeerMeta>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentManifest>,
    /// Nodes; this host executes none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Value>,
    /// Templates of a prompt pack; this host serves none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Value>,
    /// How the pack is loaded; absent for declarative kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
}

/// Version ranges of the platforms that the pack supports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engines {
    /// Range of protocol versions.
    pub openwop: String,
    /// Other platforms, ignored.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Metadata of a peer dependency (RFC 0072 §C).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerMeta {
    /// Whether the pack installs without the peer dependency.
    #[serde(default)]
    pub optional: bool,
}

/// How a pack is loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// `remote`: nothing is executed.
    pub language: String,
    /// File or address; never opened by this host.
    pub entry: String,
    /// Platform primitives that the code needs (RFC 0076).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
}

/// The signing block of a signed or served manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signing {
    /// `manual` or `ed25519`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Key id, in served manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// Key id, in signed manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key_ref: Option<String>,
    /// The location of the embedded signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature_ref: Option<String>,
}

/// An agent of a pack (RFC 0003 §B). The set of members is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentManifest {
    /// Pack name, a dot, one segment.
    pub agent_id: String,
    /// Display name.
    pub persona: String,
    /// The class of model that the agent needs.
    pub model_class: ModelClass,
    /// The prompt text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The file that contains the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_ref: Option<String>,
    /// The file that contains the agent's suite (RFC 0081 §A).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_suite_ref: Option<String>,
    /// The only tools that the agent may call; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_allowlist: Option<Vec<String>>,
    /// Host capabilities that the agent needs for full function (RFC 0092).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires_capabilities: Vec<String>,
    /// `skill` or `assistant` (RFC 0131).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// The memory that the agent uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<MemoryShape>,
    /// The required confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Schemas of the agent's input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// Short name for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// One line for catalogues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A library of templates; unused here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_library_ref: Option<String>,
    /// Templates by kind; unused here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_overrides: Option<Value>,
}

/// The role of an agent (RFC 0131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentRole {
    /// Receives a task, returns a result, keeps no state.
    Skill,
    /// Talks to people.
    Assistant,
}

/// The memory that an agent uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryShape {
    /// Within one invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<bool>,
    /// Within a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<bool>,
    /// Across conversations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_term: Option<bool>,
}

/// The confidence that an agent requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Confidence {
    /// 0.0..=1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_threshold: Option<f64>,
}

/// Schemas of a handoff.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Handoff {
    /// The schema of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_schema_ref: Option<String>,
    /// The schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_schema_ref: Option<String>,
}

/// The registry's manifest of one version. It is unsigned, so only the flags, the digest and the
/// key id are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedManifest {
    pub name: String,
    pub version: String,
    /// `sha256-<base64>` of the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// Method and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
    /// The version must not be installed any more.
    #[serde(default)]
    pub yanked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked_reason: Option<String>,
    /// The version installs with a warning.
    #[serde(default)]
    pub deprecated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation_reason: Option<String>,
    /// The replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
}

/// `/.well-known/openwop-registry`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryDiscovery {
    /// Templates of the other URLs.
    #[serde(default)]
    pub endpoints: Endpoints,
    #[serde(default)]
    pub signing_keys: Vec<SigningKey>,
}

/// URL templates with `{name}`, `{version}` and `{keyId}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoints {
    /// Versions of a pack.
    pub pack_metadata: String,
    pub version_manifest: String,
    /// The archive of one version.
    pub version_tarball: String,
    pub version_signature: String,
    pub public_key: String,
}

impl Default for Endpoints {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            pack_metadata: text("/v1/packs/{name}/index.json"),
            version_manifest: text("/v1/packs/{name}/-/{version}.json"),
            version_tarball: text("/v1/packs/{name}/-/{version}.tgz"),
            version_signature: text("/v1/packs/{name}/-/{version}.sig"),
            public_key: text("/keys/{keyId}.pub"),
        }
    }
}

/// A key that a registry lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SigningKey {
    /// The key id; used for lookups only, never as part of a path.
    pub key_id: String,
    /// `ed25519`.
    #[serde(default)]
    pub algorithm: String,
    /// The location of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key_url: Option<String>,
    /// Pack names that the key may sign: `a.b` or `a.b.*`.
    #[serde(default)]
    pub permitted_namespaces: Vec<String>,
    /// Only `active` keys verify new installs.
    #[serde(default)]
    pub status: String,
}

/// `/v1/packs/{name}/index.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackIndex {
    pub name: String,
    /// Versions, unordered.
    #[serde(default, deserialize_with = "indexed_versions")]
    pub versions: Vec<IndexedVersion>,
}

/// An array, as file-based registries serve it, or an object by version (OpenWOP node-packs).
fn indexed_versions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<IndexedVersion>, D::Error> {
    #[derive(Deserialize)]
    struct Flags {
        #[serde(default)]
        yanked: bool,
        #[serde(default)]
        deprecated: bool,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        List(Vec<IndexedVersion>),
        ByVersion(BTreeMap<String, Flags>),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::List(versions) => versions,
        Form::ByVersion(versions) => versions
            .into_iter()
            .map(|(version, flags)| IndexedVersion {
                version,
                yanked: flags.yanked,
                deprecated: flags.deprecated,
            })
            .collect(),
    })
}

/// One version in a [`PackIndex`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexedVersion {
    /// SemVer.
    pub version: String,
    /// Excluded from all ranges.
    #[serde(default)]
    pub yanked: bool,
    /// Included in ranges, with a warning.
    #[serde(default)]
    pub deprecated: bool,
}

/// `pack-lock.json`. The set of members is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lockfile {
    /// 1.
    pub lockfile_version: u64,
    /// When the content last changed, RFC 3339.
    pub generated_at: String,
    /// The source of the packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Asked in order if the registry does not have the pack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_registries: Vec<String>,
    /// Versions that override resolution.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
    /// The pinned packs.
    pub packs: Vec<LockedPack>,
}

/// One pinned pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedPack {
    pub name: String,
    pub version: String,
    /// `sha256-<base64>` of the archive.
    pub integrity: String,
    /// The URL that the pack was fetched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// A signature that must verify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<LockedSignature>,
    /// Exact versions of the dependencies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    /// The peer dependencies, for audits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, String>,
}

/// A recorded signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedSignature {
    /// `ed25519`.
    pub algorithm: String,
    /// 32 raw bytes in base64; SPKI and PEM are accepted too.
    pub public_key: String,
    /// 64 bytes in base64, over the data that the pack's method covers.
    pub value: String,
}

/// `GET /v1/agents` (RFC 0072 §A). The set of members is closed, and prompts are never included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentInventory {
    /// Sorted by id.
    pub agents: Vec<AgentInventoryEntry>,
    pub total: usize,
}

/// An installed agent as shown to clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInventoryEntry {
    pub agent_id: String,
    /// Display name.
    pub persona: String,
    /// Short name; defaults to the persona.
    pub label: String,
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The class of model that the agent needs.
    pub model_class: ModelClass,
    pub pack_name: String,
    pub pack_version: String,
    /// The only tools that the agent may call.
    pub tool_allowlist: Vec<String>,
    /// Whether tasks and answers are validated.
    pub has_handoff_schemas: bool,
    /// The memory that the agent uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<MemoryShape>,
    /// The required confidence, 0.0..=1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<f64>,
    /// Required capabilities that this host lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Whether this host lacks memory that the agent uses (RFC 0080 §C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_degraded: Option<bool>,
    /// The missing memory dimensions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded_memory_dimensions: Vec<String>,
}
