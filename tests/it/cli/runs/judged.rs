//! Assertions that a judge decides.

use serde_json::{Value, json};
use touchstone::demo::pack::{AGENT, Release};
use touchstone::kinds::KINDS;
use touchstone_runs::rules::eval::suite_rules::read_suite;

use super::support::{TASK, eval, home_with, task};
use crate::cli::home::{Done, Home, right_answers};

/// Configures a judge that answers by these rules.
fn judge(home: &Home, rules: &Value) {
    std::fs::write(home.path("judge.json"), json!({"rules": rules}).to_string()).unwrap();
    let before = settings_without_judges(home);
    let entry = entry("judge", "examiner-1");
    std::fs::write(home.config(), format!("{before}\n[judge]\n{entry}")).unwrap();
}

/// Adds a second judge that answers by these rules.
fn second_judge(home: &Home, rules: &Value) {
    std::fs::write(
        home.path("second.json"),
        json!({"rules": rules}).to_string(),
    )
    .unwrap();
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let entry = entry("second", "examiner-2");
    std::fs::write(home.config(), format!("{settings}\n[[judges]]\n{entry}")).unwrap();
}

fn entry(file: &str, model: &str) -> String {
    format!(
        "provider = \"scripted\"\nmodel = \"{model}\"\nfile = \"{file}.json\"\nmax_attempts = 1\n\
         input_usd_per_mtok = 10.0\n"
    )
}

fn settings_without_judges(home: &Home) -> String {
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let before = settings
        .split_once("\n[judge]")
        .map(|(before, _)| before.to_owned());
    before.unwrap_or(settings)
}

const SUITE: &str = "local.test.evals.judged@1.0.0";

/// A suite with one task of the demo and these assertions, imported.
fn home_with_suite(assertions: &Value) -> Home {
    let files = Release::Present.files();
    let demo = read_suite(KINDS, &files["evals/support-triage.json"])
        .unwrap()
        .suite;
    let task = demo
        .tasks
        .iter()
        .find(|task| task.task_id.as_str() == TASK)
        .unwrap();
    let suite = json!({"suiteId": "local.test.evals.judged", "version": "1.0.0",
        "modes": ["golden", "regression"], "tasks": [task]});
    let scoring = json!({"scoringVersion": 1, "suiteId": "local.test.evals.judged",
        "tasks": {TASK: {"assertions": assertions}}});
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    std::fs::write(home.path("one.json"), suite.to_string()).unwrap();
    std::fs::write(home.path("one.scoring.json"), scoring.to_string()).unwrap();
    let import = [
        "suite",
        "import",
        "one.json",
        "--scoring",
        "one.scoring.json",
    ];
    let imported = home.run(&import);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    home
}

