use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::rules::eval::sample::report;
use crate::rules::eval::statistics::ListedRun;

fn sample(id: &str, epoch: usize, scores: Value) -> Value {
    json!({"id": id, "epoch": epoch, "input": format!("question {id}"), "target": "a",
        "output": {"choices": [{"message": {"role": "assistant", "content": "an answer"}}]}, "scores": scores})
}

fn log(samples: &[Value]) -> Vec<u8> {
    json!({"version": 2, "status": "success", "eval": {"task": "capitals", "model": "openai/gpt-4o", "created": "2026-01-02T00:00:00Z"},
        "samples": samples})
    .to_string()
    .into_bytes()
}

fn matched(value: Value) -> Value {
    json!({"match": {"value": value, "answer": "x"}})
}

#[test]
fn scores_of_epochs_are_averaged_by_task() {
    let bytes = log(&[
        sample("Task 0", 1, matched(json!("C"))),
        sample("Task 0", 2, matched(json!("I"))),
        sample("Task 1", 1, matched(json!("P"))),
        json!({"id": "Task 2", "epoch": 1, "input": "x", "target": "a", "error": {"message": "timeout"}}),
    ]);
    let found = read(&bytes, None).unwrap();
    let scores: Vec<(&str, &[f64])> = found
        .samples
        .iter()
        .map(|sample| (sample.task_id.as_str(), sample.scores.as_slice()))
        .collect();
    assert_eq!(
        scores,
        [
            ("task-0", &[1.0, 0.0][..]),
            ("task-1", &[0.5]),
            ("task-2", &[])
        ]
    );
    let facts = &found.facts;
    assert_eq!(
        (
            facts.task.as_str(),
            facts.model.as_str(),
            facts.scorer.as_str()
        ),
        ("capitals", "openai/gpt-4o", "match")
    );
    assert_eq!((facts.epochs, facts.samples), (2, 3));
    assert_eq!(found.answer(&"task-0".into()), Some("an answer"));
}

#[rstest]
#[case(json!("C"), Some(1.0))]
#[case(json!("N"), Some(0.0))]
#[case(json!(true), Some(1.0))]
#[case(json!("no"), Some(0.0))]
#[case(json!("0.25"), Some(0.25))]
#[case(json!(1), Some(1.0))]
#[case(json!(null), None)]
#[case(json!("NaN"), None)]
fn values_are_read_as_inspect_reads_them(#[case] value: Value, #[case] expected: Option<f64>) {
    let found = read(&log(&[sample("a", 1, matched(value))]), None).unwrap();
    assert_eq!(found.samples[0].scores, Vec::from_iter(expected));
}

#[rstest]
#[case(json!(7), "7")]
#[case(json!("good"), "good")]
#[case(json!([1, 2]), "[1,2]")]
#[case(json!(-0.5), "-0.5")]
fn other_values_are_refused_with_their_sample(#[case] value: Value, #[case] found: &str) {
    let fault = read(&log(&[sample("a", 1, matched(value))]), None).unwrap_err();
    let text = fault.to_string();
    assert!(text.contains("sample 1") && text.contains(found), "{text}");
}

#[test]
fn one_of_several_scorers_must_be_named() {
    let scores = json!({"match": {"value": "C"}, "style": {"value": {"tone": 0.5, "length": 1}}});
    let bytes = log(&[sample("a", 1, scores)]);
    let fault = read(&bytes, None).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the log has several scores: `match`, `style.length`, `style.tone`"
    );
    let fault = read(&bytes, Some("other")).unwrap_err();
    assert!(
        fault
            .to_string()
            .contains("has no score `other`; it has `match`")
    );
    let found = read(&bytes, Some("style.tone")).unwrap();
    assert_eq!(found.samples[0].scores, [0.5]);
}

#[rstest]
#[case(b"{}".to_vec(), "not a log of Inspect")]
#[case(b"PK\x03\x04junk".to_vec(), "not a log of Inspect")]
#[case(log(&[]), "has no scores")]
#[case(log(&[json!("text"), json!({"scores": 3}), json!({"scores": {"a": 1}})]), "has no scores")]
fn a_log_without_scores_is_refused(#[case] bytes: Vec<u8>, #[case] part: &str) {
    let fault = read(&bytes, None).unwrap_err().to_string();
    assert!(fault.contains(part), "{fault}");
}

#[test]
fn samples_without_target_are_matched_by_their_names() {
    let mut open = sample("Essay 1", 1, json!({"judge": {"value": 0.5}}));
    open.as_object_mut().unwrap().remove("target");
    let unnamed = json!({"input": "x", "scores": {"judge": {"value": 1}}});
    let found = read(&log(&[open, unnamed]), None).unwrap();
    assert_eq!(found.samples[0].task_id.as_str(), "essay-1");
    assert_eq!((found.samples.len(), found.without_id), (1, 1));
}

#[test]
fn a_long_answer_is_read_from_its_attachment() {
    let mut long = sample("a", 1, matched(json!("C")));
    long["output"] = json!({"completion": "attachment://c0ffee"});
    long["attachments"] = json!({"c0ffee": "a long answer"});
    let found = read(&log(&[long]), None).unwrap();
    assert_eq!(found.samples[0].answer.as_deref(), Some("a long answer"));
}

#[test]
fn a_run_is_compared_over_the_tasks_that_both_judged() {
    let passes = |id: &str| sample(id, 1, matched(json!("C")));
    let bytes = log(&[
        passes("task-0"),
        passes("task-1"),
        sample("task-2", 1, matched(json!("I"))),
        passes("task-3"),
        passes("only-in-log"),
    ]);
    let log = read(&bytes, None).unwrap();
    let run = report(
        "run_a",
        &["golden"],
        &[Some(1.0), Some(0.0), Some(1.0), None, Some(1.0)],
    );
    let found = compare_with_log(&log, &ListedRun::of(&run)).unwrap();
    assert_eq!((found.n_tasks, found.broke, found.fixed), (3, 1, 1));
    let changes: Vec<(&str, ChangeKind)> = found
        .changes
        .iter()
        .map(|it| (it.task_id.as_str(), it.turn))
        .collect();
    assert_eq!(
        changes,
        [("task-1", ChangeKind::Broke), ("task-2", ChangeKind::Fixed)]
    );
    let left_out: Vec<(&str, ExclusionReason)> = found
        .left_out
        .iter()
        .map(|it| (it.task_id.as_str(), it.reason))
        .collect();
    assert_eq!(
        left_out,
        [
            ("task-3", ExclusionReason::Unjudged),
            ("task-4", ExclusionReason::OnlyCandidate),
            ("only-in-log", ExclusionReason::OnlyBaseline)
        ]
    );
    assert!(!found.is_whole());
    assert_eq!(found.regression.verdict, RegressionVerdict::Inconclusive);
}

#[test]
fn a_run_of_other_tasks_is_refused() {
    let log = read(&log(&[sample("x", 1, matched(json!("C")))]), None).unwrap();
    let run = report("run_a", &["golden"], &[Some(1.0)]);
    let fault = compare_with_log(&log, &ListedRun::of(&run))
        .unwrap_err()
        .to_string();
    assert!(
        fault.contains("the log has `x`, the run `task-0`"),
        "{fault}"
    );
}
