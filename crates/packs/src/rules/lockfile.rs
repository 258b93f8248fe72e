//! `pack-lock.json`: exact versions, digests and, if recorded, signatures (OpenWOP node-packs,
//! dependency resolution).
//!
//! A manifest signature covers prompts, schemas and suites only through an unsigned digest. A pin
//! made at the first install detects a registry that replaces them later.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::name::PackId;
use super::{Refusal, Stage, integrity};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::json;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::pack::{LockedPack, Lockfile};
use touchstone_openwop::schema::Document;

/// The usual file name.
pub const FILE_NAME: &str = "pack-lock.json";
/// Maximum size in bytes.
pub const MAX_OCTETS: usize = 4 * 1024 * 1024;

fn invalid(reason: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::PackValidationFailed, Stage::Resolve, reason).in_file(FILE_NAME)
}

/// Reads a lockfile.
///
/// # Errors
/// `pack_validation_failed` if the text is not a lockfile, or pins a name and version twice.
pub fn parse(bytes: &[u8]) -> Result<Lockfile, Refusal> {
    if bytes.len() > MAX_OCTETS {
        return Err(invalid("is larger than 4 MiB"));
    }
    let value = json::parse_foreign(bytes).map_err(|error| invalid(error.to_string()))?;
    Document::PackLockfile.check(&value).map_err(|violations| {
        invalid(
            violations
                .first()
                .map(ToString::to_string)
                .unwrap_or_default(),
        )
    })?;
    let lock: Lockfile =
        serde_json::from_value(value).map_err(|_| invalid("has a member that cannot be parsed"))?;
    if lock.lockfile_version != 1 {
        return Err(invalid("/lockfileVersion: only version 1 is supported"));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, pack) in lock.packs.iter().enumerate() {
        let at = format!("/packs/{index}");
        if PackId::new(&pack.name, &pack.version).is_none() {
            return Err(invalid(format!(
                "{at}: must pin a pack name to an exact version"
            )));
        }
        if !seen.insert((&pack.name, &pack.version)) {
            return Err(invalid(format!("{at}: is pinned twice")));
        }
    }
    Ok(lock)
}

/// Finds the pin of a pack.
///
/// # Errors
/// `pack_lockfile_incomplete` if this exact version is not pinned.
pub fn find<'a>(lock: &'a Lockfile, pack: &PackId) -> Result<&'a LockedPack, Refusal> {
    let version = pack.version.to_string();
    lock.packs
        .iter()
        .find(|pin| pin.name == pack.name && pin.version == version)
        .ok_or_else(|| {
            let reason = if lock.packs.iter().any(|pin| pin.name == pack.name) {
                "the lockfile pins another version of this pack"
            } else {
                "the lockfile does not list this pack; `pack install --pin` adds it"
            };
            Refusal::new(ErrorCode::PackLockfileIncomplete, Stage::Resolve, reason)
                .in_file(FILE_NAME)
        })
}

/// The version that a lockfile selects for a name: an override, or the only pin.
pub fn chosen(lock: &Lockfile, name: &str) -> Option<String> {
    let pinned = || {
        let mut pins = lock.packs.iter().filter(|pin| pin.name == name);
        match (pins.next(), pins.next()) {
            (Some(only), None) => Some(only.version.clone()),
            _ => None,
        }
    };
    lock.overrides.get(name).cloned().or_else(pinned)
}

/// Checks the archive's digest against the pin.
///
/// # Errors
/// `pack_integrity_mismatch`.
pub fn check_integrity(pin: &LockedPack, tgz: &[u8]) -> Result<(), Refusal> {
    if integrity::matches(&pin.integrity, tgz) {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::PackIntegrityMismatch,
        Stage::Integrity,
        "the digest of the archive differs from the one in the lockfile: the content changed after \
         it was pinned",
    ))
}

