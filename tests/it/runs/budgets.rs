//! Callers' budgets (RFC 0084): enforcement and reporting.

use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::ports::model::ModelError;
use touchstone_agents::rules::{ModelReply, ToolCall};
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_kit::money::NanoUsd;
use touchstone_runs::rules::run::fold::RunStatus;

use super::bench::{Bench, echo};

/// 10 input tokens at 1 USD and 5 output tokens at 2 USD per million.
const CALL_USD: f64 = 0.000_02;

/// Calls a tool before it answers.
fn tool_first(text: &str, nth: usize) -> Result<ModelReply, ModelError> {
    let reply = echo(text, nth)?;
    if nth.is_multiple_of(2) {
        return Ok(reply);
    }
    let call = ToolCall {
        id: format!("call-{text}"),
        tool: "community.bench.echo:look".to_owned(),
        arguments: Ok(json!({})),
    };
    Ok(ModelReply {
        text: None,
        tool_calls: vec![call],
        ..reply
    })
}

/// Answers on the second attempt.
fn shaky(text: &str, nth: usize) -> Result<ModelReply, ModelError> {
    if nth == 1 {
        return Err(ModelError::unavailable("status_503", true));
    }
    echo(text, nth)
}

fn budget_events(log: &[StoredEvent]) -> Vec<(String, Value)> {
    log.iter()
        .map(|event| serde_json::from_slice::<Value>(&event.body).unwrap())
        .filter(|event| {
            let kind = event["type"].as_str().unwrap();
            kind.starts_with("budget.") || kind == "cap.breached" || kind == "run.failed"
        })
        .map(|event| {
            let kind = event["type"].as_str().unwrap().to_owned();
            (kind, event["payload"].clone())
        })
        .collect()
}

fn of<'a>(events: &'a [(String, Value)], kind: &str) -> Vec<&'a Value> {
    let found = events.iter().filter(|(found, _)| found == kind);
    found.map(|(_, payload)| payload).collect()
}

fn keys(payload: &Value) -> Vec<&str> {
    payload
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[tokio::test]
async fn tool_calls_end_the_run_at_their_bound_and_not_beyond() {
    let bench = Bench::new(tool_first).await;
    let run = bench
        .seed(&["a", "b", "c", "d", "e"], |spec| {
            spec.concurrency = 1;
            spec.budget.max_tool_calls = Some(2);
        })
        .await;
    assert!(bench.execute().await);
    let log = bench.log(&run.run_id).await;
    let called = log
        .iter()
        .filter(|event| &*event.kind == "agent.toolCalled")
        .count();
    assert_eq!(called, 2);
    let events = budget_events(&log);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "budget.reserved",
            "budget.consumed",
            "budget.consumed",
            "budget.exhausted",
            "cap.breached",
            "run.failed"
        ]
    );
    assert_eq!(
        events[0].1,
        json!({"effectiveBudget": {"maxToolCalls": 2}, "scope": "run"})
    );
    assert_eq!(
        events[2].1,
        json!({"dimension": "toolCalls", "consumed": 2.0, "limit": 2.0, "remaining": 0.0})
    );
    assert_eq!(
        events[3].1,
        json!({"dimension": "toolCalls", "consumed": 2.0, "limit": 2.0})
    );
    assert_eq!(
        events[4].1,
        json!({"kind": "budget-tool-calls", "limit": 2.0, "observed": 3.0})
    );
    assert_eq!(events[5].1["error"]["code"], "budget_exhausted");
}

#[rstest]
#[case::one_more_is_needed(Some(1), Some("loop_limit_exceeded"))]
#[case::just_enough(Some(2), None)]
#[case::beyond_the_runtimes_own(Some(1000), None)]
#[case::unbounded(None, None)]
#[tokio::test]
async fn more_model_turns_than_the_caller_allows_end_the_run(
    #[case] most: Option<u32>,
    #[case] code: Option<&str>,
) {
    let bench = Bench::new(tool_first).await;
    let run = bench
        .seed(&["a", "b"], |spec| {
            spec.concurrency = 1;
            spec.max_loop_iterations = most;
        })
        .await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    assert_eq!(state.error.map(|error| error.code).as_deref(), code);
    let events = budget_events(&bench.log(&run.run_id).await);
    if code.is_some() {
        assert_eq!(
            of(&events, "cap.breached"),
            [
                &json!({"kind": "loop-iterations", "limit": 1.0, "observed": 2.0, "nodeId": "task-0"})
            ]
        );
        assert_eq!(
            state.eval.scored_count, 0,
            "a limit of the run does not count against the agent"
        );
    } else {
        assert_eq!((events.len(), state.eval.scored_count), (0, 2));
    }
}

#[tokio::test]
async fn retries_are_refused_beyond_their_bound_and_none_may_be_allowed() {
    for (most, failed) in [
        (Some(3), false),
        (Some(2), true),
        (Some(0), true),
        (None, false),
    ] {
        let bench = Bench::new(shaky).await;
        let run = bench
            .seed(&["a", "b", "c"], |spec| {
                spec.concurrency = 1;
                spec.budget.max_retries = most;
            })
            .await;
        assert!(bench.execute().await);
        let events = budget_events(&bench.log(&run.run_id).await);
        let breached = of(&events, "cap.breached");
        assert_eq!(breached.len(), usize::from(failed), "{most:?}");
        if failed {
            assert_eq!(breached[0]["kind"], "budget-retries");
            assert_eq!(breached[0]["limit"], most.unwrap() as f64);
        }
        let retried = bench.state(&run.run_id).await.eval.own_spending().retries;
        assert_eq!(retried, most.unwrap_or(3).min(3));
    }
}

