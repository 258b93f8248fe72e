use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::proof::{self, ProofError};
use super::rdf::RdfError;
use super::status_list::{BITS, Bits, BitsFault};
use super::*;
use crate::rules::badge::sample::{badge, issued, list};
use touchstone_kit::hex::hex;

/// The value at a pointer of a document, to be changed.
fn at<'a>(document: &'a mut Value, pointer: &str) -> &'a mut Value {
    document
        .pointer_mut(pointer)
        .unwrap_or_else(|| panic!("nothing at {pointer}"))
}

/// Every place in a document.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                places(member, &format!("{here}/{name}"), all);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                places(item, &format!("{here}/{n}"), all);
            }
        }
        _ => {}
    }
}

fn places_of(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    places(value, "", &mut all);
    all
}

fn fault_of(document: &Value) -> String {
    match proof::verify(document, &[]) {
        Err(ProofError::Content(RdfError::Open(fault))) => fault.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rdf_of_a_badge_and_of_a_list_is_what_other_libraries_make_of_them() {
    // The digests are those of pyld and of jsonld.js with the published contexts, for a badge from
    // before the sources of its evidence were stored.
    let mut earlier = badge();
    earlier.sources.clear();
    for (mut document, expected, lines) in [
        (issued(&earlier), BADGE_DIGEST, BADGE_LINES),
        (list(&[5], "2026-04-16T13:45:00Z"), LIST_DIGEST, LIST_LINES),
    ] {
        let document = document.as_object_mut().unwrap();
        document.remove("proof");
        let text = rdf::canonical(document).unwrap();
        assert_eq!(text.lines().count(), lines);
        assert_eq!(hex(&Sha256::digest(&text)), expected, "{text}");
    }
}

const BADGE_DIGEST: &str = "a1ed6e3a9aa5cf03a042e78f477f7f30c0782677742d0e0ba4de52cd810736d9";
const BADGE_LINES: usize = 208;
const LIST_DIGEST: &str = "6b71e1a03f7c273a64059997b369f48e0583fe6fb8bbb84c4038adbe0f47a4e0";
const LIST_LINES: usize = 9;

#[test]
fn every_value_of_a_badge_is_covered_by_the_signature() {
    let signed = issued(&badge());
    assert_eq!(proof::verify(&signed, &[]), Ok(()));
    for place in places_of(&signed) {
        let mut other = signed.clone();
        let value = at(&mut other, &place);
        *value = match value.take() {
            Value::String(text) => Value::String(format!("{text}x")),
            Value::Bool(is) => Value::Bool(!is),
            // Removal is tested below.
            _ => continue,
        };
        assert!(
            proof::verify(&other, &[]).is_err(),
            "{place} can be changed"
        );
    }
}

#[test]
fn nothing_can_be_taken_from_a_badge() {
    let signed = issued(&badge());
    for place in places_of(&signed) {
        let Some((parent, name)) = place.rsplit_once('/') else {
            continue;
        };
        let mut other = signed.clone();
        match at(&mut other, parent) {
            Value::Object(members) => {
                members.remove(&name.replace("~1", "/").replace("~0", "~"));
            }
            Value::Array(items) => {
                items.remove(name.parse().unwrap());
            }
            _ => unreachable!(),
        }
        assert!(
            proof::verify(&other, &[]).is_err(),
            "{place} can be taken away"
        );
    }
}

#[test]
fn nothing_can_be_added_to_a_badge() {
    let signed = issued(&badge());
    for place in places_of(&signed) {
        let added = [
            ("extra", json!("x")),
            ("https://example.org/extra", json!("x")),
            ("@type", json!("Profile")),
            ("@language", json!("en")),
            ("name", json!(null)),
            ("narrative", json!([])),
            ("narrative", json!("x")),
            ("url", json!("https://example.org")),
            ("alignment", json!([])),
        ];
        for (name, value) in added {
            let mut other = signed.clone();
            match at(&mut other, &place) {
                Value::Object(members) if !members.contains_key(name) => {
                    members.insert(name.to_owned(), value);
                }
                _ => continue,
            }
            assert!(
                proof::verify(&other, &[]).is_err(),
                "{name} can be added to {place:?}"
            );
        }
    }
    for place in places_of(&signed) {
        let mut other = signed.clone();
        match at(&mut other, &place) {
            Value::Array(items) if !place.starts_with("/@context") => {
                // A repeated item is an additional one, for a set and a list alike.
                let again = items.first().unwrap().clone();
                items.push(again);
            }
            _ => continue,
        }
        assert!(
            proof::verify(&other, &[]).is_err(),
            "{place} can be repeated"
        );
    }
}

#[rstest]
#[case::undefined("/credentialSubject", "score", json!("1.00"), "/credentialSubject/score is not defined")]
#[case::of_another_type("/issuer", "result", json!("x"), "/issuer/result is not defined")]
#[case::nothing("/issuer", "url", json!(null), "/issuer/url is not a valid value")]
#[case::empty("/credentialSubject", "result", json!([]), "/credentialSubject/result is empty")]
#[case::list_in_list("", "evidence", json!([[]]), "/evidence/0 is not a valid value")]
#[case::no_type("/issuer", "type", json!([]), "/issuer/type is empty")]
#[case::undefined_type("/issuer", "type", json!(["Profile", "Paragon"]), "/issuer/type names a type")]
#[case::relative("/issuer", "id", json!("acme"), "/issuer/id is not an absolute IRI")]
#[case::blank("/issuer", "id", json!("_:acme"), "/issuer/id is not an absolute IRI")]
#[case::text_for_truth("/credentialSubject/identifier/0", "hashed", json!("false"), "/credentialSubject/identifier/0/hashed is not a valid value")]
#[case::control("/issuer", "name", json!("a\tb"), "/issuer/name contains a control character")]
#[case::number("/credentialSubject/result/0", "value", json!(0.93), "/credentialSubject/result/0/value is not a valid value")]
#[case::value_object("/issuer", "name", json!({"@value": "Acme", "@language": "en"}), "/issuer/name is not a valid value")]
#[case::context_within("/issuer", "@context", json!("https://www.w3.org/ns/credentials/v2"), "/issuer/@context is not defined")]
#[case::other_context("", "@context", json!(["https://www.w3.org/ns/credentials/v2", "https://example.org/c"]), "/@context is not a known")]
#[case::contexts_turned("", "@context", json!([OPEN_BADGES, CREDENTIALS_V2, OPEN_BADGES_EXTENSIONS]), "/@context is not a known")]
#[case::inline_context("", "@context", json!([CREDENTIALS_V2, {"x": "https://example.org/x"}]), "/@context is not a known")]
#[case::one_context("", "@context", json!(CREDENTIALS_V2), "/@context is not a known")]
fn values_not_covered_by_the_signature_are_rejected_by_path(
    #[case] place: &str,
    #[case] name: &str,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let mut document = issued(&badge());
    at(&mut document, place)[name] = value;
    let fault = fault_of(&document);
    assert!(fault.starts_with(expected), "{fault}");
}

#[test]
fn documents_too_costly_to_canonicalize_are_rejected() {
    let twins: Vec<Value> = (0..40).map(|_| json!({"type": "Alignment"})).collect();
    let nested: Vec<Value> = (0..40)
        .map(|n| json!({"type": "Profile", "alignment": [{"type": "Alignment", "targetName": n.to_string()}]}))
        .collect();
    let mut deep = json!({"type": "Alignment"});
    for _ in 0..20 {
        deep = json!({"type": "Alignment", "alignment": deep});
    }
    let many: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let long = json!({"type": "ResultDescription", "allowedValue": many});
    for (alignment, expected) in [
        (json!(twins), "cannot be distinguished from another"),
        (json!(nested), "cannot be distinguished from another"),
        (deep, "is nested too deeply"),
        (long, "exceeds the limit of parts"),
    ] {
        let mut document = issued(&badge());
        document["alignment"] = alignment;
        let fault = fault_of(&document);
        assert!(fault.contains(expected), "{fault}");
    }
}

#[rstest]
#[case("/proof/type", json!("Ed25519Signature2020"))]
#[case("/proof/cryptosuite", json!("eddsa-jcs-2022"))]
#[case("/proof/proofPurpose", json!("authentication"))]
fn proofs_of_other_kinds_are_refused(#[case] place: &str, #[case] value: Value) {
    let mut document = issued(&badge());
    *at(&mut document, place) = value;
    assert_eq!(proof::verify(&document, &[]), Err(ProofError::Kind));
}

#[test]
fn a_proof_by_another_key_than_the_issuers_is_rejected() {
    use touchstone_kit::keys::SecretKey;
    let mut document = issued(&badge());
    document.as_object_mut().unwrap().remove("proof");
    let other = SecretKey::from_random([1; 32]);
    let signatory = did::Signatory::by_key(&other.public());
    let created = "2026-04-16T13:45:00Z".parse().unwrap();
    assert!(proof::sign(document.clone(), &signatory, &other, created).is_err());
    // Signed under the issuer's name with another key, and under another name.
    let mut stolen = signatory.clone();
    stolen.did = proof::issuer(&document).unwrap().to_owned();
    let signed = proof::sign(document, &stolen, &other, created).unwrap();
    assert_eq!(proof::verify(&signed, &[]), Err(ProofError::Issuer));
    let mut renamed = signed;
    renamed["proof"]["verificationMethod"] =
        json!(did::Signatory::by_key(&crate::rules::badge::sample::key().public()).method);
    assert_eq!(proof::verify(&renamed, &[]), Err(ProofError::Signature));
}

#[rstest]
#[case("did:key:z6MkvDqGT54cXesYGvABpF1UapVNwjCqRcafi4Px6Thv5T3Z", true)]
// Another type of key.
#[case("did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme", false)]
#[case("did:key:z", false)]
#[case("did:example:1", false)]
fn keys_are_decoded_from_did_key_identifiers(#[case] did: &str, #[case] known: bool) {
    let name = did.strip_prefix("did:key:").unwrap_or(did);
    let key = did::resolve(&format!("{did}#{name}"), &[]);
    assert_eq!(key.is_ok(), known);
    if let Ok(key) = key {
        assert_eq!(did::did_key(&key), did);
        assert!(did::resolve(did, &[]).is_err(), "a DID alone names no key");
    }
}

#[rstest]
#[case(0, 0, 0x80)]
#[case(7, 0, 0x01)]
#[case(8, 1, 0x80)]
#[case(42, 5, 0x20)]
#[case(131_071, 16_383, 0x01)]
fn the_first_bit_is_the_most_significant(
    #[case] index: u32,
    #[case] octet: usize,
    #[case] value: u8,
) {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use std::io::Read as _;
    let mut bits = Bits::default();
    bits.set(index, true).unwrap();
    let text = bits.encode();
    let packed = URL_SAFE_NO_PAD
        .decode(text.strip_prefix('u').unwrap())
        .unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut bytes)
        .unwrap();
    assert_eq!(bytes.len(), 16_384);
    assert_eq!(bytes[octet], value);
    assert_eq!(bytes.iter().map(|it| it.count_ones()).sum::<u32>(), 1);
    let read = Bits::decode(&text).unwrap();
    assert_eq!(read, bits);
    assert_eq!(read.get(index.into()), Ok(true));
    bits.set(index, false).unwrap();
    assert_eq!(bits, Bits::default());
}

#[test]
fn status_lists_have_a_fixed_length() {
    let mut bits = Bits::default();
    assert_eq!(
        bits.set(BITS, true),
        Err(BitsFault::OutOfRange(BITS.into()))
    );
    assert_eq!(bits.get(u64::MAX), Err(BitsFault::OutOfRange(u64::MAX)));
    let packed = |bytes: &[u8]| {
        use base64::Engine as _;
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        let bytes = encoder.finish().unwrap();
        format!(
            "u{}",
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
        )
    };
    assert_eq!(Bits::decode(&packed(&[0; 16_383])), Err(BitsFault::Length));
    assert_eq!(
        Bits::decode(&packed(&vec![0; 64 << 20])),
        Err(BitsFault::Length)
    );
    assert_eq!(Bits::decode("u"), Err(BitsFault::Encoding));
    assert_eq!(
        Bits::decode(packed(&[0; 16_384]).strip_prefix('u').unwrap()),
        Err(BitsFault::Encoding)
    );
}

#[test]
fn parse_errors_of_credentials_are_distinguished() {
    let large = vec![b' '; MAX_OCTETS + 1];
    assert_eq!(parse(&large), Err(ParseError::TooLarge(MAX_OCTETS + 1)));
    assert_eq!(parse(b"[]"), Err(ParseError::NoObject));
    assert!(matches!(
        parse(br#"{"a":1,"a":2}"#),
        Err(ParseError::Json(_))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changing_any_byte_invalidates_the_proof(place in any::<prop::sample::Index>(), by in 1_u8..=255) {
        let signed = issued(&badge());
        let mut bytes = served(&signed).into_bytes();
        let place = place.index(bytes.len());
        bytes[place] ^= by;
        if let Ok(read) = parse(&bytes) {
            prop_assert!(proof::verify(&read, &[]).is_err(), "byte {place} by {by}");
        }
    }

    #[test]
    fn arbitrary_documents_neither_verify_nor_panic(text in "\\PC{0,200}") {
        if let Ok(read) = parse(text.as_bytes()) {
            prop_assert!(proof::verify(&read, &[]).is_err());
        }
    }
}
