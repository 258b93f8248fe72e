//! Authentication and scopes: no key, a bad key, another tenant's key, and a key without the scope,
//! on every operation.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone::http::operations_of;
use touchstone_host::access::Scope;
use touchstone_host::http::routes::Operation;
use touchstone_kit::ids::TenantId;
use touchstone_openwop::wire::Major;

use crate::http::support::host::{AGENT, TestHost, create_body, echo_pack, id_of, says, suite};

fn method(operation: Operation) -> Method {
    operation.method.parse().unwrap()
}

fn path(operation: Operation, run: &str) -> String {
    operation
        .path
        .replace("{runId}", run)
        .replace("{nodeId}", "gate")
        .replace("{workflowId}", "none")
        .replace("{agentId}", AGENT)
        .replace("{artifactId}", "none")
        .replace("{webhookId}", "wh_none")
        .replace("{name}", "community.bench.echo")
        .replace("{suiteId}", "community.bench.evals.echo")
        .replace("{version}", "1.0.0")
}

#[tokio::test]
async fn every_guarded_operation_without_a_valid_key_gets_401() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let stranger = format!("tsk_{}_{}", id_of(&host.key), "A".repeat(43));
    let bad = [
        stranger.clone(),
        host.key.to_uppercase(),
        format!("{}x", host.key),
        "tsk_".to_owned(),
        "tsk__".to_owned(),
        "canary-key".to_owned(),
        "tsk_00000000000000000000_AAAA".to_owned(),
    ];
    for operation in operations_of(Major::V1).into_iter().filter(|o| o.keyed) {
        for run in [run.as_str(), "run_absent", "%ff"] {
            let path = path(operation, run);
            let reply = host
                .request(method(operation), &path)
                .anonymous()
                .raw("application/json", "{not json")
                .send()
                .await;
            assert_eq!(
                (reply.status, reply.code()),
                (StatusCode::UNAUTHORIZED, "unauthenticated".to_owned()),
                "{operation:?}"
            );
            assert_eq!(
                reply.header("www-authenticate"),
                Some("Bearer realm=\"touchstone\"")
            );
            for key in &bad {
                let reply = host.request(method(operation), &path).key(key).send().await;
                assert_eq!(
                    reply.status,
                    StatusCode::UNAUTHORIZED,
                    "{operation:?} {key}"
                );
                assert!(!reply.text().contains(key.as_str()));
            }
        }
    }
}

#[tokio::test]
async fn a_credential_of_an_unusable_form_is_401() {
    let host = TestHost::idle().await;
    let key = &host.key;
    for value in [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Basic {key}"),
        key.clone(),
        format!("bearer-{key}"),
    ] {
        let reply = host
            .request(Method::GET, "/v1/agents")
            .anonymous()
            .header("authorization", &value)
            .send()
            .await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{value}");
    }
    let twice = host
        .request(Method::GET, "/v1/agents")
        .header("authorization", &format!("Bearer {key}"))
        .send()
        .await;
    assert_eq!(
        twice.status,
        StatusCode::UNAUTHORIZED,
        "two credentials are rejected"
    );
    let lower = host
        .request(Method::GET, "/v1/agents")
        .anonymous()
        .header("authorization", &format!("bearer {key}"))
        .send()
        .await;
    assert_eq!(
        lower.status,
        StatusCode::OK,
        "the scheme's case does not matter"
    );
}

#[tokio::test]
async fn a_key_without_the_scope_is_403_and_told_which_one() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    for operation in operations_of(Major::V1) {
        let Some(scope) = operation.scope else {
            continue;
        };
        let others: Vec<Scope> = Scope::ALL
            .iter()
            .copied()
            .filter(|other| *other != scope)
            .collect();
        let key = host.key_with(&others).await;
        for run in [run.as_str(), "run_absent"] {
            let reply = host
                .request(method(operation), &path(operation, run))
                .key(&key)
                .send()
                .await;
            assert_eq!(
                (reply.status, reply.code()),
                (StatusCode::FORBIDDEN, "forbidden".to_owned()),
                "{operation:?}"
            );
            assert_eq!(reply.json()["details"]["scopeRequired"], scope.as_str());
        }
    }
}

#[rstest]
#[case::promote("promote", Scope::DeployPromote)]
#[case::adjust_canary("adjust-canary", Scope::DeployPromote)]
#[case::pause("pause", Scope::DeployPause)]
#[case::deprecate("deprecate", Scope::DeployPause)]
#[case::rollback("rollback", Scope::DeployRollback)]
#[tokio::test]
async fn each_transition_takes_a_scope_of_its_own(#[case] transition: &str, #[case] scope: Scope) {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let mut body = json!({"version": "1.0.0", "transition": transition});
    if transition == "adjust-canary" {
        body["canaryPercent"] = json!(10);
    }
    let others: Vec<Scope> = Scope::ALL
        .iter()
        .copied()
        .filter(|other| *other != scope)
        .collect();
    let ask = async |scopes: &[Scope]| {
        let key = host.key_with(scopes).await;
        let path = format!("/v1/agents/{AGENT}/deployments");
        let call = host.request(Method::POST, &path).key(&key);
        call.json(&body).send().await
    };
    let refused = ask(&others).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::FORBIDDEN, "forbidden".to_owned())
    );
    assert_eq!(refused.json()["details"]["scopeRequired"], scope.as_str());
    // With this scope alone, the version's state decides, and a draft can only be promoted.
    let allowed = ask(&[scope]).await;
    let expected = match transition {
        "promote" => StatusCode::OK,
        _ => StatusCode::BAD_REQUEST,
    };
    assert_eq!(allowed.status, expected, "{allowed:?}");
}

