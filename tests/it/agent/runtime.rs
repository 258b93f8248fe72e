//! The agent loop with scripted models: events, outcomes, retries, budget, cancellation.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::model::ModelCatalog;
use touchstone_agents::ports::model::*;
use touchstone_agents::rules::{ModelReply, ModelRequest};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::ModelClass;

use super::support::*;

const STARTED: &str = "agent.invocation.started";
const USAGE: &str = "provider.usage";
const CALLED: &str = "agent.toolCalled";
const RETURNED: &str = "agent.toolReturned";
const DECIDED: &str = "agent.decided";
const COMPLETED: &str = "agent.invocation.completed";

fn turns(turns: Value) -> Value {
    json!({"rules": [{"turns": turns}]})
}

#[tokio::test]
async fn calls_with_the_same_arguments_have_the_same_hash() {
    let found = json!({"tool": "t:search", "response": {"hit": 1}});
    let trial = Trial::new(agent(&["t:search"], None))
        .with_fixtures(json!({"toolResponses": [found, found, found]}));
    let call =
        |arguments: Value| json!({"toolCalls": [{"tool": "t:search", "arguments": arguments}]});
    let script = turns(json!([
        call(json!({"q": 1, "a": "x"})),
        call(json!({"a": "x", "q": 1})),
        call(json!({"a": "x", "q": 2})),
        {"text": "done"},
    ]));
    trial.run_script(script).await;
    let calls = trial.recorder.payloads(CALLED);
    let hashes: Vec<&str> = calls
        .iter()
        .map(|it| it["argsHash"].as_str().unwrap())
        .collect();
    // sha256 of {"a":"x","q":1}
    assert_eq!(
        hashes[0],
        "b3184313b44ef46c502a9da73dbbc887f1266af2da443a4f61f73212f692cd6a"
    );
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[tokio::test]
async fn a_tool_call_and_a_decision_are_recorded_in_order() {
    let trial = Trial::new(agent(&["t:search"], None))
        .with_fixtures(json!({"toolResponses": [{"tool": "t:search", "response": {"hit": 1}}], "memorySeed": [{"k": 1}]}));
    let script = turns(json!([
        {"text": "I look it up.", "toolCalls": [{"tool": "t:search", "arguments": {"q": 1}}],
         "usage": {"inputTokens": 10, "outputTokens": 5}},
        {"text": "done", "usage": {"inputTokens": 20, "outputTokens": 1, "cachedInputTokens": 8}},
    ]));
    let result = trial.run_script(script).await;
    assert_eq!(decided(&result), &json!("done"));
    assert_eq!(result.schema_valid, None);
    assert_eq!(
        trial.recorder.kinds(),
        [
            STARTED,
            "agent.reasoned",
            USAGE,
            CALLED,
            RETURNED,
            USAGE,
            DECIDED,
            COMPLETED
        ]
    );
    let started = &trial.recorder.payloads(STARTED)[0];
    assert_eq!(
        (&started["toolSurfaceCount"], &started["memoryBound"]),
        (&json!(1), &json!(true))
    );
    let usages = trial.recorder.payloads(USAGE);
    assert_eq!(usages[0]["costEstimateUsd"], json!(0.00002));
    assert_eq!(usages[1]["cacheReadTokens"], json!(8));
    let (called, returned) = (
        &trial.recorder.payloads(CALLED)[0],
        &trial.recorder.payloads(RETURNED)[0],
    );
    assert_eq!(called["callId"], returned["callId"]);
    assert_eq!(
        (&returned["status"], &returned["outcome"]),
        (&json!("ok"), &json!({"hit": 1}))
    );
    let completed = &trial.recorder.payloads(COMPLETED)[0];
    assert_eq!(
        (&completed["invocationId"], &completed["outcome"]),
        (&json!("inv_1"), &json!("completed"))
    );
    let spent: Vec<_> = trial
        .ledger
        .settled
        .lock()
        .unwrap()
        .iter()
        .map(|(_, used)| (used.tokens, used.cost))
        .collect();
    assert_eq!(spent, [(15, NanoUsd(20_000)), (21, NanoUsd(22_000))]);
}

#[tokio::test]
async fn every_event_of_an_invocation_but_the_first_names_its_cause() {
    let trial = Trial::new(agent(&[], None));
    trial.run_script(turns(json!([{"text": "x"}]))).await;
    let events = trial.recorder.events.lock().unwrap();
    let (first, others) = events.split_first().unwrap();
    assert_eq!(first.1, None);
    assert!(
        others
            .iter()
            .all(|(_, cause)| cause.as_ref().is_some_and(|c| c.as_str() == "evt_1"))
    );
}

#[tokio::test]
async fn forbidden_tools_and_missing_fixtures_are_recorded_without_ending_the_task() {
    let trial = Trial::new(agent(&["t:bare"], None))
        .with_fixtures(json!({"toolResponses": [{"tool": "t:hidden", "response": 1}]}));
    let script = turns(json!([
        {"toolCalls": [{"tool": "t:hidden"}, {"tool": "t:bare"}, {"tool": "t:bare", "rawArguments": "{no"}]},
        {"text": "fine"},
    ]));
    let result = trial.run_script(script).await;
    assert_eq!(decided(&result), &json!("fine"));
    let returned: Vec<Value> = trial.recorder.payloads(RETURNED);
    let told: Vec<_> = returned
        .iter()
        .map(|r| (r["status"].clone(), r["error"]["code"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            (json!("forbidden"), json!("forbidden")),
            (json!("error"), json!("fixture_missing")),
            (json!("error"), json!("arguments_not_json")),
        ]
    );
    assert!(returned.iter().all(|r| r.get("outcome").is_none()));
    let missing = trial.recorder.payloads("touchstone.fixture.missing");
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0]["tool"], json!("t:bare"));
}

