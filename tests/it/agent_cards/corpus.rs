//! A folder of cards with expectations: `expected.json`, and `fetch_map.json` for the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use touchstone_agent_cards::rules::signature::{Jwk, KeySetAnswer, Keys};
use touchstone_agent_cards::rules::{Context, Live, score};

use super::fixture;

/// Folder of additional cards.
const EXTRA: &str = "TOUCHSTONE_EXTRA_VECTORS";
const TOLERANCE: f64 = 0.005;
/// Depends on the configuration, which a folder does not state.
const CONFIGURED: &str = "SIGNATURE_ISSUER_UNBOUND";

fn document(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A folder's key-set responses and trusted keys.
fn keys(folder: &Path) -> Keys {
    let map = folder.join("fetch_map.json");
    let map = if map.is_file() {
        document(&map)
    } else {
        Value::Null
    };
    let answers = map["responses"].as_object().into_iter().flatten();
    let key_sets = answers.map(|(url, answer)| {
        let answer = match answer["file"].as_str() {
            None => KeySetAnswer::Unreachable,
            Some(file) => KeySetAnswer::Answered {
                status: u16::try_from(answer["status"].as_u64().unwrap_or(200)).unwrap(),
                body: std::fs::read(folder.join(file)).unwrap(),
            },
        };
        (url.clone(), answer)
    });
    let trusted = map["trustStore"].as_object().into_iter().flatten();
    let trust_store = trusted.map(|(id, key)| (id.clone(), Jwk::read(key.clone()).unwrap()));
    Keys {
        trust_store: trust_store.collect(),
        key_sets: key_sets.collect::<BTreeMap<_, _>>(),
        ..Keys::default()
    }
}

/// Lists expected members that are missing or different. Additional members of ours are ignored.
fn differences(expected: &Value, found: &Value, path: &str, told: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted {
                let found = found.get(name).unwrap_or(&Value::Null);
                differences(wanted, found, &format!("{path}/{name}"), told);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (place, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}/{place}"), told);
            }
        }
        (Value::Number(a), Value::Number(b))
            if (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= TOLERANCE => {}
        (a, b) if a == b => {}
        (a, b) => told.push(format!("{path}: {b} instead of {a}")),
    }
}

/// Scores every card of a folder; returns the number of cards and the differences.
pub fn check(folder: &Path) -> (usize, Vec<String>) {
    let (expected, keys) = (document(&folder.join("expected.json")), keys(folder));
    let context = Context {
        now: Timestamp::from_second(expected["now"].as_i64().unwrap()).unwrap(),
        keys: expected["mode"]["verifySignatures"]
            .as_bool()
            .unwrap_or(true)
            .then_some(&keys),
        live: Live::Disabled,
    };
    let mut told = Vec::new();
    let cards = expected["cards"].as_array().unwrap();
    for card in cards {
        let file = card["file"].as_str().unwrap();
        let bytes = std::fs::read(folder.join(file)).unwrap();
        let found = serde_json::to_value(score(&bytes, &context)).unwrap();
        let mut wanted = card["expect"].clone();
        let codes = wanted.as_object_mut().unwrap().remove("findings");
        differences(&wanted, &found, file, &mut told);
        let codes: BTreeSet<&str> = codes
            .iter()
            .flat_map(|it| it.as_array().unwrap())
            .map(|it| it.as_str().unwrap())
            .collect();
        let issues = found["issues"].as_array().unwrap().iter();
        let issues = issues.filter(|it| it["code"] != CONFIGURED).map(|it| {
            let (code, path) = (it["code"].as_str().unwrap(), it["path"].as_str().unwrap());
            format!("{code} {path}").trim_end().to_owned()
        });
        let issues: BTreeSet<String> = issues.collect();
        told.extend(
            codes
                .iter()
                .filter(|it| !issues.contains(**it))
                .map(|it| format!("{file}: lacks {it}")),
        );
        told.extend(
            issues
                .iter()
                .filter(|it| !codes.contains(it.as_str()))
                .map(|it| format!("{file}: has {it}")),
        );
    }
    (cards.len(), told)
}

#[test]
fn every_card_of_a_named_folder_scores_as_expected() {
    let Some(named) = std::env::var_os(EXTRA) else {
        return;
    };
    let named = Path::new(&named);
    let Some(folder) = [named.to_owned(), named.join("cards")]
        .into_iter()
        .find(|it| {
            let expected = it.join("expected.json");
            expected.is_file() && document(&expected)["cards"].is_array()
        })
    else {
        eprintln!("{EXTRA}: no cards in {}", named.display());
        return;
    };
    let folder = folder.as_path();
    let (cards, told) = check(folder);
    eprintln!("{cards} cards of {}", folder.display());
    assert!(told.is_empty(), "\n  {}", told.join("\n  "));
    assert!(cards > 0);
}

/// A folder of our own, in the common format.
fn folder(cards: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, document: &Value| {
        std::fs::write(folder.path().join(name), document.to_string()).unwrap();
    };
    let signers = &fixture::SIGNERS;
    write("set.json", &json!({"keys": [signers.es256.jwk()]}));
    write("good.json", &fixture::signed(fixture::card(), "ES256"));
    write("trusted.json", &fixture::signed(fixture::card(), "EdDSA"));
    write("none.json", &json!([]));
    let map = json!({
        "responses": {
            fixture::KEY_SET: {"file": "set.json"},
            "https://down.example/": {"error": "connect timeout"},
        },
        "trustStore": {"quay-ed": signers.ed25519.jwk()},
    });
    write("fetch_map.json", &map);
    write(
        "expected.json",
        &json!({"now": fixture::NOW, "cards": cards}),
    );
    folder
}

fn expectations() -> Value {
    let signed = json!({
        "compliance": {"total": 100.0, "rating": "PERFECT"},
        "trust": {"total": 92, "signatureResults": [{"index": 0, "state": "valid"}]},
        "findings": [],
    });
    json!([
        {"file": "good.json", "expect": signed},
        {"file": "trusted.json", "expect": signed},
        {"file": "none.json", "expect": {"blockers": ["compliance", "trust"], "findings": ["CARD_UNPARSEABLE"]}},
    ])
}

#[test]
fn a_folder_of_ours_scores_as_expected() {
    let folder = folder(&expectations());
    assert_eq!(check(folder.path()), (3, vec![]));
}

#[test]
fn differences_from_the_expectation_are_reported() {
    let mut wrong = expectations();
    wrong[0]["expect"]["trust"]["total"] = json!(91.99);
    wrong[0]["expect"]["findings"] = json!(["SSRF_RISK /url"]);
    wrong[1]["expect"]["trust"]["signatureResults"] = json!([]);
    wrong[2]["expect"]["findings"] = json!([]);
    let (cards, told) = check(folder(&wrong).path());
    assert_eq!(cards, 3);
    let told: Vec<&str> = told
        .iter()
        .map(|it| it.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        told,
        [
            "good.json/trust/total",
            "good.json",
            "trusted.json/trust/signatureResults",
            "none.json"
        ]
    );
}
