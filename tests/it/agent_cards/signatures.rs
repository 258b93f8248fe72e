//! Signatures: every algorithm, every step that can fail, every form of a card.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agent_cards::rules::signature::{
    KeySetAnswer, Keys, Profile, Reason, State, check, needed_key_sets,
};
use touchstone_agent_cards::rules::{Card, Context, Live, score};
use touchstone_kit::network::{Allowed, Endpoint};

use super::fixture::{
    DAY, KEY_SET, NOW, SIGNERS, answered, canonical, card, encode, header, issues, jwk, keys,
    keys_of, now, scored, signed, with_signatures,
};

/// The state, reason and profile of each signature.
fn results(card: &Value, keys: &Keys) -> Vec<(State, Option<Reason>, Option<Profile>)> {
    let results = scored(card, keys).trust.signature_results;
    results
        .iter()
        .map(|it| (it.state, it.reason, it.profile))
        .collect()
}

const VALID: (State, Option<Reason>, Option<Profile>) = (State::Valid, None, Some(Profile::Spec));

fn failed(reason: Reason) -> (State, Option<Reason>, Option<Profile>) {
    (reason.state(), Some(reason), None)
}

/// A card signed by the first key, with changes to the protected header.
fn under(changes: Value) -> Value {
    let signer = &SIGNERS.es256;
    let mut header = header("ES256", signer.id());
    for (name, value) in changes.as_object().unwrap() {
        if value == "CUT" {
            header.as_object_mut().unwrap().remove(name);
        } else {
            header[name] = value.clone();
        }
    }
    let card = card();
    let signature = signer.seal(&header, &canonical(&card));
    with_signatures(card, vec![signature])
}

#[rstest]
#[case("ES256")]
#[case("ES384")]
#[case("ES512")]
#[case("RS256")]
#[case("RS384")]
#[case("RS512")]
#[case("PS256")]
#[case("PS384")]
#[case("PS512")]
#[case("EdDSA")]
fn signatures_of_every_algorithm_verify_only_for_their_card(#[case] algorithm: &str) {
    let keys = keys();
    let mut card = signed(card(), algorithm);
    assert_eq!(results(&card, &keys), [VALID]);
    let scorecard = scored(&card, &keys);
    assert_eq!(scorecard.trust.total.to_string(), "92");
    assert!(scorecard.production_ready);
    assert_eq!(scorecard.recommendation, ["✅ Production ready"]);
    card["skills"][1]["description"] = json!("Sinks one.");
    assert_eq!(results(&card, &keys), [failed(Reason::SignatureMismatch)]);
}

