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

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::Value;

use crate::rules::archive::{self, Archive, EMBEDDED_SIGNATURE, MANIFEST, MAX_COMPRESSED};
use crate::rules::contents::{self, PackContents};
use crate::rules::format::PackFormat;
use crate::rules::manifest;
use crate::rules::name::PackId;
use crate::rules::trust::key_ring::TrustedKey;
pub use crate::rules::trust::{
    Policy, SignatureCoverage, SignatureState, SigningMethod, Trust, TrustMode,
};
use crate::rules::{Refusal, Stage, integrity, lockfile};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::json;
use touchstone_kit::keys::SIGNATURE_OCTETS;
use touchstone_openwop::pack::{LockedPack, LockedSignature, Lockfile, ServedManifest, Signing};

/// Maximum size of a served manifest in bytes.
pub const MAX_SERVED: usize = 1024 * 1024;

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

/// The key and method that a signing block names.
struct Claim {
    method: SigningMethod,
    key_id: String,
}

/// A claim and the trusted key that it names.
struct Signer {
    claim: Claim,
    key: TrustedKey,
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
    let served = fetched.served.map(|octets| read_served(octets, request));
    let served = served.transpose()?;
    let mut warnings = match &served {
        Some(served) => lifecycle(served, policy)?,
        None => Vec::new(),
    };
    let expected = expected(request, served.as_ref());
    if let Some(expected) = &expected {
        approve(trust, expected)?;
    }
    check_archive(served.as_ref(), tgz)?;
    let pinned = match (lock, &expected) {
        (Some(lock), Some(expected)) => Some(pin_of(lock, expected, tgz)?),
        _ => None,
    };

    // With a registry, the served manifest names the method and the key, and the key is selected
    // before anything is parsed.
    let served_signer = match (&served, &expected) {
        (Some(served), Some(expected)) => served_signer(served, expected, fetched, trust)?,
        _ => None,
    };

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
        None if served.is_some() => None,
        None => unserved(&inner, &id, &archive, &octets, fetched, trust)?,
    };
    if expected.is_none() {
        approve(trust, &id)?;
    }
    let pinned = match (lock, pinned) {
        (Some(lock), None) => Some(pin_of(lock, &id, tgz)?),
        (_, pinned) => pinned,
    };
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

fn read_served(octets: &[u8], request: Option<&PackId>) -> Result<ServedManifest, Refusal> {
    let refuse = |code, reason: &str| {
        Refusal::new(
            code,
            Stage::Resolve,
            format!("the registry's manifest {reason}"),
        )
    };
    if octets.len() > MAX_SERVED {
        return Err(refuse(ErrorCode::InvalidManifest, "is larger than 1 MiB"));
    }
    let value = json::parse_foreign(octets)
        .map_err(|error| refuse(ErrorCode::InvalidManifest, &error.to_string()))?;
    let served: ServedManifest = serde_json::from_value(value).map_err(|_| {
        refuse(
            ErrorCode::InvalidManifest,
            "lacks name or version, or has a member of the wrong type",
        )
    })?;
    if PackId::new(&served.name, &served.version).is_none() {
        return Err(refuse(
            ErrorCode::InvalidManifest,
            "has no valid name or version",
        ));
    }
    if let Some(request) = request {
        if served.name != request.name {
            let refusal = refuse(ErrorCode::ManifestNameMismatch, "is for another pack");
            return Err(Refusal {
                stage: Stage::Manifest,
                ..refusal
            });
        }
        if served.version != request.version.to_string() {
            let refusal = refuse(ErrorCode::ManifestVersionMismatch, "is for another version");
            return Err(Refusal {
                stage: Stage::Manifest,
                ..refusal
            });
        }
    }
    Ok(served)
}

/// The pack that the archive must contain. `read_served` has already checked the served manifest's
/// identity against the request, if there is one.
fn expected(request: Option<&PackId>, served: Option<&ServedManifest>) -> Option<PackId> {
    match (request, served) {
        (Some(request), _) => Some(request.clone()),
        (None, Some(served)) => PackId::new(&served.name, &served.version),
        (None, None) => None,
    }
}

