//! Builds deterministic pack archives and signs them by either method.
//!
//! The same files give the same bytes: plain ustar sorted by name, mode 644, no times, owners or
//! ids; gzip without a time or an operating system. Names have at most 100 bytes, because published
//! readers refuse every extended header.

pub mod lint;
pub mod local;
pub mod template;

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use crate::rules::archive::{EMBEDDED_SIGNATURE, MANIFEST};
use crate::rules::name::PackId;
use crate::rules::verify::SigningMethod;
use crate::rules::{Refusal, Stage, archive, integrity};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::keys::{SIGNATURE_OCTETS, SecretKey};

/// The files of a pack by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Maximum length in bytes of a name in a plain header.
const MAX_PLAIN_NAME: usize = 100;
/// Largest integer that a double holds exactly; canonical JSON rounds larger ones.
const MAX_EXACT: u64 = 1 << 53;

/// A signed pack and the documents that a registry serves about it.
#[derive(Clone, Debug)]
pub struct SignedPack {
    pub id: PackId,
    pub tgz: Vec<u8>,
    pub signature: [u8; SIGNATURE_OCTETS],
    pub served: Vec<u8>,
}

fn refuse(code: ErrorCode, reason: impl Into<String>) -> Refusal {
    Refusal::new(code, Stage::Archive, reason)
}

/// Packs files into an archive that [`archive::read`] accepts.
///
/// # Errors
/// A name is too long for a plain header, or a limit of the reader is exceeded.
pub fn build(files: &Files) -> Result<Vec<u8>, Refusal> {
    let broken = |_| {
        refuse(
            ErrorCode::TarballTarParseFailed,
            "the archive could not be written",
        )
    };
    let mut builder = tar::Builder::new(
        GzBuilder::new()
            .mtime(0)
            .operating_system(255)
            .write(Vec::new(), Compression::best()),
    );
    for (name, bytes) in files {
        if name.len() > MAX_PLAIN_NAME {
            let reason = "the name is longer than 100 bytes, which other OpenWOP hosts reject";
            return Err(refuse(ErrorCode::TarballTarParseFailed, reason).in_file(name));
        }
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let unsafe_name = |_| {
            refuse(
                ErrorCode::TarballPathTraversal,
                "the name is not allowed in a pack",
            )
            .in_file(name)
        };
        header.set_path(name).map_err(unsafe_name)?;
        header.set_cksum();
        builder.append(&header, bytes.as_slice()).map_err(broken)?;
    }
    let mut gzip = builder.into_inner().map_err(broken)?;
    gzip.flush().map_err(broken)?;
    let tgz = gzip.finish().map_err(broken)?;
    archive::read(&tgz)?;
    Ok(tgz)
}

/// Builds and signs a pack.
///
/// # Errors
/// The manifest has no valid name and version, or has an integer that canonical JSON cannot
/// represent; otherwise as [`build`].
pub fn sign(
    files: &Files,
    method: SigningMethod,
    key: &SecretKey,
    key_id: &str,
) -> Result<SignedPack, Refusal> {
    let mut files = files.clone();
    let mut manifest = read_manifest(&files)?;
    let id = identity(&manifest)?;
    files.remove(EMBEDDED_SIGNATURE);
    let (tgz, signature, served_signing) = match method {
        SigningMethod::Manual => {
            let signing = json!({
                "method": "manual", "publicKeyRef": key_id, "signatureRef": EMBEDDED_SIGNATURE
            });
            set(&mut manifest, "signing", Some(signing.clone()));
            let bytes = canonical(&manifest)?;
            let signature = key.sign(&bytes);
            files.insert(MANIFEST.to_owned(), bytes);
            files.insert(EMBEDDED_SIGNATURE.to_owned(), signature.to_vec());
            (build(&files)?, signature, signing)
        }
        SigningMethod::Ed25519 => {
            // The schema has no signing block for this method; the served manifest names the key.
            set(&mut manifest, "signing", None);
            files.insert(MANIFEST.to_owned(), canonical(&manifest)?);
            let tgz = build(&files)?;
            let signature = key.sign(&tgz);
            (
                tgz,
                signature,
                json!({"method": "ed25519", "keyId": key_id}),
            )
        }
    };
    set(&mut manifest, "signing", Some(served_signing));
    set(&mut manifest, "integrity", Some(integrity::of(&tgz).into()));
    let mut served = format!("{manifest:#}").into_bytes();
    served.push(b'\n');
    Ok(SignedPack {
        id,
        tgz,
        signature,
        served,
    })
}

fn read_manifest(files: &Files) -> Result<Value, Refusal> {
    let bytes = files.get(MANIFEST).ok_or_else(|| {
        refuse(
            ErrorCode::TarballManifestMissing,
            "the folder has no pack.json",
        )
    })?;
    crate::rules::manifest::parse(bytes)
}

fn identity(manifest: &Value) -> Result<PackId, Refusal> {
    let text = |member| {
        manifest
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    PackId::new(text("name"), text("version")).ok_or_else(|| {
        Refusal::new(
            ErrorCode::InvalidManifest,
            Stage::Manifest,
            "needs a `name` such as `vendor.acme.triage` and a `version` such as `1.0.0`",
        )
        .in_file(MANIFEST)
    })
}

fn set(manifest: &mut Value, member: &str, value: Option<Value>) {
    if let Value::Object(members) = manifest {
        match value {
            Some(value) => members.insert(member.to_owned(), value),
            None => members.remove(member),
        };
    }
}

/// RFC 8785.
fn canonical(manifest: &Value) -> Result<Vec<u8>, Refusal> {
    let invalid = |reason| {
        Refusal::new(ErrorCode::InvalidManifest, Stage::Manifest, reason).in_file(MANIFEST)
    };
    if !exact(manifest) {
        return Err(invalid(
            "has an integer above 2^53, which canonical JSON would round",
        ));
    }
    serde_json_canonicalizer::to_vec(manifest)
        .map_err(|_| invalid("could not be written as canonical JSON"))
}

fn exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.as_u64().is_none_or(|n| n <= MAX_EXACT)
                && number
                    .as_i64()
                    .is_none_or(|n| n.unsigned_abs() <= MAX_EXACT)
        }
        Value::Array(items) => items.iter().all(exact),
        Value::Object(members) => members.values().all(exact),
        _ => true,
    }
}
