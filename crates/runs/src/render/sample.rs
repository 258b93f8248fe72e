//! Sample reports for tests.

use crate::rules::eval::report::{AgentProvenance, EvalReport, TaskOutcome, Verdict};
use crate::rules::eval::sample;
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table::Style;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::ModelClass;
use touchstone_openwop::summary::{EvalSummary, Regression};

/// A terminal of 100 columns without colours.
pub const TERMINAL: Style = Style {
    colors: Colors::new(false),
    table: true,
    width: Some(100),
    wraps: true,
    only_not_passed: false,
};

/// The same with colours.
pub fn coloured() -> Style {
    Style {
        colors: Colors::new(true),
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
    let scores = tasks.iter().map(|(_, outcome)| match outcome {
        TaskOutcome::Passed => Some(1.0),
        TaskOutcome::Failed => Some(0.0),
        TaskOutcome::Unjudged => None,
    });
    let scores: Vec<Option<f64>> = scores.collect();
    let mut report = sample::report(run, &["golden", "regression"], &scores);
    let numbers = report.summary.tasks.iter_mut().zip(&mut report.tasks);
    for (n, ((numbers, task), (id, _))) in numbers.zip(tasks).enumerate() {
        (numbers.task_id, task.task_id) = ((*id).into(), (*id).into());
        task.reason = None;
        numbers.cost_usd = Some(NanoUsd(12_500 * n as u64));
        numbers.latency_ms = Some(40 + 400 * n as u64);
        numbers.schema_valid = Some(true);
    }
    report.verdict = Verdict::Pass;
    report.suite.version = "2.0.0".to_owned();
    report.suite.digest = "sha256-c3VpdGU=".to_owned();
    report.agent = AgentProvenance {
        version: version.to_owned(),
        pack_integrity: "sha256-cGFjaw==".to_owned(),
        model: Some("small-1".to_owned()),
        provider: Some("openai".to_owned()),
        ..report.agent
    };
    let passed_count = scores.iter().filter(|score| **score == Some(1.0)).count();
    report.summary = EvalSummary {
        suite_version: "2.0.0".to_owned(),
        evaluated_model_class: Some(ModelClass::Classification),
        aggregate_score: passed_count as f64 / tasks.len() as f64,
        passed: true,
        passed_count,
        total_cost_usd: Some(NanoUsd(75_000)),
        ..report.summary
    };
    report.duration_ms = Some(1_640);
    report
}
