//! Publishing: a pack that we build and sign is accepted byte for byte, and any changed pack is
//! rejected.

use std::collections::BTreeMap;

use proptest::collection::btree_map;
use proptest::prelude::*;
use serde_json::{Value, json};
use touchstone::kinds::PACK_FORMAT;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::keys::SecretKey;
use touchstone_packs::rules::build;
use touchstone_packs::rules::build::lint::{Severity, lint};
use touchstone_packs::rules::build::template::new_pack;
use touchstone_packs::rules::build::{Files, SignedPack};
use touchstone_packs::rules::manifest::Host;
use touchstone_packs::rules::name::Namespaces;
use touchstone_packs::rules::trust::key_ring::KeyRing;
use touchstone_packs::rules::verify::{
    Fetched, Policy, SignatureCoverage, SigningMethod, Trust, VerifiedPack, verify,
};
use touchstone_packs::rules::{Refusal, archive};

const NAME: &str = "vendor.bench.labels";

pub fn key() -> SecretKey {
    SecretKey::from_random([42; 32])
}

pub fn signed(method: SigningMethod) -> SignedPack {
    build::sign(&new_pack(NAME).unwrap(), method, &key(), "bench-publisher").unwrap()
}

pub fn trust() -> Trust {
    let mut keys = KeyRing::default();
    let space = Namespaces::These(vec!["vendor.bench.*".to_owned()]);
    keys.pin("bench-publisher", key().public(), space);
    Trust {
        keys,
        ..Trust::default()
    }
}

fn judge(pack: &SignedPack) -> Result<VerifiedPack, Refusal> {
    let fetched = Fetched {
        served: Some(&pack.served),
        tgz: &pack.tgz,
        signature: Some(&pack.signature),
    };
    verify(
        Some(&pack.id),
        fetched,
        &trust(),
        &Policy::default(),
        None,
        PACK_FORMAT,
    )
}

#[test]
fn a_signed_pack_is_accepted_and_the_signature_covers_its_files() {
    for (method, coverage) in [
        (SigningMethod::Ed25519, SignatureCoverage::Tarball),
        (SigningMethod::Manual, SignatureCoverage::Manifest),
    ] {
        let pack = judge(&signed(method)).unwrap();
        assert_eq!(pack.signature.coverage, coverage);
        assert_eq!(pack.contents.agents.len(), 1);
        assert_eq!(pack.contents.suites.len(), 1);
        assert_eq!(pack.warnings, Vec::<String>::new());
    }
}

#[test]
fn signing_twice_gives_the_same_bytes() {
    for method in [SigningMethod::Ed25519, SigningMethod::Manual] {
        let (one, two) = (signed(method), signed(method));
        assert_eq!(one.tgz, two.tgz);
        assert_eq!(one.signature, two.signature);
        assert_eq!(one.served, two.served);
    }
}

#[test]
fn an_archive_contains_no_build_user_or_time() {
    let tgz = build::build(&new_pack(NAME).unwrap()).unwrap();
    assert_eq!(&tgz[..10], b"\x1f\x8b\x08\0\0\0\0\0\x02\xff");
    let mut reader = tar::Archive::new(flate2::read::GzDecoder::new(tgz.as_slice()));
    let mut names = Vec::new();
    for entry in reader.entries().unwrap().raw(true) {
        let entry = entry.unwrap();
        let header = entry.header();
        assert!(header.as_ustar().is_some());
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        assert_eq!(
            (header.mode().unwrap(), header.mtime().unwrap()),
            (0o644, 0)
        );
        assert_eq!(header.username_bytes(), Some(&b""[..]));
        names.push(String::from_utf8(entry.path_bytes().into_owned()).unwrap());
    }
    assert!(names.is_sorted());
    assert!(names.contains(&"evals/label.json".to_owned()));
}

#[test]
fn a_pack_with_a_changed_byte_is_always_refused() {
    let sound = signed(SigningMethod::Ed25519);
    for at in 0..sound.tgz.len() {
        let mut pack = sound.clone();
        pack.tgz[at] ^= 1 << (at % 8);
        assert_eq!(
            judge(&pack).unwrap_err().code,
            ErrorCode::PackIntegrityMismatch,
            "octet {at}"
        );
        // A colluding registry serves a matching digest; then the signature check fails.
        if at % 37 == 0 {
            let mut served: Value = serde_json::from_slice(&pack.served).unwrap();
            served["integrity"] = touchstone_kit::integrity::of(&pack.tgz).into();
            pack.served = served.to_string().into_bytes();
            assert_eq!(
                judge(&pack).unwrap_err().code,
                ErrorCode::PackSignatureInvalid,
                "octet {at}"
            );
        }
    }
    for at in 0..sound.signature.len() {
        let mut pack = sound.clone();
        pack.signature[at] ^= 1;
        assert_eq!(
            judge(&pack).unwrap_err().code,
            ErrorCode::PackSignatureInvalid
        );
    }
}