#[rstest]
#[case::alg_absent(json!({"alg": "CUT"}), Reason::AlgMissing)]
#[case::alg_number(json!({"alg": 256}), Reason::AlgMissing)]
#[case::none(json!({"alg": "none"}), Reason::AlgForbidden)]
#[case::none_any_case(json!({"alg": "NoNe"}), Reason::AlgForbidden)]
#[case::shared_secret(json!({"alg": "HS512"}), Reason::AlgForbidden)]
#[case::forbidden_before_critical(json!({"alg": "HS256", "crit": ["x"]}), Reason::AlgForbidden)]
#[case::critical(json!({"crit": ["x"], "x": 1}), Reason::CritUnsupported)]
#[case::critical_empty(json!({"crit": []}), Reason::CritUnsupported)]
#[case::unencoded(json!({"b64": false}), Reason::CritUnsupported)]
#[case::unencoded_odd(json!({"b64": "true"}), Reason::CritUnsupported)]
#[case::critical_before_unknown(json!({"alg": "ES256K", "crit": ["x"]}), Reason::CritUnsupported)]
#[case::unknown(json!({"alg": "ES256K"}), Reason::AlgUnsupported)]
#[case::lower_case(json!({"alg": "es256"}), Reason::AlgUnsupported)]
#[case::unknown_before_source(json!({"alg": "ES256K", "jku": "CUT"}), Reason::AlgUnsupported)]
#[case::no_source(json!({"jku": "CUT"}), Reason::NoKeySource)]
#[case::null_source(json!({"jku": null}), Reason::NoKeySource)]
#[case::own_key(json!({"jku": "CUT", "jwk": {"kty": "OKP"}}), Reason::NoKeySource)]
#[case::certificate(json!({"jku": "CUT", "x5u": KEY_SET, "x5c": ["MA=="]}), Reason::NoKeySource)]
#[case::plain_http(json!({"jku": "http://keys.harbour.example/set.json"}), Reason::JkuNotHttps)]
#[case::no_url(json!({"jku": "keys.harbour.example"}), Reason::JkuNotHttps)]
#[case::no_text(json!({"jku": 7}), Reason::JkuNotHttps)]
#[case::user(json!({"jku": "https://a:b@keys.harbour.example/set.json"}), Reason::JkuNotHttps)]
#[case::http_and_internal(json!({"jku": "http://127.0.0.1/set.json"}), Reason::JkuNotHttps)]
#[case::loopback(json!({"jku": "https://0x7f.1/set.json"}), Reason::JkuForbiddenAddress)]
#[case::metadata(json!({"jku": "https://[::ffff:169.254.169.254]/"}), Reason::JkuForbiddenAddress)]
#[case::single_label(json!({"jku": "https://keyserver/"}), Reason::JkuForbiddenAddress)]
#[case::jwks_uri_internal(json!({"jku": "CUT", "jwks_uri": "https://10.0.0.1/"}), Reason::JkuForbiddenAddress)]
#[case::elsewhere(json!({"jku": "https://keys.harbour.example/other.json"}), Reason::JwksUnreachable)]
#[case::unknown_key(json!({"kid": "quay-9"}), Reason::KidNotFound)]
#[case::key_id_number(json!({"kid": 1}), Reason::KidNotFound)]
#[case::other_curve(json!({"kid": "quay-384"}), Reason::KeyMismatch)]
#[case::other_type(json!({"kid": "quay-ed"}), Reason::KeyMismatch)]
#[case::other_key(json!({"kid": "quay-2"}), Reason::SignatureMismatch)]
#[case::not_yet(json!({"nbf": NOW + 61}), Reason::NotYetValid)]
#[case::not_yet_odd(json!({"nbf": "tomorrow"}), Reason::NotYetValid)]
fn a_header_is_refused_at_the_first_step_that_fails(
    #[case] changes: Value,
    #[case] reason: Reason,
) {
    assert_eq!(results(&under(changes), &keys()), [failed(reason)]);
}

#[rstest]
#[case::jwks_uri(json!({"jku": "CUT", "jwks_uri": KEY_SET}))]
#[case::encoded(json!({"b64": true}))]
#[case::no_key_id(json!({"kid": "CUT"}))]
#[case::no_expiry(json!({"exp": null}))]
#[case::just_over(json!({"exp": NOW - 60}))]
#[case::begins_soon(json!({"nbf": NOW + 60}))]
#[case::other_type(json!({"typ": "JWT"}))]
fn acceptable_signature_headers_verify(#[case] changes: Value) {
    assert_eq!(results(&under(changes), &keys()), [VALID]);
}

#[test]
fn an_odd_type_only_warns() {
    let warned = scored(&under(json!({"typ": "JWT"})), &keys()).trust;
    assert!(warned.signature_results[0].warning.is_some());
    let plain = scored(&under(json!({})), &keys()).trust;
    assert_eq!(
        serde_json::to_value(plain.signature_results).unwrap(),
        json!([{"index": 0, "state": "valid", "reason": null, "profile": "spec"}])
    );
}

#[rstest]
#[case::exp(json!({"exp": NOW - 61}), Reason::ExpPassed)]
#[case::exp_with_fraction(json!({"exp": (NOW - 61) as f64 + 0.5}), Reason::ExpPassed)]
#[case::exp_odd(json!({"exp": "2999-01-01"}), Reason::ExpPassed)]
#[case::exp_before_nbf(json!({"exp": NOW - 61, "nbf": NOW + 61}), Reason::ExpPassed)]
fn a_signature_expires(#[case] changes: Value, #[case] reason: Reason) {
    let expired = (State::Expired, Some(reason), Some(Profile::Spec));
    assert_eq!(results(&under(changes), &keys()), [expired]);
}

