//! Failures are recorded by their cause: the agent, or the infrastructure.

use std::time::Duration;

use tokio::sync::watch;
use touchstone::kinds::KINDS;
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::ports::model::ModelError;
use touchstone_agents::rules::{ModelReply, ToolCall};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::Thresholds;
use touchstone_openwop::summary::Severity;
use touchstone_runs::ports::queue::CancelRequest;
use touchstone_runs::rules::eval::report::{TaskOutcome, Verdict, report};
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::rules::run::record::{EndpointPin, EvalSpec};

use super::bench::{Bench, echo, eval, outline};

fn down_for_b(text: &str, nth: usize) -> Result<ModelReply, ModelError> {
    if text.starts_with("down") {
        return Err(ModelError::unavailable("connect", true));
    }
    if text == "shaky" && nth == 1 {
        return Err(ModelError::unavailable("status_503", true));
    }
    assert!(text != "fault", "a fault of this host");
    if text == "silent" {
        return Ok(ModelReply::default());
    }
    echo(text, nth)
}

#[tokio::test]
async fn an_endpoint_that_is_down_leaves_the_task_unjudged_and_the_run_inconclusive() {
    let bench = Bench::new(down_for_b).await;
    let run = bench.seed(&["a", "down", "c"], |_| {}).await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    let report = report(KINDS, &run, eval(&run), &Thresholds::default(), &state);
    assert_eq!(state.status, RunStatus::Completed);
    assert_eq!(
        (report.verdict, report.summary.passed),
        (Verdict::Inconclusive, false)
    );
    let outcomes: Vec<TaskOutcome> = report.tasks.iter().map(|task| task.outcome).collect();
    assert_eq!(
        outcomes,
        [
            TaskOutcome::Passed,
            TaskOutcome::Unjudged,
            TaskOutcome::Passed
        ]
    );
    assert_eq!(report.tasks[1].reason.as_deref(), Some("connect"));
    assert_eq!(bench.model.calls("down"), 3, "bounded attempts");
    assert_eq!(report.tasks[1].retries, 2, "every retry is on record");
    assert_eq!(
        state.eval.scored_count, 3,
        "the protocol requires a score for every task"
    );
}

#[tokio::test]
async fn an_endpoint_that_recovers_is_judged_and_the_retry_is_seen() {
    let bench = Bench::new(down_for_b).await;
    let run = bench.seed(&["shaky"], |_| {}).await;
    assert!(bench.execute().await);
    let report = report(
        KINDS,
        &run,
        eval(&run),
        &Thresholds::default(),
        &bench.state(&run.run_id).await,
    );
    assert_eq!(
        (report.verdict, report.tasks[0].retries),
        (Verdict::Pass, 1)
    );
}

#[tokio::test]
async fn a_fault_of_our_own_leaves_the_task_unjudged_and_the_log_well_formed() {
    let bench = Bench::new(down_for_b).await;
    let run = bench.seed(&["a", "fault", "c"], |_| {}).await;
    assert!(bench.execute().await);
    let report = report(
        KINDS,
        &run,
        eval(&run),
        &Thresholds::default(),
        &bench.state(&run.run_id).await,
    );
    assert_eq!(report.verdict, Verdict::Inconclusive);
    assert_eq!(report.tasks[1].reason.as_deref(), Some("internal_error"));
    let log = outline(&bench.log(&run.run_id).await);
    let count = |kind: &str| log.iter().filter(|(found, _)| found == kind).count();
    assert_eq!(
        count("agent.invocation.started"),
        count("agent.invocation.completed")
    );
    assert_eq!(count("eval.scored"), 3);
}

#[tokio::test]
async fn a_run_does_not_continue_on_another_model() {
    let bench = Bench::new(echo).await;
    let other = |spec: &mut EvalSpec| spec.model.model = "echo-0".to_owned();
    let run = bench.seed(&["a"], other).await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    assert_eq!(
        state.error.map(|error| error.code).as_deref(),
        Some("model_changed")
    );
    assert_eq!(bench.model.total(), 0, "no call is made");
}

#[tokio::test]
async fn a_run_is_never_executed_on_another_endpoint_of_the_same_name() {
    let bench = Bench::new(echo).await;
    let elsewhere = |spec: &mut EvalSpec| {
        spec.execution.endpoint = Some(EndpointPin {
            url: Some("http://192.0.2.7/v1".to_owned()),
            digest: "sha256-elsewhere".to_owned(),
        });
    };
    let run = bench.seed(&["a"], elsewhere).await;
    assert!(bench.execute().await);
    let error = bench.state(&run.run_id).await.error.unwrap();
    assert_eq!(error.code, "model_changed");
    assert!(
        error.message.contains("http://192.0.2.7/v1"),
        "{}",
        error.message
    );
    assert!(
        error.message.contains("now served by bench model"),
        "{}",
        error.message
    );
    assert_eq!(bench.model.total(), 0, "no call is made");
}

#[tokio::test]
async fn the_agents_own_failure_scores_zero_with_its_reason() {
    let bench = Bench::new(down_for_b).await;
    let run = bench.seed(&["a", "silent"], |_| {}).await;
    assert!(bench.execute().await);
    let report = report(
        KINDS,
        &run,
        eval(&run),
        &Thresholds::default(),
        &bench.state(&run.run_id).await,
    );
    assert_eq!(report.verdict, Verdict::Fail);
    assert_eq!(report.tasks[1].outcome, TaskOutcome::Failed);
    assert!(report.tasks[1].reason.is_some());
}

