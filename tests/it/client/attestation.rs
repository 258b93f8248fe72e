//! Attestations read by the in-toto and secure-systems-lab libraries, which must also detect every
//! change.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use touchstone::demo::pack::{AGENT, SUITE};

use super::python;
use crate::cli::home::{Home, but, right_answers};

#[test]
fn third_party_libraries_verify_attestations_and_detect_every_change() {
    let Some(python) = python("the check of attestations") else {
        return;
    };
    let home = Home::with_pack();
    let mut rules = vec![but("thanks", json!({"output": {"queue": "spam"}}))];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let report = home.eval(&["--json"]).document();
    let run = home.run_of(&report);
    for line in [
        &["attest", &run, "--out", "run.intoto.jsonl"][..],
        &["attest", "--public-key", "--out", "host.pub"],
    ] {
        let done = home.run(line);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/verify_attestation.py");
    let output = Command::new(python)
        .arg("-B")
        .arg(script)
        .args([home.path("run.intoto.jsonl"), home.path("host.pub")])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let statements: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&Value> = statements[0]["subject"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subject| &subject["name"])
        .collect();
    assert_eq!(
        names[0],
        &json!(format!(
            "{AGENT}@{}",
            report["agent"]["version"].as_str().unwrap()
        ))
    );
    assert_eq!(names[1], &json!(SUITE));
    assert_eq!(statements[0]["predicate"]["summary"], report["summary"]);
    assert_eq!(statements[1]["predicate"]["failedTests"], json!(["thanks"]));
}
