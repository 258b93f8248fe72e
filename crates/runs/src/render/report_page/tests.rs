use serde_json::json;

use super::*;
use crate::render::sample;
use crate::render::words::rows;
use crate::rules::eval::report::{EvalReport, TaskOutcome};
use crate::rules::eval::statistics::decision::account_for_chance;
use crate::rules::eval::statistics::{Evidence, EvidenceRun, statistics};
use crate::rules::kind::Kinds;

fn page(report: &EvalReport, content: Option<&[TaskDetails]>) -> String {
    let run = EvidenceRun::of(report);
    let first = |outcome| -> Vec<crate::render::document::TaskRow> {
        let of = rows(report).filter(|(_, task)| task.outcome == outcome);
        of.map(|(numbers, task)| (numbers.clone(), task.clone()))
            .collect()
    };
    report_page(ReportPage {
        report: &run.report,
        figures: run.figures(),
        tasks: &FirstTasks {
            failed: first(TaskOutcome::Failed),
            unjudged: first(TaskOutcome::Unjudged),
            passed: first(TaskOutcome::Passed),
        },
        statistics: &statistics(&Evidence::of(report), None, None),
        comparison: None,
        content,
        made_at: "2026-11-24T12:00:00Z".parse().unwrap(),
    })
    .unwrap()
}

fn details() -> Vec<TaskDetails> {
    vec![
        serde_json::from_value(json!({
            "runId": "run_after", "taskId": "refund-twice", "outcome": "failed", "score": 0.0,
            "input": {"message": "<script>alert(1)</script>"},
            "expected": {"strategy": "json-match", "value": {"queue": "billing"}},
            "actual": {"queue": "sales"},
            "differences": [{"path": "/queue", "kind": "changed", "expected": "billing", "actual": "sales"}],
            "criteria": [{"criterion": "Is polite", "weight": 1.0, "met": false, "reason": "It is rude."}],
            "transcript": [{"at": "2026-01-01T00:00:00Z", "step": "said", "text": "\u{1b}[2JHm."}],
            "costUsd": 0.0, "tokens": 3,
        }))
        .unwrap(),
    ]
}

#[test]
fn a_page_without_content_names_tasks_and_reasons_only() {
    let html = page(&sample::mixed(), None);
    assert!(html.contains("refund-twice") && html.contains("output schema violation"));
    assert!(!html.contains("contains task content"));
    insta::assert_snapshot!(html);
}

#[test]
fn a_page_with_content_is_marked_and_escapes_it() {
    let html = page(&sample::mixed(), Some(&details()));
    assert!(html.contains("This page contains task content"));
    assert!(html.contains("&#60;script&#62;alert(1)"), "{html}");
    assert!(!html.contains("<script") && !html.contains('\u{1b}'));
    assert!(html.contains("It is rude."));
}

#[test]
fn a_run_that_passes_by_chance_is_not_called_passed() {
    let mut report = sample::baseline();
    report.suite.pass_score = 0.7;
    let found = statistics(&Evidence::of(&report), None, None);
    account_for_chance(Kinds::NONE, &mut report, &found);
    let html = page(&report, None);
    assert!(html.contains("? Inconclusive</p>"), "{html}");
    assert!(
        html.contains("but not with significance: the interval"),
        "{html}"
    );
    assert!(html.contains("class=\"verdict doubtful\""));
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let html = page(&sample::mixed(), Some(&details()));
    for part in ["http://", "https://", "src=", "url(", "@import"] {
        assert!(!html.contains(part), "{part}");
    }
}