#[tokio::test]
async fn a_cancel_ends_the_run_at_once_and_for_good() {
    let bench = Bench::new(echo).await;
    let run = bench.seed(&["a", "hang", "hang"], |_| {}).await;
    let (cancel, cancelled) = watch::channel(None);
    let executing = bench.execute_with(cancelled);
    let stopping = async {
        while bench
            .log(&run.run_id)
            .await
            .iter()
            .filter(|event| &*event.kind == "eval.scored")
            .count()
            < 1
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let request = CancelRequest {
            cancelled_by: "key".to_owned(),
            reason: Some("enough".to_owned()),
        };
        cancel.send(Some(request)).unwrap();
    };
    let (ended, ()) = tokio::join!(executing, stopping);
    assert!(ended);
    let log = outline(&bench.log(&run.run_id).await);
    assert_eq!(
        log.last().map(|(kind, _)| kind.as_str()),
        Some("run.cancelled")
    );
    let state = bench.state(&run.run_id).await;
    let report = report(KINDS, &run, eval(&run), &Thresholds::default(), &state);
    assert_eq!(
        (report.verdict, report.summary.passed),
        (Verdict::Inconclusive, false)
    );
}

#[tokio::test]
async fn a_run_that_takes_too_long_fails_with_its_bound() {
    let bench = Bench::new(echo).await;
    let run = bench.seed_within(&["a", "hang"], 100, |_| {}).await;
    assert!(bench.execute().await);
    let log = outline(&bench.log(&run.run_id).await);
    let types: Vec<&str> = log.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(types[types.len() - 2..], ["cap.breached", "run.failed"]);
    assert_eq!(
        bench
            .state(&run.run_id)
            .await
            .error
            .map(|error| error.code)
            .as_deref(),
        Some("run_timeout")
    );
}

const TEXTS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
/// 10 input tokens at 1 USD and 5 output tokens at 2 USD per million.
const CALL: u64 = 20_000;

#[tokio::test]
async fn the_hosts_ceiling_leaves_the_rest_unjudged() {
    let bench = Bench::new(echo).await;
    let run = bench
        .seed(&TEXTS, |spec| spec.cost_ceiling = Some(NanoUsd(4 * CALL)))
        .await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    let report = report(KINDS, &run, eval(&run), &Thresholds::default(), &state);
    assert_eq!(state.status, RunStatus::Completed);
    assert_eq!(
        (report.verdict, state.eval.scored_count),
        (Verdict::Inconclusive, 12)
    );
    let unjudged = report
        .tasks
        .iter()
        .filter(|task| task.reason.as_deref() == Some("budget_exhausted"))
        .count();
    assert_eq!(unjudged, 12 - bench.model.total());
    assert!(
        bench.model.total() <= 5,
        "{} calls were made with a budget for four",
        bench.model.total()
    );
}

#[tokio::test]
async fn the_callers_budget_ends_the_run() {
    let bench = Bench::new(echo).await;
    let budget = BudgetSpec {
        max_tokens: Some(45),
        ..BudgetSpec::default()
    };
    let run = bench.seed(&TEXTS, |spec| spec.budget = budget).await;
    assert!(bench.execute().await);
    let log = outline(&bench.log(&run.run_id).await);
    let types: Vec<&str> = log.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(types[1], "budget.reserved");
    assert_eq!(
        types[types.len() - 3..],
        ["budget.exhausted", "cap.breached", "run.failed"]
    );
    let state = bench.state(&run.run_id).await;
    assert_eq!(
        state.error.map(|error| error.code).as_deref(),
        Some("budget_exhausted")
    );
    assert!(bench.model.total() <= 4);
}

/// Calls an unknown tool before it answers, if asked to.
fn astray(text: &str, nth: usize) -> Result<ModelReply, ModelError> {
    let mut reply = echo(text, nth)?;
    if text == "astray" && nth == 1 {
        reply.text = None;
        reply.tool_calls = vec![ToolCall {
            id: "call-1".to_owned(),
            tool: "acme:rm".to_owned(),
            arguments: Ok(serde_json::json!({})),
        }];
    }
    Ok(reply)
}

#[tokio::test]
async fn a_tool_outside_the_allowlist_is_a_critical_finding_of_its_task() {
    let bench = Bench::new(astray).await;
    let run = bench.seed(&["a", "astray"], |_| {}).await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    let report = report(KINDS, &run, eval(&run), &Thresholds::default(), &state);
    assert_eq!(report.verdict, Verdict::Pass, "{:?}", report.reasons);
    let found: Vec<Vec<(&str, Severity)>> = report
        .summary
        .tasks
        .iter()
        .map(|task| {
            let of_task = task.safety_findings.iter();
            of_task.map(|f| (f.kind.as_str(), f.severity)).collect()
        })
        .collect();
    assert_eq!(
        found,
        [vec![], vec![("unsafe-tool-call", Severity::Critical)]]
    );
    let log = bench.log(&run.run_id).await;
    let recorded: Vec<serde_json::Value> = log
        .iter()
        .map(|event| serde_json::from_slice(&event.body).unwrap())
        .collect();
    let mut counts: Vec<_> = recorded
        .iter()
        .filter(|event| event["type"] == "eval.scored")
        .map(|event| event["payload"]["safetyFindingCount"].as_u64())
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [Some(0), Some(1)]);
    // The recorded summary equals the folded one.
    let last = recorded.last().unwrap();
    assert_eq!(
        last["payload"]["outputs"],
        serde_json::to_value(&report.summary).unwrap()
    );
}
