//! Attestations as baselines, on the command line.

use serde_json::{Value, json};

use super::wrong_answers;
use crate::cli::home::{Home, right_answers};

/// A home with a run, whose attestation and key are the text of these files.
fn attested() -> (Home, String, String) {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let run = home.run_of(&home.eval(&["--json"]).document());
    for command in [
        &["attest", &run, "--out", "main.intoto.jsonl"][..],
        &["attest", "--public-key", "--out", "main.pub"],
    ] {
        let done = home.run(command);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    let read = |name: &str| std::fs::read_to_string(home.path(name)).unwrap();
    let (bundle, key) = (read("main.intoto.jsonl"), read("main.pub"));
    (home, bundle, key)
}

/// Another checkout, with these files.
fn elsewhere(bundle: &str, key: &str) -> Home {
    let home = Home::with_pack();
    std::fs::write(home.path("main.intoto.jsonl"), bundle).unwrap();
    std::fs::write(home.path("main.pub"), key).unwrap();
    home
}

const BASELINE: [&str; 4] = [
    "--baseline",
    "main.intoto.jsonl",
    "--baseline-key",
    "main.pub",
];

#[test]
fn a_run_is_compared_with_the_attestation_of_another_host() {
    let (first, bundle, key) = attested();
    let home = elsewhere(&bundle, &key);
    home.model(&wrong_answers(14));
    let json = home.eval(&[&BASELINE[..], &["--json"]].concat());
    assert_eq!(json.code, 1, "{}{}", json.stdout, json.stderr);
    let report = json.document();
    let comparison = &report["comparison"];
    assert_eq!(comparison["broke"], 14, "{comparison}");
    assert_eq!(comparison["nTasks"], 20);
    assert_eq!(comparison["differences"], json!([]));
    assert!(comparison.get("diffRef").is_none(), "{comparison}");
    assert_ne!(
        comparison["baseline"]["runId"],
        comparison["candidate"]["runId"]
    );

    let markdown = [&BASELINE[..], &["--markdown", "eval.md"]].concat();
    let text = home.eval(&markdown);
    assert!(
        text.stdout.contains("against the baseline"),
        "{}",
        text.stdout
    );
    let written = std::fs::read_to_string(home.path("eval.md")).unwrap();
    assert!(written.contains("against `"), "{written}");

    // The host of the baseline gives the same result for its own runs.
    first.model(&wrong_answers(14));
    let (file, key) = ("main.intoto.jsonl", ["--baseline-key", "main.pub"]);
    let own = first.run_of(&first.eval(&["--json"]).document());
    let by_file = first.run(&[&["--json", "compare", file, &own], &key[..]].concat());
    let old = by_file.document()["baseline"]["runId"].clone();
    let by_run = first.run(&["--json", "compare", old.as_str().unwrap(), &own]);
    let (by_file, by_run) = (by_file.document(), by_run.document());
    for member in [
        "changes",
        "regression",
        "leftOut",
        "score",
        "broke",
        "notes",
    ] {
        assert_eq!(by_file[member], by_run[member], "{member}");
    }
}

#[test]
fn a_comparison_with_a_file_gates_and_names_changed_tasks() {
    let (_, bundle, key) = attested();
    let home = elsewhere(&bundle, &key);
    home.model(&wrong_answers(14));
    let run = home.run_of(&home.eval(&["--json"]).document());
    let compare = |more: &[&str]| {
        let command = ["compare", "main.intoto.jsonl", &run];
        home.run(&[&command[..], more].concat())
    };
    let keyed = ["--baseline-key", "main.pub"];
    let done = compare(&[&keyed[..], &["--fail-on-regression"]].concat());
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let shown = compare(&[&keyed[..], &["--markdown", "-"]].concat());
    assert_eq!(shown.code, 0, "{}{}", shown.stdout, shown.stderr);
    assert!(shown.stdout.starts_with("## "), "{}", shown.stdout);

    // The configuration trusts the key, relative to its own folder.
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let trusted = format!("{settings}[attest]\ntrusted_keys = [\"main.pub\"]\n");
    std::fs::write(home.config(), trusted).unwrap();
    let done = compare(&[]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
}

#[test]
fn a_file_that_cannot_be_trusted_is_refused_with_the_reason() {
    let (_, bundle, key) = attested();
    let home = elsewhere(&bundle, &key);
    home.model(&json!(right_answers()));
    let refused = |arguments: &[&str], code: &str, part: &str| {
        let done = home.eval(&[&["--json"], arguments].concat());
        assert_eq!(
            done.code, 2,
            "{arguments:?}: {}{}",
            done.stdout, done.stderr
        );
        let error = done.document()["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part), "{part}: {message}");
        assert!(error["remedy"].is_string(), "{error}");
    };
    let file = ["--baseline", "main.intoto.jsonl"];
    refused(&file, "no_public_key", "no key is trusted");
    refused(
        &["--baseline", "latest", "--baseline-key", "main.pub"],
        "usage",
        "only to an attestation",
    );
    refused(
        &["--baseline", "absent.jsonl", "--baseline-key", "main.pub"],
        "unreadable",
        "absent.jsonl",
    );
    let write = |text: &str| std::fs::write(home.path("main.intoto.jsonl"), text).unwrap();
    write(&bundle.replacen("\"payload\":\"ey", "\"payload\":\"eZ", 1));
    refused(
        &BASELINE,
        "untrusted_baseline",
        "no signature by this key covers it",
    );
    write("{}\n");
    refused(&BASELINE, "no_attestation", "no DSSE envelope");
    // The test result of a bundle has no scores.
    write(bundle.lines().nth(1).unwrap());
    refused(&BASELINE, "no_attestation", "different kind of statement");
    let none: Value = home.run(&["--json", "run", "list"]).document();
    assert_eq!(none["runs"], json!([]));
}
