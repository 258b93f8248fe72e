//! `attest` and `attest verify`: a verdict leaves the host and is checked with nothing but a file
//! and a key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use touchstone::demo::pack::AGENT;

use crate::cli::home::{Done, Home, but, right_answers, touchstone};

/// A home with a run, its attestation in `run.intoto.jsonl` and the host's key in `host.pub`.
fn attested(rules: Vec<Value>) -> Home {
    let home = Home::with_pack();
    home.model(&json!(rules));
    let run = home.run_of(&home.eval(&["--json"]).document());
    let done = home.run(&["attest", &run, "--out", "run.intoto.jsonl"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let done = home.run(&["attest", "--public-key", "--out", "host.pub"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    // Verification does not need the host: its data is gone.
    std::fs::rename(home.data(), home.path("gone")).unwrap();
    home
}

fn verify(home: &Home, more: &[&str]) -> Done {
    let start = ["attest", "verify", "run.intoto.jsonl", "--key", "host.pub"];
    home.run(&[&start, more].concat())
}

#[test]
fn a_passing_attestation_verifies_offline_without_side_effects() {
    let home = attested(right_answers());
    let done = verify(&home, &[]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("20 of 20 tasks passed"),
        "{}",
        done.stdout
    );
    let done = verify(&home, &["--agent", &format!("{AGENT}@1.0.0"), "--json"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let said = done.document();
    assert_eq!(said["attestations"][0]["statement"]["verdict"], "pass");
    // The name before it was a subcommand of `attest`, and the API key of other commands.
    for name in [&["attest", "verify"][..], &["verify"]] {
        let mut command = home.touchstone();
        command.env("TOUCHSTONE_KEY", "tsk_1_2").args(name);
        let done = Done::of(command.args(["run.intoto.jsonl", "--key", "host.pub"]));
        assert_eq!(done.code, 0, "{name:?}: {}{}", done.stdout, done.stderr);
    }
    assert!(!home.data().exists());
}

/// The fields a consumer reads who knows in-toto but not evals.
fn test_result(home: &Home, run: &str, file: &str) -> Value {
    let done = home.run(&["attest", run, "--out", file]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let bundle = std::fs::read_to_string(home.path(file)).unwrap();
    let envelope: Value = serde_json::from_str(bundle.lines().nth(1).unwrap()).unwrap();
    let payload = STANDARD.decode(envelope["payload"].as_str().unwrap());
    let statement: Value = serde_json::from_slice(&payload.unwrap()).unwrap();
    statement["predicate"]["result"].clone()
}

#[test]
fn the_test_result_has_passed_only_if_the_gate_allows_the_run() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let recorded = home.eval(&["--record", "tape.jsonl", "--json"]);
    let run = home.run_of(&recorded.document());
    assert_eq!(test_result(&home, &run, "asked.jsonl"), "PASSED");
    let replayed = home.eval(&["--replay", "tape.jsonl", "--json"]);
    assert_eq!(replayed.code, 0, "{}", replayed.stderr);
    let replay = home.run_of(&replayed.document());
    assert_eq!(test_result(&home, &replay, "replayed.jsonl"), "WARNED");
    let voided = home.run(&["run", "void", &run, "--reason", "the endpoint was mocked"]);
    assert_eq!(voided.code, 0, "{}", voided.stderr);
    assert_eq!(test_result(&home, &run, "void.jsonl"), "WARNED");
}

#[test]
fn an_attestation_that_misses_the_policy_exits_1_with_the_condition() {
    let home = attested(right_answers());
    std::fs::write(home.path("gate.json"), r#"{"eval": {"minTasks": 21}}"#).unwrap();
    let done = verify(&home, &["--policy", "gate.json"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("min-tasks: "), "{}", done.stdout);
    std::fs::write(home.path("other.tgz"), "another archive").unwrap();
    let done = verify(&home, &["--pack", "other.tgz"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("content: "), "{}", done.stdout);
    let done = verify(&home, &["--agent", "vendor.acme.other.default@1.0.0"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
}

#[test]
fn an_attestation_of_a_failed_run_does_not_verify() {
    let mut rules = vec![but("thanks", json!({"text": "no JSON"}))];
    rules.extend((1..=19).map(|_| but("charged-twice", json!({"text": "no JSON"}))));
    let home = attested(rules);
    let done = verify(&home, &[]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
}

#[test]
fn a_changed_file_or_another_signer_exits_1() {
    let home = attested(right_answers());
    let bundle = std::fs::read_to_string(home.path("run.intoto.jsonl")).unwrap();
    let mut lines = bundle.lines();
    let mut first: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let payload = first["payload"].as_str().unwrap().replacen("ey", "eZ", 1);
    first["payload"] = json!(payload);
    std::fs::write(home.path("run.intoto.jsonl"), first.to_string()).unwrap();
    let done = verify(&home, &[]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("rejected"), "{}", done.stdout);

    std::fs::write(home.path("run.intoto.jsonl"), &bundle).unwrap();
    let other = home.run(&["pack", "keygen", "--out", "other.pem", "--key-id", "other"]);
    assert_eq!(other.code, 0, "{}", other.stderr);
    let done = home.run(&["verify", "run.intoto.jsonl", "--key", "other.pub"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
}

#[test]
fn one_valid_attestation_in_a_bundle_is_enough() {
    let home = attested(right_answers());
    let bundle = std::fs::read_to_string(home.path("run.intoto.jsonl")).unwrap();
    let mut lines: Vec<&str> = bundle.lines().rev().collect();
    let foreign = r#"{"payload":"e30=","payloadType":"application/json","signatures":[]}"#;
    lines.insert(0, foreign);
    lines.insert(1, "not even JSON");
    std::fs::write(home.path("run.intoto.jsonl"), lines.join("\n")).unwrap();
    let done = verify(&home, &[]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    // Without the verdict, the test result contains nothing for a gate to check.
    std::fs::write(home.path("run.intoto.jsonl"), lines[2]).unwrap();
    let done = verify(&home, &[]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
}

#[test]
fn unusable_input_exits_2() {
    let home = attested(right_answers());
    std::fs::write(
        home.path("approval.json"),
        r#"{"approval": {"requiredRole": "x"}}"#,
    )
    .unwrap();
    std::fs::write(home.path("misspelt.json"), r#"{"evals": {}}"#).unwrap();
    for line in [
        &["verify", "host.pub", "--key", "host.pub"][..],
        &["verify", "run.intoto.jsonl", "--key", "run.intoto.jsonl"],
        &["verify", "nowhere", "--key", "host.pub"],
        &["verify", "run.intoto.jsonl"],
        &[
            "verify",
            "run.intoto.jsonl",
            "--key",
            "host.pub",
            "--policy",
            "approval.json",
        ],
        &[
            "verify",
            "run.intoto.jsonl",
            "--key",
            "host.pub",
            "--policy",
            "misspelt.json",
        ],
        &["attest"],
        &["attest", "verify"],
        &["attest", "run_1", "verify"],
        &["attest", "run_1", "--public-key"],
        &["attest", "run_1"],
    ] {
        let done = home.run(line);
        assert_eq!(done.code, 2, "{line:?}: {}{}", done.stdout, done.stderr);
    }
}

#[test]
fn a_configured_signing_key_is_used_and_an_invalid_one_is_rejected() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let run = home.run_of(&home.eval(&["--json"]).document());
    let made = home.run(&["pack", "keygen", "--out", "own.pem", "--key-id", "own"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let with =
        |file: &str| format!("{settings}\n[attest]\nkey_file = \"{file}\"\nhost_id = \"ci\"\n");
    std::fs::write(home.config(), with("own.pem")).unwrap();
    let done = home.run(&["attest", &run, "--out", "run.intoto.jsonl"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let line = ["--json", "verify", "run.intoto.jsonl", "--key", "own.pub"];
    let done = home.run(&line);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let said = done.document();
    assert_eq!(said["attestations"][0]["statement"]["host"]["id"], "ci");
    assert!(!home.data().join("attest.pem").exists());

    std::fs::write(home.config(), with("own.pub")).unwrap();
    let done = home.run(&["attest", &run]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("attest.key_file"), "{}", done.stderr);
    let done = Done::of(touchstone().args(["verify", "--help"]));
    assert!(done.stdout.contains("1 none does"), "{}", done.stdout);
}
