//! Badges to check: valid ones in every form, and invalid ones.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use touchstone_kit::keys::SecretKey;
use touchstone_ratings::credential::did::{DidDocument, Signatory, did_web};
use touchstone_ratings::credential::status_list;
use touchstone_ratings::credential::status_list::Bits;
use touchstone_ratings::credential::{baking, served};
use touchstone_ratings::render::badge::{png, svg};
use touchstone_ratings::rules::Dimension;
use touchstone_ratings::rules::badge::{
    AxisResult, Badge, DimensionResult, Issuance, Party, Window, issue,
};
use touchstone_ratings::rules::badge::{Mark, Scale};
use touchstone_ratings::rules::evidence::{Recorder, Sources};
use uuid::Uuid;

const BASE: &str = "https://assess.example.org";
const LIST: &str = "https://assess.example.org/status/1";
const INDEX: u32 = 99_999;

/// A badge on disk, with its metadata.
pub struct Case {
    pub file: PathBuf,
    pub status: Option<PathBuf>,
    pub did: Option<PathBuf>,
    /// Whether it must be accepted.
    pub good: bool,
}

/// Keys of one organization.
struct Issuer {
    key: SecretKey,
    signatory: Signatory,
}

impl Issuer {
    fn by_key(seed: u8) -> Self {
        let key = SecretKey::from_random([seed; 32]);
        let signatory = Signatory::by_key(&key.public());
        Self { key, signatory }
    }

    fn by_web(seed: u8) -> Self {
        let key = SecretKey::from_random([seed; 32]);
        let did = did_web("assess.example.org:8443", "acme");
        let signatory = Signatory::by_web(did, &key.public());
        Self { key, signatory }
    }

    fn issue(&self, badge: &Badge) -> Value {
        let issuance = Issuance {
            credential_id: Uuid::from_u128(0x77),
            base_url: BASE,
            status_list: LIST,
            status_index: INDEX,
            signatory: &self.signatory,
            key: &self.key,
        };
        issue(badge, &issuance).unwrap()
    }

    fn list(&self, revoked: &[u32], now: Timestamp) -> Value {
        let mut bits = Bits::default();
        for index in revoked {
            bits.set(*index, true).unwrap();
        }
        status_list::sign(&bits, LIST, &self.signatory, &self.key, now).unwrap()
    }
}

fn badge(name: &str, now: Timestamp) -> Badge {
    let rating = |score: &str, tier: &str, coverage: &str| AxisResult {
        score: score.parse().unwrap(),
        tier: tier.parse().unwrap(),
        coverage: coverage.parse().unwrap(),
    };
    let dimension = |dimension, score: &str| DimensionResult {
        dimension,
        score: score.parse().ok(),
    };
    Badge {
        id: Uuid::from_u128(1),
        agent: Party {
            id: Uuid::from_u128(2),
            name: name.to_owned(),
        },
        organization: Party {
            id: Uuid::from_u128(3),
            name: "Acme \"Quality\" & Söhne".to_owned(),
        },
        performance: rating("0.82", "Expert", "1.00"),
        capability: rating("0.71", "Specialist", "0.90"),
        dimensions: vec![
            dimension(Dimension::Accuracy, "0.85"),
            dimension(Dimension::Speed, "0.72"),
            dimension(Dimension::ToolProficiency, "0.88"),
        ],
        sources: Sources::from([(Recorder::Host, 40), (Recorder::Person, 20)]),
        assessment_id: Uuid::from_u128(4),
        window: Some(Window {
            start: now - SignedDuration::from_hours(31 * 24),
            end: now - SignedDuration::from_hours(24),
        }),
        certified_at: now - SignedDuration::from_hours(24),
        valid_until: now + SignedDuration::from_hours(24),
        verification_url: format!("{BASE}/api/v1/badges/{}/verify", Uuid::from_u128(1)),
    }
}

/// The picture of a badge, with this agent name.
pub fn painted(name: &str) -> Vec<u8> {
    png(&badge(name, Timestamp::now()), Mark::None, Scale::Two).unwrap()
}

