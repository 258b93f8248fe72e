//! Settings of packs: trust, requirements, and what the host publishes.

use std::path::PathBuf;

use serde::Deserialize;

use crate::rules::lockfile;
use crate::rules::manifest::Host;
use crate::rules::manifest::capabilities::PeerPolicy;
use crate::rules::name::{Namespaces, is_pack_name};
use crate::rules::publication::Publication;
use crate::rules::trust::key_ring::KeyRing;
use crate::rules::verify::{Policy, Trust, TrustMode};
use touchstone_host::config::Error;
use touchstone_kit::ids::TenantId;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::pack::Lockfile;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PackSettings {
    /// `verified` (default), `allowlist`, `pinned` or `open` (development only).
    pub trust: TrustMode,
    /// How required peer capabilities that this host lacks are treated: `degrade` (default) or
    /// `strict`.
    pub peers: PeerPolicy,
    /// Whether signatures must cover the whole archive.
    pub require_full_coverage: bool,
    /// Keys that are trusted whatever a registry lists.
    pub keys: Vec<TrustedKey>,
    /// Packs that may be installed under `allowlist`: `name` or `name@version`.
    pub allow: Vec<String>,
    /// A lockfile that applies to every install; required under `pinned`.
    pub lockfile: Option<PathBuf>,
    /// What this host publishes as a registry; nothing if unset.
    pub registry: Option<RegistrySettings>,
}

/// What this host publishes as a registry, publicly and without a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrySettings {
    /// Tenant whose installed packs are published.
    pub tenant: String,
    /// Names of packs to publish: `a.b.*` or exact names.
    pub namespaces: Vec<String>,
}

impl PackSettings {
    /// The publication settings, if set.
    ///
    /// # Errors
    /// [`Error`] if the settings name no tenant or no pack, or contain an invalid pack name;
    /// otherwise as [`PackSettings::trust`].
    pub fn publication(&self) -> Result<Option<Publication>, Error> {
        let Some(registry) = &self.registry else {
            return Ok(None);
        };
        let unusable = |cause: String| Error::Unusable(format!("`packs.registry`: {cause}"));
        if registry.tenant.is_empty() {
            return Err(unusable(
                "`tenant` must name the tenant whose packs are published".to_owned(),
            ));
        }
        if registry.namespaces.is_empty() {
            return Err(unusable(
                "`namespaces` must name the packs to publish, for example `vendor.acme.*`; leave \
                the table out to publish nothing"
                    .to_owned(),
            ));
        }
        let sound = |grant: &&String| {
            is_pack_name(grant)
                || grant.strip_suffix(".*").is_some_and(|space| {
                    is_pack_name(&format!("{space}.x.x")) && space.contains('.')
                })
        };
        match registry.namespaces.iter().find(|grant| !sound(grant)) {
            Some(unsound) => Err(unusable(format!(
                "`namespaces` has `{unsound}`, which must be a pack name or look like `vendor.acme.*`"
            ))),
            None => Ok(Some(Publication {
                tenant: TenantId::from(registry.tenant.as_str()),
                namespaces: Namespaces::These(registry.namespaces.clone()),
                trust: self.trust()?,
            })),
        }
    }

    /// The trust settings. Keys that a registry lists count only if that registry was named
    /// explicitly.
    ///
    /// # Errors
    /// [`Error`] naming the key that cannot be parsed.
    pub fn trust(&self) -> Result<Trust, Error> {
        let mut keys = KeyRing::default();
        for key in &self.keys {
            let public = PublicKey::from_text(&key.public_key).map_err(|fault| {
                Error::Unusable(format!("`packs.keys`, key `{}`: {fault}", key.key_id))
            })?;
            keys.pin(
                key.key_id.clone(),
                public,
                Namespaces::These(key.namespaces.clone()),
            );
        }
        Ok(Trust {
            mode: self.trust,
            keys,
            registry_keys: false,
            approved: self.allow.clone(),
        })
    }

    /// The lockfile, if one is set.
    ///
    /// # Errors
    /// [`Error`] if the file cannot be read, is not a lockfile, or is missing under `pinned`.
    pub fn read_lockfile(&self) -> Result<Option<Lockfile>, Error> {
        let unusable = |cause: String| Error::Unusable(format!("`packs.lockfile`: {cause}"));
        match &self.lockfile {
            None if self.trust == TrustMode::Pinned => Err(unusable(
                "is required under `trust = \"pinned\"`".to_owned(),
            )),
            None => Ok(None),
            Some(path) => {
                let bytes = std::fs::read(path).map_err(|cause| unusable(cause.to_string()))?;
                lockfile::parse(&bytes)
                    .map(Some)
                    .map_err(|refusal| unusable(refusal.reason))
            }
        }
    }

    /// Requirements for packs besides a signature.
    pub fn policy(&self) -> Policy {
        Policy {
            host: Host {
                peers: self.peers,
                ..Host::default()
            },
            require_full_coverage: self.require_full_coverage,
            ..Policy::default()
        }
    }
}

/// A key trusted by configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedKey {
    pub key_id: String,
    /// PEM text, or base64 of the raw 32 bytes.
    pub public_key: String,
    /// `a.b.*` or exact names.
    pub namespaces: Vec<String>,
}
