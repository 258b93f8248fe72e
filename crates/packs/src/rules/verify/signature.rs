//! Who signed a pack, and whether the signature is valid.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::Value;

use crate::rules::archive::{Archive, EMBEDDED_SIGNATURE, MANIFEST};
use crate::rules::name::PackId;
use crate::rules::trust::key_ring::TrustedKey;
use crate::rules::trust::{SignatureCoverage, SignatureState, SigningMethod, Trust, TrustMode};
use crate::rules::verify::Fetched;
use crate::rules::{Refusal, Stage};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::keys::SIGNATURE_OCTETS;
use touchstone_openwop::pack::{LockedSignature, ServedManifest, Signing};

/// The key and method that a signing block names.
pub(super) struct Claim {
    pub(super) method: SigningMethod,
    pub(super) key_id: String,
}

/// A claim and the trusted key that it names.
pub(super) struct Signer {
    pub(super) claim: Claim,
    pub(super) key: TrustedKey,
}

pub(super) fn invalid_signature(reason: impl Into<String>) -> Refusal {
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
pub(super) fn served_signer(
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
pub(super) fn check_manual(
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

pub(super) fn inner_signing(document: &Value) -> Option<Signing> {
    document
        .get("signing")
        .and_then(|signing| Signing::deserialize(signing).ok())
}

/// Checks that the signed manifest names the key that was used.
pub(super) fn agree(inner: &Option<Signing>, claim: &Claim) -> Result<(), Refusal> {
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
pub(super) fn unserved(
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

/// The verified signature, in the form a lockfile records.
pub(super) fn record(
    key: &TrustedKey,
    archive: &Archive,
    detached: Option<&[u8]>,
) -> Option<LockedSignature> {
    let embedded = || archive.files.get(EMBEDDED_SIGNATURE).map(AsRef::as_ref);
    detached.or_else(embedded).map(|value| LockedSignature {
        algorithm: "ed25519".to_owned(),
        public_key: key.key.to_base64(),
        value: STANDARD.encode(value),
    })
}

pub(super) fn state(signer: Option<&Signer>) -> SignatureState {
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