#[tokio::test]
async fn a_model_that_is_not_allowed_is_never_called() {
    for (budget, denied) in [
        (json!({"modelAllow": ["echo-*"]}), false),
        (json!({"modelAllow": ["large-*"]}), true),
        (json!({"modelAllow": []}), true),
        (json!({"modelAllow": ["*"], "modelDeny": ["echo-1"]}), true),
        (json!({"modelDeny": ["large-*"]}), false),
    ] {
        let bench = Bench::new(echo).await;
        let spec: BudgetSpec = serde_json::from_value(budget.clone()).unwrap();
        let run = bench.seed(&["a"], |eval| eval.budget = spec).await;
        assert!(bench.execute().await);
        let state = bench.state(&run.run_id).await;
        assert_eq!(bench.model.total(), usize::from(!denied), "{budget}");
        let code = state.error.map(|error| error.code);
        assert_eq!(
            code.as_deref(),
            denied.then_some("budget_model_denied"),
            "{budget}"
        );
    }
}

#[tokio::test]
async fn budget_thresholds_are_reported_once_and_consumption_in_few_events() {
    let texts: Vec<String> = (0..100).map(|n| format!("say-{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let bench = Bench::new(echo).await;
    let run = bench
        .seed(&texts, |spec| {
            spec.concurrency = 8;
            spec.budget = BudgetSpec {
                max_cost: NanoUsd::from_usd(1.0),
                max_tokens: Some(1600),
                threshold_percent: Some(50.0),
                ..BudgetSpec::default()
            };
        })
        .await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    assert_eq!(state.status, RunStatus::Completed);
    let events = budget_events(&bench.log(&run.run_id).await);
    let crossed = of(&events, "budget.threshold.crossed");
    assert_eq!(
        crossed.len(),
        1,
        "100 calls cost a five-hundredth of a dollar"
    );
    assert_eq!(
        keys(crossed[0]),
        ["consumed", "dimension", "limit", "percent"]
    );
    assert_eq!(crossed[0]["dimension"], "tokens");
    assert!(crossed[0]["consumed"].as_f64().unwrap() >= 800.0);
    let consumed = of(&events, "budget.consumed");
    assert!((8..=11).contains(&consumed.len()), "{}", consumed.len());
    let amounts: Vec<f64> = consumed
        .iter()
        .map(|payload| payload["consumed"].as_f64().unwrap())
        .collect();
    assert!(amounts.is_sorted(), "{amounts:?}");
    for (_, payload) in &events {
        for forbidden in ["rate", "price", "model", "provider"] {
            assert!(!keys(payload).contains(&forbidden), "{payload}");
        }
    }
}

#[tokio::test]
async fn an_advisory_budget_says_that_it_is_exhausted_and_stops_nothing() {
    let bench = Bench::new(tool_first).await;
    let run = bench
        .seed(&["a", "b", "c", "d"], |spec| {
            spec.budget = BudgetSpec {
                max_cost: NanoUsd::from_usd(3.0 * CALL_USD),
                max_tool_calls: Some(1),
                advisory: true,
                ..BudgetSpec::default()
            };
        })
        .await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    assert_eq!(
        (state.status, state.eval.scored_count),
        (RunStatus::Completed, 4)
    );
    assert_eq!(bench.model.total(), 8);
    let events = budget_events(&bench.log(&run.run_id).await);
    let exhausted = of(&events, "budget.exhausted");
    let mut dimensions: Vec<&str> = exhausted
        .iter()
        .map(|payload| payload["dimension"].as_str().unwrap())
        .collect();
    dimensions.sort_unstable();
    assert_eq!(dimensions, ["cost", "toolCalls"], "each of them once");
    assert!(of(&events, "cap.breached").is_empty());
}

#[tokio::test]
async fn a_run_that_is_resumed_neither_forgets_what_was_used_nor_says_it_again() {
    let bench = Bench::new(tool_first).await;
    let budget = BudgetSpec {
        max_tool_calls: Some(4),
        threshold_percent: Some(50.0),
        ..BudgetSpec::default()
    };
    let texts = ["a", "b", "c", "d", "e", "f"];
    let whole = bench
        .seed(&texts, |spec| {
            spec.concurrency = 1;
            spec.budget = budget.clone();
        })
        .await;
    assert!(bench.execute().await);
    let log = bench.log(&whole.run_id).await;
    let crossed = log
        .iter()
        .position(|event| &*event.kind == "budget.threshold.crossed")
        .unwrap();
    for cut in [crossed, crossed + 1] {
        let bench = Bench::new(tool_first).await;
        let run = bench
            .seed(&texts, |spec| {
                spec.concurrency = 1;
                spec.budget = budget.clone();
            })
            .await;
        bench.leave_behind(&run.run_id, &log[..cut]).await;
        assert!(bench.execute().await);
        let log = bench.log(&run.run_id).await;
        let events = budget_events(&log);
        assert_eq!(of(&events, "budget.reserved").len(), 1);
        assert_eq!(
            of(&events, "budget.threshold.crossed").len(),
            1,
            "cut at {cut}"
        );
        let called = log
            .iter()
            .filter(|event| &*event.kind == "agent.toolCalled")
            .count();
        assert_eq!(called, 4, "the interrupted attempt's tokens count too");
        assert_eq!(of(&events, "cap.breached").len(), 1);
    }
}
