//! Records that an attacker changed in the database: unsigned changes are neither shown nor
//! trusted.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_kit::keys::SecretKey;
use touchstone_ratings::credential::did::Signatory;
use touchstone_ratings::credential::served;
use touchstone_ratings::rules::badge::{Badge, Issuance, issue};
use uuid::Uuid;

use crate::ratings::api::badges::certified;
use crate::ratings::api::{Engine, Site, gates};
use crate::store::TestStore;

/// A host whose database the test can change.
pub async fn site_on(database: &TestStore) -> Site {
    Site::over(database).await
}

/// The reasons the public endpoints give for rejecting a badge.
async fn speaks_against(site: &Site, badge: &str) -> Vec<String> {
    let path = format!("/api/v1/badges/{badge}/verify");
    let found = site.anonymous(&path).await.json();
    assert_eq!(found["valid"], false, "{found}");
    assert_eq!(
        (&found["performance"], &found["capability"]),
        (&Value::Null, &Value::Null),
        "no unsigned score is shown"
    );
    let reasons = found["reasons"].as_array().unwrap().iter();
    reasons
        .map(|it| it["code"].as_str().unwrap().to_owned())
        .collect()
}

/// The badge is shown in no form except the credential, which is self-verifying.
async fn is_not_shown(site: &Site, badge: &str) {
    for extension in ["", ".json", ".svg", ".png", ".md"] {
        let path = format!("/api/v1/badges/{badge}{extension}");
        let call = site.host.request(Method::GET, &path);
        let shown = call.anonymous().at_fault().send().await;
        assert_eq!(
            shown.status,
            StatusCode::INTERNAL_SERVER_ERROR,
            "{extension}"
        );
    }
    let path = format!("/api/v1/badges/{badge}/credential");
    assert_eq!(site.anonymous(&path).await.status, StatusCode::OK);
}

async fn tier(site: &Site, badge: &str) -> String {
    let path = format!("/api/v1/badges/{badge}/verify");
    let found = site.anonymous(&path).await.json();
    assert_eq!(
        (&found["valid"], &found["reasons"]),
        (&json!(true), &json!([]))
    );
    found["performance"]["tier"].as_str().unwrap().to_owned()
}

/// A performance tier different from this one.
fn other_than(tier: &str) -> &'static str {
    if tier == "Novice" { "Elite" } else { "Novice" }
}

#[rstest]
#[tokio::test]
async fn a_badge_whose_record_was_changed_is_neither_believed_nor_shown(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let site = site_on(&database).await;
    let badge = certified(&site, "invoice-reader").await;
    let earned = tier(&site, &badge).await;
    let other = other_than(&earned);
    let swap = |from: &str, to: &str| {
        database.execute(format!(
            "UPDATE rating_badge SET badge = REPLACE(badge, '\"{from}\"', '\"{to}\"')"
        ))
    };
    swap(&earned, other).await;
    assert_eq!(speaks_against(&site, &badge).await, ["not_as_recorded"]);
    is_not_shown(&site, &badge).await;
    swap(other, &earned).await;
    assert_eq!(tier(&site, &badge).await, earned, "the record is unchanged");

    // A credential signed with a freshly made key is valid on its own and matches the record.
    let record = site.get(&format!("badges/{badge}")).await.json();
    let party = |name: &str| record[name].clone();
    let forged = json!({
        "id": badge, "agent": party("agent"), "organization": party("organization"),
        "performance": {"score": "0.99", "tier": "Elite", "coverage": "1.00"},
        "capability": {"score": "0.99", "tier": "Full-Stack", "coverage": "1.00"},
        "dimensions": [], "assessment_id": party("assessment_id"), "certified_at": party("certified_date"),
        "valid_until": party("valid_until"), "verification_url": party("verification_url"),
    });
    let said: Badge = serde_json::from_value(forged.clone()).unwrap();
    let key = SecretKey::from_random([7; 32]);
    let index = record["credential"]["credentialStatus"]["statusListIndex"]
        .as_str()
        .unwrap();
    let list = record["credential"]["credentialStatus"]["statusListCredential"]
        .as_str()
        .unwrap();
    let signatory = Signatory::by_key(&key.public());
    let credential = issue(
        &said,
        &Issuance {
            credential_id: Uuid::from_u128(1),
            base_url: "https://assess.example.org",
            status_list: list,
            status_index: index.parse().unwrap(),
            signatory: &signatory,
            key: &key,
        },
    );
    let credential = served(&credential.unwrap());
    assert!(!credential.contains('\'') && !forged.to_string().contains('\''));
    let put = format!("UPDATE rating_badge SET badge = '{forged}', credential = '{credential}'");
    database.execute(put).await;
    assert_eq!(speaks_against(&site, &badge).await, ["other_issuer"]);
    is_not_shown(&site, &badge).await;
}

#[rstest]
#[tokio::test]
async fn a_gate_rejects_a_tier_that_differs_from_the_badge(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let mut site = site_on(&database).await;
    let rated = gates::rated(&mut site).await;
    assert_eq!(gates::unmet(&site).await, [""; 0]);
    let earned = tier(&site, &rated).await;
    let other = other_than(&earned);
    for (table, column, back) in [
        ("rating_assessment", "finding", true),
        ("rating_badge", "badge", true),
        ("rating_badge", "credential", false),
    ] {
        let swap = |from: &str, to: &str| {
            let changed = format!("REPLACE({column}, '\"{from}\"', '\"{to}\"')");
            database.execute(format!("UPDATE {table} SET {column} = {changed}"))
        };
        swap(&earned, other).await;
        assert_eq!(gates::unmet(&site).await, ["badge"], "{table}.{column}");
        if back {
            swap(other, &earned).await;
            assert_eq!(gates::unmet(&site).await, [""; 0]);
        }
    }
}
