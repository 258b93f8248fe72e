//! Pack documents: `pack.json`, what a registry serves about it, the discovery document, the lockfile.
//!
//! The wire forms only; [`crate::domain::pack`] decides what is sound. Types of documents that are closed refuse unknown
//! members, types of what others serve tolerate them (OpenWOP node-packs, registry-operations; RFC 0003, 0072, 0131).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::suite::ModelClass;

/// `pack.json` of any kind this host reads: agents, nodes or prompts.
///
/// Closed by its schema, not by this type, which names only what is used.
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
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// SPDX identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Protocol versions it works with.
    pub engines: Engines,
    /// Other packs, by name, with the range accepted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    /// Capabilities the host has to have, with the support expected.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, String>,
    /// Which of them are optional.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies_meta: BTreeMap<String, PeerMeta>,
    /// Agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentManifest>,
    /// Nodes; this host executes none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Value>,
    /// Templates of a prompt pack; this host serves none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Value>,
    /// How the pack is loaded; absent in declarative kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// How it was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
}

/// Version ranges of what the pack runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engines {
    /// Range of protocol versions.
    pub openwop: String,
    /// Others, ignored.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Metadata of a peer dependency (RFC 0072 §C).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerMeta {
    /// Installs without it.
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
    /// Platform primitives the code needs (RFC 0076).
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
    /// Where the embedded signature lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature_ref: Option<String>,
}

/// An agent of a pack (RFC 0003 §B). Closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentManifest {
    /// Pack name, a dot, one segment.
    pub agent_id: String,
    /// Name for people.
    pub persona: String,
    /// The kind of model it needs.
    pub model_class: ModelClass,
    /// The prompt itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The file that holds the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_ref: Option<String>,
    /// The file that holds the agent's suite (RFC 0081 §A).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_suite_ref: Option<String>,
    /// The only tools it may call; absent counts as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_allowlist: Option<Vec<String>>,
    /// Host capabilities it needs to work fully (RFC 0092).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires_capabilities: Vec<String>,
    /// `skill` or `assistant` (RFC 0131).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// Which memory it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<MemoryShape>,
    /// When it is sure enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Schemas of what goes in and what comes out.
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

/// What an agent is for (RFC 0131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentRole {
    /// Called with a task, answers with a result, keeps nothing.
    Skill,
    /// Talks to people.
    Assistant,
}

/// Which memory an agent wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryShape {
    /// Within one invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<bool>,
    /// Within a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<bool>,
    /// For ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_term: Option<bool>,
}

/// When an agent is sure enough.
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
    /// Of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_schema_ref: Option<String>,
    /// Of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_schema_ref: Option<String>,
}

/// What a registry serves about one version. Unsigned: only the flags, the digest and the name of the key are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedManifest {
    /// Pack name.
    pub name: String,
    /// Pack version.
    pub version: String,
    /// `sha256-<base64>` of the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// Method and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
    /// Not to be installed any more.
    #[serde(default)]
    pub yanked: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked_reason: Option<String>,
    /// Installs with a warning.
    #[serde(default)]
    pub deprecated: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation_reason: Option<String>,
    /// What to take instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
}

/// `/.well-known/openwop-registry`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryDiscovery {
    /// Templates of the other addresses.
    #[serde(default)]
    pub endpoints: Endpoints,
    /// The keys it signs with.
    #[serde(default)]
    pub signing_keys: Vec<SigningKey>,
}

/// Address templates with `{name}`, `{version}` and `{keyId}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoints {
    /// Versions of a pack.
    pub pack_metadata: String,
    /// One version.
    pub version_manifest: String,
    /// Its archive.
    pub version_tarball: String,
    /// Its signature.
    pub version_signature: String,
    /// A key.
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

/// A key a registry lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SigningKey {
    /// Its id; looked up, never joined into a path.
    pub key_id: String,
    /// `ed25519`.
    #[serde(default)]
    pub algorithm: String,
    /// Where the key lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key_url: Option<String>,
    /// Pack names it may sign: `a.b` or `a.b.*`.
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
    /// Pack name.
    pub name: String,
    /// Versions, in no order.
    #[serde(default, deserialize_with = "indexed_versions")]
    pub versions: Vec<IndexedVersion>,
}

/// A list, as registries on file systems have it, or an object by version (OpenWOP node-packs).
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
    /// Out of every range.
    #[serde(default)]
    pub yanked: bool,
    /// In ranges, with a warning.
    #[serde(default)]
    pub deprecated: bool,
}

/// `pack-lock.json`. Closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lockfile {
    /// 1.
    pub lockfile_version: u64,
    /// When its content last changed, RFC 3339.
    pub generated_at: String,
    /// Where the packs came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Asked in order when the registry has no such pack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_registries: Vec<String>,
    /// Versions that beat resolution.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, String>,
    /// The pins.
    pub packs: Vec<LockedPack>,
}

/// One pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedPack {
    /// Pack name.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// `sha256-<base64>` of the archive.
    pub integrity: String,
    /// Where it was fetched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// A signature that has to verify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<LockedSignature>,
    /// Exact versions of its dependencies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    /// Its peer dependencies, for audit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, String>,
}

/// A recorded signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedSignature {
    /// `ed25519`.
    pub algorithm: String,
    /// Raw 32 octets in base64; SPKI and PEM are read too.
    pub public_key: String,
    /// 64 octets in base64, over what the pack's method covers.
    pub value: String,
}

/// `GET /v1/agents` (RFC 0072 §A). Closed, and without any prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentInventory {
    /// Sorted by id.
    pub agents: Vec<AgentInventoryEntry>,
    /// How many.
    pub total: usize,
}

/// An installed agent as others see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInventoryEntry {
    /// Its id.
    pub agent_id: String,
    /// Name for people.
    pub persona: String,
    /// Short name; the persona when it has none.
    pub label: String,
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The kind of model it needs.
    pub model_class: ModelClass,
    /// Where it comes from.
    pub pack_name: String,
    /// Which version of that.
    pub pack_version: String,
    /// The only tools it may call.
    pub tool_allowlist: Vec<String>,
    /// Whether tasks and answers are checked.
    pub has_handoff_schemas: bool,
    /// Which memory it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<MemoryShape>,
    /// When it is sure enough, 0.0..=1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<f64>,
    /// Capabilities it asks for and this host lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Whether this host lacks memory it wants (RFC 0080 §C).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_degraded: Option<bool>,
    /// Which dimensions of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded_memory_dimensions: Vec<String>,
}
