//! Badge vectors: ours, which were signed once, and every file of the kind `badge` in the folder
//! that `TOUCHSTONE_EXTRA_VECTORS` names. Also compares our terms with the published contexts,
//! where those are available.

use std::path::Path;

use oxjsonld::{JsonLdParser, JsonLdRemoteDocument};
use oxrdf::Dataset;
use oxrdf::dataset::{CanonicalizationAlgorithm, CanonicalizationHashAlgorithm};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use touchstone_kit::hex::hex;
use touchstone_kit::keys::SecretKey;
use touchstone_ratings::credential::did::{DidDocument, Signatory};
use touchstone_ratings::credential::{
    CREDENTIALS_V2, OPEN_BADGES, OPEN_BADGES_EXTENSIONS, parse, proof, rdf, served,
};
use touchstone_ratings::rules::badge::{VerificationContext, verify};

use crate::support::badges::cases;
use crate::support::reference::shared;
use crate::support::vectors::{documents, extra};

fn unsigned(credential: &Value) -> Map<String, Value> {
    let mut document = credential.as_object().unwrap().clone();
    document.remove("proof");
    document
}

fn configuration(credential: &Value) -> Map<String, Value> {
    let mut proof = credential["proof"].as_object().unwrap().clone();
    proof.remove("proofValue");
    proof.insert("@context".to_owned(), credential["@context"].clone());
    proof
}

fn digest(document: &Map<String, Value>) -> String {
    hex(&Sha256::digest(rdf::canonical(document).unwrap()))
}

fn secret(vector: &Value) -> SecretKey {
    let text = vector["seed_hex"].as_str().unwrap();
    let bytes = (0..32).map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap());
    SecretKey::from_random(bytes.collect::<Vec<u8>>().try_into().unwrap())
}

/// Checks a vector of the kind `badge`: signing gives its bytes, and what must be rejected is
/// rejected.
fn hold(vector: &Value) {
    let at = vector["created"].as_str().unwrap().parse().unwrap();
    let document: DidDocument =
        serde_json::from_value(vector["did_web"]["did_document"].clone()).unwrap();
    let documents = [document];
    let standing = VerificationContext {
        documents: &documents,
        ..VerificationContext::default()
    };
    let key = secret(vector);
    for (part, by_web) in [(vector, false), (&vector["did_web"], true)] {
        let (signed, hashes) = (&part["signed"], &part["hashes"]);
        assert_eq!(digest(&unsigned(signed)), hashes["document_nquads_sha256"]);
        assert_eq!(
            digest(&configuration(signed)),
            hashes["proof_config_nquads_sha256"]
        );
        let mut signatory = Signatory::by_key(&key.public());
        if by_web {
            signatory.did = documents[0].id.clone();
            signatory.method = documents[0].verification_method[0].id.clone();
        } else {
            assert_eq!(signatory.did, vector["did_key"]);
        }
        let again = proof::sign(unsigned(signed).into(), &signatory, &key, at).unwrap();
        assert_eq!(&again, signed);
        let checked = verify(signed, &standing, at);
        assert!(checked.valid, "{:?}", checked.reasons);
    }
    for (list, expected) in [("not_revoked", false), ("revoked", true)] {
        let standing = VerificationContext {
            status_list: Some(&vector["status_lists"][list]),
            ..standing
        };
        let checked = verify(&vector["signed"], &standing, at);
        assert_eq!(
            (checked.revoked, checked.valid),
            (Some(expected), !expected),
            "{list}"
        );
    }
    let rejected = vector["must_reject"].as_array().unwrap();
    assert!(!rejected.is_empty());
    for case in rejected {
        assert!(
            !verify(&case["credential"], &standing, at).valid,
            "{}",
            case["why"]
        );
    }
}

/// A badge issued once must verify with every later version. The digests in it were computed with
/// pyld.
#[test]
fn committed_badge_vectors_verify() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/badges");
    assert!(hold_all(&folder) > 0);
}

#[test]
fn additional_badge_vectors_verify() {
    if let Some(folder) = extra() {
        let held = hold_all(&folder);
        eprintln!("{held} further vectors of badges hold");
    }
}

/// Checks the vectors of a folder and returns their number.
fn hold_all(folder: &Path) -> usize {
    let mut held = 0;
    for (_, vector) in documents(folder) {
        if vector["kind"] == "badge" {
            hold(&vector);
            held += 1;
        }
    }
    held
}

#[test]
fn shared_badge_vectors_verify() {
    if let Some(file) = shared("aaaf/vectors/badge-eddsa-rdfc-2022.json") {
        hold(&serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap());
    }
}

/// Canonical N-Quads computed with the published contexts.
fn published(document: &Map<String, Value>, folder: &Path) -> String {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let contexts = [
        (CREDENTIALS_V2, read("credentials-v2.json")),
        (OPEN_BADGES, read("ob-v3p0-context-3.0.3.json")),
        (OPEN_BADGES_EXTENSIONS, read("ob-v3p0-extensions.json")),
    ];
    let text = serde_json::to_vec(document).unwrap();
    let quads = JsonLdParser::new()
        .for_slice(&text)
        .with_load_document_callback(move |url, _| {
            let known = contexts.iter().find(|(known, _)| *known == url);
            let (_, document) = known.ok_or("unknown")?;
            Ok(JsonLdRemoteDocument {
                document: document.clone(),
                document_url: url.to_owned(),
            })
        });
    let mut dataset = quads.collect::<Result<Dataset, _>>().unwrap();
    dataset.canonicalize(CanonicalizationAlgorithm::Rdfc10 {
        hash_algorithm: CanonicalizationHashAlgorithm::Sha256,
    });
    let mut lines: Vec<String> = dataset.iter().map(|quad| format!("{quad} .\n")).collect();
    lines.sort();
    lines.concat()
}

#[test]
fn built_in_terms_match_the_published_json_ld_contexts() {
    let Some(contexts) = shared("aaaf/contexts") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let files = cases(folder.path()).into_iter();
    let files = files
        .filter(|case| case.good)
        .flat_map(|case| [Some(case.file), case.status]);
    let mut compared = 0;
    for file in files
        .flatten()
        .filter(|file| file.extension().is_some_and(|it| it == "json"))
    {
        let document = parse(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(served(&document).as_bytes(), std::fs::read(&file).unwrap());
        for part in [unsigned(&document), configuration(&document)] {
            assert_eq!(rdf::canonical(&part).unwrap(), published(&part, &contexts));
            compared += 1;
        }
    }
    assert!(compared > 10);
}
