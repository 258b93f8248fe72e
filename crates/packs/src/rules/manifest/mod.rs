//! `pack.json`: strict JSON, the schema of its kind, and the rules between its members.

pub mod capabilities;
pub mod range;
pub mod refs;

use std::collections::BTreeSet;

use semver::Version;
use serde_json::Value;

use crate::rules::archive::MANIFEST;
use crate::rules::manifest::capabilities::{HostCapabilities, PeerPolicy, Peers};
use crate::rules::manifest::range::Range;
use crate::rules::name::is_agent_of;
use crate::rules::{Refusal, Stage};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::json;
use touchstone_openwop::pack::PackManifest;
use touchstone_openwop::schema::Document;

/// Pack kinds with their own manifest schema (RFC 0107).
const OTHER_KINDS: [&str; 5] = [
    "artifact-type",
    "card",
    "connection",
    "form-content",
    "workflow-chain",
];
/// The members that hold each kind's content.
const CONTENT: [(&str, &[&str]); 7] = [
    ("node", &["nodes", "agents"]),
    ("prompt", &["prompts"]),
    ("artifact-type", &["artifactTypes"]),
    ("card", &["cards"]),
    ("connection", &["provider"]),
    ("form-content", &["templates"]),
    ("workflow-chain", &["chains"]),
];

/// The properties of the host that manifests depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Version of the protocol that the host implements.
    pub protocol: Version,
    pub capabilities: HostCapabilities,
    /// Platform primitives granted to packs (RFC 0076). Empty by default, because the host executes
    /// no pack code.
    pub granted: BTreeSet<String>,
    /// How missing capabilities are treated.
    pub peers: PeerPolicy,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            protocol: Version::new(1, 1, 0),
            capabilities: HostCapabilities::default(),
            granted: BTreeSet::new(),
            peers: PeerPolicy::default(),
        }
    }
}

fn refuse(code: ErrorCode, reason: impl Into<String>) -> Refusal {
    Refusal::new(code, Stage::Manifest, reason).in_file(MANIFEST)
}

/// Reads a manifest: strict JSON, one kind, the schema of that kind, and the rules that need no
/// host.
///
/// # Errors
/// `tarball_manifest_not_json`, `pack_kind_invalid`, `invalid_manifest`, `invalid_engines_range`.
pub fn read(bytes: &[u8]) -> Result<PackManifest, Refusal> {
    check(&parse(bytes)?)
}

/// Reads a manifest's JSON.
///
/// # Errors
/// `tarball_manifest_not_json`.
pub fn parse(bytes: &[u8]) -> Result<Value, Refusal> {
    json::parse_foreign(bytes)
        .map_err(|error| refuse(ErrorCode::TarballManifestNotJson, error.to_string()))
}

/// Checks a parsed manifest.
///
/// # Errors
/// As [`read`].
pub fn check(value: &Value) -> Result<PackManifest, Refusal> {
    let document = kind(value)?;
    document.check(value).map_err(|violations| {
        let first = violations
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        refuse(ErrorCode::InvalidManifest, first)
    })?;
    let manifest: PackManifest = serde::Deserialize::deserialize(value).map_err(|_| {
        refuse(
            ErrorCode::InvalidManifest,
            "has a member that cannot be parsed",
        )
    })?;
    if Version::parse(&manifest.version).is_err() {
        return Err(refuse(
            ErrorCode::InvalidManifest,
            "/version: must be SemVer 2.0.0",
        ));
    }
    engines(&manifest)?;
    for (name, range) in &manifest.dependencies {
        if *name == manifest.name {
            return Err(refuse(
                ErrorCode::InvalidManifest,
                "/dependencies: the pack depends on itself",
            ));
        }
        Range::parse(range).map_err(|error| {
            refuse(
                ErrorCode::InvalidManifest,
                format!("/dependencies: a value {error}"),
            )
        })?;
    }
    agent_ids(&manifest)?;
    Ok(manifest)
}

