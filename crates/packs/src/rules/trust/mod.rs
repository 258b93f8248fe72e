//! The operator's trust settings for packs, further requirements, and the state of a verified
//! signature.

pub mod key_ring;

use serde::{Deserialize, Serialize};

use crate::rules::manifest::Host;
use crate::rules::name::{Namespaces, PackId};
use crate::rules::trust::key_ring::{KeyOrigin, KeyRing};

/// The requirements for installing a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustMode {
    /// A trusted signature, and the operator's approval by name.
    Allowlist,
    /// A trusted signature, and a pin in the lockfile.
    Pinned,
    /// A signature by a key that is trusted for this name.
    #[default]
    Verified,
    /// For development: signatures must verify; unsigned packs are installed and marked.
    Open,
}

#[derive(Clone, Debug, Default)]
pub struct Trust {
    pub mode: TrustMode,
    pub keys: KeyRing,
    /// Whether the keys that a registry itself lists are trusted. Naming a registry on the command
    /// line sets this; a host with keys configured one by one does not.
    pub registry_keys: bool,
    /// Packs the operator approved, for [`TrustMode::Allowlist`]: names, `name@version`, or
    /// `a.b.*`.
    pub approved: Vec<String>,
}

impl Trust {
    /// Whether no key is known, so that no signature can be checked and none is reported as
    /// verified: development only.
    pub(super) fn is_blind(&self) -> bool {
        self.mode == TrustMode::Open && self.keys.is_empty()
    }

    pub(super) fn approves(&self, pack: &PackId) -> bool {
        let (names, exact): (Vec<_>, Vec<_>) = self
            .approved
            .iter()
            .cloned()
            .partition(|entry| !entry.contains('@'));
        exact.contains(&pack.to_string()) || Namespaces::These(names).cover(&pack.name)
    }
}

/// Requirements of the operator besides trust.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The host that the pack is installed on.
    pub host: Host,
    /// Also installs yanked versions, for forensics.
    pub allow_yanked: bool,
    /// Refuses packs whose signature does not cover the whole archive.
    pub require_full_coverage: bool,
}

/// The part of a pack that a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureCoverage {
    /// `pack.json`; prompts, schemas and suites are covered only through an unsigned digest.
    Manifest,
    /// The whole archive.
    Tarball,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SigningMethod {
    /// Over the bytes of `pack.json`.
    Manual,
    /// Over the archive.
    Ed25519,
}

/// The signer of a pack, the method, and what the signature covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignatureState {
    /// Absent for an unsigned pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<SigningMethod>,
    /// Absent for an unsigned pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_origin: Option<KeyOrigin>,
    pub coverage: SignatureCoverage,
}

impl SignatureState {
    pub(super) const UNSIGNED: Self = Self {
        method: None,
        key_id: None,
        key_origin: None,
        coverage: SignatureCoverage::None,
    };
}
