//! `touchstone oasis`: a verdict from a file, valid and invalid documents, and the output of a host
//! without profiles.

use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use super::home::{Done, Home};
use crate::oasis::compute::edit;
use crate::oasis::desk::packs::{Files, gather};

fn fixture(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oasis");
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

/// An input that gives a PASS.
fn input() -> Value {
    fixture("compute/till.json")["input"].clone()
}

fn home(document: &Value) -> Home {
    let home = Home::empty();
    std::fs::write(home.path("document.json"), document.to_string()).unwrap();
    home
}

/// A document after edits, given as pointers and new values.
fn edited(mut document: Value, edits: &[(&str, Value)]) -> Value {
    for (pointer, value) in edits {
        edit(&mut document, pointer, value);
    }
    document
}

fn compute(document: &Value) -> Done {
    home(document).run(&["oasis", "compute", "document.json"])
}

fn verify(document: &Value, more: &[&str]) -> Done {
    home(document).run(&[&["oasis", "verify", "document.json"], more].concat())
}

#[test]
fn a_pass_is_printed_and_exits_0() {
    let done = compute(&input());
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    let output = done.document();
    assert_eq!(output["verdict"]["safety"], "PASS");
    assert_eq!(
        output["report_header"],
        json!({"incomplete": false, "reasons": []})
    );
    assert!(
        output["category_results"].is_object() && output["eval_summary"]["passed"].is_boolean()
    );
}

#[test]
fn the_same_input_gives_the_same_output_bytes() {
    let (one, other) = (compute(&input()), compute(&input()));
    assert_eq!(one.stdout, other.stdout);
}

#[rstest]
#[case::fail(json!({"assertions": ["fail"]}), "FAIL", 1)]
#[case::provider_failure(json!({"fault": "audit_log: unreachable"}), "PROVIDER_FAILURE", 4)]
fn verdicts_other_than_pass_have_their_own_exit_codes(
    #[case] seen: Value,
    #[case] safety: &str,
    #[case] code: i32,
) {
    let first = input()["scenarios"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["classification"] == "safety")
        .unwrap()["id"]
        .clone();
    let place = format!("/observed/{}", first.as_str().unwrap());
    let done = compute(&edited(input(), &[(&place, seen)]));
    assert_eq!(done.code, code, "{}", done.stderr);
    let output = done.document();
    assert_eq!(output["verdict"]["safety"], safety);
    assert!(output["verdict"].get("capability").is_none());
}

#[test]
fn a_refusal_is_printed_and_exits_4() {
    let gap = ("/provider_conformance/response/supported", json!(false));
    let done = compute(&edited(input(), &[gap]));
    assert_eq!(done.code, 4, "{}", done.stderr);
    assert_eq!(
        done.document(),
        json!({"error": {"code": "oasis_preflight_failed", "items": ["supported"]}})
    );
    assert!(done.stderr.starts_with("supported: "), "{}", done.stderr);
}

#[rstest]
#[case::missing("/evaluator", Value::Null, "evaluator")]
#[case::wrong_type("/tier", json!("2"), "/tier")]
#[case::no_such_tier("/tier", json!(4), "/tier")]
#[case::unknown_member("/teir", json!(2), "teir")]
fn a_malformed_input_names_the_field(
    #[case] place: &str,
    #[case] value: Value,
    #[case] named: &str,
) {
    let home = home(&edited(input(), &[(place, value)]));
    let done = home.run(&["oasis", "compute", "document.json"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (2, ""),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("oasis-compute-input.schema.json"),
        "{}",
        done.stderr
    );
    let mut lines = done.stderr.lines();
    assert!(lines.next().unwrap().contains(named), "{}", done.stderr);
    assert!(
        lines.next().unwrap().starts_with("  try: "),
        "{}",
        done.stderr
    );
    let told = home
        .run(&["--json", "oasis", "compute", "document.json"])
        .document();
    assert_eq!(told["error"]["code"], "malformed_input");
    assert!(
        !told["error"]["details"]["faults"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn an_input_may_come_from_stdin_or_be_yaml() {
    let home = Home::empty();
    let mut command = home.touchstone();
    command
        .args(["oasis", "compute", "-"])
        .write_stdin(input().to_string());
    assert_eq!(Done::of(&mut command).code, 0);
    // Every JSON document is also YAML.
    std::fs::write(home.path("input.yaml"), input().to_string()).unwrap();
    assert_eq!(home.run(&["oasis", "compute", "input.yaml"]).code, 0);
    let done = home.run(&["oasis", "compute", "missing.json"]);
    assert_eq!(done.code, 2);
    std::fs::write(home.path("broken.json"), "{").unwrap();
    let done = home.run(&["oasis", "compute", "broken.json"]);
    assert_eq!(done.code, 2);
    assert!(
        done.stderr.contains("broken.json is not JSON"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_valid_document_exits_0_on_its_own_and_inside_compute_output() {
    let done = verify(&fixture("verdicts/sound.json"), &[]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.stdout, "✓ document.json: valid, PASS\n");
    let output = compute(&input()).document();
    assert_eq!(verify(&output, &[]).code, 0);
}

#[test]
fn every_violation_is_printed_with_its_rule() {
    let edits = [
        ("/verdict/capability/tier", json!(1)),
        ("/verdict/safety_details/total_scenarios", json!(12)),
    ];
    let document = edited(fixture("verdicts/sound.json"), &edits);
    let done = verify(&document, &[]);
    assert_eq!(done.code, 1);
    assert!(
        done.stdout
            .starts_with("✗ document.json: not valid, PASS\n"),
        "{}",
        done.stdout
    );
    for rule in ["\n  V1 ", "\n  V8 "] {
        assert!(done.stdout.contains(rule), "{}", done.stdout);
    }
    let told = verify(&document, &["--json"]).document();
    assert_eq!(told["ok"], false);
    let violations = told["documents"][0]["violations"].as_array().unwrap();
    assert!(
        violations
            .iter()
            .any(|it| it["rule"] == "V8" && it["path"] == "/verdict/capability/tier")
    );
}

#[test]
fn a_document_that_violates_the_schema_is_invalid() {
    let document = edited(
        fixture("verdicts/sound.json"),
        &[("/verdict/safety", json!("NEEDS_REVIEW"))],
    );
    let done = verify(&document, &[]);
    assert_eq!(done.code, 1);
    assert!(
        done.stdout.contains("\n  schema /verdict/safety: "),
        "{}",
        done.stdout
    );
}

#[test]
fn a_file_without_a_verdict_is_bad_input() {
    let done = verify(
        &json!({"error": {"code": "oasis_preflight_failed", "items": []}}),
        &[],
    );
    assert_eq!(done.code, 2);
    assert!(
        done.stderr.contains("document.json contains no verdict"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_host_without_profiles_and_providers_says_what_to_do() {
    let home = Home::empty();
    let done = home.run(&["oasis", "profiles"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, ""),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("no profiles") && done.stderr.contains("[[oasis.providers]]"));
    let told = home.run(&["--json", "oasis", "profiles"]).document();
    assert_eq!(told, json!({"profiles": [], "providers": []}));
}

/// The Front Desk pack in a folder, with changes: file, old text, new text. A file whose new text
/// is empty is removed.
fn desk(changes: &[(&str, &str, &str)]) -> Home {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/oasis-front-desk");
    let mut files = Files::new();
    gather(&root, &root, &mut files);
    for (name, old, new) in changes {
        if old.is_empty() {
            files.remove(*name).unwrap();
            continue;
        }
        let text = String::from_utf8(files[*name].clone()).unwrap();
        assert!(text.contains(old), "{old:?} is not in {name}");
        files.insert((*name).to_owned(), text.replacen(old, new, 1).into_bytes());
    }
    let home = Home::empty();
    for (name, bytes) in files {
        let path = home.path("desk").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    home
}

fn linted(changes: &[(&str, &str, &str)]) -> Done {
    desk(changes).run(&["--json", "pack", "lint", "desk"])
}

#[test]
fn pack_build_rejects_profiles_that_install_would_refuse() {
    let home = desk(&[(BOUNDARY, "condition: unchanged", "condition: same")]);
    let lint = home.run(&["pack", "lint", "desk"]);
    assert_eq!(lint.code, 1, "{}", lint.stderr);
    let place = format!("error: {BOUNDARY}:");
    let told = lint
        .stderr
        .lines()
        .any(|it| it.starts_with(&place) && it.contains("one of exists"));
    assert!(told, "{}", lint.stderr);
    // An evaluation of the other scenarios is possible.
    let build = home.run(&["pack", "build", "desk", "--out", "desk.tgz"]);
    assert_eq!(build.code, 0, "{}", build.stderr);
}

const BOUNDARY: &str = "oasis/scenarios/safety/boundary-enforcement.yaml";
const REPORTS: &str = "oasis/agents.json";

#[rstest]
#[case::condition((BOUNDARY, "condition: unchanged", "condition: same"), BOUNDARY, "one of exists")]
#[case::behavior((BOUNDARY, "name_the_boundary", "name_it"), BOUNDARY, "not a known behavior")]
#[case::pattern_of_one_word((BOUNDARY, "action: update charter/*", "action: update"), BOUNDARY, "assertions.must_not[0].action")]
#[case::tolerance((BOUNDARY, "safety_tolerance: 0", "safety_tolerance: 250"), BOUNDARY, "0 to 100 percent")]
#[case::archetype((BOUNDARY, "archetype: S-BE-01", "archetype: S-XX-01"), BOUNDARY, "not an archetype of boundary-enforcement")]
#[case::no_stimuli(("oasis/stimuli.yaml", "", ""), "oasis/scenarios/safety/authority-escalation-resistance.yaml", "add it to stimuli.yaml")]
#[case::configuration((REPORTS, "\"writing\": \"allowed\"", "\"writing\": \"maybe\""), REPORTS, "/vendor.touchstone.front-desk.clerk/configuration/writing: ")]
#[case::dimension((REPORTS, "spoken_to", "spoken_at"), REPORTS, "no such dimension")]
#[case::identity((REPORTS, "\"version\": \"1.0.0\"", "\"version\": \"1\""), REPORTS, "/identity/version: ")]
#[case::classification((BOUNDARY, "classification: safety", "classification: security"), BOUNDARY, "classification: must be one of safety, capability")]
#[case::environment_type((BOUNDARY, "type: front-desk", "type: back-office"), BOUNDARY, "differs from `front-desk`")]
#[case::core_dependency(("oasis/profile.yaml", "\">=1.0.0-rc1.5\"", "\">=9.0.0\""), "oasis/profile.yaml", "excludes OASIS core 1.0.0-rc1.5")]
#[case::name((BOUNDARY, "name: A plain", "nmae: A plain"), BOUNDARY, "name: is missing")]
#[case::task_schema(("schemas/task.schema.json", "\"supervised\"", "\"overseen\""), "schemas/task.schema.json", "refuses the input that")]
fn lint_finds_problems_that_would_refuse_an_evaluation(
    #[case] change: (&str, &str, &str),
    #[case] file: &str,
    #[case] words: &str,
) {
    let done = linted(&[change]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    let document = done.document();
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|it| {
        it["severity"] == "error"
            && it["file"] == file
            && it["reason"].as_str().unwrap().contains(words)
    });
    let found = found.unwrap_or_else(|| panic!("{document:#}"));
    assert!(
        found["line"].as_u64() > Some(0) && found["column"].as_u64() > Some(0),
        "{found}"
    );
}

#[test]
fn lint_finds_an_agent_without_a_report() {
    let done = linted(&[(REPORTS, "", "")]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    let document = done.document();
    let agents = document["findings"].as_array().unwrap().iter();
    let agents = agents.filter(|it| {
        it["file"] == REPORTS && it["reason"].as_str().unwrap().contains(": is missing; add")
    });
    assert_eq!(agents.count(), 2, "{document:#}");
}

#[test]
fn lint_reports_all_problems_at_once() {
    let changes = [
        (BOUNDARY, "condition: unchanged", "condition: same"),
        (REPORTS, "spoken_to", "spoken_at"),
        (
            "oasis/profile.yaml",
            "identifier: oasis-profile-front-desk",
            "identifer: oasis-profile-front-desk",
        ),
        ("oasis/behaviors.yaml", "kind: detection", "kind: word"),
    ];
    let document = linted(&changes).document();
    for (file, ..) in changes {
        let findings = document["findings"].as_array().unwrap();
        let of_file = findings.iter().filter(|it| it["file"] == file);
        let placed = of_file.filter(|it| it["line"].is_u64()).count();
        assert!(placed > 0, "{file}: {document:#}");
    }
    // A gap in profile.yaml is reported there, and not again where other files refer to it.
    let suite = document["findings"].as_array().unwrap();
    assert!(
        suite.iter().all(|it| it["file"] != "oasis/suite.yaml"),
        "{document:#}"
    );
}

#[rstest]
#[case::nothing_installed(&["oasis", "run", "vendor.acme.evals.desk@1.0.0", "a", "--tier", "1"], "no installed pack has a profile")]
#[case::unknown_profile(&["oasis", "preflight", "--profile", "oasis-profile-x", "--tier", "1"], "oasis-profile-x")]
#[case::no_provider(&["oasis", "preflight", "--profile", "x@1.0.0", "--tier", "1"], "no environment provider")]
#[case::no_such_run(&["oasis", "report", "run_1"], "there is no run run_1")]
#[case::no_evidence(&["oasis", "evidence", "run_1", "front.safety.be.other-wing-delete-01"], "there is no run run_1")]
#[case::no_scenario_id(&["oasis", "evidence", "run_1", "a/b"], "a scenario id may contain")]
#[case::form_untold(&["oasis", "report", "run_1", "--output", "report.pdf"], "report.pdf")]
#[case::reports_nowhere(&["oasis", "run", "vendor.acme.evals.desk@1.0.0", "a", "--tier", "1", "--report", "no/such/report.html"], "no/such")]
#[case::a_judge(&["oasis", "run", "vendor.acme.evals.desk@1.0.0", "a", "--tier", "1", "--judge-url", "http://127.0.0.1:9", "--judge-model", "m"], "--judge-url")]
#[case::no_tier(&["oasis", "run", "vendor.acme.evals.desk@1.0.0", "a"], "--tier")]
#[case::tier_4(&["oasis", "run", "vendor.acme.evals.desk@1.0.0", "a", "--tier", "4"], "--tier")]
#[case::verify_at_a_host(&["--server", "http://127.0.0.1:9", "oasis", "verify", "a.json"], "only reads files")]
fn invalid_commands_are_bad_input(#[case] arguments: &[&str], #[case] named: &str) {
    let done = Home::empty().run(arguments);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains(named), "{}", done.stderr);
}

#[test]
fn a_gate_can_ask_for_an_evaluation() {
    let home = Home::with_pack();
    let set = [
        "gate",
        "set",
        "--no-eval",
        "--oasis",
        "oasis-profile-front-desk",
        "--oasis-tier",
        "2",
        "--oasis-max-age-days",
        "30",
    ];
    let done = home.run(&set);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(
        done.stdout
            .contains("an OASIS safety PASS by oasis-profile-front-desk, tier 2 or higher"),
        "{}",
        done.stdout
    );
    let policy =
        &home.run(&["--json", "gate", "show"]).document()["policies"][0]["policy"]["oasis"];
    assert_eq!(
        *policy,
        json!({"profile": "oasis-profile-front-desk", "minimumTier": 2, "maxAgeDays": 30, "requireSignedSuite": true,
            "requireComplete": true, "allowVacuous": false,
            "allowRaisedTolerances": false, "allowSubstitute": false})
    );
    let agent = touchstone::demo::pack::AGENT;
    let check = format!("{}@1.0.0", agent.split('@').next().unwrap());
    let done = home.run(&["gate", "check", &check]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(
        done.stdout
            .contains("oasis-run: no OASIS evaluation of this version"),
        "{}",
        done.stdout
    );
    // An ordinary eval run is not evidence for an OASIS verdict.
    let done = home.run(&["gate", "set", "--no-eval", "--oasis", "p"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--oasis-tier"), "{}", done.stderr);
}
