//! Every operation that both majors have: ids, keys and bodies are checked before anything is
//! looked up.

use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use touchstone::http::{operations, rating_operations};
use touchstone_host::access::Scope;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::operation::{OPERATIONS, Operation, is_operation};

use crate::http::majors::{VERSION, both, foreign_run, under_v2, with_run};
use crate::http::support::host::{TestHost, id_of};

/// Operations of major 2 that have a route and need a key.
pub fn keyed() -> impl Iterator<Item = &'static Operation> {
    let in_v2 = |it: &&Operation| it.majors.contains(&Major::V2);
    let routed = operations();
    OPERATIONS.iter().filter(in_v2).filter(move |it| {
        let route = routed
            .iter()
            .find(|r| (r.method, r.path) == (it.method, it.path));
        route.is_some_and(|route| route.keyed)
    })
}

pub fn is_bound(operation: &Operation) -> bool {
    operation.path.contains("{runId}") || operation.path.contains("{webhookId}")
}

/// The path of an operation under major 2, with this id of a run or a subscription.
pub fn path(operation: &Operation, id: &str) -> String {
    let path = operation.path.strip_prefix("/v1").unwrap();
    let path = path
        .replace("{runId}", id)
        .replace("{webhookId}", id)
        .replace("{nodeId}", "gate")
        .replace("{agentId}", "a.b")
        .replace("{artifactId}", "x")
        .replace("{workflowId}", "none");
    match operation.id {
        "diffRun" => format!("{path}?against={id}"),
        _ => path,
    }
}

/// A body that both the translation and the handler read.
pub fn body(operation: &Operation) -> Value {
    match operation.id {
        "forkRun" => json!({"mode": "replay"}),
        "resolveInterruptByRun" => json!({"resumeValue": {}}),
        "createAnnotation" => json!({"signal": {"kind": "flag"}}),
        "rotateWebhookSecret" => json!({"secret": format!("whsec_{}", "A".repeat(32))}),
        _ => json!({}),
    }
}

async fn answered(host: &TestHost, operation: &Operation, id: &str) -> (u16, String, String) {
    let request = under_v2(host, operation.method, &path(operation, id));
    let request = match operation.writes() {
        true => request.json(&body(operation)),
        false => request,
    };
    let reply = request.send().await;
    assert_eq!(reply.header(VERSION), Some("2.0"), "{}", operation.id);
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    (reply.status.as_u16(), reply.code(), message)
}