#[tokio::test]
async fn requests_for_runs_of_another_tenant_are_answered_like_missing_runs() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    for operation in operations_of(Major::V1)
        .into_iter()
        .filter(|o| o.path.contains("{runId}"))
    {
        let send = async |run: &str| {
            let call = host
                .request(method(operation), &path(operation, run))
                .key(&host.other_key);
            let call = if operation.method == "POST" {
                call.json(&json!({}))
            } else {
                call
            };
            let reply = call.send().await;
            (reply.status, reply.json())
        };
        let foreign = send(run.as_str()).await;
        assert_eq!(foreign, send("run_absent").await, "{operation:?}");
        assert_eq!(foreign.0, StatusCode::NOT_FOUND, "{operation:?}");
    }
    let bulk = host
        .request(Method::POST, "/v1/runs:bulk-cancel")
        .key(&host.other_key);
    let results = bulk
        .json(&json!({"runIds": [run, "run_absent"]}))
        .send()
        .await
        .json();
    assert_eq!(
        results["results"][0]["error"],
        results["results"][1]["error"]
    );
    assert_eq!(results["results"][0]["error"]["code"], "not_found");
}

#[tokio::test]
async fn suites_agents_and_baselines_of_another_tenant_look_missing() {
    let host = TestHost::working(&says(&["a"])).await;
    let baseline = host.create().await;
    host.ended(&baseline).await;
    let create = async |body: Value| {
        let reply = host
            .request(Method::POST, "/v1/runs")
            .key(&host.other_key)
            .json(&body)
            .send()
            .await;
        (reply.status, reply.json())
    };
    let foreign = create(create_body()).await;
    let mut absent = create_body();
    absent["evalSuiteRef"] = json!("no.such.evals.suite@9.9.9");
    assert_eq!(foreign, create(absent).await);
    assert_eq!(foreign.0, StatusCode::BAD_REQUEST);
    let mut named = create_body();
    named["tenantId"] = json!("acme");
    let refused = create(named).await;
    assert_eq!(refused.0, StatusCode::FORBIDDEN);
    assert!(!refused.1.to_string().contains("acme"));
}

#[tokio::test]
async fn revoked_and_expired_keys_are_reported_only_if_the_secret_is_right() {
    let host = TestHost::idle().await;
    let key = host.key_with(Scope::ALL).await;
    let send = async |key: &str| {
        host.request(Method::GET, "/v1/agents")
            .key(key)
            .send()
            .await
    };
    assert_eq!(send(&key).await.status, StatusCode::OK);
    assert!(host.keys.revoke(&id_of(&key)).await.unwrap());
    assert_eq!(send(&key).await.code(), "key_revoked");
    let guess = format!("tsk_{}_{}", id_of(&key), "B".repeat(43));
    assert_eq!(send(&guess).await.code(), "unauthenticated");

    let past = jiff::Timestamp::from_second(1).unwrap();
    let expired = host
        .keys
        .create(&TenantId::from("acme"), Scope::ALL, Some(past))
        .await
        .unwrap();
    let text = secrecy::ExposeSecret::expose_secret(&expired.text).to_owned();
    assert_eq!(send(&text).await.code(), "key_expired");
    assert!(!host.keys.revoke(&"absent".into()).await.unwrap());
}

#[tokio::test]
async fn a_rotated_key_is_good_under_both_secrets_until_the_old_one_ends() {
    let host = TestHost::idle().await;
    let send = async |key: &str| {
        let reply = host
            .request(Method::GET, "/v1/agents")
            .key(key)
            .send()
            .await;
        match reply.status {
            StatusCode::OK => "ok".to_owned(),
            _ => reply.code(),
        }
    };
    let first = host.key_with(Scope::ALL).await;
    let rotate = async |until: jiff::Timestamp| {
        let rotated = host.keys.rotate(&id_of(&first), until, None).await.unwrap();
        secrecy::ExposeSecret::expose_secret(&rotated.text).to_owned()
    };
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let second = rotate(later).await;
    assert_eq!(id_of(&second), id_of(&first));
    assert_eq!(
        (send(&first).await, send(&second).await),
        ("ok".into(), "ok".into())
    );
    let third = rotate(jiff::Timestamp::now()).await;
    assert_eq!(send(&third).await, "ok");
    assert_eq!(send(&second).await, "key_expired", "its overlap is over");
    assert_eq!(send(&first).await, "unauthenticated", "two rotations ago");
    host.keys.revoke(&id_of(&first)).await.unwrap();
    for key in [&second, &third] {
        assert_eq!(send(key).await, "key_revoked");
    }
    assert!(host.keys.rotate(&id_of(&first), later, None).await.is_err());
}