/// Checks a recorded signature over what the pack's method covers.
///
/// # Errors
/// `pack_signature_invalid`.
pub fn check_signature(pin: &LockedPack, covered: &[u8]) -> Result<(), Refusal> {
    let Some(recorded) = &pin.signature else {
        return Ok(());
    };
    let refuse = |reason: &str| {
        Err(
            Refusal::new(ErrorCode::PackSignatureInvalid, Stage::Signature, reason)
                .in_file(FILE_NAME),
        )
    };
    let Ok(key) = PublicKey::from_text(&recorded.public_key) else {
        return refuse("the recorded public key is not an Ed25519 key");
    };
    let Ok(value) = STANDARD.decode(recorded.value.trim()) else {
        return refuse("the recorded signature is not base64");
    };
    if key.verifies(covered, &value) {
        Ok(())
    } else {
        refuse("the recorded signature does not verify with the recorded key")
    }
}

/// Adds or replaces a pin. `now` is RFC 3339; the lockfile's time is updated only if something else
/// changes.
#[must_use]
pub fn pin(lock: Option<&Lockfile>, pin: LockedPack, now: &str) -> Lockfile {
    let mut next = lock.cloned().unwrap_or_else(|| Lockfile {
        lockfile_version: 1,
        generated_at: now.to_owned(),
        registry: None,
        fallback_registries: Vec::new(),
        overrides: std::collections::BTreeMap::new(),
        packs: Vec::new(),
    });
    next.packs
        .retain(|other| (&other.name, &other.version) != (&pin.name, &pin.version));
    next.packs.push(pin);
    next.packs.sort_by_cached_key(sort_key);
    let unchanged = lock.is_some_and(|before| {
        let mut sorted = before.packs.clone();
        sorted.sort_by_cached_key(sort_key);
        sorted == next.packs
    });
    if !unchanged {
        next.generated_at = now.to_owned();
    }
    next
}

fn sort_key(pin: &LockedPack) -> (String, Option<semver::Version>) {
    (pin.name.clone(), semver::Version::parse(&pin.version).ok())
}

/// Serializes a lockfile: sorted, indented by two spaces, with a final newline.
pub fn write(lock: &Lockfile) -> String {
    let mut sorted = lock.clone();
    sorted.packs.sort_by_cached_key(sort_key);
    let mut text = json::indented_text_of(&sorted);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, version: &str) -> LockedPack {
        serde_json::from_value(serde_json::json!({
            "name": name, "version": version, "integrity": integrity::of(name.as_bytes())
        }))
        .unwrap()
    }

    #[test]
    fn pinning_the_same_pack_again_leaves_the_lockfile_unchanged() {
        let first = pin(None, of("community.x.b", "1.0.0"), "2026-01-01T00:00:00Z");
        let second = pin(
            Some(&first),
            of("community.x.a", "1.10.0"),
            "2026-01-02T00:00:00Z",
        );
        let third = pin(
            Some(&second),
            of("community.x.a", "1.9.0"),
            "2026-01-03T00:00:00Z",
        );
        let again = pin(
            Some(&third),
            of("community.x.b", "1.0.0"),
            "2026-01-04T00:00:00Z",
        );
        assert_eq!(write(&again), write(&third));
        assert_eq!(again.generated_at, "2026-01-03T00:00:00Z");
        let names: Vec<_> = again
            .packs
            .iter()
            .map(|p| format!("{}@{}", p.name, p.version))
            .collect();
        assert_eq!(
            names,
            [
                "community.x.a@1.9.0",
                "community.x.a@1.10.0",
                "community.x.b@1.0.0"
            ]
        );
        assert_eq!(parse(write(&again).as_bytes()).unwrap(), again);
        assert!(write(&again).ends_with("}\n"));
    }

    #[test]
    fn a_pin_matches_only_its_exact_version() {
        let lock = pin(None, of("community.x.a", "1.0.0"), "2026-01-01T00:00:00Z");
        let id = |version| PackId::new("community.x.a", version).unwrap();
        assert!(find(&lock, &id("1.0.0")).is_ok());
        let refused = find(&lock, &id("1.0.1")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::PackLockfileIncomplete);
        assert_eq!(chosen(&lock, "community.x.a").as_deref(), Some("1.0.0"));
        assert_eq!(chosen(&lock, "community.x.b"), None);
    }

    #[test]
    fn a_lockfile_with_duplicate_pins_is_rejected() {
        let mut lock = pin(None, of("community.x.a", "1.0.0"), "2026-01-01T00:00:00Z");
        lock.packs.push(of("community.x.a", "1.0.0"));
        assert!(parse(write(&lock).as_bytes()).is_err());
    }
}
