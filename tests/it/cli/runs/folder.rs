//! `eval FOLDER` and `run show --task`: from a failed task to a fixed agent, without version,
//! signature or installation.

use serde_json::{Value, json};

use crate::cli::home::{Done, Home};

/// An agent that answers `answer`, a Python expression over the text of the task.
fn write_agent(home: &Home, answer: &str) {
    let program = format!(
        "import json, sys\n\
         for line in sys.stdin:\n    \
             question = json.loads(line)\n    \
             text = question['input']['text']\n    \
             output = {{'label': {answer}}}\n    \
             print(json.dumps({{'id': question['id'], 'output': output}}), flush=True)\n"
    );
    std::fs::write(home.path("agent.py"), program).unwrap();
}

fn eval(home: &Home, more: &[&str]) -> Done {
    let command = ["--json", "eval", "my-agent", "--lenient", "--agent-command"];
    home.run(&[&command[..], &["python3 agent.py"], more].concat())
}

const WRONG: &str = "'billing'";
const RIGHT: &str =
    "'billing' if 'charged' in text else 'other' if 'office' in text else 'technical'";

#[test]
fn a_failed_task_of_a_folder_is_shown_fixed_and_evaluated_again() {
    let home = Home::with_folder();
    write_agent(&home, WRONG);
    let done = eval(&home, &[]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let first = done.document();
    let run = home.run_of(&first);

    let shown = home.run(&["run", "show", &run, "--task", "office-question"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for part in [
        "Do you have an office in Lisbon?",
        "/label  expected \"other\", got \"billing\"",
        "transcript",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let failed = home.run(&["--json", "run", "show", &run, "--failed"]);
    let tasks: Vec<Value> = failed
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = &first["summary"];
    let missed = summary["taskCount"].as_u64().unwrap() - summary["passedCount"].as_u64().unwrap();
    assert_eq!(tasks.len() as u64, missed);
    assert!(tasks.iter().all(|task| task["outcome"] == "failed"));

    write_agent(&home, RIGHT);
    let done = eval(&home, &[]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let second = done.document();
    // Neither prompt nor suite has changed, so the versions have not either.
    assert_eq!(second["agent"]["version"], first["agent"]["version"]);
    let compared = home.run(&["--json", "compare", &run, &home.run_of(&second)]);
    assert_eq!(
        compared.document()["broke"],
        json!(0),
        "{}",
        compared.stderr
    );
}

#[test]
fn a_scorecard_in_a_pipe_has_no_task_content() {
    let home = Home::with_folder();
    write_agent(&home, WRONG);
    let run = home.run_of(&eval(&home, &[]).document());
    let shown = home.run(&["run", "show", &run]);
    assert!(shown.stdout.contains("office-question"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("Lisbon"), "{}", shown.stdout);
}

#[test]
fn a_report_page_has_content_only_if_asked_and_compares_with_a_baseline() {
    let home = Home::with_folder();
    write_agent(&home, WRONG);
    let before = home.run_of(&eval(&home, &[]).document());
    write_agent(&home, RIGHT);
    let after = home.run_of(&eval(&home, &[]).document());

    let done = home.run(&["run", "report", &before, "--html", "plain.html"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let page = std::fs::read_to_string(home.path("plain.html")).unwrap();
    for part in ["Failed", "office-question", "Conditions of a gate"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Lisbon"), "{page}");

    let command = ["run", "report", &before, "--html", "-", "--with-content"];
    let done = home.run(&command);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("Do you have an office in Lisbon?"));
    assert!(done.stdout.contains("This page contains task content"));

    let command = [
        "run",
        "report",
        &after,
        "--html",
        "-",
        "--baseline",
        &before,
    ];
    let done = home.run(&command);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("fixed"), "{}", done.stdout);
    assert!(!done.stdout.contains("Lisbon"));
}

#[test]
fn a_changed_prompt_is_another_version_and_no_gate_accepts_either() {
    let home = Home::with_folder();
    write_agent(&home, RIGHT);
    let first = eval(&home, &[]).document();
    std::fs::write(home.path("my-agent/prompts/agent.md"), "Answer `other`.").unwrap();
    let second = eval(&home, &[]).document();
    assert_ne!(first["agent"]["version"], second["agent"]["version"]);
    assert_eq!(first["suite"]["version"], second["suite"]["version"]);

    let version = second["agent"]["version"].as_str().unwrap();
    let agent = format!("vendor.acme.my-agent.default@{version}");
    let run = home.run_of(&second);
    let gate = home.run(&["--json", "gate", "check", &agent, "--eval-run", &run]);
    assert_eq!(gate.code, 1, "{}{}", gate.stdout, gate.stderr);
    assert!(gate.stdout.contains("signed-suite"), "{}", gate.stdout);
}

#[test]
fn a_folder_without_a_pack_is_refused_with_its_file() {
    let home = Home::with_folder();
    std::fs::write(home.path("my-agent/evals/label.json"), "{").unwrap();
    let done = home.run(&["eval", "my-agent", "--agent-command", "true"]);
    assert_eq!(done.code, 2, "{}", done.stdout);
    assert!(
        done.stderr.contains("my-agent/evals/label.json"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("pack lint my-agent"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_folder_is_evaluated_only_by_the_embedded_host() {
    let home = Home::with_folder();
    let done = home.run(&["--server", "http://127.0.0.1:9", "eval", "my-agent"]);
    assert_eq!(done.code, 2);
    assert!(
        done.stderr
            .contains("only be evaluated by the embedded host"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_suite_without_its_version_is_refused_with_a_hint() {
    let done = Home::with_pack().run(&["eval", "vendor.acme.evals.triage"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("SUITE@VERSION"), "{}", done.stderr);
}

#[test]
fn an_installed_suite_needs_an_agent() {
    let home = Home::with_pack();
    let done = home.run(&["eval", "vendor.acme.evals.triage@1.0.0"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("--agent"), "{}", done.stderr);
}