#[rstest]
#[case::endless(json!([{"toolCalls": [{"tool": "t:search"}]}]), "turn_limit", "failed")]
#[case::empty(json!([{"text": ""}]), "empty_answer", "failed")]
#[case::refused(json!([{"text": "no", "refused": true}]), "refused", "refused")]
#[case::cut(json!([{"text": "{\"a", "truncated": true}]), "truncated", "failed")]
#[case::overflow(json!([{"fail": "context_overflow"}]), "context_overflow", "failed")]
#[case::filter(json!([{"fail": "content_filter"}]), "content_filter", "refused")]
#[tokio::test]
async fn agent_failures_are_not_retried_and_leave_a_well_formed_log(
    #[case] script: Value,
    #[case] reason: &str,
    #[case] outcome: &str,
) {
    let trial = Trial::new(agent(&["t:search"], None))
        .with_fixtures(json!({"toolResponses": [{"tool": "t:search", "response": 1}]}));
    let result = trial.run_script(turns(script)).await;
    assert_eq!(failed(&result), reason);
    let kinds = trial.recorder.kinds();
    assert_eq!(kinds[kinds.len() - 2..], [DECIDED, COMPLETED]);
    assert!(kinds.iter().all(|kind| kind != "touchstone.model.retried"));
    assert_eq!(
        trial.recorder.payloads(COMPLETED)[0]["outcome"],
        json!(outcome)
    );
    let reserved = trial.ledger.reserved.load(Ordering::SeqCst);
    assert_eq!(trial.ledger.settled.lock().unwrap().len(), reserved);
}

#[tokio::test]
async fn an_output_that_violates_the_return_schema_is_kept_and_failed() {
    let schema = json!({"type": "object", "required": ["queue"]});
    let trial = Trial::new(agent(&[], Some(schema.clone())));
    let result = trial
        .run_script(turns(json!([{"output": {"quey": 1}}])))
        .await;
    assert_eq!(
        (failed(&result), result.schema_valid),
        ("output_schema_violation", Some(false))
    );
    assert_eq!(
        trial.recorder.payloads(DECIDED)[0]["decision"],
        json!({"quey": 1})
    );
    let completed = &trial.recorder.payloads(COMPLETED)[0];
    assert_eq!(
        (&completed["outcome"], &completed["schemaValidated"]),
        (&json!("failed"), &json!(false))
    );

    let trial = Trial::new(agent(&[], Some(schema)));
    let result = trial
        .run_script(turns(json!([{"output": {"queue": 1}}])))
        .await;
    assert_eq!(
        (decided(&result), result.schema_valid),
        (&json!({"queue": 1}), Some(true))
    );
}