/// Warnings about a yanked or deprecated version.
fn lifecycle(served: &ServedManifest, policy: &Policy) -> Result<Vec<String>, Refusal> {
    let mut warnings = Vec::new();
    let because = |reason: &Option<String>| match reason {
        Some(reason) => format!(": {}", printable(reason)),
        None => String::new(),
    };
    if served.yanked {
        let text = format!("the version was yanked{}", because(&served.yanked_reason));
        if !policy.allow_yanked {
            return Err(Refusal::new(
                ErrorCode::PackVersionNotFound,
                Stage::Resolve,
                text,
            ));
        }
        warnings.push(text);
    }
    if served.deprecated {
        let mut text = format!(
            "the version is deprecated{}",
            because(&served.deprecation_reason)
        );
        if let Some(next) = &served.superseded_by {
            text.push_str(&format!("; superseded by {}", printable(next)));
        }
        warnings.push(text);
    }
    Ok(warnings)
}

/// Registry text made safe for a terminal and a log.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(512).collect()
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

/// Checks the size of the archive and, with a registry, its digest.
fn check_archive(served: Option<&ServedManifest>, tgz: &[u8]) -> Result<(), Refusal> {
    if tgz.len() > MAX_COMPRESSED {
        return Err(Refusal::new(
            ErrorCode::TarballTooLarge,
            Stage::Archive,
            "the archive is larger than 10 MiB",
        ));
    }
    match served {
        Some(served) => check_integrity(served, tgz),
        None => Ok(()),
    }
}

fn check_integrity(served: &ServedManifest, tgz: &[u8]) -> Result<(), Refusal> {
    let refuse = |reason| {
        Err(Refusal::new(
            ErrorCode::PackIntegrityMismatch,
            Stage::Integrity,
            reason,
        ))
    };
    let Some(promised) = &served.integrity else {
        return refuse("the registry's manifest has no integrity");
    };
    if integrity::parse(promised).is_none() {
        return refuse("the registry's integrity is not `sha256-` and canonical base64");
    }
    if !integrity::matches(promised, tgz) {
        return refuse("the archive does not match the integrity in the registry's manifest");
    }
    Ok(())
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

fn invalid_signature(reason: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::PackSignatureInvalid, Stage::Signature, reason)
}

/// The method and key of a signing block; `None` for an unsigned pack where unsigned packs are
/// allowed.
fn claim(signing: Option<&Signing>, trust: &Trust) -> Result<Option<Claim>, Refusal> {
    let Some(signing) = signing else {
        if trust.mode == TrustMode::Open {
            return Ok(None);
        }
        return Err(invalid_signature("the pack is unsigned"));
    };
    let method = match signing.method.as_deref() {
        Some("manual") => SigningMethod::Manual,
        Some("ed25519") => SigningMethod::Ed25519,
        Some("sigstore") => return Err(invalid_signature("the method sigstore is not supported")),
        _ => {
            return Err(invalid_signature(
                "the signing method must be manual or ed25519",
            ));
        }
    };
    match (&signing.key_id, &signing.public_key_ref) {
        (Some(one), Some(other)) if one != other => Err(invalid_signature(
            "keyId and publicKeyRef name different keys",
        )),
        (Some(key_id), _) | (None, Some(key_id)) => Ok(Some(Claim {
            method,
            key_id: key_id.clone(),
        })),
        (None, None) => Err(invalid_signature("the signing block does not name a key")),
    }
}

/// The method and key that the served manifest names; `None` for an unsigned pack, and in blind
/// mode. Checks a signature over the whole archive.
fn served_signer(
    served: &ServedManifest,
    expected: &PackId,
    fetched: Fetched<'_>,
    trust: &Trust,
) -> Result<Option<Signer>, Refusal> {
    let Some(claim) = claim(served.signing.as_ref(), trust)?.filter(|_| !trust.is_blind()) else {
        return Ok(None);
    };
    let key = trust.keys.find(&claim.key_id, &expected.name)?;
    if claim.method == SigningMethod::Ed25519 {
        let signature = detached(fetched.signature)?;
        check_signature(&key, fetched.tgz, signature, "the archive")?;
    }
    Ok(Some(Signer { claim, key }))
}

fn detached(signature: Option<&[u8]>) -> Result<&[u8], Refusal> {
    signature.ok_or_else(|| invalid_signature("the signature is missing"))
}