/// Writes them into a folder. They are valid today, because the libraries use the wall clock.
pub fn cases(folder: &Path) -> Vec<Case> {
    let now = Timestamp::now();
    let (acme, web) = (Issuer::by_key(11), Issuer::by_web(12));
    let good = badge("invoice-reader", now);
    let credential = acme.issue(&good);
    let text = served(&credential);
    let drawn = baking::svg::bake(&svg(&good, Mark::None), &text).unwrap();
    let painted = png(&good, Mark::None, Scale::Two).unwrap();
    let painted = baking::png::bake(&painted, &text).unwrap();

    let write = |name: &str, bytes: &[u8]| {
        let file = folder.join(name);
        std::fs::write(&file, bytes).unwrap();
        file
    };
    let document = |name: &str, document: &Value| write(name, served(document).as_bytes());
    let clear = document("clear.list.json", &acme.list(&[INDEX - 1, INDEX + 1], now));
    let revoking = document("revoking.list.json", &acme.list(&[INDEX], now));
    let mut forged = acme.list(&[INDEX], now);
    forged["credentialSubject"]["encodedList"] =
        acme.list(&[], now)["credentialSubject"]["encodedList"].clone();
    let forged = document("forged.list.json", &forged);
    let others = document("others.list.json", &Issuer::by_key(13).list(&[], now));
    let did = web.signatory.did.clone();
    let own = DidDocument::new(&did, [&web.key.public()]);
    let own = document("did.json", &json!(own));
    let foreign = DidDocument::new(&did, [&acme.key.public()]);
    let foreign = document("foreign.did.json", &json!(foreign));

    let mut cases = Vec::new();
    let mut case = |good, file: PathBuf, status: Option<&PathBuf>, did: Option<&PathBuf>| {
        cases.push(Case {
            file,
            status: status.cloned(),
            did: did.cloned(),
            good,
        });
    };
    case(
        true,
        write("good.json", text.as_bytes()),
        Some(&clear),
        None,
    );
    case(true, write("unlisted.json", text.as_bytes()), None, None);
    case(
        true,
        write("good.svg", drawn.as_bytes()),
        Some(&clear),
        None,
    );
    case(true, write("good.png", &painted), Some(&clear), None);
    for (n, name) in [
        "Zoë <b>&amp;",
        "发票阅读器 🤖",
        "a\"b\\c]]>d",
        "\u{202e}evil\u{a0}\u{10ffff}",
    ]
    .into_iter()
    .enumerate()
    {
        let credential = served(&acme.issue(&badge(name, now)));
        case(
            true,
            write(&format!("named-{n}.json"), credential.as_bytes()),
            None,
            None,
        );
        let drawn = svg(&badge(name, now), Mark::None);
        let drawn = baking::svg::bake(&drawn, &credential).unwrap();
        case(
            true,
            write(&format!("named-{n}.svg"), drawn.as_bytes()),
            None,
            None,
        );
    }
    let of_web = web.issue(&good);
    case(true, document("web.json", &of_web), None, Some(&own));
    case(
        false,
        document("web-foreign.json", &of_web),
        None,
        Some(&foreign),
    );

    case(
        false,
        write("revoked.json", text.as_bytes()),
        Some(&revoking),
        None,
    );
    case(
        false,
        write("revoked.svg", drawn.as_bytes()),
        Some(&revoking),
        None,
    );
    case(false, write("revoked.png", &painted), Some(&revoking), None);
    case(
        false,
        write("list-forged.json", text.as_bytes()),
        Some(&forged),
        None,
    );
    case(
        false,
        write("list-of-others.json", text.as_bytes()),
        Some(&others),
        None,
    );

    let mut over = good.clone();
    over.certified_at = now - SignedDuration::from_hours(48);
    over.valid_until = now - SignedDuration::from_hours(1);
    case(
        false,
        document("expired.json", &acme.issue(&over)),
        None,
        None,
    );
    let mut early = good;
    early.certified_at = now + SignedDuration::from_hours(1);
    case(
        false,
        document("early.json", &acme.issue(&early)),
        None,
        None,
    );

    for (name, place, value) in [
        ("score", "/credentialSubject/result/0/value", json!("0.92")),
        (
            "agent",
            "/credentialSubject/identifier/0/identityHash",
            json!("other"),
        ),
        ("issuer", "/issuer/name", json!("Other")),
        ("dates", "/validUntil", json!("2098-01-01T00:00:00Z")),
        ("index", "/credentialStatus/statusListIndex", json!("5")),
        ("created", "/proof/created", json!("2026-01-01T00:00:00Z")),
        (
            "signature",
            "/proof/proofValue",
            web.issue(&badge("x", now))["proof"]["proofValue"].clone(),
        ),
    ] {
        let mut other = credential.clone();
        *other.pointer_mut(place).unwrap() = value;
        case(
            false,
            document(&format!("changed-{name}.json"), &other),
            None,
            None,
        );
        let drawn = baking::svg::bake(&svg(&badge("x", now), Mark::None), &served(&other)).unwrap();
        case(
            false,
            write(&format!("changed-{name}.svg"), drawn.as_bytes()),
            None,
            None,
        );
        let painted = baking::png::bake(&painted, &served(&other)).unwrap();
        case(
            false,
            write(&format!("changed-{name}.png"), &painted),
            None,
            None,
        );
    }
    let mut added = credential.clone();
    added["credentialSubject"]["bestOfAll"] = json!("yes");
    case(false, document("added.json", &added), None, None);
    let mut unsigned = credential;
    unsigned.as_object_mut().unwrap().remove("proof");
    case(false, document("unsigned.json", &unsigned), None, None);
    cases
}