#[tokio::test]
async fn a_failing_endpoint_is_tried_again_visibly_and_then_answers() {
    let trial = Trial::new(agent(&[], None));
    let script = json!({"rules": [{"failFirst": {"times": 2, "fail": "unavailable"}, "turns": [{"text": "ok"}]}]});
    let result = trial.run_script(script).await;
    assert_eq!(decided(&result), &json!("ok"));
    let retried = trial.recorder.payloads("touchstone.model.retried");
    let told: Vec<_> = retried
        .iter()
        .map(|r| (r["attempt"].clone(), r["reason"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            (json!(1), json!("status_503")),
            (json!(2), json!("status_503"))
        ]
    );
    assert_eq!(
        trial.ledger.settled.lock().unwrap().len(),
        1,
        "one call, one reservation"
    );
}

#[rstest]
#[case::keeps_failing("unavailable", "status_503", 2)]
#[case::hopeless("unauthorized", "unauthorized", 0)]
#[tokio::test]
async fn infrastructure_failures_leave_the_task_unjudged(
    #[case] fail: &str,
    #[case] reason: &str,
    #[case] retries: usize,
) {
    let trial = Trial::new(agent(&[], Some(json!({"type": "object"}))));
    let result = trial.run_script(turns(json!([{"fail": fail}]))).await;
    assert_eq!((unjudged(&result), result.schema_valid), (reason, None));
    assert_eq!(
        trial.recorder.payloads("touchstone.model.retried").len(),
        retries
    );
    assert_eq!(trial.recorder.payloads(DECIDED)[0]["decision"], json!(null));
    assert!(trial.recorder.payloads(USAGE).is_empty());
    let settled = trial.ledger.settled.lock().unwrap();
    assert_eq!((settled.len(), settled[0].1.tokens), (1, 0));
}

#[tokio::test]
async fn a_task_without_an_answer_in_the_script_is_unjudged() {
    let trial = Trial::new(agent(&[], None));
    let result = trial.run_script(json!({"rules": []})).await;
    assert_eq!(unjudged(&result), "no_scripted_answer");
}

#[tokio::test]
async fn a_budget_without_room_stops_the_conversation_before_the_call() {
    let mut trial = Trial::new(agent(&["t:x"], None));
    trial.ledger.calls = 1;
    let result = trial
        .run_script(turns(json!([{"toolCalls": [{"tool": "t:x"}]}])))
        .await;
    assert_eq!(unjudged(&result), "budget_exhausted");
    assert_eq!(trial.recorder.payloads(USAGE).len(), 1);
}

#[tokio::test]
async fn a_reservation_covers_the_request_and_the_longest_answer() {
    let trial = Trial::new(agent(&[], None));
    trial
        .run_script(turns(
            json!([{"text": "x", "usage": {"inputTokens": 9, "outputTokens": 1}}]),
        ))
        .await;
    let (estimate, used) = trial.ledger.settled.lock().unwrap()[0];
    assert!(estimate.tokens >= 50 + PROMPT.len() as u64);
    assert!(estimate.cost > used.cost);
}

/// Never answers, and signals when it is called.
struct Silent(ModelInfo, Arc<AtomicUsize>);

#[async_trait]
impl Model for Silent {
    async fn complete(&self, _: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
    fn info(&self) -> &ModelInfo {
        &self.0
    }
}

#[tokio::test]
async fn dropping_an_invocation_gives_back_its_reservation_and_its_permit() {
    let asked = Arc::new(AtomicUsize::new(0));
    let catalog = ModelCatalog::of(Arc::new(Silent(info(), asked.clone())));
    let binding = catalog.resolve(ModelClass::Coding).unwrap();
    let trial = Trial::new(agent(&[], None));
    {
        let mut running = Box::pin(trial.run(&binding));
        let polled = running
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!(free(&binding), 7);
    }
    assert_eq!(free(&binding), 8);
    assert_eq!(trial.ledger.settled.lock().unwrap().len(), 1);
    assert_eq!(
        trial.recorder.kinds(),
        [STARTED],
        "no further event after cancellation"
    );
}

#[tokio::test]
async fn an_attempt_ends_at_its_deadline() {
    let asked = Arc::new(AtomicUsize::new(0));
    let hasty = ModelInfo {
        timeout: Duration::from_millis(20),
        ..info()
    };
    let catalog = ModelCatalog::of(Arc::new(Silent(hasty, asked.clone())));
    let trial = Trial::new(agent(&[], None));
    let result = trial
        .run(&catalog.resolve(ModelClass::Coding).unwrap())
        .await;
    assert_eq!(unjudged(&result), "timeout");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert!(result.latency_ms >= 60, "{}", result.latency_ms);
}

#[tokio::test]
async fn latency_counts_the_model_and_not_the_wait_for_a_permit() {
    let catalog = {
        let script = json!({"rules": [{"turns": [
            {"toolCalls": [{"tool": "t:x"}], "delayMs": 30}, {"text": "x", "delayMs": 20}]}]});
        let script = touchstone_agents::model::scripted::script::Script::parse(
            script.to_string().as_bytes(),
        )
        .unwrap();
        let info = ModelInfo {
            max_concurrency: 1,
            ..info()
        };
        ModelCatalog::of(Arc::new(
            touchstone_agents::model::scripted::ScriptedModel::new(script, info),
        ))
    };
    let binding = catalog.resolve(ModelClass::General).unwrap();
    let (a, b) = (
        Trial::new(agent(&["t:x"], None)),
        Trial::new(agent(&["t:x"], None)),
    );
    let began = std::time::Instant::now();
    let (first, second) = tokio::join!(a.run(&binding), b.run(&binding));
    let wall = began.elapsed();
    // With one permit the two calls never overlap, so their latencies sum to at most the elapsed
    // time.
    let own = Duration::from_millis(first.latency_ms + second.latency_ms);
    assert!(own <= wall, "{own:?} {wall:?}");
    assert!(first.latency_ms.min(second.latency_ms) >= 50);
}

#[tokio::test]
async fn an_echo_rule_takes_delay_and_answer_from_the_input() {
    let mut trial = Trial::new(agent(&[], None));
    trial.input = json!({"say": {"b": 1, "a": [2]}, "delayMs": 25});
    let echo = json!({"rules": [{"echo": {"output": "/say", "delayMs": "/delayMs"}}]});
    let result = trial.run_script(echo.clone()).await;
    assert_eq!(decided(&result), &json!("{\"a\":[2],\"b\":1}"));
    assert!(result.latency_ms >= 25);

    let mut trial = Trial::new(agent(&[], None));
    trial.input = json!({"say": "plain text", "delayMs": 0});
    let result = trial.run_script(echo).await;
    assert_eq!(decided(&result), &json!("plain text"));
}

#[tokio::test]
async fn recorded_answers_by_task_count_their_usage_once() {
    let trial = Trial::new(agent(&["t:search"], Some(json!({"type": "object"}))))
        .with_fixtures(json!({"toolResponses": [{"tool": "t:search", "response": 1}]}));
    let answers = json!({"format": 1, "suiteId": "vendor.acme.evals.x", "answers": {"task-1": {
        "output": {"queue": "billing"}, "usage": {"inputTokens": 650, "outputTokens": 70, "costUsd": 0.003},
        "latencyMs": 2000, "toolCalls": [{"tool": "t:search", "arguments": {"query": "x"}}]}}});
    let result = trial.run_script(answers).await;
    assert_eq!(decided(&result), &json!({"queue": "billing"}));
    let tokens: u64 = trial
        .recorder
        .payloads(USAGE)
        .iter()
        .map(|u| u["totalTokens"].as_u64().unwrap())
        .sum();
    assert_eq!(tokens, 720);
}

#[rstest]
#[case(json!({"rules": [{}]}), "rules[0] needs either \"turns\" or \"echo\"")]
#[case(json!({"rules": [{"turns": [{"text": "x"}], "echo": {"output": "/a"}}]}), "rules[0] needs")]
#[case(json!({"rules": [{"when": {"task": "x"}, "turns": [{"text": "x"}]}]}), "unknown field `task`")]
#[case(json!({"rules": [{"turns": [{"txt": "x"}]}]}), "unknown field `txt`")]
#[case(json!({"rules": [{"turns": [{"text": "x", "output": 1}]}]}), "rules[0] has a turn with both")]
#[case(json!({"answers": {"x": {}}}), "missing field `output`")]
fn a_malformed_script_is_rejected_with_the_reason(#[case] script: Value, #[case] expected: &str) {
    let error =
        touchstone_agents::model::scripted::script::Script::parse(script.to_string().as_bytes())
            .unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}