fn check_signature(
    key: &TrustedKey,
    covered: &[u8],
    signature: &[u8],
    what: &str,
) -> Result<(), Refusal> {
    if signature.len() != SIGNATURE_OCTETS {
        return Err(invalid_signature(
            "the signature does not have exactly 64 raw bytes",
        ));
    }
    if !key.key.verifies(covered, signature) {
        return Err(invalid_signature(format!(
            "the signature over {what} does not verify with the key `{}`",
            key.key_id
        )));
    }
    Ok(())
}

/// Checks the signature over `pack.json`, detached or embedded; if there are both, they must be
/// equal.
fn check_manual(
    key: &TrustedKey,
    archive: &Archive,
    octets: &[u8],
    signature: Option<&[u8]>,
) -> Result<(), Refusal> {
    let embedded = archive.files.get(EMBEDDED_SIGNATURE).map(AsRef::as_ref);
    let signature = detached(signature.or(embedded))?;
    check_signature(key, octets, signature, MANIFEST)?;
    if embedded.is_some_and(|embedded| embedded != signature) {
        return Err(invalid_signature(
            "the embedded signature differs from the detached signature",
        )
        .in_file(EMBEDDED_SIGNATURE));
    }
    Ok(())
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
                "/name: names another pack",
            ));
        }
        if text("version") != expected.version.to_string() {
            return Err(refuse(
                ErrorCode::ManifestVersionMismatch,
                "/version: names another version",
            ));
        }
        return Ok(expected.clone());
    }
    PackId::new(text("name"), text("version"))
        .ok_or_else(|| refuse(ErrorCode::InvalidManifest, "has no valid name or version"))
}

fn inner_signing(document: &Value) -> Option<Signing> {
    document
        .get("signing")
        .and_then(|signing| Signing::deserialize(signing).ok())
}

/// Checks that the signed manifest names the key that was used.
fn agree(inner: &Option<Signing>, claim: &Claim) -> Result<(), Refusal> {
    let named = inner
        .as_ref()
        .and_then(|signing| signing.public_key_ref.as_deref());
    match named {
        Some(key_id) if key_id != claim.key_id => Err(invalid_signature(
            "/signing/publicKeyRef: the signed manifest and the registry name different keys",
        )
        .in_file(MANIFEST)),
        None if claim.method == SigningMethod::Manual => Err(invalid_signature(
            "/signing/publicKeyRef: the signed manifest does not name its key",
        )
        .in_file(MANIFEST)),
        _ => Ok(()),
    }
}

/// For a file without a registry: the manifest itself names the key, and the method can only be
/// `manual`.
fn unserved(
    inner: &Option<Signing>,
    id: &PackId,
    archive: &Archive,
    octets: &[u8],
    fetched: Fetched<'_>,
    trust: &Trust,
) -> Result<Option<Signer>, Refusal> {
    if inner.is_none() && trust.mode != TrustMode::Open {
        return Err(invalid_signature(
            "the pack does not name its signing method; a pack signed as a whole needs its \
            registry manifest (`NAME.json`) and signature (`NAME.sig`) in the same folder",
        ));
    }
    let Some(claim) = claim(inner.as_ref(), trust)?.filter(|_| !trust.is_blind()) else {
        return Ok(None);
    };
    if claim.method != SigningMethod::Manual {
        return Err(
            invalid_signature("a manifest can only be signed with the method manual")
                .in_file(MANIFEST),
        );
    }
    let key = trust.keys.find(&claim.key_id, &id.name)?;
    check_manual(&key, archive, octets, fetched.signature)?;
    Ok(Some(Signer { claim, key }))
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

/// The verified signature, in the form a lockfile records.
fn record(key: &TrustedKey, archive: &Archive, detached: Option<&[u8]>) -> Option<LockedSignature> {
    let embedded = || archive.files.get(EMBEDDED_SIGNATURE).map(AsRef::as_ref);
    detached.or_else(embedded).map(|value| LockedSignature {
        algorithm: "ed25519".to_owned(),
        public_key: key.key.to_base64(),
        value: STANDARD.encode(value),
    })
}

fn state(signer: Option<&Signer>) -> SignatureState {
    let Some(Signer { claim, key }) = signer else {
        return SignatureState::UNSIGNED;
    };
    SignatureState {
        method: Some(claim.method),
        key_id: Some(key.key_id.clone()),
        key_origin: Some(key.origin),
        coverage: match claim.method {
            SigningMethod::Manual => SignatureCoverage::Manifest,
            SigningMethod::Ed25519 => SignatureCoverage::Tarball,
        },
    }
}
