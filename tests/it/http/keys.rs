//! API keys through the API: a key gives at most its own rights.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone_host::access::Scope;

use crate::http::support::host::{Reply, TestHost, id_of};

const KEYS: &str = "/v1/host/touchstone/keys";

/// A key that manages keys and reads runs.
async fn manager(host: &TestHost) -> String {
    host.key_with(&[Scope::KeysManage, Scope::RunsRead]).await
}

async fn send(host: &TestHost, key: &str, path: &str, body: &Value) -> Reply {
    let call = host.request(Method::POST, path).key(key);
    call.json(body).send().await
}

async fn listed(host: &TestHost, key: &str) -> Vec<Value> {
    let listed = host.request(Method::GET, KEYS).key(key).send().await;
    assert_eq!(listed.status, StatusCode::OK, "{listed:?}");
    listed.json()["keys"].as_array().unwrap().clone()
}

async fn status_with(host: &TestHost, key: &str) -> StatusCode {
    let path = "/v1/host/touchstone/runs";
    host.request(Method::GET, path).key(key).send().await.status
}

#[tokio::test]
async fn a_key_is_created_rotated_and_revoked() {
    let host = TestHost::idle().await;
    let manager = manager(&host).await;
    let asked = json!({"scopes": ["runs:read"], "principal": "ci", "expiresInHours": 1});
    let made = send(&host, &manager, KEYS, &asked).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    let (id, key) = (
        made["keyId"].as_str().unwrap(),
        made["key"].as_str().unwrap(),
    );
    assert_eq!(status_with(&host, key).await, StatusCode::OK);
    let all = listed(&host, &manager).await;
    let shown = all.iter().find(|it| it["keyId"] == id).unwrap();
    assert_eq!(
        (&shown["principal"], &shown["state"], &shown["scopes"]),
        (&json!("ci"), &json!("active"), &json!(["runs:read"]))
    );
    assert!(shown["expiresAt"].is_string());
    // The text of a key may itself contain underscores.
    let secret = &key[key.len() - 20..];
    assert!(!json!(all).to_string().contains(secret));

    let rotate = format!("{KEYS}/{id}/rotate");
    let rotated = send(&host, &manager, &rotate, &json!({"overlapHours": 1})).await;
    assert_eq!(rotated.status, StatusCode::OK, "{rotated:?}");
    let new = rotated.json()["key"].as_str().unwrap().to_owned();
    for valid in [key, &new] {
        assert_eq!(status_with(&host, valid).await, StatusCode::OK);
    }
    let revoked = send(&host, &manager, &format!("{KEYS}/{id}/revoke"), &json!({})).await;
    assert_eq!(revoked.status, StatusCode::OK, "{revoked:?}");
    assert_eq!(status_with(&host, &new).await, StatusCode::UNAUTHORIZED);
    let all = listed(&host, &manager).await;
    let shown = all.iter().find(|it| it["keyId"] == id).unwrap();
    assert_eq!(shown["state"], "revoked");
    let again = send(&host, &manager, &rotate, &json!({})).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    let audit = host.get("/v1/host/touchstone/audit").await.text();
    for action in ["keys:create", "keys:rotate", "keys:revoke"] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
}

#[tokio::test]
async fn a_key_gives_at_most_the_rights_of_its_maker_and_stays_in_its_tenant() {
    let host = TestHost::idle().await;
    let manager = manager(&host).await;
    for (scopes, status) in [
        (json!(["runs:read", "keys:manage"]), StatusCode::CREATED),
        (json!(["runs:create"]), StatusCode::FORBIDDEN),
        (json!(["all"]), StatusCode::BAD_REQUEST),
        (json!(["metrics:read"]), StatusCode::FORBIDDEN),
        (json!(["no:such"]), StatusCode::BAD_REQUEST),
        (json!([]), StatusCode::BAD_REQUEST),
        (json!("runs:read"), StatusCode::BAD_REQUEST),
    ] {
        let made = send(&host, &manager, KEYS, &json!({"scopes": scopes})).await;
        assert_eq!(made.status, status, "{scopes}: {made:?}");
    }
    let stronger = id_of(&host.key);
    let rotated = send(
        &host,
        &manager,
        &format!("{KEYS}/{stronger}/rotate"),
        &json!({}),
    )
    .await;
    assert_eq!(rotated.status, StatusCode::FORBIDDEN, "{rotated:?}");
    let foreign = id_of(&host.other_key);
    for action in ["rotate", "revoke"] {
        let path = format!("{KEYS}/{foreign}/{action}");
        let refused = send(&host, &manager, &path, &json!({})).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{refused:?}");
    }
    let all = listed(&host, &manager).await;
    assert!(all.iter().all(|it| it["keyId"] != foreign.as_str()));
    let reader = host.key_with(&[Scope::RunsRead]).await;
    let refused = send(&host, &reader, KEYS, &json!({"scopes": ["runs:read"]})).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_audit_log_says_for_whom_a_key_was_created() {
    let host = TestHost::idle().await;
    let body = json!({
        "scopes": ["approvals:respond"], "principal": "ceo", "expiresInHours": 7,
    });
    let made = send(&host, &host.key, KEYS, &body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let audit = host.get("/v1/host/touchstone/audit").await.text();
    for reason in ["approvals:respond", "principal: ceo", "expires: 20"] {
        assert!(audit.contains(reason), "{reason}: {audit}");
    }
}

#[tokio::test]
async fn a_repeated_request_gets_no_second_key_and_not_its_text() {
    let host = TestHost::idle().await;
    let ask = async || {
        let call = host.request(Method::POST, KEYS);
        let call = call.header("idempotency-key", "once");
        call.json(&json!({"scopes": ["runs:read"]})).send().await
    };
    let (first, again) = (ask().await.json(), ask().await.json());
    assert_eq!(first["keyId"], again["keyId"]);
    assert!(
        first["key"].is_string() && again.get("key").is_none(),
        "{again}"
    );
}
