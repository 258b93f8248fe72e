//! Workflows of another OpenWOP host as agents.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::model::openwop::OpenWopAgent;
use touchstone_agents::ports::agent::*;
use touchstone_agents::ports::model::*;
use wiremock::matchers::{header, method, path, path_regex};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::support::*;
use crate::process::{Site, TOO_LONG};

fn agent_at(url: &str, key: &str, workflow: &str, timeout: Duration) -> ModelBinding {
    let info = ModelInfo {
        model: workflow.to_owned(),
        timeout,
        ..info()
    };
    bound(OpenWopAgent::new(access(url, key, info)).unwrap())
}

/// The workflow of most of these hosts.
fn triage(server: &MockServer) -> ModelBinding {
    agent_at(
        &server.uri(),
        "canary-key",
        "triage",
        Duration::from_secs(30),
    )
}

async fn given(input: Value, binding: &ModelBinding) -> (Trial, InvocationResult) {
    let mut trial = Trial::new(agent(&[], None));
    trial.input = input;
    let result = trial.run(binding).await;
    (trial, result)
}

#[tokio::test]
async fn a_real_host_answers_fails_and_receives_cancellations() {
    let site = Site::embedded();
    site.configure("host.toml", "[conformance]\nenabled = true\n");
    // One tenant each: the idempotency key of the call is always the same, and a host runs only one
    // request per key.
    let keys = ["a", "b", "c", "d"].map(|tenant| site.key(tenant));
    let host = site.serve("host.toml");
    let place = host.api(&keys[0]);
    let of = |n: usize, workflow: &str, seconds: u64| {
        let key: &String = &keys[n];
        agent_at(
            place.base_url(),
            key,
            workflow,
            Duration::from_secs(seconds),
        )
    };

    let input = json!({"payload": {"queue": "billing"}});
    let identity = of(0, "conformance-identity", 60);
    let (_, result) = given(input.clone(), &identity).await;
    assert_eq!(decided(&result), &json!("{\"queue\":\"billing\"}"));
    // Another attempt finds the same run.
    let (_, again) = given(input, &identity).await;
    assert_eq!(again.end, result.end);

    let (_, result) = given(json!({}), &of(1, "conformance-failure", 60)).await;
    assert_eq!(unjudged(&result), "agent_failed");

    for (n, workflow, input, reason) in [
        (2, "conformance-approval", json!({}), "agent_waits"),
        (
            3,
            "conformance-delay",
            json!({"delayMs": 300_000}),
            "timeout",
        ),
    ] {
        let agent = of(n, workflow, if n == 3 { 3 } else { 60 });
        let (_, result) = given(input.clone(), &agent).await;
        assert_eq!(unjudged(&result), reason);
        let begun = Instant::now();
        while unjudged(&given(input.clone(), &agent).await.1) != "agent_canceled" {
            assert!(begun.elapsed() < TOO_LONG, "{workflow} is not cancelled");
        }
    }
    let (_, result) = given(json!({}), &of(0, "no-such-workflow", 60)).await;
    assert!(unjudged(&result).starts_with("status_4"), "{result:?}");
}

fn event(sequence: u64, kind: &str, payload: Value) -> Value {
    json!({"eventId": format!("e{sequence}"), "runId": "run_9", "type": kind, "sequence": sequence,
           "timestamp": "2026-01-01T00:00:00Z", "payload": payload})
}

fn usage(input: u64, output: u64, cost: f64) -> Value {
    json!({"provider": "p", "model": "m", "inputTokens": input, "outputTokens": output, "costEstimateUsd": cost})
}

