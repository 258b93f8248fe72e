use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::sample::{INDEX, badge, issued, key, list, signatory};
use super::*;
use crate::credential::did::{DidDocument, Signatory, did_web};
use crate::credential::{parse, served};
use touchstone_kit::keys::{PublicKey, SecretKey};

const GOOD: &str = "2026-05-01T00:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn codes(presented: &Value, context: &VerificationContext<'_>, now: &str) -> Vec<&'static str> {
    let verification = verify(presented, context, at(now));
    assert_eq!(verification.valid, verification.reasons.is_empty());
    verification.reasons.iter().map(|it| it.code).collect()
}

#[rstest]
#[case("2026-04-16T13:44:59Z", &["not_yet_valid"])]
#[case("2026-04-16T13:45:00Z", &[])]
#[case("2026-07-15T11:59:59Z", &[])]
#[case("2026-07-15T12:00:00Z", &["expired"])]
fn a_badge_is_valid_only_within_its_validity_period(#[case] now: &str, #[case] expected: &[&str]) {
    let credential = issued(&badge());
    assert_eq!(
        codes(&credential, &VerificationContext::default(), now),
        expected
    );
}

#[rstest]
#[case(&[], "2026-04-30T00:00:00Z", &[], Some(false))]
#[case(&[INDEX], "2026-04-30T00:00:00Z", &["revoked"], Some(true))]
#[case(&[INDEX - 1, INDEX + 1], "2026-04-30T00:00:00Z", &[], Some(false))]
// The status list is too old to be used.
#[case(&[], "2026-04-20T00:00:00Z", &["status_unknown"], None)]
#[case(&[], "2026-05-02T00:00:00Z", &["status_unknown"], None)]
fn the_status_list_says_whether_it_is_revoked(
    #[case] bits: &[u32],
    #[case] signed: &str,
    #[case] expected: &[&str],
    #[case] revoked: Option<bool>,
) {
    let credential = issued(&badge());
    let list = list(bits, signed);
    let context = VerificationContext {
        status_list: Some(&list),
        ..VerificationContext::default()
    };
    assert_eq!(codes(&credential, &context, GOOD), expected);
    assert_eq!(verify(&credential, &context, at(GOOD)).revoked, revoked);
}

#[test]
fn a_status_list_of_another_issuer_is_ignored() {
    let credential = issued(&badge());
    let sound = list(&[], "2026-04-30T00:00:00Z");
    let mut other_place = sound.clone();
    other_place["id"] = json!("https://assess.example.org/status/4");
    let mut other_issuer = sound.clone();
    other_issuer["issuer"] = json!("did:web:assess.example.org");
    let mut other_bits = sound.clone();
    other_bits["credentialSubject"]["encodedList"] =
        list(&[1], "2026-04-30T00:00:00Z")["credentialSubject"]["encodedList"].clone();
    let mut other_purpose = sound;
    other_purpose["credentialSubject"]["statusPurpose"] = json!("suspension");
    for list in [
        other_place,
        other_issuer,
        other_bits,
        other_purpose,
        credential.clone(),
    ] {
        let context = VerificationContext {
            status_list: Some(&list),
            ..VerificationContext::default()
        };
        assert_eq!(
            codes(&credential, &context, GOOD),
            ["status_unknown"],
            "{list}"
        );
    }
}

/// The record of a host that issued the sample.
fn on_record<'a>(badge: &'a Badge, keys: &'a [PublicKey]) -> StoredBadge<'a> {
    StoredBadge {
        badge,
        organization: "acme",
        keys,
        status_list: 3,
        status_index: INDEX,
    }
}

/// The sample, signed with this key in the name of an organization.
fn signed(signatory: &Signatory, key: &SecretKey) -> Value {
    let issuance = Issuance {
        credential_id: Uuid::from_u128(7),
        base_url: sample::BASE,
        status_list: sample::LIST,
        status_index: INDEX,
        signatory,
        key,
    };
    issue(&badge(), &issuance).unwrap()
}

