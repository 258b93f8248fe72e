//! The body of `POST /v1/runs`, from anybody with a key: refused naming a field, or planned.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchstone::domain::ids::AgentId;
use touchstone::domain::eval::suite_rules::parse_suite;
use touchstone::domain::run::request::{AgentFacts, BaselineFacts, HostLimits, SuiteFacts, parse, plan};
use touchstone::protocol::json;
use touchstone::protocol::openwop::suite::{AgentEvalSuite, ModelClass};

static SUITE: LazyLock<AgentEvalSuite> = LazyLock::new(|| {
    parse_suite(
        br#"{"suiteId":"private.touchstone.evals.fuzz","version":"1.0.0","modes":["golden","regression"],
            "tasks":[{"taskId":"one","input":{},"expected":{"kind":"golden","match":{"strategy":"exact","value":"x"}}}]}"#,
    )
    .expect("a sound suite")
});

const LIMITS: HostLimits = HostLimits {
    max_tasks_per_suite: 200,
    max_cost_per_suite: None,
    max_run_duration_ms: 3_600_000,
    default_concurrency: 16,
    max_concurrency: 256,
};

fuzz_target!(|data: &[u8]| {
    let Ok(body) = json::parse(data) else { return };
    let request = match parse(&body) {
        Ok(request) => request,
        Err(problem) => {
            assert!(!problem.message.is_empty());
            return;
        }
    };
    let agent_id = AgentId::from("private.touchstone.fuzz.default");
    let suite = SuiteFacts { document: &SUITE, digest: "sha256-x", signed: false };
    let agent = AgentFacts {
        agent_id: &agent_id,
        version: "1.0.0",
        pack_integrity: "sha256-y",
        model_class: ModelClass::General,
        accepts: &|_| true,
        has_model: true,
    };
    let baseline = request.baseline_run_id.clone();
    let baseline = baseline.as_ref().map(|run_id| BaselineFacts {
        run_id,
        completed: true,
        suite_id: "private.touchstone.evals.fuzz",
        suite_version: "1.0.0",
        aggregate_score: 0.5,
    });
    if let Ok(spec) = plan(request, &LIMITS, Some(&suite), Some(&agent), baseline.as_ref()) {
        assert!((1..=LIMITS.max_concurrency).contains(&spec.eval.concurrency));
        assert!(spec.eval.run_timeout_ms <= LIMITS.max_run_duration_ms);
        assert!(!spec.eval.modes.is_empty() && !spec.eval.tasks.is_empty());
        // It is kept with the run, so it has to come back as it was.
        let kept = serde_json::to_string(&spec).expect("a spec is JSON");
        assert_eq!(serde_json::from_str::<touchstone::domain::run::record::RunSpec>(&kept).expect("our own JSON"), spec);
    }
});