#[rstest]
#[case::revoked(json!({"revoked": {"revoked_at": 1}}), failed(Reason::KeyRevoked))]
#[case::revoked_and_over(json!({"revoked": true, "exp": 1}), failed(Reason::KeyRevoked))]
#[case::not_revoked(json!({"revoked": false}), VALID)]
#[case::over(json!({"exp": NOW - 61}), (State::Expired, Some(Reason::KeyExpired), Some(Profile::Spec)))]
#[case::not_over(json!({"exp": NOW + 1}), VALID)]
#[case::use_sig(json!({"use": "sig", "alg": "ES256", "key_ops": ["verify"]}), VALID)]
#[case::use_enc(json!({"use": "enc"}), failed(Reason::KeyMismatch))]
#[case::ops(json!({"key_ops": ["sign"]}), failed(Reason::KeyMismatch))]
#[case::ops_odd(json!({"key_ops": "verify"}), failed(Reason::KeyMismatch))]
#[case::other_alg(json!({"alg": "ES384"}), failed(Reason::KeyMismatch))]
#[case::other_curve(json!({"crv": "P-384"}), failed(Reason::KeyMismatch))]
#[case::short(json!({"x": "AAAA"}), failed(Reason::KeyMismatch))]
#[case::no_point(json!({"y": encode(&[5; 32])}), failed(Reason::SignatureMismatch))]
#[case::other_id(json!({"kid": "quay-7"}), failed(Reason::KidNotFound))]
fn revoked_and_expired_keys_are_rejected(
    #[case] changes: Value,
    #[case] expected: (State, Option<Reason>, Option<Profile>),
) {
    let mut key = SIGNERS.es256.jwk();
    for (name, value) in changes.as_object().unwrap() {
        key[name] = value.clone();
    }
    let keys = keys_of(&json!({"keys": [7, key]}));
    assert_eq!(results(&signed(card(), "ES256"), &keys), [expected]);
}

#[rstest]
#[case::of_1024_bits("RS256", json!({"kty": "RSA", "n": encode(&[0xff; 128]), "e": "AQAB"}))]
#[case::of_2047_bits("RS256", json!({"kty": "RSA", "n": encode(&[0x7f; 256]), "e": "AQAB"}))]
#[case::far_too_long("PS512", json!({"kty": "RSA", "n": encode(&[0xff; 1025]), "e": "AQAB"}))]
#[case::even_exponent("RS256", json!({"kty": "RSA", "n": encode(&[0xff; 256]), "e": "AQAA"}))]
#[case::exponent_one("RS256", json!({"kty": "RSA", "n": encode(&[0xff; 256]), "e": "AQ"}))]
#[case::no_modulus("RS256", json!({"kty": "RSA", "n": "", "e": "AQAB"}))]
#[case::small_order("EdDSA", json!({"kty": "OKP", "crv": "Ed25519", "x": encode(&{ let mut x = [0; 32]; x[0] = 1; x })}))]
#[case::other_edwards("EdDSA", json!({"kty": "OKP", "crv": "X25519", "x": encode(&[9; 32])}))]
#[case::off_the_curve("ES512", json!({"kty": "EC", "crv": "P-521", "x": encode(&[1; 66]), "y": encode(&[1; 66])}))]
#[case::secret("ES256", json!({"kty": "oct", "k": "AAAA"}))]
fn weak_and_malformed_keys_are_rejected(#[case] algorithm: &str, #[case] mut key: Value) {
    key["kid"] = json!(SIGNERS.of(algorithm).id());
    let keys = keys_of(&json!({"keys": [key]}));
    let card = signed(card(), algorithm);
    assert_eq!(results(&card, &keys), [failed(Reason::KeyMismatch)]);
}

