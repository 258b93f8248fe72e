//! Verifies a pack: one pure function over the fetched bytes.
//!
//! Checks run in this order, and the first failure decides: the served manifest and the operator's
//! policy; the digest; the key; the signature; the archive; the identity of the signed manifest;
//! its rules; its references; its suites. Under `manual` the signature covers the `pack.json`
//! inside the archive, so the archive is read before any signature is checked, and the reader must
//! withstand hostile input.
//!
//! The published texts disagree on what is signed. The published packs verify as follows: `manual`
//! covers the bytes of `pack.json` as they are; `ed25519` covers the whole archive. Neither method
//! substitutes for the other.

mod served;
mod signature;

use serde_json::Value;

pub use crate::rules::trust::{
    Policy, SignatureCoverage, SignatureState, SigningMethod, Trust, TrustMode,
};
pub use crate::rules::verify::served::MAX_SERVED;

use crate::rules::archive::{self, MANIFEST};
use crate::rules::contents::{self, PackContents};
use crate::rules::format::PackFormat;
use crate::rules::manifest;
use crate::rules::name::PackId;
use crate::rules::verify::served::{check_archive, expected, lifecycle, read_served};
use crate::rules::verify::signature::{
    Signer, agree, check_manual, inner_signing, invalid_signature, record, served_signer, state,
    unserved,
};
use crate::rules::{Refusal, Stage, integrity, lockfile};
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::pack::{LockedPack, Lockfile};

#[derive(Clone, Debug)]
pub struct VerifiedPack {
    pub id: PackId,
    /// `sha256-<base64>` of the archive.
    pub integrity: String,
    pub signature: SignatureState,
    pub contents: PackContents,
    /// Warnings for the operator: deprecation, a yank, unused content.
    pub warnings: Vec<String>,
    /// The lockfile entry of the pack.
    pub pin: LockedPack,
}

/// The bytes fetched for one version.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetched<'a> {
    /// The served manifest, if there is a registry.
    pub served: Option<&'a [u8]>,
    pub tgz: &'a [u8],
    pub signature: Option<&'a [u8]>,
}

/// Verifies a pack. `request` is `None` for a file that was not requested by name.
///
/// # Errors
/// The first rule that the pack violates.
pub fn verify(
    request: Option<&PackId>,
    fetched: Fetched<'_>,
    trust: &Trust,
    policy: &Policy,
    lock: Option<&Lockfile>,
    format: PackFormat,
) -> Result<VerifiedPack, Refusal> {
    let tgz = fetched.tgz;
    let Promise {
        expected,
        is_served,
        signer: served_signer,
        mut warnings,
    } = promise(request, fetched, trust, policy, lock)?;

    let archive = archive::read(tgz)?;
    let octets = archive.manifest()?.clone();
    if let Some(signer) = &served_signer
        && signer.claim.method == SigningMethod::Manual
    {
        check_manual(&signer.key, &archive, &octets, fetched.signature)?;
    }
    let document = manifest::parse(&octets)?;
    let id = identity(&document, expected.as_ref())?;
    let inner = inner_signing(&document);

    let signer = match served_signer {
        Some(signer) => {
            agree(&inner, &signer.claim)?;
            Some(signer)
        }
        // A registry that names no key is already refused, except in blind mode.
        None if is_served => None,
        None => unserved(&inner, &id, &archive, &octets, fetched, trust)?,
    };
    if expected.is_none() {
        approve(trust, &id)?;
    }
    let pinned = lock.map(|lock| pin_of(lock, &id, tgz)).transpose()?;
    let signature = state(signer.as_ref());
    let covered: &[u8] = match signature.coverage {
        SignatureCoverage::Tarball => tgz,
        _ => &octets,
    };
    check_requirements(trust, policy, pinned, signature.coverage, covered)?;

    let contents = contents::resolve(manifest::check(&document)?, archive, &policy.host, format)?;
    warnings.extend(contents.warnings.iter().cloned());
    if signature.coverage == SignatureCoverage::None {
        warnings.push("the pack is unsigned".to_owned());
    }
    let pin = pin(&id, fetched, signer.as_ref(), &contents);
    Ok(VerifiedPack {
        integrity: pin.integrity.clone(),
        id,
        signature,
        contents,
        warnings,
        pin,
    })
}

