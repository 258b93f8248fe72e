//! Whom the operator trusts with packs, what is demanded beyond that, and what a signature then says.

use serde::{Deserialize, Serialize};

use super::keys::{KeyOrigin, KeyRing};
use super::manifest::Host;
use super::name::{Namespaces, PackId};

/// How much has to vouch for a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustMode {
    /// Verified, and named by the operator.
    Allowlist,
    /// Verified, and pinned by a lockfile.
    Pinned,
    /// Signed by a trusted key for this name.
    #[default]
    Verified,
    /// For development: what is signed has to verify, what is unsigned is taken and marked.
    Open,
}

/// Whom the operator trusts.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// How much has to vouch for a pack.
    pub mode: TrustMode,
    /// The keys.
    pub keys: KeyRing,
    /// Whether the keys a registry lists itself count. Naming a registry on the command line says so; a host whose trust
    /// is configured key by key does not.
    pub registry_keys: bool,
    /// Packs the operator approved, for [`TrustMode::Allowlist`]: names, `name@version`, or `a.b.*`.
    pub approved: Vec<String>,
}

impl Trust {
    /// Without any key nothing can be checked, and nothing is claimed: development only.
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

/// What the operator demands beyond trust.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The host the pack is meant for.
    pub host: Host,
    /// Installs yanked versions too, for forensics.
    pub allow_yanked: bool,
    /// Refuses packs whose signature does not cover the whole archive.
    pub require_full_coverage: bool,
}

/// What a signature vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureCoverage {
    /// `pack.json`; prompts, schemas and suites hang on an unsigned digest.
    Manifest,
    /// Everything.
    Tarball,
    /// Nothing.
    None,
}

/// The two methods in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SigningMethod {
    /// Over the octets of `pack.json`.
    Manual,
    /// Over the archive.
    Ed25519,
}

/// Who signed a pack, how, and what that covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignatureState {
    /// Absent for an unsigned pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<SigningMethod>,
    /// Absent for an unsigned pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// Who vouches for the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_origin: Option<KeyOrigin>,
    /// What the signature vouches for.
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