#[test]
fn a_leading_zero_in_a_modulus_does_not_change_the_key() {
    let signer = &SIGNERS.rsa;
    let plain = signer.jwk();
    let mut padded = plain.clone();
    let n = base64::Engine::decode(
        &base64::engine::general_purpose::URL_SAFE_NO_PAD,
        plain["n"].as_str().unwrap(),
    )
    .unwrap();
    padded["n"] = json!(encode(&[&[0], n.as_slice()].concat()));
    padded["kid"] = json!("padded");
    let card = card();
    let seal = |id| signer.seal(&header("RS256", id), &canonical(&card));
    let signatures = vec![seal(signer.id()), seal("padded")];
    let keys = keys_of(&json!({"keys": [plain, padded]}));
    let scorecard = scored(&with_signatures(card, signatures), &keys);
    let points = scorecard.trust.breakdown.unwrap().signatures;
    assert!(points.has_valid_signature && !points.has_invalid_signature);
    assert!(!points.multiple_signatures);
}

#[rstest]
#[case::nothing(None, Reason::JwksUnreachable)]
#[case::unreachable(Some(KeySetAnswer::Unreachable), Reason::JwksUnreachable)]
#[case::internal(Some(KeySetAnswer::Forbidden), Reason::JkuForbiddenAddress)]
#[case::too_large(Some(KeySetAnswer::TooLarge), Reason::JwksBadResponse)]
#[case::redirect(Some(KeySetAnswer::Answered { status: 302, body: br#"{"keys": []}"#.to_vec() }), Reason::JwksBadResponse)]
#[case::created(Some(KeySetAnswer::Answered { status: 201, body: br#"{"keys": []}"#.to_vec() }), Reason::JwksBadResponse)]
#[case::a_page(Some(KeySetAnswer::Answered { status: 200, body: b"<html>".to_vec() }), Reason::JwksBadResponse)]
#[case::a_list(Some(answered(&json!([]))), Reason::JwksBadResponse)]
#[case::no_list(Some(answered(&json!({"keys": {}}))), Reason::JwksBadResponse)]
#[case::twice(Some(KeySetAnswer::Answered { status: 200, body: br#"{"keys": [], "keys": []}"#.to_vec() }), Reason::JwksBadResponse)]
#[case::many(Some(answered(&json!({"keys": vec![json!({"kid": "x"}); 51]}))), Reason::JwksBadResponse)]
#[case::long(Some(answered(&json!({"keys": [], "pad": "x".repeat(256 * 1024)}))), Reason::JwksBadResponse)]
#[case::fifty(Some(answered(&json!({"keys": vec![json!({"kid": "x"}); 50]}))), Reason::KidNotFound)]
#[case::empty(Some(answered(&json!({"keys": []}))), Reason::KidNotFound)]
fn unavailable_and_malformed_key_sets_leave_signatures_unverifiable(
    #[case] answer: Option<KeySetAnswer>,
    #[case] reason: Reason,
) {
    let keys = Keys {
        key_sets: answer
            .map(|it| (KEY_SET.to_owned(), it))
            .into_iter()
            .collect(),
        ..Keys::default()
    };
    assert_eq!(results(&signed(card(), "ES256"), &keys), [failed(reason)]);
}

#[rstest]
#[case::no_object(json!("x"), Reason::BadEncoding)]
#[case::nothing(json!({}), Reason::BadEncoding)]
#[case::no_text(json!({"protected": {}, "signature": ""}), Reason::BadEncoding)]
#[case::padding(json!({"protected": "e30=", "signature": ""}), Reason::BadEncoding)]
#[case::other_alphabet(json!({"protected": "e30", "signature": "+/+/"}), Reason::BadEncoding)]
#[case::white_space(json!({"protected": "e30", "signature": "AA AA"}), Reason::BadEncoding)]
#[case::loose_bits(json!({"protected": "e31", "signature": ""}), Reason::BadEncoding)]
#[case::no_signature(json!({"protected": "e30"}), Reason::BadEncoding)]
#[case::not_json(json!({"protected": encode(b"alg"), "signature": ""}), Reason::HeaderNotJson)]
#[case::a_list(json!({"protected": encode(b"[]"), "signature": ""}), Reason::HeaderNotJson)]
#[case::twice(json!({"protected": encode(br#"{"alg":"ES256","alg":"none"}"#), "signature": ""}), Reason::HeaderNotJson)]
#[case::long(json!({"protected": encode(format!("{{\"x\":\"{}\"}}", "x".repeat(8 * 1024)).as_bytes()), "signature": ""}), Reason::HeaderNotJson)]
#[case::empty(json!({"protected": "e30", "signature": ""}), Reason::AlgMissing)]
fn a_signature_has_to_be_readable(#[case] signature: Value, #[case] reason: Reason) {
    let card = with_signatures(card(), vec![signature]);
    assert_eq!(results(&card, &keys()), [failed(reason)]);
}

