//! Sample reports for tests.

use crate::rules::eval::report::{
    AgentProvenance, EvalReport, SuiteProvenance, TaskOutcome, TaskReport, Verdict,
};
use crate::rules::kind::Extensions;
use touchstone_host::render::ink::Ink;
use touchstone_host::render::table::Style;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::{EvalMode, ModelClass};
use touchstone_openwop::summary::{EvalSummary, Regression, TaskSummary};

/// A terminal of 100 columns without colours.
pub const TERMINAL: Style = Style {
    ink: Ink::new(false),
    table: true,
    width: Some(100),
    only_not_passed: false,
};

/// The same with colours.
pub fn coloured() -> Style {
    Style {
        ink: Ink::new(true),
        ..TERMINAL
    }
}

/// Three passed tasks and one failed task.
pub fn baseline() -> EvalReport {
    report(
        "run_before",
        "1.0.0",
        &[
            ("clock-in-down", TaskOutcome::Failed),
            ("refund-twice", TaskOutcome::Passed),
            ("gdpr-request", TaskOutcome::Passed),
            ("slow-report", TaskOutcome::Passed),
        ],
    )
}

/// Every outcome, with every kind of reason.
pub fn mixed() -> EvalReport {
    let mut report = report(
        "run_after",
        "1.1.0",
        &[
            ("clock-in-down", TaskOutcome::Passed),
            ("refund-twice", TaskOutcome::Failed),
            ("gdpr-request", TaskOutcome::Passed),
            ("slow-report", TaskOutcome::Unjudged),
        ],
    );
    report.tasks[0].retries = 1;
    report.tasks[1].reason = Some("output_schema_violation".to_owned());
    report.tasks[1].fixture_missing = vec!["crm:account.lookup".to_owned()];
    report.tasks[3].reason = Some("timeout".to_owned());
    report.tasks[2].cost_estimated = true;
    report.notes = vec![
        "500 tasks in flight were asked for, 64 are allowed: `limits.max_concurrency`".to_owned(),
    ];
    report.verdict = Verdict::Inconclusive;
    report.reasons = vec!["1 task could not be judged".to_owned()];
    report.summary.regression = Some(Regression {
        baseline_run_id: "run_before".into(),
        score_delta: -0.25,
        diff_ref: None,
    });
    report
}

/// A hundred tasks, one of them failed.
pub fn large() -> EvalReport {
    let names: Vec<String> = (0..100).map(|n| format!("task-{n:03}")).collect();
    let tasks: Vec<(&str, TaskOutcome)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let outcome = if n == 41 {
                TaskOutcome::Failed
            } else {
                TaskOutcome::Passed
            };
            (name.as_str(), outcome)
        })
        .collect();
    report("run_large", "1.0.0", &tasks)
}

fn report(run: &str, version: &str, tasks: &[(&str, TaskOutcome)]) -> EvalReport {
    let passed = |outcome: TaskOutcome| outcome == TaskOutcome::Passed;
    let passed_count = tasks.iter().filter(|(_, outcome)| passed(*outcome)).count();
    let numbers = tasks
        .iter()
        .enumerate()
        .map(|(n, (id, outcome))| TaskSummary {
            task_id: (*id).into(),
            score: f64::from(u8::from(passed(*outcome))),
            passed: passed(*outcome),
            cost_usd: Some(NanoUsd(12_500 * n as u64)),
            latency_ms: Some(40 + 400 * n as u64),
            schema_valid: Some(true),
            safety_findings: Vec::new(),
        });
    let reasons = tasks.iter().map(|(id, outcome)| TaskReport {
        task_id: (*id).into(),
        outcome: *outcome,
        reason: None,
        fixture_missing: Vec::new(),
        forbidden_tools: Vec::new(),
        retries: 0,
        criteria: Vec::new(),
        cost_estimated: false,
        reused_from: None,
        annotations: Vec::new(),
    });
    EvalReport {
        run_id: run.into(),
        status: "completed".to_owned(),
        verdict: Verdict::Pass,
        reasons: Vec::new(),
        suite: SuiteProvenance {
            suite_id: "vendor.acme.evals.triage".to_owned(),
            version: "2.0.0".to_owned(),
            digest: "sha256-c3VpdGU=".to_owned(),
            signed: true,
            task_count: tasks.len(),
            pass_score: 0.8,
        },
        agent: AgentProvenance {
            agent_id: "vendor.acme.triage.default".into(),
            version: version.to_owned(),
            pack_integrity: "sha256-cGFjaw==".to_owned(),
            model: Some("small-1".to_owned()),
            provider: Some("openai".to_owned()),
        },
        evaluated: None,
        replayed_from: None,
        cassette_signed_by: None,
        judge: None,
        safety_judge: None,
        judge_cost_usd: None,
        modes: vec![EvalMode::Golden, EvalMode::Regression],
        notes: Vec::new(),
        ignore: Vec::new(),
        summary: EvalSummary {
            suite_id: "vendor.acme.evals.triage".to_owned(),
            suite_version: "2.0.0".to_owned(),
            evaluated_model_class: Some(ModelClass::Classification),
            aggregate_score: passed_count as f64 / tasks.len() as f64,
            passed: true,
            task_count: tasks.len(),
            passed_count,
            total_cost_usd: Some(NanoUsd(75_000)),
            tasks: numbers.collect(),
            regression: None,
        },
        tasks: reasons.collect(),
        retry_of: None,
        retries: 0,
        trial: None,
        facts_recorded_at: None,
        partial_rerun: None,
        extensions: Extensions::default(),
        fork: None,
        completed_at: None,
        duration_ms: Some(1_640),
    }
}
