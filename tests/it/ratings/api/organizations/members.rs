//! Organizations and the keys that act for them.

use axum::http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;
use touchstone_host::access::Scope;
use touchstone_host::ports::keys::KeyRecord;

use crate::http::support::host::TestHost;
use crate::ratings::api::{Engine, Organization, found, refusal, site};
use secrecy::ExposeSecret as _;

#[rstest]
#[tokio::test]
async fn an_organization_is_made_once_for_a_tenant_and_its_key_is_shown_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let host = &site.host;
    let ask = async |body: &serde_json::Value| {
        let call = host.request(Method::POST, "/api/v1/organizations");
        call.header("idempotency-key", "founding")
            .json(body)
            .send()
            .await
    };
    let body = json!({"name": "Initech", "tenant": "initech"});
    let first = ask(&body).await;
    assert_eq!(first.status, StatusCode::CREATED);
    let made = first.json();
    let key = made["api_key"].as_str().unwrap().to_owned();
    assert_eq!(
        (&made["tenant"], &made["status"]),
        (&json!("initech"), &json!("active"))
    );
    let again = ask(&body).await;
    assert_eq!(again.status, StatusCode::CREATED);
    let mut without = made.clone();
    without.as_object_mut().unwrap().remove("api_key");
    assert_eq!(again.json(), without, "no record of an answer holds a key");
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));

    let another = json!({"name": "Initrode", "tenant": "initech"});
    let refused = host.post("/api/v1/organizations", &another).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    let own = format!("/api/v1/organizations/{}", made["id"].as_str().unwrap());
    let seen = host.request(Method::GET, &own).key(&key).send().await;
    assert_eq!(seen.json(), without);
    let audit = host.keys_of("initech").await;
    assert_eq!(audit.len(), 1, "the first key, and only that");
}

#[tokio::test]
async fn a_key_comes_in_either_header_and_never_in_both() {
    site!(Engine::Sqlite => site);
    let (host, key) = (&site.host, &site.ours.key);
    let ask = || host.request(Method::GET, "/api/v1/agents").anonymous();
    let bearer = format!("Bearer {key}");
    for call in [
        ask().header("authorization", &bearer),
        ask().header("x-api-key", key),
    ] {
        assert_eq!(call.send().await.status, StatusCode::OK);
    }
    let stranger = format!("ak_{}", "A".repeat(43));
    for call in [
        ask(),
        ask()
            .header("authorization", &bearer)
            .header("x-api-key", key),
        ask().header("x-api-key", key).header("x-api-key", key),
        ask().header("x-api-key", &stranger),
        ask().header("x-api-key", &key[..45]),
        ask().header("x-api-key", "ak_"),
        // A key of one kind is not accepted as another kind.
        ask().header(
            "x-api-key",
            &format!("tsk_{}_{key}", id_of(host, &site.ours).await),
        ),
    ] {
        let refused = call.send().await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::UNAUTHORIZED, "UNAUTHORIZED".to_owned())
        );
        assert!(!refused.text().contains(key.as_str()));
    }
    let elsewhere = host.request(Method::GET, "/v1/agents").anonymous();
    let elsewhere = elsewhere.header("x-api-key", key).send().await;
    assert_eq!(elsewhere.code(), "unauthenticated");
    let elsewhere = host
        .request(Method::GET, "/v1/agents")
        .key(key)
        .send()
        .await;
    assert_eq!(
        elsewhere.code(),
        "forbidden",
        "its scopes are for agents of AAAF"
    );
}