#[test]
fn ecdsa_signatures_are_r_and_s_concatenated() {
    let mut card = signed(card(), "ES256");
    let raw = card["signatures"][0]["signature"].as_str().unwrap();
    let raw =
        base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, raw).unwrap();
    // The same two numbers in DER, each with a leading zero so that neither is negative.
    let (r, s) = raw.split_at(32);
    let der = [&[0x30, 70, 2, 33, 0], r, &[2, 33, 0], s].concat();
    for signature in [&der, &raw[..63].to_vec(), &[raw.as_slice(), &[0]].concat()] {
        card["signatures"][0]["signature"] = json!(encode(signature));
        assert_eq!(results(&card, &keys()), [failed(Reason::SignatureMismatch)]);
    }
}

/// The relevant members of a card, and the hand-written form that is signed.
#[rstest]
#[case::spec(
    r#"{"b":1,"additionalInterfaces":[],"capabilities":{"extensions":[{"description":"","required":false,"uri":"urn:x","params":{"n":null,"e":[]}}],"streaming":false},"iconUrl":null,"unknown":null,"provider":{"organization":"o","url":null},"securitySchemes":{"k":{"type":"http","scheme":"bearer","description":"","bearerFormat":""},"o":{"type":"oauth2","oauth2MetadataUrl":"","flows":{"password":{"refreshUrl":"","tokenUrl":"t","scopes":{}}}}},"skills":[{"id":"s","tags":[],"examples":[],"inputModes":[],"outputModes":[],"security":[]}],"security":[]}"#,
    r#"{"b":1,"capabilities":{"extensions":[{"params":{"e":[],"n":null},"uri":"urn:x"}],"streaming":false},"provider":{"organization":"o"},"securitySchemes":{"k":{"scheme":"bearer","type":"http"},"o":{"flows":{"password":{"scopes":{},"tokenUrl":"t"}},"type":"oauth2"}},"skills":[{"id":"s","tags":[]}],"unknown":null}"#,
    Profile::Spec,
    true
)]
#[case::spec_of_nothing_to_drop(r#"{"z":[],"a":""}"#, r#"{"a":"","z":[]}"#, Profile::Spec, true)]
#[case::raw(
    r#"{"security":[],"iconUrl":null}"#,
    r#"{"iconUrl":null,"security":[]}"#,
    Profile::Raw,
    true
)]
#[case::sdk(
    "{\"protocolVersion\":\"0.3.0\",\"preferredTransport\":\"JSONRPC\",\"name\":\"B\u{fc}ro \u{1f6a2}\",\"description\":\"\",\"iconUrl\":null,\"capabilities\":{\"streaming\":false,\"extensions\":[{\"uri\":\"urn:x\",\"params\":{\"any\":{\"deep\":[{}]},\"n\":1.0}}]},\"securitySchemes\":{\"k\":{\"type\":\"http\",\"scheme\":\"bearer\"},\"m\":{\"type\":\"mutualTLS\"}},\"skills\":[{\"id\":\"s\",\"tags\":[\"\"]}]}",
    r#"{"capabilities":{"extensions":[{"params":{"n":1.0},"uri":"urn:x"}],"streaming":false},"name":"B\u00fcro \ud83d\udea2","securitySchemes":{"k":{"scheme":"bearer"}},"skills":[{"id":"s"}]}"#,
    Profile::Sdk,
    true
)]
#[case::sdk_of_another_version(
    r#"{"protocolVersion":"0.3.1","preferredTransport":"GRPC","url":"u","description":""}"#,
    r#"{"preferredTransport":"GRPC","protocolVersion":"0.3.1","url":"u"}"#,
    Profile::Sdk,
    true
)]
#[case::sdk_without_a_link(
    r#"{"name":"n","termsOfServiceUrl":"https://x.example"}"#,
    r#"{"name":"n"}"#,
    Profile::Sdk,
    false
)]
#[case::sdk_without_a_skill_member(
    r#"{"skills":[{"id":"s","price":3}]}"#,
    r#"{"skills":[{"id":"s"}]}"#,
    Profile::Sdk,
    false
)]
#[case::sdk_without_a_scheme_member(
    r#"{"securitySchemes":{"k":{"type":"apiKey","in":"header","name":"X","scheme":"?"}}}"#,
    r#"{"securitySchemes":{"k":{"in":"header","name":"X"}}}"#,
    Profile::Sdk,
    false
)]
#[case::numbers(
    r#"{"n":[1e21,1E+20,-0,-0.0,4.50,2e-3,1e-7,333333333.33333329,9007199254740993,123456789012345680000,1e23,5e-324],"\ufb33":1,"😀":2,"s":"\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\/\u007f"}"#,
    "{\"n\":[1e+21,100000000000000000000,0,0,4.5,0.002,1e-7,333333333.3333333,9007199254740992,123456789012345680000,1e+23,5e-324],\"s\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u{7f}\",\"\u{1f600}\":2,\"\u{fb33}\":1}",
    Profile::Spec,
    true
)]
fn a_card_is_signed_in_one_of_three_ways(
    #[case] members: &str,
    #[case] payload: &str,
    #[case] profile: Profile,
    #[case] covers_all: bool,
) {
    let signer = &SIGNERS.es256;
    let signature = signer.seal(&header("ES256", signer.id()), payload.as_bytes());
    let (open, rest) = members.split_at(1);
    let text = format!(r#"{open}"signatures":[{signature}],{rest}"#);
    let card = Card::parse(text.as_bytes()).unwrap();
    let checked = check(&card, &keys(), now());
    assert_eq!(checked[0].result.reason, None, "{payload}");
    assert_eq!(checked[0].result.profile, Some(profile));
    assert_eq!(checked[0].held.as_ref().unwrap().covers_all, covers_all);
}

fn by(signer: &super::fixture::Signer, header: &Value, card: &Value) -> Value {
    signer.seal(header, &canonical(card))
}

#[rstest]
#[case::none(vec![], 0, "33", 0)]
#[case::one(vec![("quay-1", json!({}))], 37, "92", 1)]
#[case::the_same_key_twice(vec![("quay-1", json!({})), ("quay-1", json!({}))], 37, "92", 1)]
#[case::two_keys(vec![("quay-1", json!({})), ("quay-2", json!({}))], 40, "95", 1)]
#[case::undated(vec![("quay-1", json!({"iat": null}))], 34, "89", 1)]
#[case::one_is_recent(vec![("quay-1", json!({"iat": 1})), ("quay-1", json!({}))], 37, "92", 1)]
#[case::and_a_forged_one(vec![("quay-1", json!({})), ("quay-1", json!({"kid": "quay-2"}))], 22, "30.8", 0)]
#[case::two_forged_cost_once(vec![("quay-1", json!({})), ("quay-1", json!({"kid": "quay-2"})), ("quay-1", json!({"kid": "x"}))], 22, "30.8", 0)]
#[case::and_an_old_one(vec![("quay-1", json!({})), ("quay-2", json!({"exp": 1}))], 27, "82", 1)]
#[case::only_an_old_one(vec![("quay-1", json!({"exp": 1}))], 0, "33", 0)]
#[case::all_three(vec![("quay-1", json!({})), ("quay-2", json!({"exp": 1})), ("quay-1", json!({"kid": "x"}))], 12, "26.8", 0)]
#[case::old_and_forged(vec![("quay-2", json!({"exp": 1})), ("quay-1", json!({"kid": "x"}))], 0, "22", 0)]
#[case::no_verdict(vec![("quay-1", json!({"jku": null}))], 0, "33", 0)]
#[case::valid_and_no_verdict(vec![("quay-1", json!({})), ("quay-1", json!({"jku": null}))], 37, "92", 1)]
fn trust_points_of_signatures_by_distinct_keys_add_up(
    #[case] signatures: Vec<(&str, Value)>,
    #[case] points: u64,
    #[case] total: &str,
    #[case] ready: u8,
) {
    let card = card();
    let sealed = signatures.into_iter().map(|(id, changes)| {
        let signer = SIGNERS.all().into_iter().find(|it| it.id() == id).unwrap();
        let mut header = header("ES256", id);
        for (name, value) in changes.as_object().unwrap() {
            header[name] = value.clone();
        }
        by(signer, &header, &card)
    });
    let card = with_signatures(card.clone(), sealed.collect());
    let scorecard = scored(&card, &keys());
    assert_eq!(
        scorecard.trust.breakdown.as_ref().unwrap().signatures.score,
        points
    );
    assert_eq!(scorecard.trust.total.to_string(), total);
    assert_eq!(scorecard.production_ready, ready == 1);
}

#[rstest]
#[case::now(json!({}), &[])]
#[case::ninety_days(json!({"iat": NOW - 90 * DAY}), &[])]
#[case::a_second_more(json!({"iat": NOW - 90 * DAY - 1}), &["SIGNATURE_NOT_RECENT"])]
#[case::a_little_ahead(json!({"iat": NOW + 300}), &[])]
#[case::ahead(json!({"iat": NOW + 301}), &["SIGNATURE_TIME_FUTURE"])]
#[case::no_time(json!({"iat": "CUT"}), &["SIGNATURE_TIME_UNKNOWN"])]
#[case::odd_time(json!({"iat": "2026-06-01"}), &["SIGNATURE_TIME_UNKNOWN"])]
#[case::no_key_id(json!({"kid": "CUT"}), &["SIGNATURE_KID_MISSING"])]
#[case::forged(json!({"kid": "quay-2"}), &["SIGNATURE_INVALID"])]
#[case::over(json!({"exp": 1}), &["SIGNATURE_EXPIRED"])]
#[case::no_source(json!({"jku": "CUT"}), &["SIGNATURE_UNVERIFIABLE"])]
fn unusual_signature_headers_are_reported(#[case] changes: Value, #[case] codes: &[&str]) {
    let found = issues(&scored(&under(changes), &keys()));
    let expected: Vec<_> = codes
        .iter()
        .map(|it| format!("{it} /signatures/0"))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_time_outside_the_protected_header_does_not_count() {
    let mut card = under(json!({"iat": "CUT", "kid": "CUT"}));
    card["signatures"][0]["header"] = json!({"iat": NOW, "kid": "quay-1", "jku": KEY_SET});
    let found = issues(&scored(&card, &keys()));
    assert_eq!(
        found,
        [
            "SIGNATURE_KID_MISSING /signatures/0",
            "SIGNATURE_TIME_UNKNOWN /signatures/0"
        ]
    );
}

#[test]
fn keys_from_other_hosts_must_be_of_trusted_issuers() {
    let unbound = "SIGNATURE_ISSUER_UNBOUND /signatures/0".to_owned();
    let mut keys = keys();
    keys.trusted_issuers.clear();
    let card = under(json!({}));
    let scorecard = scored(&card, &keys);
    assert_eq!(issues(&scorecard), [unbound]);
    assert_eq!(scorecard.trust.total.to_string(), "92");
    // Key sets on the agent's own host or its provider's host need no one to vouch for them.
    let set = keys.key_sets[KEY_SET].clone();
    for url in [
        "https://berths.harbour.example/k",
        "https://HARBOUR.example:8443/k",
    ] {
        keys.key_sets.insert(url.to_owned(), set.clone());
        assert!(issues(&scored(&under(json!({"jku": url})), &keys)).is_empty());
    }
}

#[test]
fn a_trusted_key_needs_no_key_set() {
    let signer = &SIGNERS.ed25519;
    let card = card();
    let trusting = Keys {
        trust_store: BTreeMap::from([("quay-ed".to_owned(), jwk(&signer.jwk()))]),
        ..Keys::default()
    };
    for jku in [json!(null), json!("http://127.0.0.1/")] {
        let mut header = header("EdDSA", signer.id());
        header["jku"] = jku;
        let signed = with_signatures(card.clone(), vec![by(signer, &header, &card)]);
        assert_eq!(results(&signed, &trusting), [VALID]);
        let parsed = Card::parse(&serde_json::to_vec(&signed).unwrap()).unwrap();
        assert!(needed_key_sets(&parsed, &trusting).is_empty());
    }
    // A key set with the right id but another key is final: no other key set is tried.
    let mut keys = keys();
    keys.trust_store
        .insert("quay-1".to_owned(), jwk(&signer.jwk()));
    assert_eq!(
        results(&under(json!({})), &keys),
        [failed(Reason::KeyMismatch)]
    );
}

#[test]
fn an_internal_key_set_may_be_allowed_by_host_and_port() {
    let url = "https://10.0.0.7:8443/set.json";
    let mut keys = keys();
    let set = keys.key_sets[KEY_SET].clone();
    keys.key_sets.insert(url.to_owned(), set);
    let card = under(json!({"jku": url}));
    let place = |port| Endpoint {
        host: "10.0.0.7".to_owned(),
        port,
    };
    keys.allowed = Allowed::of([place(443)]);
    assert_eq!(results(&card, &keys), [failed(Reason::JkuForbiddenAddress)]);
    keys.allowed = Allowed::of([place(8443)]);
    assert_eq!(results(&card, &keys), [VALID]);
}

#[test]
fn signatures_and_key_sets_are_limited() {
    let card = card();
    let signer = &SIGNERS.es256;
    let mut keys = keys();
    let set = keys.key_sets[KEY_SET].clone();
    let seal = |n: usize| {
        let mut header = header("ES256", signer.id());
        header["jku"] = json!(format!("https://keys.harbour.example/{n}"));
        by(signer, &header, &card)
    };
    for n in 0..5 {
        keys.key_sets
            .insert(format!("https://keys.harbour.example/{n}"), set.clone());
    }
    let limit = failed(Reason::LimitExceeded);
    // A signature rejected before its key set matters does not use up the limit.
    let refused = json!({"protected": "e30", "signature": ""});
    let spread = [vec![refused], (0..4).map(seal).collect(), vec![seal(1)]].concat();
    let spread = with_signatures(card.clone(), spread);
    assert_eq!(
        results(&spread, &keys),
        [
            failed(Reason::AlgMissing),
            VALID,
            VALID,
            VALID,
            limit,
            VALID
        ]
    );
    let parsed = Card::parse(&serde_json::to_vec(&spread).unwrap()).unwrap();
    let needed: Vec<_> = (0..3)
        .map(|n| format!("https://keys.harbour.example/{n}"))
        .collect();
    assert_eq!(needed_key_sets(&parsed, &keys), needed);
    let many = with_signatures(card.clone(), vec![seal(0); 12]);
    let found = results(&many, &keys);
    assert!(found[..10].iter().all(|it| *it == VALID));
    assert_eq!(found[10..], [limit, limit]);
}

#[test]
fn signatures_that_are_not_checked_count_for_nothing() {
    let card = serde_json::to_vec(&signed(card(), "ES256")).unwrap();
    let context = Context {
        now: now(),
        keys: None,
        live: Live::Disabled,
    };
    let scorecard = score(&card, &context);
    assert_eq!(issues(&scorecard), ["SIGNATURES_NOT_CHECKED /signatures"]);
    let trust = scorecard.trust;
    assert!(trust.partial_validation && trust.signature_results.is_empty());
    assert_eq!(trust.total.to_string(), "33");
    assert!(!trust.breakdown.unwrap().signatures.tested);
}