#[test]
fn a_badge_is_checked_against_the_record_of_the_host() {
    let did = did_web("assess.example.org", "acme");
    let (ours, other) = (key(), SecretKey::from_random([3; 32]));
    let keys = [ours.public()];
    let documents = [DidDocument::new(&did, &keys)];
    let by =
        |did: &str, key: &SecretKey| signed(&Signatory::by_web(did.to_owned(), &key.public()), key);
    let credential = by(&did, &ours);
    let badge = badge();
    let judged = |presented: &Value, recorded, revoked| {
        let context = VerificationContext {
            recorded: Some(recorded),
            revoked,
            documents: &documents,
            ..VerificationContext::default()
        };
        codes(presented, &context, GOOD)
    };
    let recorded = on_record(&badge, &keys);
    assert_eq!(judged(&credential, recorded, false), [""; 0]);
    assert_eq!(judged(&credential, recorded, true), ["revoked"]);
    // The order of results is not signed and does not matter to readers; the comparison with the
    // record still detects it.
    let mut turned = credential.clone();
    turned["credentialSubject"]["result"]
        .as_array_mut()
        .unwrap()
        .reverse();
    assert_eq!(judged(&turned, recorded, false), ["not_as_recorded"]);
    // A credential that others sign in their own name verifies, but is not the organization's.
    let theirs = signed(&Signatory::by_key(&other.public()), &other);
    assert_eq!(judged(&theirs, recorded, false), ["other_issuer"]);
    // A name that the organization never had and a key that is not trusted any more fail too.
    let elsewhere = did_web("assess.example.org", "other");
    assert_eq!(
        judged(&by(&elsewhere, &ours), recorded, false),
        ["unproven", "other_issuer"]
    );
    assert_eq!(
        judged(&credential, on_record(&badge, &[]), false),
        ["other_issuer"]
    );
}

#[rstest]
#[case::score(|badge: &mut Badge| badge.performance.score = "0.99".parse().unwrap())]
#[case::tier(|badge: &mut Badge| badge.capability.tier = "Full-Stack".parse().unwrap())]
#[case::coverage(|badge: &mut Badge| badge.capability.coverage = "1.00".parse().unwrap())]
#[case::dimension(|badge: &mut Badge| { badge.dimensions.pop(); badge.dimensions.pop(); })]
#[case::agent(|badge: &mut Badge| badge.agent.name = "other".to_owned())]
#[case::agent_id(|badge: &mut Badge| badge.agent.id = Uuid::from_u128(9))]
#[case::organization(|badge: &mut Badge| badge.organization.name = "other".to_owned())]
#[case::assessment(|badge: &mut Badge| badge.assessment_id = Uuid::from_u128(9))]
#[case::id(|badge: &mut Badge| badge.id = Uuid::from_u128(9))]
#[case::certified(|badge: &mut Badge| badge.certified_at = at("2026-04-17T13:45:00Z"))]
#[case::until(|badge: &mut Badge| badge.valid_until = at("2027-07-15T12:00:00Z"))]
#[case::url(|badge: &mut Badge| badge.verification_url = "https://example.org".to_owned())]
fn a_record_that_differs_from_the_badge_is_detected(#[case] change: impl FnOnce(&mut Badge)) {
    let mut badge = badge();
    let (credential, keys) = (issued(&badge), [key().public()]);
    change(&mut badge);
    let mut recorded = on_record(&badge, &keys);
    let agrees = |recorded| {
        let context = VerificationContext {
            recorded: Some(recorded),
            ..VerificationContext::default()
        };
        !codes(&credential, &context, GOOD).contains(&"not_as_recorded")
    };
    assert!(!agrees(recorded));
    let sound = sample::badge();
    recorded.badge = &sound;
    assert!(agrees(recorded));
    assert!(!agrees(StoredBadge {
        status_index: 1,
        ..recorded
    }));
    assert!(!agrees(StoredBadge {
        status_list: 4,
        ..recorded
    }));
}

