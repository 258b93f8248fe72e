//! Finds a version of a pack in a registry and fetches its files, which are not verified yet.

use bytes::Bytes;
use semver::Version;

use crate::ports::{PackSource, SourceError};
use crate::rules::format::PackFormat;
use crate::rules::manifest::range::Range;
use crate::rules::name::{PackId, is_pack_name};
use crate::rules::verify::{Fetched, Policy, Trust, VerifiedPack, verify};
use crate::rules::{Refusal, Stage, lockfile};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::json;
use touchstone_openwop::pack::{Lockfile, PackIndex, ServedManifest};

/// Keys of a registry that are fetched when the needed one is unknown.
const MAX_LISTED_KEYS: usize = 64;

/// The requested version of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackRequest {
    Exact(PackId),
    /// The highest version in a range; `*` for the highest of all.
    Range {
        name: String,
        range: Range,
    },
}

impl std::str::FromStr for PackRequest {
    type Err = String;

    /// `NAME`, `NAME@VERSION` or `NAME@RANGE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, wanted) = text.split_once('@').unwrap_or((text, "*"));
        if !is_pack_name(name) {
            return Err("a pack name looks like `vendor.acme.triage`".to_owned());
        }
        if let Some(id) = PackId::new(name, wanted) {
            return Ok(Self::Exact(id));
        }
        let range = Range::parse(wanted).map_err(|error| format!("`{wanted}` {error}"))?;
        Ok(Self::Range {
            name: name.to_owned(),
            range,
        })
    }
}

/// The files of one version from a registry, not verified yet.
#[derive(Clone, Debug)]
pub struct Download {
    /// The requested version.
    pub id: PackId,
    /// The served manifest.
    pub served: Bytes,
    /// The archive.
    pub tgz: Bytes,
    /// The detached signature.
    pub signature: Option<Bytes>,
    /// The trusted keys: the operator's, and the registry's if they count.
    pub trust: Trust,
}

impl Download {
    /// Verifies the files.
    ///
    /// # Errors
    /// As [`verify`].
    pub fn verify(
        &self,
        policy: &Policy,
        lock: Option<&Lockfile>,
        format: PackFormat,
    ) -> Result<VerifiedPack, Refusal> {
        let fetched = Fetched {
            served: Some(&self.served),
            tgz: &self.tgz,
            signature: self.signature.as_deref(),
        };
        verify(Some(&self.id), fetched, &self.trust, policy, lock, format)
    }
}

/// Finds a version in a registry and fetches it.
///
/// # Errors
/// `pack_version_not_found`, `pack_registry_unreachable`.
pub async fn fetch(
    source: &dyn PackSource,
    request: &PackRequest,
    trust: &Trust,
    lock: Option<&Lockfile>,
) -> Result<Download, Refusal> {
    let discovery = source.discovery().await.map_err(unreachable)?;
    let id = resolve(source, request, lock).await?;
    let served = source
        .served(&id)
        .await
        .map_err(unreachable)?
        .ok_or_else(|| not_found(&id))?;
    let mut trust = trust.clone();
    if trust.registry_keys
        && let Some(discovery) = &discovery
    {
        trust.keys.list(discovery);
        supply_key(source, &served, &mut trust).await?;
    }
    let tgz = source
        .tarball(&id)
        .await
        .map_err(unreachable)?
        .ok_or_else(|| not_found(&id))?;
    let signature = source.signature(&id).await.map_err(unreachable)?;
    Ok(Download {
        id,
        served,
        tgz,
        signature,
        trust,
    })
}

/// Adds the keys a registry lists, for a pack from another source.
///
/// # Errors
/// `pack_registry_unreachable`.
pub async fn list_keys(source: &dyn PackSource, trust: &mut Trust) -> Result<(), Refusal> {
    let Some(discovery) = source.discovery().await.map_err(unreachable)? else {
        return Ok(());
    };
    trust.keys.list(&discovery);
    for key in discovery.signing_keys.iter().take(MAX_LISTED_KEYS) {
        if let Some(file) = source.public_key(key).await.map_err(unreachable)? {
            trust.keys.supply(&key.key_id, file.to_vec());
        }
    }
    Ok(())
}

/// Fetches the key that the served manifest names, if the registry lists it and the operator has
/// not pinned it.
async fn supply_key(
    source: &dyn PackSource,
    served: &[u8],
    trust: &mut Trust,
) -> Result<(), Refusal> {
    // The document is verified later; only the key's name matters here.
    let Ok(Ok(served)) = json::parse_as::<ServedManifest>(served) else {
        return Ok(());
    };
    let Some(signing) = served.signing else {
        return Ok(());
    };
    for key_id in [signing.key_id, signing.public_key_ref]
        .into_iter()
        .flatten()
    {
        if trust.keys.is_pinned(&key_id) {
            continue;
        }
        let Some(entry) = trust.keys.entry(&key_id).cloned() else {
            continue;
        };
        if let Some(file) = source.public_key(&entry).await.map_err(unreachable)? {
            trust.keys.supply(&key_id, file.to_vec());
        }
    }
    Ok(())
}

/// The version a request resolves to: an exact one as it is; a range by the lockfile, else the
/// highest version that is not yanked.
async fn resolve(
    source: &dyn PackSource,
    request: &PackRequest,
    lock: Option<&Lockfile>,
) -> Result<PackId, Refusal> {
    let (name, range) = match request {
        PackRequest::Exact(id) => return Ok(id.clone()),
        PackRequest::Range { name, range } => (name, range),
    };
    let none = |reason: &str| Refusal::new(ErrorCode::PackVersionNotFound, Stage::Resolve, reason);
    if let Some(pinned) = lock.and_then(|lock| lockfile::chosen(lock, name)) {
        let id = PackId::new(name, &pinned).filter(|id| range.matches(&id.version));
        return id.ok_or_else(|| none("the lockfile's version is not in the range"));
    }
    let index = source.index(name).await.map_err(unreachable)?;
    let index = index.ok_or_else(|| none("the registry has no pack of this name"))?;
    highest(&index, range)
        .map(|version| PackId {
            name: name.clone(),
            version,
        })
        .ok_or_else(|| none("the registry has no version in this range that is not yanked"))
}

/// `latest` in an index may name a yanked version, so it is ignored.
fn highest(index: &PackIndex, range: &Range) -> Option<Version> {
    let versions = index.versions.iter().filter(|version| !version.yanked);
    versions
        .filter_map(|version| Version::parse(&version.version).ok())
        .filter(|version| range.matches(version))
        .max_by(Version::cmp_precedence)
}

fn not_found(id: &PackId) -> Refusal {
    Refusal::new(
        ErrorCode::PackVersionNotFound,
        Stage::Resolve,
        format!("the registry has no {id}"),
    )
}

fn unreachable(error: SourceError) -> Refusal {
    let code = match error {
        SourceError::TooLarge {
            document: "archive",
        } => ErrorCode::TarballTooLarge,
        _ => ErrorCode::PackRegistryUnreachable,
    };
    Refusal::new(code, Stage::Resolve, error.to_string())
}
