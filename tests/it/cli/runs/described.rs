//! `eval --prompt --cases` and the selection of tasks: an agent described by flags.

use serde_json::json;

use crate::cli::home::{Done, Home};

const CASES: &str = "id,input,expected\n\
    refund-1,I was charged twice,billing\n\
    refund-2,Please refund the second charge,billing\n\
    login,The page shows error 500,technical\n";

/// An agent that always answers `billing`.
const AGENT: &str = "import json, sys\n\
    for line in sys.stdin:\n    \
        question = json.loads(line)\n    \
        print(json.dumps({'id': question['id'], 'output': 'billing'}), flush=True)\n";

fn home() -> Home {
    let home = Home::empty();
    std::fs::write(home.path("cases.csv"), CASES).unwrap();
    std::fs::write(home.path("agent.py"), AGENT).unwrap();
    home
}

fn eval(home: &Home, more: &[&str]) -> Done {
    let command = [
        "--json",
        "eval",
        "--agent-command",
        "python3 agent.py",
        "--cases",
        "cases.csv",
    ];
    home.run(&[&command[..], more].concat())
}

#[test]
fn a_command_and_a_table_of_cases_are_evaluated_without_a_pack() {
    let home = home();
    let before = std::fs::read_dir(home.path(".")).unwrap().count();
    let done = eval(&home, &[]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["summary"]["passedCount"], 2);
    assert_eq!(report["summary"]["taskCount"], 3);
    assert_eq!(report["suite"]["signed"], false);
    assert_eq!(report["agent"]["agentId"], "private.local.cases.default");
    // Only the data folder of the embedded host is new.
    let after = std::fs::read_dir(home.path(".")).unwrap().count();
    assert!(after <= before + 1, "{before} and {after} entries");
}

