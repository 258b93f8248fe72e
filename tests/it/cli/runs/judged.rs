//! Assertions that a judge decides.

use serde_json::{Value, json};
use touchstone::demo::pack::Release;

use crate::cli::home::{Done, Home, right_answers};

const SCORING: &str = "evals/support-triage.scoring.json";

/// The demo's pack with these assertions for one of its tasks, signed and installed.
fn home_with(assertions: &Value) -> Home {
    let document = json!({
        "scoringVersion": 1, "suiteId": "vendor.touchstone-demo.evals.support-triage",
        "tasks": {"charged-twice": {"assertions": assertions}},
    });
    let mut files = Release::Present.files();
    files.insert(SCORING.to_owned(), document.to_string().into_bytes());
    let home = Home::with_signed(&files);
    home.model(&json!(right_answers()));
    home
}

/// Configures a judge that answers by these rules.
fn judge(home: &Home, rules: &Value) {
    std::fs::write(home.path("judge.json"), json!({"rules": rules}).to_string()).unwrap();
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let (before, _) = settings.split_once("\n[judge]").unwrap_or((&settings, ""));
    let settings = format!(
        "{before}\n[judge]\nprovider = \"scripted\"\nmodel = \"examiner-1\"\nfile = \"judge.json\"\nmax_attempts = 1\n\
         input_usd_per_mtok = 10.0\n"
    );
    std::fs::write(home.config(), settings).unwrap();
}

fn eval(home: &Home, more: &[&str]) -> Done {
    let options = ["--json", "--task", "charged-twice", "--lenient"];
    home.eval(&[&options, more].concat())
}

fn task<'a>(report: &'a Value, id: &str) -> &'a Value {
    let tasks = report["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["taskId"] == id).unwrap()
}

#[test]
fn a_closed_question_is_decided_by_the_judge_and_its_reason_is_shown() {
    let home = home_with(&json!([
        {"type": "closed-question", "question": "Does it name a queue?", "metric": "names a queue"},
        {"type": "closed-question", "question": "Is it rude?", "not": true},
        {"type": "expected"},
    ]));
    judge(
        &home,
        &json!([
            {"when": {"contains": "Is it rude?"}, "turns": [{"output": {"reason": "canary-calm", "yes": false}}]},
            {"turns": [{"output": {"reason": "canary-queue", "yes": true}}]},
        ]),
    );
    let done = eval(&home, &[]);
    let report = done.document();
    let judged = task(&report, "charged-twice");
    assert_eq!(judged["assertions"], json!([true, true, true]), "{report}");
    assert_eq!(report["metrics"][0]["mean"], json!(1.0));
    assert_eq!(report["judge"]["model"], "examiner-1");
    assert!(report["judgeCostUsd"].as_f64().unwrap() > 0.0);
    assert!(!done.stdout.contains("canary"), "{}", done.stdout);

    let run = home.run_of(&report);
    let shown = home.run(&["run", "show", &run, "--task", "charged-twice"]);
    for part in ["yes: canary-queue", "no: canary-calm"] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
}

#[test]
fn an_assertion_whose_judge_gives_no_verdict_leaves_its_task_unjudged() {
    let home = home_with(&json!([{"type": "closed-question", "question": "Is it kind?"}]));
    judge(&home, &json!([{"turns": [{"text": "Yes, it is."}]}]));
    let done = eval(&home, &[]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(task(&report, "charged-twice")["reason"], "judge_malformed");
}

#[test]
fn a_judged_assertion_without_a_judge_is_refused_with_a_remedy() {
    let home = home_with(&json!([{"type": "closed-question", "question": "Is it kind?"}]));
    let refused = eval(&home, &[]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(
        said.contains("[judge]") && said.contains("charged-twice"),
        "{said}"
    );
}

#[test]
fn a_retry_reuses_recorded_decisions() {
    let home = home_with(&json!([{"type": "closed-question", "question": "Is it kind?"}]));
    judge(&home, &json!([{"turns": [{"output": {"yes": true}}]}]));
    let mut rules =
        vec![json!({"when": {"taskId": "labels-blank"}, "turns": [{"fail": "unavailable"}]})];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let options = ["--json", "--lenient"];
    let first = home.eval(&options).document();
    assert_eq!(
        task(&first, "labels-blank")["outcome"],
        "unjudged",
        "{first}"
    );
    let retried = home.run(&["--json", "run", "retry", &home.run_of(&first), "--lenient"]);
    let retried = retried.document();
    let reused = task(&retried, "charged-twice");
    assert_eq!(reused["assertions"], json!([true]), "{retried}");
    assert_eq!(reused["reusedFrom"], first["runId"]);
    let run = home.run_of(&retried);
    let shown = home.run(&["--json", "run", "show", &run, "--task", "charged-twice"]);
    assert_eq!(shown.document()["assertions"][0]["holds"], json!(true));
}