fn eval_suite(home: &Home, more: &[&str]) -> Done {
    let options = ["--json", "eval", SUITE, "--agent", AGENT, "--lenient"];
    home.run(&[&options, more].concat())
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
    let home = home_with(&json!([
        {"type": "expected"},
        {"type": "closed-question", "question": "Is it kind?"},
        {"type": "closed-question", "question": "Is it rude?", "not": true},
    ]));
    judge(
        &home,
        &json!([
            {"when": {"contains": "Is it rude?"}, "turns": [{"output": {"reason": "calm", "yes": false}}]},
            {"turns": [{"text": "Yes, canary-kind."}]},
        ]),
    );
    let done = eval(&home, &[]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(task(&report, "charged-twice")["reason"], "judge_malformed");
    assert!(!report.to_string().contains("canary"), "{report}");

    // People see the reply, and what is decided.
    let run = home.run_of(&report);
    let shown = home.run(&["run", "show", &run, "--task", "charged-twice"]);
    for part in [
        "the reply of the judge does not have the requested form",
        "Yes, canary-kind.",
        "✓ expected",
        "? closed-question",
        "✓ closed-question: not: yes to: Is it rude?",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
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

#[test]
fn facts_and_context_are_measured_statement_by_statement() {
    let home = home_with_suite(&json!([
        {"type": "factuality", "reference": "The customer was charged once.", "not": true},
        {"type": "faithfulness", "context": "The invoice was charged twice.", "graded": true, "metric": "faithful"},
        {"type": "context-precision", "context": ["unrelated", "The invoice was charged twice."]},
        {"type": "answer-relevance", "min": 1},
    ]));
    let said = |contains: &str, reply: Value| json!({"when": {"contains": contains}, "turns": [{"output": reply}]});
    judge(
        &home,
        &json!([
            said(
                "How does the answer relate",
                json!({"reason": "once, not twice", "category": "conflict"})
            ),
            said(
                "List the statements",
                json!({"statements": ["It goes to billing.", "It is urgent."]})
            ),
            said(
                "Is each item supported",
                json!({"verdicts": [
                {"reason": "canary-said", "yes": true}, {"reason": "canary-not-said", "yes": false}]})
            ),
            said(
                "Is each item useful",
                json!({"verdicts": [{"yes": false}, {"yes": true}]})
            ),
            said(
                "Is each item relevant",
                json!({"verdicts": [{"yes": true}, {"yes": true}]})
            ),
        ]),
    );
    let done = eval_suite(&home, &[]);
    let report = done.document();
    let judged = task(&report, TASK);
    assert_eq!(
        judged["assertions"],
        json!([true, true, true, true]),
        "{report}"
    );
    assert_eq!(report["metrics"][0]["mean"], json!(0.5));
    assert_eq!(report["summary"]["tasks"][0]["score"], json!(0.875));
    assert!(!done.stdout.contains("canary"), "{}", done.stdout);
    let shown = home.run(&["run", "show", &home.run_of(&report), "--task", TASK]);
    for part in [
        "judge conflict: once, not twice",
        "0.500, 1 of 2 statements follow from the context",
        "no: It is urgent. (canary-not-said)",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
}

#[test]
fn an_answer_is_compared_with_that_of_the_baseline_in_both_orders() {
    let home = home_with_suite(&json!([
        {"type": "expected"}, {"type": "preferred-to-baseline", "min": 1},
    ]));
    judge(
        &home,
        &json!([{"turns": [{"output": {"reason": "canary-first", "better": "first"}}]}]),
    );
    let first = eval_suite(&home, &["--mode", "golden"]);
    let first = first.document();
    // Without a baseline, the comparison is left out.
    assert_eq!(first["summary"]["tasks"][0]["score"], json!(1.0), "{first}");
    assert_eq!(first["verdict"], "pass");
    let baseline = home.run_of(&first);
    let second = eval_suite(&home, &["--baseline", &baseline]).document();
    // The judge prefers whatever comes first, so neither answer wins.
    assert_eq!(
        second["summary"]["tasks"][0]["score"],
        json!(0.75),
        "{second}"
    );
    assert_eq!(task(&second, TASK)["assertions"], json!([true, false]));
    let run = home.run_of(&second);
    let shown = home.run(&["run", "show", &run, "--task", TASK]);
    assert!(shown.stdout.contains("disagreement"), "{}", shown.stdout);
    let alone = eval_suite(&home, &["--mode", "regression"]);
    assert_eq!(alone.code, 2, "{}{}", alone.stdout, alone.stderr);
}

#[test]
fn several_judges_decide_by_majority_and_the_report_shows_their_agreement() {
    let home = home_with_suite(&json!([
        {"type": "closed-question", "question": "Is it kind?", "not": true},
        {"type": "closed-question", "question": "Is it clear?"},
    ]));
    let both = json!([
        {"when": {"contains": "Is it kind?"}, "turns": [{"output": {"reason": "a", "yes": true}}]},
        {"turns": [{"output": {"reason": "b", "yes": true}}]},
    ]);
    judge(&home, &both);
    second_judge(
        &home,
        &json!([
            {"when": {"contains": "Is it kind?"}, "turns": [{"output": {"reason": "c", "yes": false}}]},
            {"turns": [{"output": {"reason": "d", "yes": true}}]},
        ]),
    );
    let report = eval_suite(&home, &[]).document();
    // A tie is no majority.
    assert_eq!(
        task(&report, TASK)["assertions"],
        json!([true, true]),
        "{report}"
    );
    let agreement = &report["judgeAgreement"];
    assert_eq!(
        (&agreement["judges"], &agreement["decisions"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(agreement["observed"], json!(0.5));
    let judges = report["judge"]["judges"].as_array().unwrap();
    assert_eq!(judges.len(), 2);
    assert_ne!(report["judge"]["identity"], judges[0]["identity"]);
    let run = home.run_of(&report);
    let shown = home.run(&["run", "show", &run]).stdout;
    assert!(shown.contains("2 judges agree in 50 % of pairs"), "{shown}");
    let shown = home.run(&["run", "show", &run, "--task", TASK]).stdout;
    for part in [
        "judges: 1 of 2 say that it holds",
        "judge 1: yes: a",
        "judge 2: no: c",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // One of the judges alone is another judge.
    judge(&home, &both);
    let alone = eval_suite(&home, &["--baseline", &run]);
    assert_eq!(alone.code, 2, "{}{}", alone.stdout, alone.stderr);
}

#[test]
fn a_cassette_replays_every_judge() {
    let home = home_with_suite(&json!([
        {"type": "closed-question", "question": "Is it kind?", "not": true},
        {"type": "closed-question", "question": "Is it clear?"},
    ]));
    let reply = |kind: bool| {
        json!([
            {"when": {"contains": "Is it kind?"}, "turns": [{"output": {"reason": "a", "yes": kind}}]},
            {"turns": [{"output": {"reason": "b", "yes": true}}]},
        ])
    };
    judge(&home, &reply(true));
    second_judge(&home, &reply(false));
    let recorded = eval_suite(&home, &["--record", "tape.jsonl"]);
    assert_eq!(recorded.code, 0, "{}{}", recorded.stdout, recorded.stderr);
    let recorded = recorded.document();
    // No model answers any more.
    home.model(&json!([]));
    judge(&home, &json!([]));
    second_judge(&home, &json!([]));
    let replayed = eval_suite(&home, &["--replay", "tape.jsonl"]);
    assert_eq!(replayed.code, 0, "{}{}", replayed.stdout, replayed.stderr);
    let replayed = replayed.document();
    for member in ["judge", "judgeAgreement", "judgeCostUsd"] {
        assert!(!recorded[member].is_null(), "{member}: {recorded}");
        assert_eq!(replayed[member], recorded[member], "{member}");
    }
    assert_eq!(
        task(&replayed, TASK)["assertions"],
        task(&recorded, TASK)["assertions"]
    );
    let votes = |report: &Value| {
        let run = home.run_of(report);
        let shown = home.run(&["run", "show", &run, "--task", TASK]).stdout;
        shown.contains("judge 1: yes: a") && shown.contains("judge 2: no: a")
    };
    assert!(votes(&recorded) && votes(&replayed));
}

#[test]
fn a_gate_needs_a_calibration_of_the_judge_that_decides_assertions() {
    let home = home_with_suite(&json!([
        {"type": "closed-question", "question": "Is it kind?"}, {"type": "expected"},
    ]));
    judge(
        &home,
        &json!([
            {"when": {"contains": "Kindly"}, "turns": [{"output": {"yes": true}}]},
            {"turns": [{"output": {"yes": false}}]},
        ]),
    );
    let report = eval_suite(&home, &[]).document();
    let gate = home.run(&["gate", "set", "--allow-unsigned"]);
    assert_eq!(gate.code, 0, "{}{}", gate.stdout, gate.stderr);
    let version = report["agent"]["version"].as_str().unwrap().to_owned();
    let check = |run: &str| {
        let subject = format!("{AGENT}@{version}");
        home.run(&["gate", "check", &subject, "--eval-run", run])
            .stdout
    };
    let refused = check(&home.run_of(&report));
    assert!(
        refused.contains("was never compared with people"),
        "{refused}"
    );
    let sample = |n: usize| {
        let (output, human) = match n % 2 {
            0 => ("Kindly yours", 5),
            _ => ("No.", 1),
        };
        json!({"item": format!("s-{n}"), "output": output, "human": [human]}).to_string()
    };
    let samples: Vec<String> = (0..100).map(sample).collect();
    std::fs::write(home.path("many.jsonl"), samples.join("\n")).unwrap();
    let calibrated = home.run(&[
        "--json",
        "judge",
        "calibrate",
        "many.jsonl",
        "--suite",
        SUITE,
    ]);
    assert_eq!(
        calibrated.code, 0,
        "{}{}",
        calibrated.stdout, calibrated.stderr
    );
    assert_eq!(
        calibrated.document()["identity"],
        report["judge"]["identity"]
    );
    let checked = check(&home.run_of(&report));
    assert!(!checked.contains("compared with people"), "{checked}");
}
