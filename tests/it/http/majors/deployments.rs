//! Deployments under major 2.

use serde_json::{Value, json};
use touchstone_host::access::Scope;

use crate::http::deployments::promotion::{eval, take_small_evidence};
use crate::http::majors::{both, under_v2};
use crate::http::support::host::{AGENT, Reply, TestHost, says};

/// A host with workers, two versions of the agent, and a gate that accepts little evidence.
async fn host() -> TestHost {
    let host = both().await;
    host.equip(&says(&["a", "b"])).await;
    host.install("1.1.0").await;
    host.work();
    take_small_evidence(&host).await;
    host
}

async fn ask(host: &TestHost, body: &Value) -> Reply {
    let path = format!("/agents/{AGENT}/deployments");
    under_v2(host, "POST", &path).json(body).send().await
}

async fn refused(host: &TestHost, body: &Value, expected: (u16, &str)) {
    let before = records(host).await;
    let reply = ask(host, body).await;
    let found = (reply.status.as_u16(), reply.code());
    assert_eq!(
        found,
        (expected.0, expected.1.to_owned()),
        "{body}: {reply:?}"
    );
    assert_eq!(records(host).await, before);
}

async fn records(host: &TestHost) -> Value {
    let path = format!("/agents/{AGENT}/deployments");
    let listed = under_v2(host, "GET", &path).send().await;
    assert_eq!(listed.status.as_u16(), 200, "{listed:?}");
    listed.json()
}

fn promote(state: &str) -> Value {
    json!({"version": "1.0.0", "transition": "promote", "toState": state})
}

#[tokio::test]
async fn a_version_goes_into_service_with_evidence_that_is_bound() {
    let host = host().await;
    let record = |version: &str| json!({"agentId": AGENT, "version": version, "state": "draft"});
    assert_eq!(
        records(&host).await,
        json!([record("1.0.0"), record("1.1.0")])
    );
    for state in ["test", "staged"] {
        let moved = ask(&host, &promote(state)).await;
        assert_eq!(moved.status.as_u16(), 200, "{moved:?}");
        assert_eq!(moved.json()["state"], state);
    }
    refused(&host, &promote("active"), (422, "eval_gate_unmet")).await;
    let of_another = eval(&host, "1.1.0").await;
    let run = eval(&host, "1.0.0").await;
    for (id, expected) in [
        (run.clone(), (400, "validation_error")),
        (format!("globex/{run}"), (422, "eval_gate_unmet")),
        (
            "acme/run-0123456789abcdef".to_owned(),
            (422, "eval_gate_unmet"),
        ),
        (format!("acme/{of_another}"), (422, "eval_gate_unmet")),
    ] {
        let mut body = promote("active");
        body["evalRunId"] = json!(id);
        refused(&host, &body, expected).await;
    }
    let mut body = promote("active");
    body["evalRunId"] = json!(format!("acme/{run}"));
    let moved = ask(&host, &body).await;
    assert_eq!(moved.status.as_u16(), 200, "{moved:?}");
    assert_eq!(moved.json()["evalRunId"], format!("acme/{run}"));
    assert_eq!(records(&host).await[0], moved.json());
    let of_v1 = host.get(&format!("/v1/agents/{AGENT}/deployments")).await;
    assert_eq!(of_v1.json()[0]["evalRunId"], run);
}

#[tokio::test]
async fn a_step_that_the_lifecycle_does_not_have_is_invalid() {
    let host = host().await;
    for body in [
        json!({"version": "1.0.0", "transition": "rollback"}),
        json!({"version": "1.0.0", "transition": "pause"}),
        json!({}),
        json!({"version": "1.0.0", "transition": "bogus"}),
        json!({"version": "1.0.0", "transition": "pause", "bogus": 1}),
        json!({"version": "1.0.0", "transition": "adjust-canary", "canaryPercent": 101}),
        promote("nowhere"),
        promote("active"),
    ] {
        refused(&host, &body, (400, "validation_error")).await;
    }
    let unknown = under_v2(&host, "GET", "/agents/absent.agent/deployments");
    assert_eq!(unknown.send().await.code(), "not_found");
    let unknown = under_v2(&host, "POST", "/agents/absent.agent/deployments");
    assert_eq!(
        unknown.json(&promote("test")).send().await.code(),
        "not_found"
    );
}

#[tokio::test]
async fn a_key_without_the_scope_of_a_step_is_forbidden() {
    let host = host().await;
    let key = host
        .key_with(&[Scope::ManifestRead, Scope::RunsCreate])
        .await;
    for body in [
        promote("test"),
        json!({"version": "1.0.0", "transition": "rollback"}),
    ] {
        let path = format!("/agents/{AGENT}/deployments");
        let call = under_v2(&host, "POST", &path).key(&key).json(&body);
        let reply = call.send().await;
        let found = (reply.status.as_u16(), reply.code());
        assert_eq!(found, (403, "forbidden".to_owned()), "{body}");
    }
}

#[tokio::test]
async fn annotating_has_a_scope_of_its_own() {
    let host = host().await;
    let run = host.create().await;
    let flag = json!({"signal": {"kind": "flag"}});
    for (scope, of_v1, of_v2) in [
        (Scope::RunsCreate, 201, 201),
        (Scope::RunsAnnotate, 403, 201),
        (Scope::RunsRead, 403, 403),
    ] {
        let key = host.key_with(&[scope]).await;
        let path = format!("/v1/runs/{run}/annotations");
        let reply = host.request("POST".parse().unwrap(), &path).key(&key);
        let reply = reply.json(&flag).send().await;
        assert_eq!(reply.status.as_u16(), of_v1, "{scope}");
        if of_v1 == 403 {
            assert_eq!(reply.json()["details"]["scopeRequired"], "runs:create");
        }
        let call = under_v2(&host, "POST", &format!("/runs/{run}/annotations"));
        let reply = call.key(&key).json(&flag).send().await;
        assert_eq!(reply.status.as_u16(), of_v2, "{scope}: {reply:?}");
        if of_v2 == 403 {
            assert_eq!(reply.json()["details"]["scopeRequired"], "runs:annotate");
        }
    }
}
