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

#[test]
fn an_eval_is_compared_with_a_log_of_inspect() {
    let home = home_with_commands();
    log(&home);
    let eval = |more: &[&str]| {
        let agent = "python3 agent.py billing";
        let command = ["eval", "--cases", "cases.csv", "--agent-command", agent];
        home.run(&[&command[..], more].concat())
    };
    let baseline = ["--baseline", "triage.json", "--scorer", "match"];
    for (refused, reason) in [
        (&["--baseline", "triage.json"][..], "--scorer NAME"),
        (&["--baseline", "cases.json"], "cases.json"),
        (
            &["--baseline", "latest", "--scorer", "match"],
            "--scorer applies only",
        ),
        (
            &[&baseline[..], &["--trials", "2"]].concat(),
            "--trials cannot be compared",
        ),
    ] {
        let done = eval(refused);
        assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
        assert!(done.stderr.contains(reason), "{reason}: {}", done.stderr);
    }
    let none = home.run(&["--json", "run", "list"]).document();
    assert_eq!(
        none["runs"],
        json!([]),
        "no run starts before the log is read"
    );

    let done = eval(&[&baseline[..], &["--markdown", "eval.md"]].concat());
    assert_eq!(
        done.code, 1,
        "the verdict is the run's: {}{}",
        done.stdout, done.stderr
    );
    let markdown = std::fs::read_to_string(home.path("eval.md")).unwrap();
    for text in [&done.stdout, &markdown] {
        assert!(text.contains("triage with openai/gpt-4o"), "{text}");
        assert!(text.contains("only in the baseline"), "{text}");
    }
    let found = home.run(&[
        "--json",
        "eval",
        "--cases",
        "cases.csv",
        "--agent-command",
        "python3 agent.py billing",
        "--baseline",
        "triage.json",
        "--scorer",
        "match",
    ]);
    let found = found.document();
    assert_eq!(found["verdict"], "fail");
    let comparison = &found["comparison"];
    assert_eq!(
        (&comparison["broke"], &comparison["fixed"]),
        (&json!(1), &json!(1))
    );

    let other = json!({"version": 2, "status": "success", "eval": {"task": "x", "model": "y"},
        "samples": [{"id": "elsewhere", "epoch": 1, "input": "a", "target": "b",
            "scores": {"match": {"value": "C"}}}]});
    std::fs::write(home.path("other.json"), other.to_string()).unwrap();
    let done = eval(&["--baseline", "other.json"]);
    assert_eq!(done.code, 2, "{}", done.stdout);
    assert!(done.stdout.contains("fail"), "{}", done.stdout);
    assert!(done.stderr.contains("no task in common"), "{}", done.stderr);
}
