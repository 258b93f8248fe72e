//! Cards built to be expensive: the findings and the work for them are bounded.

use serde_json::{Map, Value, json};
use touchstone_agent_cards::rules::document::MAX_OCTETS;
use touchstone_agent_cards::rules::finding::{Code, MAX_KEPT};
use touchstone_agent_cards::rules::signature::Keys;

use super::fixture::{self, Change, SIGNERS, card, changed, keys_of, scored};

fn codes(document: &Value, code: &str) -> usize {
    let issues = document["issues"].as_array().unwrap().iter();
    issues.filter(|it| it["code"] == code).count()
}

#[test]
fn findings_with_long_pointers_have_bounded_size() {
    let flow = json!({"tokenUrl": "http:"});
    let flows: Map<String, Value> = (0..20_000).map(|n| (n.to_string(), flow.clone())).collect();
    let mut schemes = Map::new();
    schemes.insert(
        "~".repeat(400_000),
        json!({"type": "oauth2", "flows": flows}),
    );
    let card = changed(card(), &[Change::Set("/securitySchemes", schemes.into())]);
    assert!((900_000..MAX_OCTETS).contains(&card.to_string().len()));
    let found = scored(&card, &Keys::default());
    let text = serde_json::to_string(&found).unwrap();
    // About 400 bytes per finding; the name alone is a thousand times that.
    assert!(text.len() < 500 * MAX_KEPT, "{}", text.len());
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found.counts.get(&Code::HttpUrl), Some(&20_000));
    let counted: u32 = found.counts.values().sum();
    assert_eq!(document["issues"].as_array().unwrap().len(), MAX_KEPT);
    assert_eq!(document["omittedIssues"], counted as usize - MAX_KEPT);
}

#[test]
fn every_kind_of_fault_is_reported_among_many_others() {
    let skill = json!({"id": "", "name": "n", "description": "d", "tags": []});
    let skills: Vec<Value> = vec![skill; 5_000];
    let mut card = changed(card(), &[Change::Set("/skills", skills.into())]);
    card["iconUrl"] = json!("http://harbour.example/");
    card["signatures"] = json!([{"protected": "?", "signature": "?"}]);
    let found = scored(&card, &Keys::default());
    let counted: u32 = found.counts.values().sum();
    let document = serde_json::to_value(&found).unwrap();
    // The first thousand findings are about skills, two per skill; later findings are kept as well.
    for (code, n) in [
        ("SKILL_TAGS_MISSING", 500),
        ("SIGNATURE_INVALID", 1),
        ("HTTP_URL", 1),
    ] {
        assert_eq!(codes(&document, code), n, "{code}");
    }
    let shown = document["issues"].as_array().unwrap().len();
    assert_eq!(document["omittedIssues"], counted as usize - shown);
}

#[test]
fn tried_keys_per_card_are_limited() {
    let keys: Vec<Value> = (0..50)
        .map(|n| {
            let mut key = SIGNERS.es256.jwk();
            key["kid"] = json!(format!("key-{n}"));
            key
        })
        .collect();
    let mut header = fixture::header("ES256", "");
    header.as_object_mut().unwrap().remove("kid");
    let signature = SIGNERS.es256.seal(&header, b"another card");
    let card = fixture::with_signatures(card(), vec![signature; 10]);
    let found = scored(&card, &keys_of(&json!({"keys": keys})));
    let document = serde_json::to_value(&found).unwrap();
    let results = document["trust"]["signatureResults"].as_array().unwrap();
    let reasons: Vec<&str> = results
        .iter()
        .map(|it| it["reason"].as_str().unwrap())
        .collect();
    // Fifty keys and three forms of the card are 150 attempts for each.
    assert_eq!(reasons[..2], ["signature_mismatch"; 2]);
    assert_eq!(reasons[2..], ["limit_exceeded"; 8]);
    assert_eq!(results[9]["state"], "unverifiable");
}
