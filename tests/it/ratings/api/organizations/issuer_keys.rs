//! Issuer keys of organizations: rotation, and revocation as compromised with its consequences.

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_ratings::credential::did::DidDocument;
use touchstone_ratings::credential::parse;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_ratings::rules::badge::{VerificationContext, verify};

use crate::http::support::host::{Lab, Reply, TestHost, UNLIMITED};
use crate::ratings::api::badges::certified;
use crate::ratings::api::{Engine, Site, refusal};
use crate::store::TestStore;

const HOST: &str = "https://assess.example.org";

async fn site_on(database: &TestStore, place: &HostUrl) -> Site {
    let (settings, lab) = (HttpSettings::default(), Lab::limited(UNLIMITED));
    let host = TestHost::lab(database.open().await, settings, place.clone(), lab).await;
    Site::of(host, None).await
}

/// Rotates with the host operator's key.
async fn rotate(site: &Site, body: &Value) -> Reply {
    let path = format!("/api/v1/organizations/{}/issuer-keys/rotate", site.ours.id);
    site.host.post(&path, body).await
}

async fn rotated(site: &Site, body: &Value) -> Value {
    let rotated = rotate(site, body).await;
    assert_eq!(rotated.status, StatusCode::OK, "{rotated:?}");
    rotated.json()
}

async fn credential(site: &Site, badge: &str) -> Value {
    let path = format!("/api/v1/badges/{badge}/credential");
    parse(&site.anonymous(&path).await.body).unwrap()
}

fn key_of(credential: &Value) -> String {
    let method = credential["proof"]["verificationMethod"].as_str().unwrap();
    method.split_once('#').unwrap().1.to_owned()
}

async fn verified(site: &Site, badge: &str) -> Value {
    let path = format!("/api/v1/badges/{badge}/verify");
    site.anonymous(&path).await.json()
}

/// The reasons why an outside verifier rejects a credential, from the documents the host serves.
async fn strangers_reasons(site: &Site, place: &HostUrl, credential: &Value) -> Vec<&'static str> {
    let list = credential["credentialStatus"]["statusListCredential"].as_str();
    let list = list.unwrap().strip_prefix(place.base_url()).unwrap();
    let list = parse(&site.anonymous(list).await.body).unwrap();
    let mut documents: Vec<DidDocument> = Vec::new();
    if place.did(&site.ours.id).is_some() {
        let path = format!("/orgs/{}/did.json", site.ours.id);
        documents.push(serde_json::from_value(site.anonymous(&path).await.json()).unwrap());
    }
    let standing = VerificationContext {
        status_list: Some(&list),
        documents: &documents,
        ..VerificationContext::default()
    };
    let checked = verify(credential, &standing, Timestamp::now());
    checked.reasons.iter().map(|it| it.code).collect()
}

