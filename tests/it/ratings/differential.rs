//! Compares our scores with those of an independent reference in exact arithmetic, over random
//! evidence.
//!
//! The reference does not ship with this repository; where it or Python is missing, the test says
//! so and is skipped.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::evidence;
use super::vector::computed;
use super::vectors::differences;
use crate::support::reference;

const SETS: u64 = 2000;

#[test]
fn the_reference_scores_random_evidence_alike() {
    let Some(folder) = reference::shared("aaaf") else {
        return;
    };
    let inputs: Vec<Value> = (0..SETS).map(evidence::input).collect();
    let driver = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/python/aaaf_reference.py"
    );
    let started = Command::new("python3")
        .arg(driver)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut reference) = started else {
        eprintln!("SKIPPED: the reference scorer needs python3");
        return;
    };
    let mut stdin = reference.stdin.take().unwrap();
    let asked = inputs.clone();
    let asking = std::thread::spawn(move || {
        for input in asked {
            writeln!(stdin, "{}", json!({"kind": "assessment", "input": input})).unwrap();
        }
    });
    let output = reference.wait_with_output().unwrap();
    asking.join().unwrap();
    assert!(
        output.status.success(),
        "the reference ended with {}",
        output.status
    );
    let answers: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(answers.len(), inputs.len());
    let mut completed = 0;
    for (seed, (input, expected)) in inputs.iter().zip(&answers).enumerate() {
        let found = computed("assessment", input).unwrap();
        let mut told = Vec::new();
        differences(expected, &found, "", &mut told);
        assert!(told.is_empty(), "seed {seed}:\n  {}", told.join("\n  "));
        completed += usize::from(found["status"] == "completed");
    }
    // Evidence that never suffices would make the comparison empty.
    assert!(completed > inputs.len() / 2, "only {completed} were scored");
    eprintln!(
        "{completed} of {} random sets were scored, all with equal results",
        inputs.len()
    );
}