#[test]
fn every_operation_has_a_route() {
    let routed = operations();
    let missing: Vec<&str> = OPERATIONS
        .iter()
        .filter(|it| {
            !routed
                .iter()
                .any(|r| (r.method, r.path) == (it.method, it.path))
        })
        .map(|it| it.id)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_route_of_the_host_is_on_a_path_of_the_protocol() {
    for route in operations().into_iter().chain(rating_operations()) {
        let is_versioned = route.path.starts_with("/v1/");
        assert!(
            is_versioned || !is_operation(Major::V2, route.path),
            "{route:?}"
        );
    }
}

#[tokio::test]
async fn an_id_of_another_tenant_is_refused_whether_or_not_it_exists() {
    let host = both().await;
    let existing = foreign_run(&host).await;
    for operation in keyed().filter(|it| is_bound(it)) {
        let found = answered(&host, operation, &format!("globex~2F{existing}")).await;
        assert_eq!(
            (found.0, found.1.as_str()),
            (403, "id_tenant_mismatch"),
            "{}",
            operation.id
        );
        for invented in [
            "globex~2Frun-0123456789abcdef",
            "globex%2Frun-0123456789abcdef",
            "~2Fx",
        ] {
            assert_eq!(
                answered(&host, operation, invented).await,
                found,
                "{}",
                operation.id
            );
        }
    }
}

#[tokio::test]
async fn a_malformed_id_is_refused() {
    let host = both().await;
    for operation in keyed().filter(|it| is_bound(it)) {
        for id in ["acme~2", "acme~ZZrun-0123456789abcdef", "acme~2F", "~"] {
            let (status, code, _) = answered(&host, operation, id).await;
            let found = (status, code.as_str());
            assert_eq!(found, (400, "validation_error"), "{} {id}", operation.id);
        }
    }
}

#[tokio::test]
async fn an_unknown_id_of_the_own_tenant_is_not_found() {
    let host = both().await;
    let of_another = foreign_run(&host).await;
    let absent = "run-0123456789abcdef";
    for operation in keyed().filter(|it| is_bound(it)) {
        for id in [
            absent.to_owned(),
            format!("acme~2F{absent}"),
            of_another.clone(),
        ] {
            let (status, code, _) = answered(&host, operation, &id).await;
            let found = (status, code.as_str());
            assert_eq!(found, (404, "not_found"), "{} {id}", operation.id);
        }
    }
}

#[tokio::test]
async fn a_run_is_found_by_each_form_of_its_id() {
    let (host, run) = with_run().await;
    for id in [
        run.to_string(),
        format!("acme~2F{run}"),
        format!("acme%2F{run}"),
    ] {
        for action in ["", "/annotations"] {
            let reply = under_v2(&host, "GET", &format!("/runs/{id}{action}"))
                .send()
                .await;
            assert_eq!(reply.status.as_u16(), 200, "{id}{action}: {}", reply.text());
            if action.is_empty() {
                assert_eq!(reply.json()["runId"], format!("acme/{run}"));
            }
        }
        let reply = under_v2(&host, "POST", &format!("/runs/{id}:resume"));
        let reply = reply.json(&json!({})).send().await;
        assert_eq!(reply.code(), "run_state_conflict", "{id}");
    }
    // Major 1 has no such forms.
    for id in [format!("acme~2F{run}"), format!("acme%2F{run}")] {
        let reply = host.get(&format!("/v1/runs/{id}")).await;
        assert_eq!(reply.code(), "not_found");
    }
}

#[tokio::test]
async fn invalid_credentials_get_the_same_401_from_every_operation() {
    let host = both().await;
    let expired = host
        .issue(|issue| {
            issue.scopes = Scope::ALL.to_vec();
            issue.expires_at = Timestamp::from_second(1).ok();
        })
        .await;
    let revoked = host.key_with(Scope::ALL).await;
    host.keys.revoke(&id_of(&revoked)).await.unwrap();
    let wrong_secret = format!("tsk_{}_{}", id_of(&host.key), "A".repeat(43));
    let existing = foreign_run(&host).await;
    for (key, code) in [
        (None, "unauthenticated"),
        (Some("canary-key"), "unauthenticated"),
        (Some(wrong_secret.as_str()), "unauthenticated"),
        (Some(expired.as_str()), "unauthenticated"),
        (Some(revoked.as_str()), "credential_revoked"),
    ] {
        let mut envelopes = Vec::new();
        for operation in keyed() {
            for id in [
                &format!("globex~2F{existing}"),
                "acme~2Frun-0123456789abcdef",
                "~",
            ] {
                let call = under_v2(&host, operation.method, &path(operation, id));
                let call = match key {
                    Some(key) => call.key(key),
                    None => call.anonymous(),
                };
                let reply = call.raw("application/json", "{not json").send().await;
                let found = (reply.status.as_u16(), reply.code());
                assert_eq!(found, (401, code.to_owned()), "{} {key:?}", operation.id);
                assert_eq!(
                    reply.header("www-authenticate"),
                    Some("Bearer realm=\"touchstone\"")
                );
                assert_eq!(reply.header(VERSION), Some("2.0"));
                envelopes.push(reply.json());
            }
        }
        envelopes.dedup();
        assert_eq!(envelopes.len(), 1, "{envelopes:?}");
    }
}

#[tokio::test]
async fn a_key_without_the_scope_is_told_which_one() {
    let host = both().await;
    let existing = foreign_run(&host).await;
    for operation in keyed() {
        let mut routed = operations().into_iter();
        let route = routed.find(|it| (it.method, it.path) == (operation.method, operation.path));
        // Where the use case decides about the scope, it comes after the ids.
        let Some(scope) = route.unwrap().scope else {
            continue;
        };
        let others = Scope::ALL.iter().copied().filter(|it| *it != scope);
        let key = host.key_with(&others.collect::<Vec<_>>()).await;
        for id in [
            &format!("globex~2F{existing}"),
            "acme~2Frun-0123456789abcdef",
            "~",
        ] {
            let call = under_v2(&host, operation.method, &path(operation, id)).key(&key);
            let reply = call.send().await;
            assert_eq!(reply.code(), "forbidden", "{}", operation.id);
            assert_eq!(reply.json()["details"]["scopeRequired"], scope.as_str());
            assert_eq!(reply.header(VERSION), Some("2.0"));
        }
    }
}

#[tokio::test]
async fn an_idempotency_key_has_a_grammar_under_major_2() {
    let host = both().await;
    for operation in keyed().filter(|it| it.writes()) {
        let path = path(operation, "run-0123456789abcdef");
        for key in ["idem-1", "0123456789abcdef/ABCDEF"] {
            let reply = under_v2(&host, "POST", &path).header("idempotency-key", key);
            let reply = reply.json(&json!({})).send().await;
            let found = (reply.status.as_u16(), reply.code());
            assert_eq!(found, (400, "idempotency_key_invalid".to_owned()), "{path}");
        }
        if is_bound(operation) {
            let path = self::path(operation, "globex~2Frun-0123456789abcdef");
            let reply = under_v2(&host, "POST", &path).header("idempotency-key", "idem-1");
            let reply = reply.raw("text/plain", "{").send().await;
            assert_eq!(reply.code(), "id_tenant_mismatch", "{path}");
        }
    }
    // Reads ignore it, and major 1 keeps its rule.
    let read = under_v2(&host, "GET", "/agents").header("idempotency-key", "x");
    assert_eq!(read.send().await.status.as_u16(), 200);
    let reply = host.request(Method::POST, "/v1/runs:bulk-cancel");
    let reply = reply
        .header("idempotency-key", "x")
        .json(&json!({"runIds": ["x"]}));
    assert_eq!(reply.send().await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_body_is_json_under_major_2() {
    let host = both().await;
    for operation in keyed().filter(|it| it.writes()) {
        let path = path(operation, "run-0123456789abcdef");
        for (kind, body, expected) in [
            ("application/json", "{", "validation_error"),
            (
                "application/json",
                "{\"a\": 1, \"a\": 2}",
                "validation_error",
            ),
            ("text/plain", "{}", "unsupported_media_type"),
        ] {
            let reply = under_v2(&host, "POST", &path).raw(kind, body).send().await;
            assert_eq!(reply.code(), expected, "{path} {kind} {body}");
        }
    }
}

#[tokio::test]
async fn headers_of_create_have_other_names_under_major_2() {
    let host = both().await;
    let create = |name: &str, value: &str| {
        under_v2(&host, "POST", "/runs")
            .header(name, value)
            .json(&json!({"workflowId": "conformance-noop"}))
    };
    let reply = create("openwop-force-engine-version", "1").send().await;
    assert_eq!(reply.code(), "force_engine_version_forbidden");
    let message = reply.json()["message"].to_string();
    assert!(
        message.contains("`OpenWOP-Force-Engine-Version`"),
        "{message}"
    );
    let reply = create("openwop-dedup", "maybe").send().await;
    assert_eq!(reply.code(), "validation_error");
    assert_eq!(reply.json()["details"]["field"], "OpenWOP-Dedup");
    // The names of major 1 mean nothing.
    for name in ["x-force-engine-version", "x-dedup"] {
        let reply = create(name, "maybe").send().await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text());
    }
}