/// Facts about a pack that are known before its archive is read.
struct Promise {
    /// The pack that the archive must contain.
    expected: Option<PackId>,
    is_served: bool,
    signer: Option<Signer>,
    warnings: Vec<String>,
}

/// Reads the served manifest, if there is a registry, and checks everything that needs no archive
/// member. With a registry, the served manifest names the method and the key, and the key is
/// selected before anything is parsed.
fn promise(
    request: Option<&PackId>,
    fetched: Fetched<'_>,
    trust: &Trust,
    policy: &Policy,
    lock: Option<&Lockfile>,
) -> Result<Promise, Refusal> {
    let served = fetched.served.map(|octets| read_served(octets, request));
    let served = served.transpose()?;
    let warnings = match &served {
        Some(served) => lifecycle(served, policy)?,
        None => Vec::new(),
    };
    let expected = expected(request, served.as_ref());
    if let Some(expected) = &expected {
        approve(trust, expected)?;
    }
    check_archive(served.as_ref(), fetched.tgz)?;
    if let (Some(lock), Some(expected)) = (lock, &expected) {
        pin_of(lock, expected, fetched.tgz)?;
    }
    let signer = match (&served, &expected) {
        (Some(served), Some(expected)) => served_signer(served, expected, fetched, trust)?,
        _ => None,
    };
    Ok(Promise {
        expected,
        is_served: served.is_some(),
        signer,
        warnings,
    })
}

fn approve(trust: &Trust, pack: &PackId) -> Result<(), Refusal> {
    if trust.mode != TrustMode::Allowlist || trust.approves(pack) {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::PackNotApproved,
        Stage::Resolve,
        "the pack is not on the host's allowlist",
    ))
}

fn pin_of<'a>(lock: &'a Lockfile, id: &PackId, tgz: &[u8]) -> Result<&'a LockedPack, Refusal> {
    let pin = lockfile::find(lock, id)?;
    lockfile::check_integrity(pin, tgz)?;
    Ok(pin)
}

/// Checks what the operator requires beyond a valid signature: a pin, and what the signature
/// covers.
fn check_requirements(
    trust: &Trust,
    policy: &Policy,
    pinned: Option<&LockedPack>,
    coverage: SignatureCoverage,
    covered: &[u8],
) -> Result<(), Refusal> {
    if trust.mode == TrustMode::Pinned && pinned.is_none() {
        return Err(Refusal::new(
            ErrorCode::PackLockfileIncomplete,
            Stage::Resolve,
            "the host only installs pinned packs, and no lockfile is given",
        ));
    }
    if policy.require_full_coverage && coverage != SignatureCoverage::Tarball {
        return Err(invalid_signature(
            "the host requires a signature over the whole archive; sign with the method ed25519",
        ));
    }
    match pinned {
        Some(pin) => lockfile::check_signature(pin, covered),
        None => Ok(()),
    }
}

/// The name and version that the archive declares.
fn identity(document: &Value, expected: Option<&PackId>) -> Result<PackId, Refusal> {
    let refuse = |code, reason: &str| Refusal::new(code, Stage::Manifest, reason).in_file(MANIFEST);
    let text = |member: &str| {
        document
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if let Some(expected) = expected {
        if text("name") != expected.name {
            return Err(refuse(
                ErrorCode::ManifestNameMismatch,
                "/name: differs from the requested pack name",
            ));
        }
        if text("version") != expected.version.to_string() {
            return Err(refuse(
                ErrorCode::ManifestVersionMismatch,
                "/version: differs from the requested version",
            ));
        }
        return Ok(expected.clone());
    }
    PackId::new(text("name"), text("version"))
        .ok_or_else(|| refuse(ErrorCode::InvalidManifest, "has no valid name or version"))
}

fn pin(
    id: &PackId,
    fetched: Fetched<'_>,
    signer: Option<&Signer>,
    contents: &PackContents,
) -> LockedPack {
    LockedPack {
        name: id.name.clone(),
        version: id.version.to_string(),
        integrity: integrity::of(fetched.tgz),
        resolved: None,
        signature: signer
            .and_then(|signer| record(&signer.key, &contents.archive, fetched.signature)),
        dependencies: std::collections::BTreeMap::new(),
        peer_dependencies: contents.manifest.peer_dependencies.clone(),
    }
}
