//! The files of a pack under versions that belong to this content alone, so that every state of a
//! folder can be installed and evaluated beside the others, without raising a version.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Files, identity, read_manifest, refuse, set};
use crate::rules::Refusal;
use crate::rules::archive::{EMBEDDED_SIGNATURE, MANIFEST};
use crate::rules::contents::scoring_file;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::hex::hex;

/// Part of the version of every such pack: `0.1.0-local-3fa9c1d2e4b5`.
pub const LOCAL: &str = "local-";

/// Whether a version is that of local work.
pub fn is_local(version: &str) -> bool {
    let pre_release = version.split_once('-').map(|(_, part)| part);
    let mut parts = pre_release.into_iter().flat_map(|part| part.split('.'));
    parts.any(|part| part.starts_with(LOCAL))
}

/// Sets the versions, and drops the signature, which no longer holds.
///
/// - A suite gets the version `0.0.N`, where N depends on its content and its scoring document. Its
///   runs stay comparable while only the agent changes.
/// - The pack gets its own version with a pre-release part that depends on all its files.
///
/// # Errors
/// The manifest has no valid name and version.
pub fn localize(files: &Files) -> Result<Files, Refusal> {
    let mut local = files.clone();
    local.remove(EMBEDDED_SIGNATURE);
    let mut manifest = read_manifest(files)?;
    let id = identity(&manifest)?;
    for (name, bytes) in &mut local {
        let scoring = scoring_file(name).and_then(|file| files.get(&file));
        if name != MANIFEST
            && let Some(suite) = local_suite(bytes, scoring)
        {
            *bytes = suite;
        }
    }
    set(&mut manifest, "signing", None);
    let mut digest = Sha256::new();
    for (name, bytes) in &local {
        for part in [name.as_bytes(), bytes] {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
    }
    let digest = hex(&digest.finalize());
    let version = id.version.to_string();
    let base = version.split('+').next().unwrap_or_default();
    let mark = if base.contains('-') { '.' } else { '-' };
    let digest = digest.get(..12).unwrap_or(&digest);
    let version = format!("{base}{mark}{LOCAL}{digest}");
    set(&mut manifest, "version", Some(version.into()));
    let bytes = serde_json::to_vec_pretty(&manifest)
        .map_err(|cause| refuse(ErrorCode::InvalidManifest, cause.to_string()))?;
    local.insert(MANIFEST.to_owned(), bytes);
    Ok(local)
}

/// The document with its local version; `None` if it is not a suite. Faults of a suite are found
/// when the pack is verified.
fn local_suite(bytes: &[u8], scoring: Option<&Vec<u8>>) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    let members = document.as_object()?;
    let is_suite = members.contains_key("suiteId")
        && members.contains_key("tasks")
        && members.get("version").is_some_and(Value::is_string);
    if !is_suite {
        return None;
    }
    set(&mut document, "version", None);
    let mut digest = Sha256::new();
    digest.update(document.to_string());
    if let Some(scoring) = scoring {
        digest.update([0]);
        digest.update(scoring);
    }
    let digest = digest.finalize();
    let number = digest
        .iter()
        .take(4)
        .fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    set(
        &mut document,
        "version",
        Some(format!("0.0.{number}").into()),
    );
    serde_json::to_vec_pretty(&document).ok()
}

#[cfg(test)]
mod tests {
    use super::super::template::new_pack;
    use super::*;

    fn folder() -> Files {
        new_pack("vendor.acme.my-agent").unwrap()
    }

    fn version(files: &Files, name: &str) -> String {
        let document: Value = serde_json::from_slice(&files[name]).unwrap();
        document["version"].as_str().unwrap().to_owned()
    }

    fn changed(name: &str, from: &str, to: &str) -> Files {
        let mut files = folder();
        let text = String::from_utf8(files[name].clone()).unwrap();
        assert!(text.contains(from), "{text}");
        files.insert(name.to_owned(), text.replace(from, to).into_bytes());
        files
    }

    #[test]
    fn the_same_content_has_the_same_versions() {
        assert_eq!(localize(&folder()).unwrap(), localize(&folder()).unwrap());
    }

    #[test]
    fn a_changed_prompt_changes_the_version_of_the_pack_but_not_of_the_suite() {
        let before = localize(&folder()).unwrap();
        let mut files = folder();
        files.insert("prompts/agent.md".to_owned(), b"Answer billing.".to_vec());
        let after = localize(&files).unwrap();
        assert_ne!(version(&before, MANIFEST), version(&after, MANIFEST));
        assert_eq!(
            version(&before, "evals/label.json"),
            version(&after, "evals/label.json")
        );
    }

    #[test]
    fn a_changed_suite_changes_both_versions() {
        let before = localize(&folder()).unwrap();
        let after = localize(&changed("evals/label.json", "in March", "in May")).unwrap();
        assert_ne!(version(&before, MANIFEST), version(&after, MANIFEST));
        assert_ne!(
            version(&before, "evals/label.json"),
            version(&after, "evals/label.json")
        );
    }

    #[test]
    fn a_changed_scoring_document_changes_the_version_of_its_suite() {
        let with = |scoring: &str| {
            let mut files = folder();
            files.insert(
                "evals/label.scoring.json".to_owned(),
                scoring.as_bytes().to_vec(),
            );
            version(&localize(&files).unwrap(), "evals/label.json")
        };
        let without = version(&localize(&folder()).unwrap(), "evals/label.json");
        assert_ne!(with("{}"), without);
        assert_ne!(with("{}"), with("{\"a\": 1}"));
    }

    #[test]
    fn the_version_is_a_pre_release_of_the_packs_own() {
        for (own, start) in [
            ("0.1.0", "0.1.0-local-"),
            ("2.0.0-rc.1", "2.0.0-rc.1.local-"),
        ] {
            let files = changed(MANIFEST, "\"0.1.0\"", &format!("\"{own}\""));
            let local = version(&localize(&files).unwrap(), MANIFEST);
            assert!(local.starts_with(start), "{local}");
            assert!(is_local(&local) && !is_local(own));
            semver::Version::parse(&local).unwrap();
        }
    }

    #[test]
    fn a_manifest_without_a_name_is_refused() {
        let files = changed(MANIFEST, "\"name\"", "\"title\"");
        assert_eq!(
            localize(&files).unwrap_err().code,
            ErrorCode::InvalidManifest
        );
    }
}