#[test]
fn a_described_agent_becomes_a_pack_folder() {
    let home = home();
    std::fs::write(home.path("triage.md"), "Answer with the label.").unwrap();
    let done = eval(&home, &["--prompt", "triage.md", "--save", "my-agent"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let prompt = std::fs::read_to_string(home.path("my-agent/prompts/agent.md")).unwrap();
    assert_eq!(prompt, "Answer with the label.");
    let lint = home.run(&["pack", "lint", "my-agent"]);
    assert_eq!(lint.code, 0, "{}{}", lint.stdout, lint.stderr);
    let again = home.run(&[
        "--json",
        "eval",
        "my-agent",
        "--agent-command",
        "python3 agent.py",
    ]);
    assert_eq!(again.document()["agent"], done.document()["agent"]);
    let refused = eval(&home, &["--save", "my-agent"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

/// A suite and its scoring document, as `suite import --out` writes them.
fn suite_with_alternatives() -> Home {
    let home = home();
    let sample = "{\"input\": \"I was charged twice\", \"ideal\": [\"invoice\", \"billing\"]}\n";
    std::fs::write(home.path("s.jsonl"), sample).unwrap();
    let done = home.run(&["suite", "import", "s.jsonl", "--out", "s1.json"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(home.path("s1.scoring.json").is_file());
    home
}

#[test]
fn the_scoring_document_beside_a_suite_is_used_and_named() {
    let home = suite_with_alternatives();
    let eval = |home: &Home| {
        let command = ["eval", "--agent-command", "python3 agent.py"];
        home.run(&[&command[..], &["--cases", "s1.json", "--lenient"]].concat())
    };
    let done = eval(&home);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let said = "assertions are read from s1.scoring.json";
    assert_eq!(done.stderr.matches(said).count(), 1, "{}", done.stderr);

    let done = home.run(&["suite", "import", "s1.json"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains(said), "{}", done.stderr);
    let listed = home.run(&["suite", "list"]).stdout;
    assert!(listed.contains("with assertions"), "{listed}");

    let scoring = std::fs::read_to_string(home.path("s1.scoring.json")).unwrap();
    let scoring = scoring.replace("\"equals\"", "\"eqals\"");
    std::fs::write(home.path("s1.scoring.json"), scoring).unwrap();
    for done in [eval(&home), home.run(&["suite", "import", "s1.json"])] {
        assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
        assert!(done.stderr.contains("s1.scoring.json"), "{}", done.stderr);
    }
}

#[test]
fn cases_need_an_agent_and_a_known_format() {
    let home = home();
    let done = home.run(&["eval", "--cases", "cases.csv"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("--prompt FILE"), "{}", done.stderr);

    std::fs::write(home.path("cases.csv"), "question;answer\na;b\n").unwrap();
    let done = eval(&home, &[]);
    assert_eq!(done.code, 2, "{}", done.stdout);
    assert!(done.stderr.contains("cases.csv") || done.stdout.contains("cases.csv"));
}

#[test]
fn selected_tasks_run_and_the_run_says_so() {
    let home = home();
    let ran = |more: &[&str]| {
        let done = eval(&home, more);
        let report = done.document();
        let tasks = report["tasks"]
            .as_array()
            .unwrap_or_else(|| panic!("{}", done.stderr));
        let ids: Vec<String> = tasks
            .iter()
            .map(|task| task["taskId"].as_str().unwrap().to_owned())
            .collect();
        (ids, report)
    };
    let (ids, first) = ran(&[]);
    assert_eq!(ids, ["refund-1", "refund-2", "login"]);
    let run = home.run_of(&first);
    assert_eq!(ran(&["--task", "login"]).0, ["login"]);
    assert_eq!(
        ran(&["--filter", "^refund", "--limit", "1"]).0,
        ["refund-1"]
    );
    let (ids, failed) = ran(&["--failed-of", &run]);
    assert_eq!(ids, ["login"]);
    assert_eq!(failed["suite"]["taskCount"], 3);
    let notes = failed["notes"].to_string();
    assert!(
        notes.contains("1 of the suite's 3 tasks took part"),
        "{notes}"
    );
}

#[test]
fn an_unknown_task_is_refused_with_similar_ones() {
    let home = home();
    let done = eval(&home, &["--task", "refnd-1"]);
    assert_eq!(done.code, 2, "{}", done.stdout);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("did you mean refund-1"), "{said}");
}

#[test]
fn a_task_that_takes_too_long_is_unjudged() {
    let home = home();
    std::fs::write(home.path("agent.py"), "import time\ntime.sleep(60)\n").unwrap();
    let done = eval(&home, &["--timeout", "300ms", "--task", "login"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["tasks"][0]["outcome"], json!("unjudged"));
    assert_eq!(report["tasks"][0]["reason"], json!("task_timeout"));
}

/// Cases that the agent answers correctly.
const BILLING: &str = "input,expected\nI was charged twice,billing\nRefund me,billing\n";

#[test]
fn a_run_of_cases_can_be_a_baseline() {
    let home = home();
    std::fs::write(home.path("cases.csv"), BILLING).unwrap();
    std::fs::write(home.path("prompt.md"), "Name the queue.").unwrap();
    let before = home.run_of(&eval(&home, &["--prompt", "prompt.md"]).document());
    std::fs::write(home.path("prompt.md"), "Answer with the queue.").unwrap();
    let done = eval(&home, &["--prompt", "prompt.md", "--baseline", &before]);
    let report = done.document();
    assert_eq!(
        report["summary"]["regression"]["baselineRunId"], before,
        "{}{}",
        done.stdout, done.stderr
    );
    assert_eq!(report["modes"], json!(["golden", "regression"]));
}

#[test]
fn python_assertions_are_left_to_a_command() {
    let home = home();
    let configuration = "description: Sums\nprompts: ['Add {{a}}']\ntests:\n  \
        - {vars: {a: 1}, assert: [{type: python, value: 'file://check.py'}]}\n";
    std::fs::write(home.path("promptfooconfig.yaml"), configuration).unwrap();
    let cases = ["--cases", "promptfooconfig.yaml", "--lenient"];
    let eval = |more: &[&str]| {
        let command = ["eval", "--agent-command", "python3 agent.py"];
        home.run(&[&command[..], &cases, more].concat())
    };
    let refused = eval(&[]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    assert!(
        refused.stderr.contains("add --assert-command COMMAND"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("type \"python\" is code"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_line_that_is_not_an_answer_is_explained() {
    let home = home();
    std::fs::write(
        home.path("agent.py"),
        "import sys\nfor line in sys.stdin:\n    print('hello', flush=True)\n",
    )
    .unwrap();
    let command = ["eval", "--agent-command", "python3 agent.py"];
    let done = home.run(&[&command[..], &["--cases", "cases.csv"]].concat());
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("print one JSON object per line"),
        "{}",
        done.stderr
    );
}
