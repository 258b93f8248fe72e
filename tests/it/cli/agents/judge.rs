//! Rubrics on the command line: the judge comes from the configuration, from a flag, or is missing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use touchstone::demo::pack::{AGENT, Release};
use touchstone::kinds::KINDS;
use touchstone_runs::rules::eval::suite_rules::read_suite;

use crate::cli::home::{Done, Home, right_answers};
use crate::process::endpoint::Endpoint;

const SUITE: &str = "local.test.evals.tone@1.0.0";

/// The first task of the demo's suite, with two criteria for a judge.
fn suite() -> Value {
    let files = Release::Present.files();
    let demo = read_suite(KINDS, &files["evals/support-triage.json"])
        .unwrap()
        .suite;
    let task = &demo.tasks[0];
    json!({
        "suiteId": "local.test.evals.tone", "version": "1.0.0", "modes": ["golden", "rubric"],
        "thresholds": {"passScore": 0.7},
        "tasks": [{"taskId": task.task_id, "input": task.input, "expected": {"kind": "rubric", "rubric": [
            {"criterion": "names a queue", "weight": 0.75}, {"criterion": "is polite", "weight": 0.25}]}}],
    })
}

fn home() -> Home {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    std::fs::write(home.path("tone.json"), suite().to_string()).unwrap();
    let imported = home.run(&["suite", "import", "tone.json"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    home
}

fn eval(home: &Home, more: &[&str]) -> Done {
    // One task is too few for a significant result.
    let line = [
        &["--json", "eval", SUITE, "--agent", AGENT, "--lenient"],
        more,
    ]
    .concat();
    home.run(&line)
}

/// Makes the configured judge give this verdict on politeness, and approve the rest.
fn judge(home: &Home, model: &str, polite: &Value) {
    judge_within(home, model, polite, 60.0);
}

/// The same with a maximum response time for the judge.
fn judge_within(home: &Home, model: &str, polite: &Value, seconds: f64) {
    let rules = json!({"rules": [
        {"when": {"contains": "is polite"}, "turns": [polite]},
        {"turns": [{"output": {"met": true}}]},
    ]});
    std::fs::write(home.path("judge.json"), rules.to_string()).unwrap();
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let (before, _) = settings.split_once("\n[judge]").unwrap_or((&settings, ""));
    let settings = format!(
        "{before}\n[judge]\nprovider = \"scripted\"\nmodel = \"{model}\"\nfile = \"judge.json\"\nmax_attempts = 1\n\
         input_usd_per_mtok = 10.0\ntimeout_s = {seconds}\n"
    );
    std::fs::write(home.config(), settings).unwrap();
}

#[test]
fn rubric_mode_without_a_judge_is_refused_with_a_remedy() {
    let home = home();
    let refused = eval(&home, &["--mode", "rubric"]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    assert!(
        refused.stdout.contains("[judge]") || refused.stderr.contains("[judge]"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
}

#[test]
fn a_configured_judge_is_shown_with_what_it_cost() {
    let home = home();
    judge(
        &home,
        "examiner-1",
        &json!({"output": {"met": false, "reason": "canary-reason"}}),
    );
    let done = eval(&home, &["--mode", "rubric"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["summary"]["aggregateScore"], 0.75);
    assert_eq!(report["tasks"][0]["criteria"], json!([true, false]));
    assert_eq!(report["judge"]["model"], "examiner-1");
    let (judged, whole) = (
        report["judgeCostUsd"].as_f64().unwrap(),
        report["summary"]["totalCostUsd"].as_f64().unwrap(),
    );
    assert!(0.0 < judged && judged < whole, "{judged} of {whole}");
    assert!(!done.stdout.contains("canary-reason"));

    let run = home.run_of(&report);
    let shown = home.run(&["run", "show", &run]).stdout;
    assert!(shown.contains("judge   model examiner-1"), "{shown}");
    assert!(shown.contains("1 of 2 criteria met"), "{shown}");
}

#[test]
fn a_retry_needs_the_judge_the_run_had() {
    let home = home();
    let late = json!({"output": {"met": true}, "delayMs": 8_000});
    judge_within(&home, "examiner-1", &late, 1.0);
    let done = eval(&home, &["--mode", "rubric"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["tasks"][0]["reason"], "judge_timeout");
    let run = home.run_of(&report);

    judge(&home, "examiner-2", &late);
    let refused = home.run(&["--json", "run", "retry", &run]);
    assert!(
        refused.stdout.contains("judge_changed") || refused.stderr.contains("judge_changed"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    // Different answers under the same name make a different judge, too.
    judge(&home, "examiner-1", &json!({"output": {"met": true}}));
    let refused = home.run(&["--json", "run", "retry", &run]);
    assert!(
        refused.stdout.contains("judge_changed") || refused.stderr.contains("judge_changed"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    judge(&home, "examiner-1", &late);
    let retried = home.run(&["--json", "run", "retry", &run, "--lenient"]);
    assert_eq!(retried.code, 0, "{}{}", retried.stdout, retried.stderr);
    assert_eq!(retried.document()["summary"]["aggregateScore"], 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_named_by_option_is_called_over_http() {
    let endpoint = Endpoint::start(0..1, |request| {
        let question = request["messages"][1]["content"].as_str().unwrap();
        let met = !question.contains("is polite");
        let message =
            json!({"role": "assistant", "content": json!({"reason": "r", "met": met}).to_string()});
        let body = json!({"choices": [{"message": message, "finish_reason": "stop"}],
                          "usage": {"prompt_tokens": 90, "completion_tokens": 9}});
        (200, body)
    })
    .await;
    let url = endpoint.url().to_owned();
    let done = tokio::task::spawn_blocking(move || {
        eval(
            &home(),
            &["--judge-url", &url, "--judge-model", "examiner-1"],
        )
    });
    let done = done.await.unwrap();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let report = done.document();
    assert_eq!(report["modes"], json!(["golden", "rubric"]));
    assert_eq!(report["tasks"][0]["criteria"], json!([true, false]));
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 2, "one question per criterion");
    for asked in asked {
        assert_eq!(asked.body["temperature"], 0.0);
        assert_eq!(asked.body["model"], "examiner-1");
        let schema = &asked.body["response_format"]["json_schema"]["schema"];
        assert_eq!(schema["required"], json!(["reason", "met"]));
        let place = |member: &str| asked.text.rfind(&format!("\"{member}\":{{")).unwrap();
        assert!(place("reason") < place("met"), "the reason comes first");
        assert!(asked.body.get("tools").is_none());
    }
}

/// This many samples of the suite's one task; the odd ones are polite, and people labelled them so.
fn samples(count: usize) -> String {
    let line = |n: usize| {
        let polite = n % 2 == 1;
        let output = if polite {
            format!("Kindly, {n}.")
        } else {
            format!("{n}!")
        };
        let sample = json!({"item": format!("s-{n}"), "output": output, "human": [if polite { 5 } else { 1 }, 3]});
        sample.to_string()
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_judge_is_compared_with_people_and_shown_with_the_run() {
    let home = home();
    judge(&home, "examiner-1", &json!({"output": {"met": true}}));
    // Two criteria: a queue is always named, and politeness shows in the word.
    let rules = json!({"rules": [
        {"when": {"contains": "names a queue"}, "turns": [{"output": {"met": true}}]},
        {"when": {"contains": "Kindly"}, "turns": [{"output": {"met": true}}]},
        {"turns": [{"output": {"met": false}}]},
    ]});
    std::fs::write(home.path("judge.json"), rules.to_string()).unwrap();
    std::fs::write(home.path("few.jsonl"), samples(10)).unwrap();
    std::fs::write(home.path("many.jsonl"), samples(100)).unwrap();
    let calibrate = |file: &str, more: &[&str]| {
        let line = [
            &["--json", "judge", "calibrate", file, "--suite", SUITE],
            more,
        ]
        .concat();
        home.run(&line)
    };
    assert_eq!(calibrate("few.jsonl", &[]).code, 2, "too few");
    let few = calibrate("few.jsonl", &["--allow-few"]);
    assert_eq!(few.code, 1, "{}{}", few.stdout, few.stderr);
    let refused = calibrate("many.jsonl", &["--max-cost-usd", "0.001"]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stdout.contains("maxCostUsd"), "{}", refused.stdout);
    let done = calibrate("many.jsonl", &[]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let found = done.document();
    assert_eq!(
        (&found["spearman"], &found["samples"]),
        (&json!(1.0), &json!(100))
    );
    assert_eq!(found["ties"], json!({"judge": 100, "human": 100}));
    assert!(found["costUsd"].as_f64().unwrap() > 0.0);
    let listed = home.run(&["--json", "judge", "list"]).document();
    assert_eq!(listed["calibrations"], json!([found]));

    // A calibration that gates use must not be lost to an exploratory one, and the command does not
    // prompt.
    let refused = calibrate("few.jsonl", &["--allow-few"]);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert_eq!(refused.code, 2, "{said}");
    assert!(
        said.contains("has a calibration with 100 samples"),
        "{said}"
    );
    let listed = home.run(&["--json", "judge", "list"]).document();
    assert_eq!(
        listed["calibrations"],
        json!([found]),
        "the calibration is stored"
    );

    let report = eval(&home, &["--mode", "rubric"]).document();
    assert_eq!(report["judge"]["identity"], found["identity"]);
    assert_eq!(report["judge"]["calibration"], found);
    // An offline verifier also checks it against `minJudgeAgreement`.
    assert_eq!(attested(&home, &report)["judge"], report["judge"]);
    let shown = home.run(&["run", "show", &home.run_of(&report)]).stdout;
    assert!(
        shown.contains("agrees with people by 1.00 (n 100)"),
        "{shown}"
    );

    // Another model is another judge, which is not calibrated.
    judge(&home, "examiner-2", &json!({"output": {"met": true}}));
    std::fs::write(home.path("judge.json"), rules.to_string()).unwrap();
    let first = calibrate("few.jsonl", &["--allow-few"]);
    assert_eq!(first.code, 1, "{}{}", first.stdout, first.stderr);
    judge(&home, "examiner-3", &json!({"output": {"met": true}}));
    let report = eval(&home, &["--mode", "rubric"]).document();
    assert!(report["judge"].get("calibration").is_none(), "{report}");
    let check = |more: &[&str]| {
        let line = [&["gate", "set"], more].concat();
        assert_eq!(home.run(&line).code, 0);
        let version = report["agent"]["version"].as_str().unwrap();
        let run = home.run_of(&report);
        let subject = format!("{AGENT}@{version}");
        home.run(&["gate", "check", &subject, "--eval-run", &run])
            .stdout
    };
    assert!(check(&["--allow-unsigned"]).contains("was never compared with people"));
    assert!(
        !check(&["--allow-unsigned", "--allow-uncalibrated-judge"])
            .contains("compared with people")
    );
}

#[test]
fn a_judge_with_constant_verdicts_fails_calibration() {
    let home = home();
    judge(&home, "examiner-1", &json!({"output": {"met": true}}));
    std::fs::write(home.path("many.jsonl"), samples(100)).unwrap();
    let done = home.run(&[
        "--json",
        "judge",
        "calibrate",
        "many.jsonl",
        "--suite",
        SUITE,
    ]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("are all the same"), "{said}");
}

#[test]
fn the_attestation_names_the_judge() {
    let home = home();
    judge(&home, "examiner-1", &json!({"output": {"met": true}}));
    let report = eval(&home, &["--mode", "rubric"]).document();
    let identity = report["judge"]["identity"].as_str().unwrap();
    assert!(identity.starts_with("sha256-"), "{report}");
    let predicate = attested(&home, &report);
    assert_eq!(predicate["judge"], report["judge"]);
    assert_eq!(predicate["judgeCostUsd"], report["judgeCostUsd"]);
    assert!(predicate.get("safetyJudge").is_none(), "{predicate}");
}

#[test]
fn the_attestation_names_the_safety_judge() {
    let home = home();
    judge(&home, "examiner-1", &json!({"output": {"met": true}}));
    let mut hostile = suite();
    hostile["version"] = json!("1.1.0");
    hostile["modes"] = json!(["golden", "rubric", "adversarial"]);
    std::fs::write(home.path("hostile.json"), hostile.to_string()).unwrap();
    let imported = home.run(&["suite", "import", "hostile.json"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let line = [
        "--json",
        "eval",
        "local.test.evals.tone@1.1.0",
        "--agent",
        AGENT,
        "--mode",
        "rubric",
        "--mode",
        "adversarial",
    ];
    let report = home.run(&line).document();
    let (judge, safety) = (&report["judge"], &report["safetyJudge"]);
    assert!(
        safety["identity"].as_str().unwrap().starts_with("sha256-"),
        "{report}"
    );
    assert_ne!(judge["identity"], safety["identity"]);
    let predicate = attested(&home, &report);
    assert_eq!(
        (&predicate["judge"], &predicate["safetyJudge"]),
        (judge, safety)
    );
}

/// The predicate of the first statement about a run.
fn attested(home: &Home, report: &Value) -> Value {
    let run = home.run_of(report);
    let done = home.run(&["attest", &run, "--out", "run.intoto.jsonl"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let envelopes = std::fs::read_to_string(home.path("run.intoto.jsonl")).unwrap();
    let envelope: Value = serde_json::from_str(envelopes.lines().next().unwrap()).unwrap();
    let payload = STANDARD
        .decode(envelope["payload"].as_str().unwrap())
        .unwrap();
    let statement: Value = serde_json::from_slice(&payload).unwrap();
    statement["predicate"].clone()
}

#[test]
fn human_scores_may_be_a_csv_table() {
    let home = home();
    judge(&home, "examiner-1", &json!({"output": {"met": true}}));
    let rules = json!({"rules": [
        {"when": {"contains": "Kindly"}, "turns": [{"output": {"met": true}}]},
        {"turns": [{"output": {"met": false}}]},
    ]});
    std::fs::write(home.path("judge.json"), rules.to_string()).unwrap();
    let mut table = "item,output,human\n".to_owned();
    for line in samples(100).lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        for score in sample["human"].as_array().unwrap() {
            let (item, output) = (&sample["item"], &sample["output"]);
            table.push_str(&format!("{item},{output},{score}\n"));
        }
    }
    std::fs::write(home.path("many.csv"), table).unwrap();
    let line = ["--json", "judge", "calibrate", "many.csv", "--suite", SUITE];
    let done = home.run(&line);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let found = done.document();
    assert_eq!(
        (&found["spearman"], &found["samples"]),
        (&json!(1.0), &json!(100))
    );
}
