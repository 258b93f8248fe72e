//! Runs with live tools: recovery after a crash, and no reuse of their results in other runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::ports::live_tools::{LiveCall, LiveTools, ToolAnswer, ToolsUnavailable};
use touchstone_agents::ports::model::ModelError;
use touchstone_agents::rules::{Effects, ModelReply, ToolCall, ToolDefinition};
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::EvalMode;
use touchstone_runs::rules::run::fold::RunStatus;

use super::bench::{Bench, TOOL, echo, eval, outline};

/// A tool that counts its calls.
struct Counter {
    effects: Effects,
    called: AtomicUsize,
}

impl Counter {
    fn new(effects: Effects) -> Arc<Self> {
        let called = AtomicUsize::new(0);
        Arc::new(Self { effects, called })
    }
}

#[async_trait]
impl LiveTools for Counter {
    async fn offers(
        &self,
        tools: &[String],
        _: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable> {
        assert_eq!(tools, [TOOL]);
        Ok(vec![ToolDefinition {
            tool: TOOL.to_owned(),
            description: None,
            input_schema: json!({"type": "object"}),
            effects: self.effects,
        }])
    }

    async fn call(&self, _: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable> {
        self.called.fetch_add(1, Ordering::SeqCst);
        Ok(ToolAnswer::Answered(json!("acted")))
    }
}

/// Calls the tool at every first turn, then repeats its result.
fn acts(text: &str, nth: usize) -> Result<ModelReply, ModelError> {
    if nth.is_multiple_of(2) {
        return echo(text, nth);
    }
    Ok(ModelReply {
        tool_calls: vec![ToolCall {
            id: format!("call_{nth}"),
            tool: TOOL.to_owned(),
            arguments: Ok(json!({})),
        }],
        ..ModelReply::default()
    })
}

async fn whole(effects: Effects) -> Vec<touchstone_host::ports::run_log::StoredEvent> {
    let tools = Counter::new(effects);
    let bench = Bench::acting(acts, tools.clone()).await;
    let run = bench
        .seed(&["a"], |spec| spec.modes = vec![EvalMode::LiveShadow])
        .await;
    assert!(bench.execute().await);
    assert_eq!(tools.called.load(Ordering::SeqCst), 1);
    let state = bench.state(&run.run_id).await;
    assert!(state.eval.tasks.get(&"task-0".into()).unwrap().passed);
    bench.log(&run.run_id).await
}

#[rstest]
#[case(Effects::Allowed)]
#[case(Effects::None)]
#[tokio::test]
async fn a_call_that_changes_something_is_never_repeated_after_a_crash(#[case] effects: Effects) {
    let whole = whole(effects).await;
    let kinds: Vec<String> = outline(&whole).into_iter().map(|(kind, _)| kind).collect();
    let place = |kind: &str| kinds.iter().position(|it| it == kind);
    let intended = place("touchstone.effect.intended");
    assert_eq!(intended.is_some(), effects == Effects::Allowed);
    let scored = place("eval.scored").unwrap();
    for cut in 0..whole.len() {
        let tools = Counter::new(effects);
        let bench = Bench::acting(acts, tools.clone()).await;
        let run = bench
            .seed(&["a"], |spec| spec.modes = vec![EvalMode::LiveShadow])
            .await;
        bench.leave_behind(&run.run_id, &whole[..cut]).await;
        assert!(bench.execute().await, "the run ends after a cut at {cut}");
        let state = bench.state(&run.run_id).await;
        assert_eq!(state.status, RunStatus::Completed, "cut at {cut}");
        let task = state.eval.tasks.get(&"task-0".into()).unwrap();
        let uncertain = intended.is_some_and(|at| cut > at) && cut <= scored;
        let called = tools.called.load(Ordering::SeqCst);
        if uncertain {
            assert_eq!(
                (task.unjudged.as_deref(), task.passed, called),
                (Some("effect_uncertain"), false, 0),
                "cut at {cut}"
            );
        } else {
            let anew = usize::from(cut <= scored);
            assert_eq!((task.passed, called), (true, anew), "cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_run_on_fixtures_never_goes_live() {
    let tools = Counter::new(Effects::None);
    let bench = Bench::acting(acts, tools.clone()).await;
    let run = bench.seed(&["a"], |_| {}).await;
    assert!(!eval(&run).is_live());
    assert!(bench.execute().await);
    assert_eq!(tools.called.load(Ordering::SeqCst), 0);
    let kinds = outline(&bench.log(&run.run_id).await);
    assert!(
        kinds
            .iter()
            .any(|(kind, _)| kind == "touchstone.fixture.missing")
    );
}

#[tokio::test]
async fn without_tools_a_live_run_that_was_waiting_fails_and_says_why() {
    let bench = Bench::new(acts).await;
    let run = bench
        .seed(&["a"], |spec| spec.modes = vec![EvalMode::LiveShadow])
        .await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    let error: Value = json!(state.error);
    assert_eq!(error["code"], json!("capability_not_provided"));
    assert!(error["message"].as_str().unwrap().contains("[[tools.mcp]]"));
}
