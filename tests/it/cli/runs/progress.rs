//! `eval --progress FILE`: progress for programs.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::home::{Home, but, right_answers};

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_task_is_a_line_between_the_start_and_the_end_of_its_run() {
    let home = Home::with_pack();
    let mut rules: Vec<Value> = vec![
        but("thanks", json!({"output": {"queue": "spam"}})),
        but("charged-twice", json!({"fail": "unavailable"})),
    ];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let report = home
        .eval(&["--json", "--progress", "progress.jsonl"])
        .document();
    let run = home.run_of(&report);
    let found = lines(&home.path("progress.jsonl"));
    let (started, ended) = (found.first().unwrap(), found.last().unwrap());
    assert_eq!(
        started,
        &json!({"type": "started", "runId": run, "total": 20})
    );
    let expected =
        json!({"type": "ended", "runId": run, "status": "completed", "done": 20, "total": 20});
    assert_eq!(ended, &expected);
    let tasks = &found[1..found.len() - 1];
    let done: Vec<u64> = tasks
        .iter()
        .map(|task| task["done"].as_u64().unwrap())
        .collect();
    assert_eq!(done, (1..=20).collect::<Vec<u64>>());
    let of = |id: &str| tasks.iter().find(|task| task["taskId"] == id).unwrap();
    assert_eq!(of("thanks")["outcome"], "failed");
    let unjudged = of("charged-twice");
    assert_eq!(
        (&unjudged["outcome"], &unjudged["score"]),
        (&json!("unjudged"), &Value::Null)
    );

    // Another run, of two trials, is appended.
    home.eval(&["--trials", "2", "--progress", "progress.jsonl"]);
    let appended = lines(&home.path("progress.jsonl"));
    assert_eq!(appended.len(), 3 * found.len());
    assert_eq!(appended[..found.len()], found);
}

#[test]
fn a_reader_that_is_gone_does_not_end_the_run_and_a_wrong_file_is_refused() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let done = home.eval(&["--progress", "/dev/full"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let done = home.eval(&["--progress", "none/progress.jsonl"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("mkdir -p none"), "{}", done.stderr);
}