#[rstest]
#[tokio::test]
async fn a_key_is_rotated_with_an_overlap_and_revoked_at_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let (host, old) = (&site.host, &site.ours.key);
    let id = id_of(host, &site.ours).await;
    let status = async |key: &str| {
        let call = host.request(Method::GET, "/api/v1/agents").key(key);
        call.send().await.status
    };
    let later = Timestamp::now() + SignedDuration::from_hours(1);
    let new = host.keys.rotate(&id, later, None).await.unwrap();
    let new = new.text.expose_secret();
    assert!(new.starts_with("ak_") && new.len() == old.len() && new != old);
    assert_eq!(
        (status(old).await, status(new).await),
        (StatusCode::OK, StatusCode::OK)
    );
    let newest = host.keys.rotate(&id, Timestamp::now(), None).await.unwrap();
    let newest = newest.text.expose_secret();
    for over in [old, new] {
        assert_eq!(status(over).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(status(newest).await, StatusCode::OK);
    host.keys.revoke(&id).await.unwrap();
    assert_eq!(status(newest).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_suspended_organization_can_only_read_and_an_archived_one_gets_an_error() {
    site!(Engine::Sqlite => site);
    let host = &site.host;
    let path = format!("/api/v1/organizations/{}", site.ours.id);
    let set = async |status: &str| {
        let call = host.request(Method::PATCH, &path);
        let changed = call.json(&json!({"status": status})).send().await;
        assert_eq!(changed.json()["status"], status);
    };
    let agent = json!({"name": "a"});
    set("suspended").await;
    assert_eq!(site.get("agents").await.status, StatusCode::OK);
    let refused = site.post("agents", &agent).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
    );
    set("archived").await;
    assert_eq!(site.get("agents").await.status, StatusCode::FORBIDDEN);
    let own = host
        .request(Method::GET, &path)
        .key(&site.ours.key)
        .send()
        .await;
    assert_eq!(own.status, StatusCode::FORBIDDEN);
    set("active").await;
    assert_eq!(
        site.post("agents", &agent).await.status,
        StatusCode::CREATED
    );
    let own = host.request(Method::PATCH, &path).key(&site.ours.key);
    let own = own.json(&json!({"status": "active"})).send().await;
    assert_eq!(
        refusal(&own),
        (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
    );
    assert_eq!(
        own.json()["error"]["details"]["scope_required"],
        "organizations:write"
    );
    let renamed = host.request(Method::PATCH, &path).key(&site.ours.key);
    let renamed = renamed.json(&json!({"name": "Acme"})).send().await;
    assert_eq!(renamed.json()["name"], "Acme");
}

#[tokio::test]
async fn a_tenant_without_an_organization_gets_the_remedy() {
    let host = TestHost::idle().await;
    let refused = host.get("/api/v1/agents").await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
    );
    assert!(refused.text().contains("POST /api/v1/organizations"));
    // An organization for an existing tenant: the tenant's other keys act for it too.
    let made = found(&host, &json!({"name": "Acme", "tenant": "acme"})).await;
    let key = host.key_with(&[Scope::AgentsRead]).await;
    let listed = host
        .request(Method::GET, "/api/v1/agents")
        .key(&key)
        .send()
        .await;
    assert_eq!(listed.status, StatusCode::OK);
    let foreign = host.request(Method::GET, &format!("/api/v1/organizations/{}", made.id));
    let outsider = found(&host, &json!({"name": "Globex"})).await;
    let foreign = foreign.key(&outsider.key).send().await;
    assert_eq!(
        refusal(&foreign),
        (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned())
    );
}

#[tokio::test]
async fn every_refusal_has_the_envelope_of_this_api() {
    site!(Engine::Sqlite => site);
    let (host, key) = (&site.host, &site.ours.key);
    for (method, path, kind, status, code) in [
        (Method::GET, "/api/v1/nothing", None, 404, "NOT_FOUND"),
        (Method::GET, "/api/v1/agents/none", None, 404, "NOT_FOUND"),
        (Method::PUT, "/api/v1/agents", None, 405, "INVALID_REQUEST"),
        (
            Method::POST,
            "/api/v1/agents",
            Some("text/plain"),
            415,
            "INVALID_REQUEST",
        ),
        (
            Method::POST,
            "/api/v1/agents",
            Some("application/json"),
            400,
            "INVALID_REQUEST",
        ),
        (
            Method::GET,
            "/api/v1/agents?limit=0",
            None,
            400,
            "INVALID_REQUEST",
        ),
        (
            Method::GET,
            "/api/v1/agents?limit=201",
            None,
            400,
            "INVALID_REQUEST",
        ),
        (
            Method::GET,
            "/api/v1/agents?cursor=x",
            None,
            400,
            "INVALID_REQUEST",
        ),
    ] {
        let call = host.request(method, path).key(key);
        let refused = match kind {
            Some(kind) => call.raw(kind, "{").send().await,
            None => call.send().await,
        };
        let (said, its_code) = refusal(&refused);
        assert_eq!((said.as_u16(), its_code.as_str()), (status, code), "{path}");
    }
    let outside = host.get("/api/v2/agents").await;
    assert_eq!(outside.code(), "not_found");
}

async fn id_of(host: &TestHost, organization: &Organization) -> touchstone_kit::ids::KeyId {
    let keys: Vec<KeyRecord> = host.keys_of(&organization.id).await;
    keys[0].id.clone()
}