/// A host whose run has these pages of events.
async fn host(pages: Vec<Value>) -> (MockServer, Arc<Mutex<Vec<Value>>>) {
    let server = MockServer::start().await;
    let created = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&created);
    Mock::given(method("POST"))
        .and(path("/v1/runs"))
        .and(header("authorization", "Bearer canary-key"))
        .respond_with(move |request: &Request| {
            let key = request.headers["idempotency-key"].to_str().unwrap();
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            kept.lock().unwrap().push(json!({"key": key, "body": body}));
            ResponseTemplate::new(201).set_body_json(json!({"runId": "run_9", "status": "pending"}))
        })
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(path("/v1/runs/run_9/events/poll"))
        .respond_with(move |request: &Request| {
            let query = request.url.query().unwrap();
            let page = pages.iter().rfind(|page| {
                let before = page[0]["sequence"].as_u64().unwrap() - 1;
                query.contains(&format!("lastSequence={before}&"))
            });
            ResponseTemplate::new(200).set_body_json(json!({"events": page, "isComplete": false}))
        })
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .and(path("/v1/runs/run_9/cancel"))
        .respond_with(ResponseTemplate::new(202))
        .mount(&server)
        .await;
    (server, created)
}

#[tokio::test]
async fn usage_and_cost_of_the_remote_run_are_recorded() {
    let (server, created) = host(vec![
        json!([
            event(1, "run.started", json!({})),
            event(2, "provider.usage", usage(10, 2, 0.001))
        ]),
        json!([
            event(3, "provider.usage", usage(5, 1, 0.0005)),
            event(
                4,
                "run.completed",
                json!({"outputs": {"queue": "billing", "priority": "low"}})
            ),
        ]),
    ])
    .await;
    let agent = triage(&server);
    let (trial, result) = given(json!("a text"), &agent).await;
    assert_eq!(
        decided(&result),
        &json!("{\"priority\":\"low\",\"queue\":\"billing\"}")
    );
    let used = &trial.recorder.payloads("provider.usage")[0];
    assert_eq!(
        (
            &used["inputTokens"],
            &used["outputTokens"],
            &used["costEstimateUsd"]
        ),
        (&json!(15), &json!(3), &json!(0.0015))
    );
    assert!(
        trial
            .recorder
            .payloads("touchstone.usage.estimated")
            .is_empty()
    );
    let created = created.lock().unwrap().clone();
    assert_eq!(
        created[0]["body"],
        json!({"workflowId": "triage", "inputs": {"input": "a text"}})
    );
    assert_eq!(created[0]["key"].as_str().unwrap().len(), 43);
    let asked = server.received_requests().await.unwrap();
    assert!(
        !asked
            .iter()
            .any(|request| request.url.path().ends_with("/cancel"))
    );
}

#[rstest]
#[case("run.failed", json!({"error": {"code": "x", "message": "canary-leak"}}), "agent_failed")]
#[case("run.cancelled", json!({"reason": "canary-leak", "cancelledBy": "x"}), "agent_canceled")]
#[case("interrupt.requested", json!({"kind": "approval", "title": "canary-leak"}), "agent_waits")]
#[tokio::test]
async fn an_invalid_answer_leaves_the_task_unjudged(
    #[case] kind: &str,
    #[case] payload: Value,
    #[case] reason: &str,
) {
    let (server, _) = host(vec![json!([event(1, kind, payload)])]).await;
    let agent = triage(&server);
    let (trial, result) = given(json!({}), &agent).await;
    assert_eq!(unjudged(&result), reason);
    let events = format!("{:?}", trial.recorder.events.lock().unwrap());
    assert!(!events.contains("canary-leak"), "{events}");
}

/// Responses to the polls of a run, in order; the last one repeats.
async fn polled(answers: Vec<ResponseTemplate>) -> MockServer {
    let (server, _) = host(Vec::new()).await;
    let asked = AtomicUsize::new(0);
    Mock::given(method("GET"))
        .and(path("/v1/runs/run_9/events/poll"))
        .respond_with(move |_: &Request| {
            let nth = asked.fetch_add(1, Ordering::SeqCst);
            answers[nth.min(answers.len() - 1)].clone()
        })
        .with_priority(1)
        .mount(&server)
        .await;
    server
}