#[rstest]
#[tokio::test]
async fn signatures_of_retired_keys_stay_valid_and_of_compromised_keys_do_not(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(HostUrl::public(HOST).unwrap(), HostUrl::listening("127.0.0.1:7800"))] place: HostUrl,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let site = site_on(&database, &place).await;
    let unsigned = rotate(&site, &json!({})).await;
    assert_eq!(
        refusal(&unsigned),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    let first = certified(&site, "first").await;
    let answer = rotated(&site, &json!({})).await;
    assert_eq!(answer["revoked_badges"], 0);
    let second = certified(&site, "second").await;
    let third = certified(&site, "third").await;
    let (one, two) = (
        credential(&site, &first).await,
        credential(&site, &second).await,
    );
    let (old, current) = (key_of(&one), key_of(&two));
    assert_ne!(old, current);
    assert_eq!(
        (&answer["keys"][0]["key"], &answer["keys"][1]["key"]),
        (&json!(old), &json!(current))
    );
    for (badge, credential) in [(&first, &one), (&second, &two)] {
        assert_eq!(verified(&site, badge).await["valid"], true);
        assert_eq!(strangers_reasons(&site, &place, credential).await, [""; 0]);
    }

    // The retired key turns out to be compromised.
    let twice = rotate(&site, &json!({"key": old})).await;
    assert_eq!(twice.status, StatusCode::CONFLICT, "{twice:?}");
    let answer = rotated(&site, &json!({"key": old, "compromised": true})).await;
    assert_eq!(answer["revoked_badges"], 1);
    assert_eq!(
        answer["keys"].as_array().unwrap().len(),
        2,
        "no replacement key is made"
    );
    let found = verified(&site, &first).await;
    assert_eq!(
        (&found["valid"], &found["revoke_reason"]),
        (&json!(false), &json!("key_compromise"))
    );
    assert!(!strangers_reasons(&site, &place, &one).await.is_empty());
    assert_eq!(strangers_reasons(&site, &place, &two).await, [""; 0]);
    let drawn = site.anonymous(&format!("/api/v1/badges/{first}.svg")).await;
    assert!(
        drawn.text().contains("REVOKED"),
        "the badge stays visible, marked as revoked"
    );
    assert_eq!(verified(&site, &second).await["valid"], true);

    // The current key is compromised as well.
    let answer = rotated(&site, &json!({"compromised": true})).await;
    assert_eq!(answer["revoked_badges"], 2);
    let compromised: Vec<&Value> = answer["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["compromised"])
        .collect();
    assert_eq!(compromised, [true, true, false]);
    for badge in [&second, &third] {
        assert_eq!(
            verified(&site, badge).await["revoke_reason"],
            "key_compromise"
        );
    }
    assert!(!strangers_reasons(&site, &place, &two).await.is_empty());
    // Status lists signed by another party, with different bits set, are rejected as well.
    let bits = [0, 1, 131_071].map(|bit| {
        let mut other = two.clone();
        other["credentialStatus"]["statusListIndex"] = json!(bit.to_string());
        other
    });
    if place.did("").is_none() {
        for other in bits {
            let reasons = strangers_reasons(&site, &place, &other).await;
            assert!(reasons.contains(&"revoked"), "{reasons:?}");
        }
    }
    let fourth = certified(&site, "fourth").await;
    let four = credential(&site, &fourth).await;
    assert_eq!(verified(&site, &fourth).await["valid"], true);
    assert_eq!(strangers_reasons(&site, &place, &four).await, [""; 0]);
    let again = rotate(&site, &json!({"key": old, "compromised": true})).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{again:?}");
    let audit = site
        .host
        .store
        .audit_entries(&site.ours.id.as_str().into(), 0, 100)
        .await
        .unwrap();
    for said in ["issuer-keys:rotate", "issuer-keys:compromised", &old] {
        assert!(audit.iter().any(|it| it.body.contains(said)), "{said}");
    }
}

#[rstest]
#[tokio::test]
async fn an_agents_own_key_replaces_no_issuer_key_whatever_its_scopes(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let site = site_on(&database, &HostUrl::public(HOST).unwrap()).await;
    let badge = certified(&site, "first").await;
    let agent = site.enrol("canary").await;
    let before = site
        .anonymous(&format!("/orgs/{}/did.json", site.ours.id))
        .await;
    for operator in [false, true] {
        let key = site
            .host
            .issue(|issue| {
                issue.tenant = site.ours.id.as_str().into();
                issue.principal = Some(agent.clone());
                issue.scopes = Scope::within_tenant().collect();
                if operator {
                    issue.scopes = Scope::ALL.to_vec();
                }
            })
            .await;
        for organization in [&site.ours.id, &site.theirs.id] {
            let path = format!("/api/v1/organizations/{organization}");
            let rotate = format!("{path}/issuer-keys/rotate");
            let expected = match operator || *organization == site.ours.id {
                true => StatusCode::FORBIDDEN,
                false => StatusCode::NOT_FOUND,
            };
            for body in [json!({}), json!({"compromised": true})] {
                let call = site.host.request(Method::POST, &rotate).key(&key);
                assert_eq!(call.json(&body).send().await.status, expected);
            }
            let call = site.host.request(Method::PATCH, &path).key(&key);
            let renamed = call.json(&json!({"name": "pwned"})).send().await;
            assert_eq!(renamed.status, expected);
        }
    }
    let after = site
        .anonymous(&format!("/orgs/{}/did.json", site.ours.id))
        .await;
    assert_eq!(before.json(), after.json());
    assert_eq!(verified(&site, &badge).await["valid"], true);
}

#[tokio::test]
async fn naming_and_revoking_an_issuer_key_need_permission() {
    let database = Engine::Sqlite.database().await.unwrap();
    let place = HostUrl::public(HOST).unwrap();
    let site = site_on(&database, &place).await;
    let badge = certified(&site, "first").await;
    let foreign = "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    for key in [foreign, "z6Mkx", "x"] {
        let refused = rotate(&site, &json!({"key": key})).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
        assert_eq!(refused.json()["error"]["details"]["field"], "key");
    }
    let tenant = site.ours.id.clone();
    let member = |scopes: Vec<Scope>| {
        site.host.issue(|issue| {
            issue.tenant = tenant.as_str().into();
            issue.scopes = scopes;
        })
    };
    let path = format!("/api/v1/organizations/{}/issuer-keys/rotate", site.ours.id);
    let send = |key: String, body: Value| {
        let call = site.host.request(Method::POST, &path).key(&key);
        async move { call.json(&body).send().await }
    };
    let writes = member(vec![Scope::ConfigWrite]).await;
    let refused = send(writes.clone(), json!({"compromised": true})).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
    );
    assert_eq!(verified(&site, &badge).await["valid"], true);
    let rotated = send(writes, json!({})).await;
    assert_eq!(rotated.status, StatusCode::OK, "{rotated:?}");
    let both = member(vec![Scope::ConfigWrite, Scope::BadgesRevoke]).await;
    let called = send(both, json!({"compromised": true})).await;
    assert_eq!(called.json()["revoked_badges"], 0, "the key signed nothing");
    assert_eq!(verified(&site, &badge).await["valid"], true);
}
