use serde_json::json;

use crate::render::comparison::*;
use crate::render::sample;
use crate::rules::eval::comparison::RunComparison;

/// One of everything.
fn found() -> RunComparison {
    let party = |run: &str, version: &str| {
        json!({
            "runId": run, "runIds": [run], "missingTrials": 0, "suiteId": "vendor.acme.evals.triage",
            "suiteVersion": "2.0.0", "suiteDigest": "sha256-c3VpdGU=", "agentId": "vendor.acme.triage.default",
            "agentVersion": version, "model": "small-1", "provider": "openai",
        })
    };
    let task_result = |score: f64, cost: f64, ms: f64, reason: Option<&str>| {
        let mut result = json!({
            "passes": score >= 1.0, "score": score, "trials": 1, "passedTrials": u8::from(score >= 1.0),
            "costUsd": cost, "latencyMs": ms,
        });
        if let Some(reason) = reason {
            result["reason"] = json!(reason);
        }
        result
    };
    let change = |task: &str, turn: &str, baseline, candidate| json!({"taskId": task, "turn": turn, "baseline": baseline, "candidate": candidate});
    serde_json::from_value(json!({
        "baseline": party("run_before", "1.0.0"), "candidate": party("run_after", "1.1.0"),
        "differences": [
            {"what": "agentVersion", "baseline": "1.0.0", "candidate": "1.1.0"},
            {"what": "packIntegrity", "baseline": "sha256-cGFja19vbmU=", "candidate": "sha256-cGFja190d28="},
            {"what": "temperature", "baseline": null, "candidate": 0.7},
            {"what": "ignore", "baseline": [], "candidate": ["/why", "/note"]},
        ],
        "notes": ["the ignore lists differ"],
        "nTasks": 20,
        "leftOut": [{"taskId": "slow-report", "reason": "unjudged"}],
        "score": {"nTasks": 20, "baseline": 0.85, "candidate": 0.8, "difference": -0.05, "low": -0.205, "high": 0.105},
        "costUsd": {"nTasks": 20, "baseline": 0.0012, "candidate": 0.0018, "difference": 0.0006, "low": 0.0004, "high": 0.0008},
        "latencyMs": {"nTasks": 20, "baseline": 1200.0, "candidate": 840.4, "difference": -359.6, "low": null, "high": null},
        "confidence": 0.95, "fixed": 1, "broke": 2, "mcnemarP": 1.0,
        "regression": {"verdict": "inconclusive", "margin": 0.02, "confidence": 0.9, "low": -0.178, "high": 0.078},
        "changes": [
            change("refund-twice", "broke", task_result(1.0, 0.001, 1200.0, None), task_result(0.0, 0.002, 800.0, Some("output_schema_violation"))),
            change("vat-digit", "broke", task_result(1.0, 0.001, 1200.0, None), task_result(0.0, 0.001, 61_000.0, None)),
            change("tone", "worse", task_result(0.75, 0.001, 1200.0, None), task_result(0.5, 0.001, 1200.0, None)),
            change("clock-in-down", "fixed", task_result(0.0, 0.001, 1200.0, Some("output_not_json")), task_result(1.0, 0.0, 900.0, None)),
        ],
        "diffRef": "/v1/runs/run_after:diff?against=run_before",
    }))
    .unwrap()
}

#[test]
fn a_pipe_gets_plain_lines() {
    let text = comparison(&found().short(), Style::default());
    assert!(!text.contains('\u{1b}'));
    insta::assert_snapshot!(text);
}

#[test]
fn a_terminal_gets_a_table() {
    insta::assert_snapshot!(comparison(&found().short(), sample::TERMINAL));
}

#[test]
fn a_pull_request_gets_markdown() {
    insta::assert_snapshot!(markdown(&found().short()));
}

#[test]
fn the_verdict_line_claims_only_what_the_comparison_shows() {
    let word = |change: fn(&mut RunComparison)| {
        let mut found = found();
        change(&mut found);
        verdict(&found.short()).1
    };
    let score = |found: &mut RunComparison, low| {
        found.regression.verdict = RegressionVerdict::NotWorse;
        found.score.as_mut().unwrap().low = Some(low);
    };
    assert_eq!(word(|_| {}), "INCONCLUSIVE");
    assert_eq!(
        word(|it| it.regression.verdict = RegressionVerdict::Regressed),
        "SIGNIFICANTLY WORSE"
    );
    let mut not_worse = found();
    score(&mut not_worse, -0.01);
    assert_eq!(verdict(&not_worse.short()).1, "NOT WORSE");
    score(&mut not_worse, 0.01);
    assert_eq!(verdict(&not_worse.short()).1, "SIGNIFICANTLY BETTER");
    assert_eq!(word(|it| it.n_tasks = 0), "NOTHING COMPARED");
}

#[test]
fn a_long_list_of_changes_is_truncated_with_a_count() {
    let mut many = found();
    many.changes = vec![many.changes[0].clone(); 500];
    let text = comparison(&many.short(), Style::default());
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("broke "))
            .count(),
        LISTED
    );
    assert!(text.contains("and 460 more; --json lists all"), "{text}");
    let text = markdown(&many.short());
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("**broke**"))
            .count(),
        100
    );
    assert!(text.contains("And 400 more."), "{text}");
}