/// Selects the schema for the manifest's kind, and refuses content of other kinds.
fn kind(value: &Value) -> Result<Document, Refusal> {
    let kind = match value.get("kind") {
        None => "node",
        Some(Value::String(kind)) => kind,
        Some(_) => {
            return Err(refuse(
                ErrorCode::PackKindInvalid,
                "/kind: must be a string",
            ));
        }
    };
    let foreign = CONTENT
        .iter()
        .filter(|(other, _)| *other != kind)
        .flat_map(|(_, members)| members.iter())
        .find(|member| value.get(**member).is_some());
    let known = CONTENT.iter().any(|(name, _)| *name == kind);
    match (kind, foreign) {
        (_, Some(member)) if known => Err(refuse(
            ErrorCode::PackKindInvalid,
            format!(
                "/kind: a pack of kind `{kind}` cannot have `{member}`; a manifest has content \
                of one kind"
            ),
        )),
        ("node", _) => Ok(Document::NodePackManifest),
        ("prompt", _) => Ok(Document::PromptPackManifest),
        (other, _) if OTHER_KINDS.contains(&other) => Err(refuse(
            ErrorCode::PackKindInvalid,
            format!("/kind: this host does not support packs of kind `{other}`"),
        )),
        _ => Err(refuse(
            ErrorCode::PackKindInvalid,
            "/kind: is unknown; a pack with agents has the kind `node`",
        )),
    }
}

fn engines(manifest: &PackManifest) -> Result<Range, Refusal> {
    Range::parse(&manifest.engines.openwop).map_err(|error| {
        refuse(
            ErrorCode::InvalidEnginesRange,
            format!("/engines/openwop: {error}"),
        )
    })
}

fn agent_ids(manifest: &PackManifest) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for (index, agent) in manifest.agents.iter().enumerate() {
        let at = format!("/agents/{index}/agentId");
        if !is_agent_of(&agent.agent_id, &manifest.name) {
            return Err(refuse(
                ErrorCode::InvalidManifest,
                format!("{at}: must be the pack's own name, a dot and one segment"),
            ));
        }
        if !seen.insert(&agent.agent_id) {
            return Err(refuse(
                ErrorCode::InvalidManifest,
                format!("{at}: is used twice"),
            ));
        }
    }
    Ok(())
}

/// Checks a manifest against the host it is to be installed on.
///
/// # Errors
/// `pack_engine_unsupported`, `pack_peer_dependency_missing`, `unsupported_runtime`,
/// `pack_runtime_requirement_unmet`.
pub fn admit(manifest: &PackManifest, host: &Host) -> Result<Peers, Refusal> {
    if !engines(manifest)?.matches(&host.protocol) {
        return Err(refuse(
            ErrorCode::PackEngineUnsupported,
            format!(
                "/engines/openwop: does not include version {} of this host",
                host.protocol
            ),
        ));
    }
    let peers = capabilities::resolve(manifest, &host.capabilities, host.peers);
    if !peers.refused.is_empty() {
        return Err(refuse(
            ErrorCode::PackPeerDependencyMissing,
            format!(
                "/peerDependencies: this host lacks {}",
                peers.refused.join(", ")
            ),
        ));
    }
    if let Some(runtime) = &manifest.runtime {
        if runtime.language != "remote" {
            return Err(refuse(
                ErrorCode::UnsupportedRuntime,
                "/runtime/language: this host executes no pack code; only `remote` is supported",
            ));
        }
        let unmet: Vec<&str> = runtime
            .requires
            .iter()
            .filter(|primitive| !host.granted.contains(*primitive))
            .map(String::as_str)
            .collect();
        if !unmet.is_empty() {
            return Err(refuse(
                ErrorCode::PackRuntimeRequirementUnmet,
                format!(
                    "/runtime/requires: this host does not grant {}",
                    unmet.join(", ")
                ),
            ));
        }
    }
    Ok(peers)
}