#[tokio::test]
async fn an_expired_key_is_rotated_only_into_a_new_end() {
    let host = TestHost::idle().await;
    let past = jiff::Timestamp::from_second(1).unwrap();
    let key = host.issue(|issue| issue.expires_at = Some(past)).await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    assert!(host.keys.rotate(&id_of(&key), later, None).await.is_err());
    let rotated = host.keys.rotate(&id_of(&key), later, Some(later)).await;
    let text = secrecy::ExposeSecret::expose_secret(&rotated.unwrap().text).to_owned();
    let reply = host
        .request(Method::GET, "/v1/agents")
        .key(&text)
        .send()
        .await;
    assert_eq!(
        reply.status,
        StatusCode::FORBIDDEN,
        "known, without a scope"
    );
}

#[tokio::test]
async fn a_role_grants_its_scopes_and_an_unknown_role_nothing() {
    let host = TestHost::idle().await;
    let manager = host
        .issue(|issue| issue.roles = vec!["release-manager".to_owned(), "owner".to_owned()])
        .await;
    let stranger = host
        .issue(|issue| issue.roles = vec!["owner".to_owned()])
        .await;
    let ask =
        async |path: &str, key: &str| host.request(Method::GET, path).key(key).send().await.status;
    assert_eq!(ask("/v1/runs/none", &manager).await, StatusCode::NOT_FOUND);
    assert_eq!(ask("/v1/agents", &manager).await, StatusCode::FORBIDDEN);
    assert_eq!(ask("/v1/runs/none", &stranger).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_key_is_invalid_under_the_other_kinds_prefix() {
    let host = TestHost::idle().await;
    let test = host
        .issue(|issue| {
            issue.test = true;
            issue.scopes = Scope::ALL.to_vec();
        })
        .await;
    let ask = async |key: &str| {
        let reply = host
            .request(Method::GET, "/v1/agents")
            .key(key)
            .send()
            .await;
        reply.status
    };
    assert_eq!(ask(&test).await, StatusCode::OK);
    let disguised = test.replace("hk_test_", "tsk_");
    assert_eq!(ask(&disguised).await, StatusCode::UNAUTHORIZED);
    let disguised = host.key.replace("tsk_", "hk_test_");
    assert_eq!(ask(&disguised).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_run_belongs_to_the_principal_its_key_names() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let named = host
        .issue(|issue| {
            issue.principal = Some("dana".to_owned());
            issue.scopes = Scope::ALL.to_vec();
        })
        .await;
    for (key, principal) in [
        (&named, "dana".to_owned()),
        (&host.key, id_of(&host.key).to_string()),
    ] {
        let created = host
            .request(Method::POST, "/v1/runs")
            .key(key)
            .json(&create_body())
            .send()
            .await;
        let run = created.json()["runId"].as_str().unwrap().to_owned();
        let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
        assert_eq!(
            snapshot["owner"],
            json!({"tenant": "acme", "principal": principal})
        );
    }
}

#[tokio::test]
async fn the_store_never_sees_a_key_and_a_list_shows_no_secret() {
    let host = TestHost::idle().await;
    // The secret half may contain the separator too.
    let secret = host.key.splitn(3, '_').nth(2).unwrap().to_owned();
    let listed = host.keys.list(Some(&TenantId::from("acme"))).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(!format!("{listed:?}").contains(&secret));
    assert_eq!(host.keys.list(None).await.unwrap().len(), 2);
}

#[tokio::test]
async fn metrics_need_a_key_unless_asked_from_this_machine() {
    let host = TestHost::idle().await;
    let anonymous = host
        .request(Method::GET, "/metrics")
        .anonymous()
        .send()
        .await;
    assert_eq!(anonymous.status, StatusCode::UNAUTHORIZED);
    let limited = host.key_with(&[Scope::RunsRead]).await;
    let limited = host
        .request(Method::GET, "/metrics")
        .key(&limited)
        .send()
        .await;
    assert_eq!(limited.status, StatusCode::FORBIDDEN);
    let scraped = host.get("/metrics").await;
    assert_eq!(scraped.status, StatusCode::OK);
    assert!(scraped.text().contains("touchstone_http_requests_total"));
    assert!(!scraped.text().contains("acme"));
}

#[tokio::test]
async fn each_tenant_may_install_the_same_pack_and_suite() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    use base64::Engine as _;
    let tarball = base64::engine::general_purpose::STANDARD.encode(echo_pack());
    for (path, body) in [
        ("/v1/host/touchstone/packs", json!({"tarball": tarball})),
        ("/v1/host/touchstone/suites", suite(&says(&["other"]))),
    ] {
        let reply = host
            .request(Method::POST, path)
            .key(&host.other_key)
            .json(&body)
            .send()
            .await;
        assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    }
}
