//! The body of `POST /v1/runs`, from anyone with a key: rejected by field, or planned.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchstone::kinds::KINDS;
use touchstone_runs::fixtures::fixture;
use touchstone_kit::ids::{AgentId, TaskId};
use touchstone_kit::json;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode, ModelClass};
use touchstone_runs::rules::eval::suite_rules::read_suite;
use touchstone_runs::rules::run::record::{ModelPin, RunSpec};
use touchstone_runs::rules::run::request::{
    AgentFacts, BaselineFacts, HostLimits, Request, SuiteFacts, SuiteOutline, parse, plan,
    plan_workflow,
};

static SUITE: LazyLock<AgentEvalSuite> = LazyLock::new(|| {
    read_suite(
        KINDS,
        br#"{"suiteId":"private.touchstone.evals.fuzz","version":"1.0.0","modes":["golden","regression","rubric","live-shadow"],
            "tasks":[{"taskId":"one","input":{},"expected":{"kind":"golden","match":{"strategy":"exact","value":"x"}}}]}"#,
    )
    .expect("a valid suite")
    .suite
});

const LIMITS: HostLimits = HostLimits {
    max_tasks_per_suite: 200,
    max_cost_per_suite: None,
    is_max_cost_set: false,
    max_run_duration_ms: 3_600_000,
    max_node_executions: 1_000,
    advisory_budgets: false,
    default_concurrency: 16,
    max_concurrency: 256,
    scored_modes: &EvalMode::ALL,
    distribution: None,
};

fuzz_target!(|data: &[u8]| {
    let Ok(body) = json::parse(data) else { return };
    let request = match parse(KINDS, &body) {
        Ok(request) => request,
        Err(problem) => {
            assert!(!problem.message.is_empty());
            return;
        }
    };
    match request {
        Request::Eval(request) => {
            let agent_id = AgentId::from("private.touchstone.fuzz.default");
            let outline = SuiteOutline::of(&SUITE.tasks, |_| true);
            let suite = SuiteFacts {
                document: &SUITE,
                outline: &outline,
                digest: "sha256-x",
                scoring: None,
                scoring_document: None,
                signed: false,
            };
            let agent = AgentFacts {
                agent_id: &agent_id,
                version: "1.0.0",
                pack_integrity: "sha256-y",
                content: "sha256-z",
                model_class: ModelClass::General,
                model: Some(ModelPin {
                    provider: "fuzz".to_owned(),
                    model: "fuzz-1".to_owned(),
                }),
            };
            let judge = ModelPin {
                provider: "fuzz".to_owned(),
                model: "examiner-1".to_owned(),
            };
            let tasks = [TaskId::from("one")];
            let baseline = request.baseline_run_id.clone();
            let baseline = baseline.as_ref().map(|run_id| BaselineFacts {
                run_id,
                conclusive: true,
                ignore: &[],
                tasks: &tasks,
                judge: None,
                modes: &[EvalMode::Golden],
                safety_judge: None,
                keeps_answers: true,
                scoring_digest: None,
                suite_id: "private.touchstone.evals.fuzz",
                suite_version: "1.0.0",
                aggregate_score: 0.5,
            });
            if let Ok(spec) = plan(
                *request,
                &LIMITS,
                Some(&suite),
                Some(&agent),
                baseline.as_ref(),
                &[judge],
                &|_, _, _| Ok(None),
            ) {
                let eval = spec.eval().expect("an eval run");
                assert!((1..=LIMITS.max_concurrency).contains(&eval.concurrency));
                assert!(
                    spec.run_timeout_ms
                        .is_some_and(|limit| limit <= LIMITS.max_run_duration_ms)
                );
                assert!(!eval.modes.is_empty() && !eval.tasks.is_empty());
                assert_kept(&spec);
            }
        }
        Request::Workflow(request) => {
            let definition = fixture(&request.workflow_id);
            if let Ok(spec) = plan_workflow(*request, &LIMITS, definition, Vec::new(), true) {
                assert!(spec.eval().is_none());
                assert_kept(&spec);
            }
        }
    }
});

/// The request is stored with the run, so it must survive a round trip.
fn assert_kept(spec: &RunSpec) {
    let kept = serde_json::to_string(spec).expect("a spec is JSON");
    assert_eq!(
        serde_json::from_str::<RunSpec>(&kept).expect("our own JSON"),
        *spec
    );
}
