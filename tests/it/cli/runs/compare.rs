//! `touchstone compare`: tables, documents, exit codes.

use serde_json::{Value, json};

use crate::cli::home::{Home, but, right_answers};

/// A home with two runs; the second one answers differently according to `rules`.
fn two_runs(rules: Vec<Value>) -> (Home, String, String) {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let before = home.run_of(&home.eval(&["--json"]).document());
    let rules: Vec<Value> = rules.into_iter().chain(right_answers()).collect();
    home.model(&json!(rules));
    let after = home.run_of(&home.eval(&["--json"]).document());
    (home, before, after)
}

#[test]
fn flips_are_shown_with_what_chance_explains() {
    let broken = vec![
        but("thanks", json!({"output": {"queue": "spam"}})),
        but("charged-twice", json!({"text": "no JSON"})),
    ];
    let (home, before, after) = two_runs(broken);
    let shown = home.run(&["compare", &before, &after]);
    assert_eq!(shown.code, 0, "{}{}", shown.stdout, shown.stderr);
    assert!(!shown.stdout.contains('\u{1b}'), "{}", shown.stdout);
    for part in [
        "20 tasks, paired",
        "output is not JSON",
        "flips   2 broke, 0 fixed",
        "INCONCLUSIVE",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let document = home.run(&["--json", "compare", &before, &after]).document();
    assert_eq!(document["broke"], 2);
    assert_eq!(document["changes"][0]["turn"], "broke");
    let answers = home.run(&["compare", &before, &after, "--answers"]);
    assert!(answers.stdout.contains("spam"), "{}", answers.stdout);
    assert!(!shown.stdout.contains("spam"), "{}", shown.stdout);
    let answers = ["--json", "compare", &before, &after, "--answers"];
    let answers = &home.run(&answers).document()["answers"];
    let thanks = answers.as_array().unwrap();
    let thanks = thanks.iter().find(|it| it["taskId"] == "thanks").unwrap();
    assert_eq!(thanks["candidate"], json!({"queue": "spam"}), "{thanks}");

    let back = home.run(&["--json", "compare", &after, &before]).document();
    assert_eq!(back["fixed"], 2);

    for (flag, code) in [("--fail-on-regression", 4), ("--fail-on-regression=any", 1)] {
        let done = home.run(&["compare", &before, &after, flag]);
        assert_eq!(done.code, code, "{flag}: {}", done.stdout);
        let same = home.run(&["compare", &before, &before, flag]);
        assert_eq!(same.code, 0, "{flag}: {}", same.stdout);
    }
    let printed = home.run(&["compare", &before, &after, "--markdown", "-"]);
    assert!(
        printed.stdout.starts_with("## ⚠️ INCONCLUSIVE"),
        "{}",
        printed.stdout
    );
    assert!(
        printed.stdout.contains("| `thanks` | **broke** |"),
        "{}",
        printed.stdout
    );
    home.run(&["compare", &before, &after, "--markdown", "compared.md"]);
    let written = std::fs::read_to_string(home.path("compared.md")).unwrap();
    assert_eq!(written.trim(), printed.stdout.trim());
}

#[test]
fn a_significant_regression_exits_1() {
    let (home, before, _) = two_runs(Vec::new());
    home.model(&json!([{"turns": [{"text": "no JSON"}]}]));
    let worse = home.run_of(&home.eval(&["--json"]).document());
    let done = home.run(&["compare", &before, &worse, "--fail-on-regression"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("SIGNIFICANTLY WORSE"),
        "{}",
        done.stdout
    );
}

#[test]
fn unjudged_runs_are_inconclusive_and_missing_runs_are_bad_input() {
    let (home, before, after) = two_runs(vec![but("thanks", json!({"fail": "unavailable"}))]);
    for flag in ["--fail-on-regression", "--fail-on-regression=any"] {
        let done = home.run(&["compare", &before, &after, flag]);
        assert_eq!(done.code, 4, "{flag}: {}", done.stdout);
        assert!(
            done.stdout.contains("1 unjudged in one run: thanks"),
            "{}",
            done.stdout
        );
    }
    let missing = home.run(&["compare", &before, "run_absent"]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
}