async fn paths(server: &MockServer) -> Vec<String> {
    let asked = server.received_requests().await.unwrap();
    asked
        .iter()
        .map(|request| request.url.path().to_owned())
        .collect()
}

#[tokio::test]
async fn requests_to_a_briefly_unavailable_host_are_retried() {
    let done = json!({"events": [event(1, "run.completed", json!({"outputs": {"queue": "billing"}}))], "isComplete": true});
    let server = polled(vec![
        ResponseTemplate::new(503),
        ResponseTemplate::new(200).set_body_json(json!({"events": [], "isComplete": false})),
        ResponseTemplate::new(200).set_body_json(done),
    ])
    .await;
    let agent = triage(&server);
    assert_eq!(
        decided(&given(json!({}), &agent).await.1),
        &json!("billing")
    );
    let paths = paths(&server).await;
    assert_eq!(paths.iter().filter(|path| *path == "/v1/runs").count(), 1);
    assert!(
        !paths.iter().any(|path| path.ends_with("/cancel")),
        "{paths:?}"
    );
}

#[tokio::test]
async fn a_log_that_completes_without_a_terminal_event_is_not_polled_again() {
    let over = json!({"events": [], "isComplete": true});
    let server = polled(vec![ResponseTemplate::new(200).set_body_json(over)]).await;
    let agent = triage(&server);
    assert_eq!(
        unjudged(&given(json!({}), &agent).await.1),
        "malformed_reply"
    );
    let polls = paths(&server).await;
    assert_eq!(
        polls.iter().filter(|path| path.ends_with("/poll")).count(),
        1
    );
    // An endpoint that always answers immediately without events is polled at growing intervals.
    let idle = json!({"events": [], "isComplete": false});
    let server = polled(vec![ResponseTemplate::new(200).set_body_json(idle)]).await;
    let agent = agent_at(
        &server.uri(),
        "canary-key",
        "triage",
        Duration::from_secs(2),
    );
    assert_eq!(unjudged(&given(json!({}), &agent).await.1), "timeout");
    let polls = paths(&server).await;
    assert!(
        polls.iter().filter(|path| path.ends_with("/poll")).count() < 10,
        "{polls:?}"
    );
}

#[tokio::test]
async fn an_invalid_response_and_a_rejected_key_are_errors() {
    let (server, _) = host(Vec::new()).await;
    let agent = triage(&server);
    assert_eq!(
        unjudged(&given(json!({}), &agent).await.1),
        "malformed_reply"
    );
    let refusing = MockServer::start().await;
    Mock::given(path_regex("/v1/.*"))
        .respond_with(ResponseTemplate::new(401))
        .mount(&refusing)
        .await;
    let agent = triage(&refusing);
    assert_eq!(unjudged(&given(json!({}), &agent).await.1), "unauthorized");
}

/// A host with one workflow, `triage`.
async fn defined(status: u16, definition: Value) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/v1/workflows/triage"))
        .and(header("authorization", "Bearer canary-key"))
        .respond_with(ResponseTemplate::new(status).set_body_json(definition))
        .mount(&server)
        .await;
    server
}

#[rstest]
#[case(200, "triage", Some(json!({"identity": {"name": "Ticket triage", "version": "2.1.0"}, "configuration": {"writing": "never"}})))]
#[case(200, "another", None)]
#[case(403, "triage", None)]
#[tokio::test]
async fn an_agents_identity_is_read_from_its_workflow_definition(
    #[case] status: u16,
    #[case] id: &str,
    #[case] expected: Option<Value>,
) {
    let definition = json!({"id": id, "name": "Ticket triage", "version": "2.1.0",
        "metadata": {"customProperties": {"oasisConfiguration": {"writing": "never"}}}});
    let server = defined(status, definition).await;
    assert_eq!(triage(&server).model.adapter().await, expected);
}
