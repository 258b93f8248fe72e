//! Responses and recorded events follow OpenWOP's published schemas, not only our own description.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;

use crate::http::deployments::promotion::{into_service, list, take_small_evidence};
use crate::http::runs::workflows::start;
use crate::http::support::host::{SUITE, TestHost, create_body, says, suite};
use crate::support::published::Published;

/// A run that waited and was answered.
async fn answered(host: &TestHost, workflow: &str, node: &str, answer: Value) -> RunId {
    let run = start(host, &json!({"workflowId": workflow})).await;
    let answers = format!("/v1/runs/{run}/interrupts/{node}");
    let mut after = 0;
    while host
        .get(&format!("/v1/host/touchstone/runs/{run}/interrupts"))
        .await
        .json()["interrupts"]
        == json!([])
    {
        let path = format!("/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20");
        after += host.get(&path).await.json()["events"]
            .as_array()
            .unwrap()
            .len();
    }
    let taken = host.post(&answers, &json!({"resumeValue": answer})).await;
    assert_eq!(taken.status, StatusCode::OK, "{taken:?}");
    run
}

/// Runs of every kind.
async fn runs(host: &TestHost) -> Vec<RunId> {
    let mut graded = suite(&says(&["a", "b"]));
    graded["version"] = "1.1.0".into();
    graded["modes"] = json!(["golden", "regression"]);
    let imported = host.post("/v1/host/touchstone/suites", &graded).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let mut body = create_body();
    body["evalSuiteRef"] = format!("{SUITE}@1.1.0").into();
    let eval = start(host, &body).await;
    host.ended(&eval).await;
    body["configurable"] = json!({
        "baselineRunId": eval, "evalModes": ["golden", "regression"],
        "budget": {"maxTokens": 100_000, "thresholdPercent": 0.01},
    });
    let regression = start(host, &body).await;
    host.ended(&regression).await;
    let replay = host
        .post(
            &format!("/v1/runs/{regression}:fork"),
            &json!({"mode": "replay"}),
        )
        .await;
    let mut runs = vec![
        eval,
        regression,
        replay.json()["runId"].as_str().unwrap().into(),
    ];
    for body in [
        json!({"workflowId": "conformance-multi-node"}),
        json!({"workflowId": "conformance-failure"}),
        json!({"workflowId": "conformance-cap-breach", "configurable": {"recursionLimit": 3}}),
        json!({"workflowId": "conformance-identity", "inputs": {"payload": {"a": 1}}, "tags": ["t"], "metadata": {"k": 1}}),
    ] {
        runs.push(start(host, &body).await);
    }
    let accept = json!({"action": "accept", "feedback": "fine"});
    runs.push(answered(host, "conformance-approval", "gate", accept).await);
    let blue = json!({"answers": {"q1": "blue"}});
    runs.push(answered(host, "conformance-clarification", "ask", blue).await);
    let slow = json!({"workflowId": "conformance-cancellable", "inputs": {"delayMs": 60_000}});
    let cancelled = start(host, &slow).await;
    let done = host
        .post(
            &format!("/v1/runs/{cancelled}/cancel"),
            &json!({"reason": "enough"}),
        )
        .await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    runs.push(cancelled);
    runs
}

#[tokio::test]
async fn run_events_follow_the_published_schemas() {
    let Some(published) = Published::at_hand() else {
        return;
    };
    let host = TestHost::working(&says(&["a", "b"])).await;
    let runs = runs(&host).await;
    take_small_evidence(&host).await;
    into_service(&host, "1.0.0", json!({})).await;
    let decided = host.get("/v1/host/touchstone/audit").await.json();
    let decided = decided["entries"].as_array().unwrap().iter();
    let decided = decided.filter_map(|entry| entry["entry"]["runId"].as_str());
    let about: BTreeSet<RunId> = decided
        .map(RunId::from)
        .chain(runs.iter().cloned())
        .collect();

    let payloads = published.payloads();
    let mut seen = BTreeSet::new();
    for run in &about {
        for event in host.ended(run).await {
            published.check("run-event", &event);
            let kind = event["type"].as_str().unwrap();
            seen.insert(kind.to_owned());
            if let Some(schema) = payloads.get(kind) {
                let faults: Vec<String> = published
                    .compile(schema)
                    .iter_errors(&event["payload"])
                    .map(|fault| format!("{}: {fault}", fault.instance_path()))
                    .collect();
                assert!(faults.is_empty(), "{kind}: {faults:?} in {event}");
            }
        }
        published.check(
            "run-snapshot",
            &host.get(&format!("/v1/runs/{run}")).await.json(),
        );
    }
    for kind in [
        "budget.threshold.crossed",
        "approval.received",
        "clarification.resolved",
        "cap.breached",
        "run.cancelled",
        "run.failed",
        "eval.completed",
        "deployment.promoted",
        "authorization.decided",
        "provider.usage",
    ] {
        assert!(seen.contains(kind), "no {kind} among {seen:?}");
    }

    let (eval, regression) = (&runs[0], &runs[1]);
    let annotations = format!("/v1/runs/{eval}/annotations");
    let said = json!({"target": {"nodeId": "task-1"}, "signal": {"kind": "correction", "correction": "b"}, "note": "n"});
    published.check("annotation", &host.post(&annotations, &said).await.json());
    for run in &runs {
        let bundle = host
            .get(&format!("/v1/runs/{run}/debug-bundle"))
            .await
            .json();
        published.check("debug-bundle", &bundle);
    }
    for run in [eval, regression] {
        let summary = host
            .get(&format!("/v1/runs/{run}/eval-summary"))
            .await
            .json();
        published.check("eval-summary", &summary);
        for other in &runs {
            let diff = host
                .get(&format!("/v1/runs/{run}:diff?against={other}"))
                .await
                .json();
            published.check("run-diff-response", &diff);
        }
    }
    let refused = host
        .request(Method::GET, "/v1/runs/run_absent")
        .send()
        .await;
    published.check("error-envelope", &refused.json());
}

#[tokio::test]
async fn host_documents_follow_the_published_schemas() {
    let Some(published) = Published::at_hand() else {
        return;
    };
    let host = TestHost::working(&says(&["a"])).await;
    take_small_evidence(&host).await;
    into_service(&host, "1.0.0", json!({})).await;
    for record in list(&host).await.as_array().unwrap() {
        published.check("agent-deployment", record);
    }
    assert_eq!(host.sign_audit().await, 1);
    for (path, name) in [
        ("/.well-known/openwop", "capabilities"),
        ("/v1/agents", "agent-inventory-response"),
        ("/v1/audit/verify", "audit-verify-result"),
        ("/v1/workflows/conformance-approval", "workflow-definition"),
    ] {
        published.check(name, &host.get(path).await.json());
    }
}
