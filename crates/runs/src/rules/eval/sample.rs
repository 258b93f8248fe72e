//! Sample reports for tests.

use serde_json::{Value, json};

use super::report::EvalReport;

/// A report of tasks with these scores. A score of 1 passes; a task without a score was not judged.
pub fn report(id: &str, modes: &[&str], scores: &[Option<f64>]) -> EvalReport {
    let named = |n: usize| format!("task-{n}");
    let rows = || scores.iter().enumerate();
    let tasks: Vec<Value> = rows()
        .map(|(n, score)| match score {
            None => json!({"taskId": named(n), "outcome": "unjudged", "reason": "connect"}),
            Some(score) if *score >= 1.0 => json!({"taskId": named(n), "outcome": "passed"}),
            Some(_) => {
                json!({"taskId": named(n), "outcome": "failed", "reason": "output_not_json"})
            }
        })
        .collect();
    let summaries: Vec<Value> = rows()
        .map(|(n, score)| {
            let score = score.unwrap_or_default();
            json!({"taskId": named(n), "score": score, "passed": score >= 1.0, "costUsd": 0.001, "latencyMs": 100 + n})
        })
        .collect();
    let verdict = match scores.iter().all(Option::is_some) {
        true => "fail",
        false => "inconclusive",
    };
    serde_json::from_value(json!({
        "runId": id, "status": "completed", "verdict": verdict, "reasons": [], "modes": modes, "ignore": [],
        "suite": {"suiteId": "vendor.acme.evals.triage", "version": "1.0.0", "digest": "sha256-x", "signed": true,
            "taskCount": scores.len(), "passScore": 0.8},
        "agent": {"agentId": "vendor.acme.triage.default", "version": "1.0.0", "packIntegrity": "sha256-y"},
        "summary": {"suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "aggregateScore": 0.0,
            "passed": false, "taskCount": scores.len(), "passedCount": 0, "tasks": summaries},
        "tasks": tasks,
    }))
    .unwrap()
}
