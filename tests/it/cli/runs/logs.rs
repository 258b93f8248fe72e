//! `compare` with a log of Inspect.

use serde_json::json;

use super::matrix::home_with_commands;
use crate::cli::home::Home;

/// A log of the same cases, in which Inspect's model failed `refund`.
fn log(home: &Home) {
    let sample = |id: &str, input: &str, target: &str, value: &str| {
        json!({"id": id, "epoch": 1, "input": input, "target": target,
            "output": {"choices": [{"message": {"role": "assistant", "content": "technical"}}]},
            "scores": {"match": {"value": value}, "length": {"value": 0.5}}})
    };
    let log = json!({"version": 2, "status": "success", "eval": {"task": "triage", "model": "openai/gpt-4o"},
    "samples": [
        sample("refund", "I was charged twice", "billing", "I"),
        sample("login", "Error 500", "technical", "C"),
        sample("other", "x", "y", "C"),
    ]});
    std::fs::write(home.path("triage.json"), log.to_string()).unwrap();
}

#[test]
fn a_run_is_compared_with_a_log_of_inspect() {
    let home = home_with_commands();
    log(&home);
    let done = home.run(&[
        "eval",
        "--cases",
        "cases.csv",
        "--agent-command",
        "python3 agent.py billing",
    ]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);

    let several = home.run(&["compare", "triage.json", "latest"]);
    assert_eq!(several.code, 2, "{}", several.stdout);
    for part in ["`length`, `match`", "--scorer NAME"] {
        assert!(several.stderr.contains(part), "{}", several.stderr);
    }
    let command = ["compare", "triage.json", "latest", "--scorer", "match"];
    let found = home.run(&[&["--json"], &command[..]].concat());
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    let found = found.document();
    assert_eq!(found["baseline"]["scorer"], "match");
    assert_eq!((&found["broke"], &found["fixed"]), (&json!(1), &json!(1)));
    assert_eq!(found["nTasks"], 2);
    let shown = home.run(&command);
    for part in [
        "triage with openai/gpt-4o",
        "skipped 1 only in the baseline: other",
        "1 only in the candidate: logout",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let failing = home.run(&[&command[..], &["--fail-on-regression=any"]].concat());
    assert_eq!(failing.code, 1, "{}", failing.stdout);

    let run = home.run(&["compare", "latest", "latest", "--scorer", "match"]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    let absent = home.run(&["compare", "absent.eval", "latest"]);
    assert_eq!(absent.code, 2, "{}", absent.stdout);
}