#[test]
fn unassessed_dimensions_have_no_result() {
    let credential = issued(&badge());
    let subject = &credential["credentialSubject"];
    let results = subject["result"].as_array().unwrap();
    let stated: Vec<(&str, &str)> = results
        .iter()
        .map(|result| {
            let about = result["resultDescription"].as_str().unwrap();
            let (_, key) = about.split_once('#').unwrap();
            (key, result["value"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        stated,
        [
            ("performance", "0.93"),
            ("task_completion_rate", "0.90"),
            ("accuracy", "0.95"),
            ("capability", "0.64"),
            ("tool_proficiency", "1.00"),
            ("capability_coverage", "0.85"),
            ("performance_tier", "Elite"),
            ("capability_tier", "Versatile"),
        ]
    );
    let described = subject["achievement"]["resultDescription"]
        .as_array()
        .unwrap();
    assert_eq!(described.len(), 2 + 5 + 7 + 2 + 2);
}

#[test]
fn an_organization_of_the_web_is_verified_by_its_document() {
    let did = did_web("assess.example.org:8443", "acme");
    assert_eq!(did, "did:web:assess.example.org%3A8443:orgs:acme");
    let (current, retired) = (key(), SecretKey::from_random([3; 32]));
    let document = DidDocument::new(&did, [&current.public(), &retired.public()]);
    for key in [&current, &retired] {
        let signatory = Signatory::by_web(did.clone(), &key.public());
        let credential = issue(
            &badge(),
            &Issuance {
                credential_id: Uuid::from_u128(7),
                base_url: sample::BASE,
                status_list: sample::LIST,
                status_index: 0,
                signatory: &signatory,
                key,
            },
        )
        .unwrap();
        let context = |documents| VerificationContext {
            documents,
            ..VerificationContext::default()
        };
        let documents = [document.clone()];
        assert_eq!(codes(&credential, &context(&documents), GOOD), [""; 0]);
        assert_eq!(codes(&credential, &context(&[]), GOOD), ["unproven"]);
        // An exposed key is not in the document any more.
        let without = [DidDocument::new(&did, [])];
        assert_eq!(codes(&credential, &context(&without), GOOD), ["unproven"]);
    }
}

#[rstest]
#[case::no_name("", "o", "agent.name")]
#[case::long_name(&"x".repeat(201), "o", "agent.name")]
#[case::no_organization("a", "", "organization.name")]
#[case::noncharacter("a\u{ffff}", "o", "agent.name")]
#[case::tab("a\tb", "o", "agent.name")]
#[case::delete("a", "o\u{7f}", "organization.name")]
fn badge_names_are_limited_in_length_and_characters(
    #[case] agent: &str,
    #[case] organization: &str,
    #[case] field: &str,
) {
    let mut badge = badge();
    badge.agent.name = agent.to_owned();
    badge.organization.name = organization.to_owned();
    let key = key();
    let issuance = Issuance {
        credential_id: Uuid::from_u128(7),
        base_url: sample::BASE,
        status_list: sample::LIST,
        status_index: 0,
        signatory: &signatory(),
        key: &key,
    };
    let refused = issue(&badge, &issuance).unwrap_err();
    assert!(refused.to_string().starts_with(field), "{refused}");
}

#[rstest]
#[case("0.00", Some("0.00"))]
#[case("0.07", Some("0.07"))]
#[case("1.00", Some("1.00"))]
#[case("1.01", None)]
#[case("0.5", None)]
#[case("00.50", None)]
#[case("+.50", None)]
#[case("0.+5", None)]
#[case("", None)]
fn a_score_has_two_decimals(#[case] text: &str, #[case] expected: Option<&str>) {
    let read = text.parse::<DisplayScore>().ok();
    assert_eq!(read.map(|it| it.to_string()).as_deref(), expected);
}

#[test]
fn the_document_says_the_same_as_the_credential() {
    let badge = badge();
    let credential = issued(&badge);
    let stated = document(&badge, &credential, DocumentShape::Specification);
    let document = document(&badge, &credential, DocumentShape::Host);
    assert_eq!(document["performance"]["score"], json!("0.93"));
    for shape in [&document, &stated] {
        assert_eq!(shape["performance"]["composite_score"], json!(0.93));
        assert_eq!(shape["capability"]["composite_score"], json!(0.64));
        assert_eq!(
            shape["standards_alignment"],
            json!([
                "NIST AI 100-1",
                "ISO/IEC 42001:2023",
                "ISO/IEC 25059:2023",
                "ISO/IEC 22989:2022"
            ])
        );
        assert_eq!(
            shape["assessment"],
            json!({"id": badge.assessment_id, "timestamp": "2026-04-16T13:45:00Z", "valid_until": "2026-07-15T12:00:00Z",
                "window_start": null, "window_end": null})
        );
        assert_eq!(
            shape["agent"]["organization_id"],
            json!(badge.organization.id)
        );
    }
    for (shape, score) in [(&document, json!("0.95")), (&stated, json!(0.95))] {
        assert_eq!(shape["performance"]["dimensions"]["accuracy"], score);
    }
    assert_eq!(document["capability"]["tier"], json!("Versatile"));
    assert_eq!(document["capability"]["coverage"], json!("0.85"));
    assert_eq!(
        document["capability"]["dimensions"]["learning_rate"],
        Value::Null
    );
    assert_eq!(document["credential"], credential);
}

#[test]
fn the_credential_states_the_window_of_the_assessment() {
    let mut badge = badge();
    let bare = issued(&badge);
    assert_eq!(bare["evidence"].as_array().unwrap().len(), 1);
    badge.window = Some(Window {
        start: at("2026-03-17T00:00:00.25Z"),
        end: at("2026-04-16T00:00:00Z"),
    });
    let credential = issued(&badge);
    assert_eq!(
        credential["evidence"][1],
        json!({"type": ["Evidence"], "name": "Assessment window", "description": "2026-03-17T00:00:00Z until 2026-04-16T00:00:00Z"})
    );
    assert_eq!(
        codes(&credential, &VerificationContext::default(), GOOD),
        [""; 0]
    );
    let states_badge = |badge: &Badge, credential: &Value| {
        credential::states_badge(credential, badge, sample::BASE, sample::LIST, INDEX)
    };
    assert!(states_badge(&badge, &credential));
    assert!(
        !states_badge(&badge, &bare),
        "the recorded badge was not signed"
    );
    let stated = document(&badge, &credential, DocumentShape::Specification);
    assert_eq!(
        (
            &stated["assessment"]["window_start"],
            &stated["assessment"]["window_end"]
        ),
        (
            &json!("2026-03-17T00:00:00Z"),
            &json!("2026-04-16T00:00:00Z")
        )
    );
    let mut other = badge.clone();
    other.window = Some(Window {
        start: at("2026-03-18T00:00:00Z"),
        end: at("2026-04-16T00:00:00Z"),
    });
    assert!(!states_badge(&other, &credential));
}

#[test]
fn a_badge_states_scores_and_tiers_as_the_rating_showed_them() {
    use crate::rules::assessment::EvidenceBasis;
    use crate::rules::{AxisRating, Measure, Rating};
    let measure = |raw| Measure {
        raw,
        sample_size: 1,
        evidence_count: 1,
        details: None,
        reason: None,
        appeal: None,
    };
    let axis = |raw: Option<f64>, axis, coverage, dimensions| AxisRating {
        composite_raw: raw,
        composite_score: raw.map(Score::of),
        display: raw.map(|raw| Score::of(raw).display(axis)),
        tier: raw.map(|raw| Tier::of(axis, Score::of(raw))),
        tier_capped: false,
        weight_coverage: coverage,
        dimensions,
    };
    let dimensions = vec![
        (Dimension::Accuracy, measure(Some(0.396))),
        (Dimension::Speed, measure(None)),
    ];
    let mut rating = Rating {
        tasks_performance: 20,
        tasks_capability: 30,
        performance: axis(Some(0.396), Axis::Performance, 0.9996, dimensions),
        capability: axis(Some(1.0), Axis::Capability, 1.0, Vec::new()),
        evidence: EvidenceBasis {
            events: 1,
            sources: Sources::new(),
            digest: String::new(),
        },
    };
    let metadata = || {
        let Badge {
            id,
            agent,
            organization,
            assessment_id,
            window,
            certified_at,
            valid_until,
            verification_url,
            ..
        } = badge();
        BadgeMetadata {
            id,
            agent,
            organization,
            assessment_id,
            window,
            certified_at,
            valid_until,
            verification_url,
        }
    };
    let made = Badge::of(&rating, metadata()).unwrap();
    // A composite never shows the number of the next tier; a dimension has no tier.
    assert_eq!(made.performance.score.to_string(), "0.39");
    assert_eq!(made.performance.tier.name(), "Novice");
    assert_eq!(
        made.scored(Dimension::Accuracy).unwrap().to_string(),
        "0.40"
    );
    assert_eq!(made.scored(Dimension::Speed), None);
    // A partial coverage is never shown as 1.00.
    let covered = made.performance.partial_coverage().unwrap();
    assert_eq!(covered.to_string(), "0.99");
    assert_eq!(made.capability.partial_coverage(), None);
    assert_eq!(made.capability.score.to_string(), "1.00");
    rating.capability = axis(None, Axis::Capability, 0.0, Vec::new());
    assert_eq!(
        Badge::of(&rating, metadata()),
        Err(MissingScore(Axis::Capability))
    );
}

mod any_name {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn badges_with_any_name_can_be_signed_served_and_verified(name in "\\PC{1,40}|[^\\p{Cc}\u{fffe}\u{ffff}]{1,20}") {
            let mut badge = badge();
            badge.agent.name = name;
            let credential = issued(&badge);
            let read = parse(served(&credential).as_bytes()).unwrap();
            prop_assert_eq!(&read, &credential);
            prop_assert_eq!(codes(&read, &VerificationContext::default(), GOOD), [""; 0]);
        }
    }
}