#[test]
fn a_replaced_prompt_is_detected_only_by_a_signature_of_the_whole_archive() {
    // The gap in `manual`: this is why our own packs are signed as a whole.
    let swap = |method| {
        let pack = signed(method);
        let mut files: Files = archive::read(&pack.tgz)
            .unwrap()
            .files
            .into_iter()
            .map(|(name, bytes)| (name, bytes.to_vec()))
            .collect();
        files.insert("prompts/agent.md".into(), b"Always say billing.".to_vec());
        let tgz = build::build(&files).unwrap();
        let mut served: Value = serde_json::from_slice(&pack.served).unwrap();
        served["integrity"] = touchstone_kit::integrity::of(&tgz).into();
        SignedPack {
            tgz,
            served: served.to_string().into_bytes(),
            ..pack
        }
    };
    let manual = judge(&swap(SigningMethod::Manual)).unwrap();
    assert_eq!(manual.signature.coverage, SignatureCoverage::Manifest);
    let whole = judge(&swap(SigningMethod::Ed25519)).unwrap_err();
    assert_eq!(whole.code, ErrorCode::PackSignatureInvalid);
}

#[test]
fn an_integer_that_canonical_json_would_round_is_not_signed() {
    let mut files = new_pack(NAME).unwrap();
    let mut manifest: Value = serde_json::from_slice(&files["pack.json"]).unwrap();
    manifest["engines"]["other"] = json!(9_007_199_254_740_993_u64);
    files.insert("pack.json".into(), manifest.to_string().into_bytes());
    let refusal = build::sign(&files, SigningMethod::Manual, &key(), "k").unwrap_err();
    assert_eq!(refusal.code, ErrorCode::InvalidManifest);
}

#[test]
fn a_new_pack_has_no_lint_findings() {
    let files = new_pack("vendor.acme.ticket-labels").unwrap();
    assert_eq!(lint(&files, &Host::default(), PACK_FORMAT), []);
}

#[test]
fn lint_finds_everything_at_once() {
    let mut files = new_pack(NAME).unwrap();
    files.insert("prompts/old.md".into(), b"unused".to_vec());
    let warnings = lint(&files, &Host::default(), PACK_FORMAT);
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].severity, Severity::Warning);
    assert_eq!(warnings[0].file.as_deref(), Some("prompts/old.md"));

    let mut suite: Value = serde_json::from_slice(&files["evals/label.json"]).unwrap();
    suite["tasks"][0]["input"] = json!({"ticket": 1});
    files.insert("evals/label.json".into(), suite.to_string().into_bytes());
    let warnings = lint(&files, &Host::default(), PACK_FORMAT);
    assert!(
        warnings
            .iter()
            .any(|w| w.reason.starts_with("/tasks/0/input")),
        "{warnings:?}"
    );

    suite["tasks"][1]["taskId"] = "double-charge".into();
    suite["tasks"][2]["expected"] = json!({"kind": "golden"});
    files.insert("evals/label.json".into(), suite.to_string().into_bytes());
    let errors = lint(&files, &Host::default(), PACK_FORMAT);
    let places: Vec<_> = errors
        .iter()
        .filter(|e| e.severity == Severity::Error)
        .map(|e| &e.reason[..8])
        .collect();
    assert_eq!(places, ["/tasks/1", "/tasks/2"]);
}

fn file_names() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_]{0,12}(/[a-z][a-z0-9_.]{0,12}[a-z0-9_]){0,3}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_archive_gives_back_the_files_it_was_built_of(
        files in btree_map(file_names(), prop::collection::vec(any::<u8>(), 0..2000), 0..12)
    ) {
        match build::build(&files) {
            Ok(tgz) => {
                let read: BTreeMap<String, Vec<u8>> = archive::read(&tgz).unwrap().files.into_iter()
                    .map(|(name, bytes)| (name, bytes.to_vec()))
                    .collect();
                prop_assert_eq!(read, files);
            }
            // `a` and `a/b` cannot both be files.
            Err(refusal) => prop_assert_eq!(refusal.code, ErrorCode::TarballTarParseFailed),
        }
    }

    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..4096), at in 0_usize..4096) {
        let _ = archive::read(&bytes);
        let mut nearly = signed(SigningMethod::Manual).tgz;
        let at = at % nearly.len();
        nearly[at] ^= 0x55;
        let _ = archive::read(&nearly);
    }
}
