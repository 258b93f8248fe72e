//! A real model's eval, recorded once and replayed: `examples/small-model`.

use std::path::Path;

use crate::cli::home::Home;

/// The verdict printed in its README.
const PASSED: [&str; 4] = [
    "capital-france",
    "capital-japan",
    "capital-australia",
    "opposite",
];

#[test]
fn the_recorded_small_model_gets_its_documented_score() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/small-model");
    let (pack, cassette) = (example.join("pack"), example.join("cassette.jsonl"));
    let home = Home::empty();
    let key = ["--key-id", "quiz-1"];
    for arguments in [
        vec!["pack", "keygen", "--out", "quiz.pem", key[0], key[1]],
        vec![
            "pack",
            "sign",
            pack.to_str().unwrap(),
            "--key",
            "quiz.pem",
            key[0],
            key[1],
            "--out",
            "quiz.tgz",
        ],
        vec![
            "pack",
            "install",
            "quiz.tgz",
            "--trust-key",
            "quiz-1=quiz.pub:vendor.touchstone-demo.*",
        ],
    ] {
        let done = home.run(&arguments);
        assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    }
    let done = home.run(&[
        "eval",
        "vendor.touchstone-demo.evals.quiz@1.0.0",
        "--agent",
        "vendor.touchstone-demo.quiz.default",
        "--replay",
        cassette.to_str().unwrap(),
        "--json",
    ]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    let summary = &report["summary"];
    assert_eq!(summary["passed"], false, "{report:#}");
    assert_eq!(summary["aggregateScore"], 4.0 / 12.0);
    let tasks = summary["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 12);
    let passed: Vec<&str> = tasks
        .iter()
        .filter(|task| task["passed"] == true)
        .map(|task| task["taskId"].as_str().unwrap())
        .collect();
    assert_eq!(passed, PASSED);
}
