//! Suites in packs.

use serde_json::{Value, json};
use touchstone_kit::error::ErrorCode::PackValidationFailed;

use super::forge::Forge;
use super::{Case, loads, loads_and, refused};

fn set(pointer: &'static str, value: Value) -> impl FnOnce(&mut Forge) {
    move |f| {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        match f.suite.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[member.parse::<usize>().unwrap()] = value,
            object => object[member] = value,
        }
    }
}

fn without(pointer: &'static str) -> impl FnOnce(&mut Forge) {
    move |f| {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        f.suite
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(member)
            .unwrap();
    }
}

fn text(bend: impl FnOnce(String) -> String + 'static) -> impl FnOnce(&mut Forge) {
    move |f| {
        f.suite_text = Some(Box::new(|text| {
            bend(String::from_utf8(text).unwrap()).into_bytes()
        }))
    }
}

/// Adds suites that take about 40 MiB each once parsed.
fn many_values(f: &mut Forge, suites: usize) {
    let input: Value = std::iter::repeat_n(json!({"a": 0}), 50_000).collect();
    for n in 0..suites {
        let mut suite = f.suite.clone();
        suite["suiteId"] = format!("community.bench-corpus.evals.large-{n}").into();
        suite["tasks"][0]["input"] = input.clone();
        f.files.insert(
            format!("evals/large-{n}.json"),
            suite.to_string().into_bytes(),
        );
    }
}

pub fn cases() -> Vec<Case> {
    let bad = |name, pointer, value| refused(name, PackValidationFailed, set(pointer, value));
    let lacks = |name, pointer| refused(name, PackValidationFailed, without(pointer));
    let written =
        |name, bend: fn(String) -> String| refused(name, PackValidationFailed, text(bend));
    vec![
        loads_and(
            "suite-indexed",
            |pack| {
                let suite = &pack.contents.suites[0];
                suite.file == "evals/colour.json"
                    && suite.suite().tasks.len() == 2
                    && suite.digest.starts_with("sha256-")
            },
            |_| {},
        ),
        loads_and(
            "suite-unreferenced",
            |pack| pack.contents.suites.len() == 2,
            |f| {
                let mut other = f.suite.clone();
                other["suiteId"] = "community.bench-corpus.evals.other".into();
                f.files
                    .insert("evals/other.json".into(), other.to_string().into_bytes());
            },
        ),
        loads_and(
            "suite-elsewhere",
            |pack| pack.contents.suites.len() == 2,
            |f| {
                let mut other = f.suite.clone();
                other["version"] = "2.0.0".into();
                f.files
                    .insert("suites/other.json".into(), other.to_string().into_bytes());
                f.agent()["evalSuiteRef"] = "suites/other.json".into();
            },
        ),
        refused("suite-unreferenced-and-broken", PackValidationFailed, |f| {
            f.files.insert("evals/other.json".into(), b"{}".to_vec());
        }),
        refused("suite-twice", PackValidationFailed, |f| {
            f.files
                .insert("evals/other.json".into(), f.suite.to_string().into_bytes());
        }),
        loads("suite-of-many-values", |f| many_values(f, 1)),
        refused(
            "suites-of-too-many-values-together",
            PackValidationFailed,
            |f| many_values(f, 2),
        ),
        loads("suite-below-evals-is-a-file", |f| {
            f.files.insert("evals/data/x.json".into(), b"{}".to_vec());
        }),
        refused("suite-is-the-manifest", PackValidationFailed, |f| {
            f.agent()["evalSuiteRef"] = "pack.json".into()
        }),
        lacks("suite-no-id", "/suiteId"),
        lacks("suite-no-tasks-member", "/tasks"),
        bad(
            "suite-id-newline",
            "/suiteId",
            "community.bench-corpus.evals.colour\n".into(),
        ),
        bad(
            "suite-id-capitals",
            "/suiteId",
            "community.bench-corpus.evals.Colour".into(),
        ),
        bad(
            "suite-id-of-another",
            "/suiteId",
            "core.openwop.evals.colour".into(),
        ),
        bad(
            "suite-id-of-a-prefix",
            "/suiteId",
            "community.bench-corpus-two.evals.colour".into(),
        ),
        bad("suite-version-short", "/version", "1.0".into()),
        bad("suite-version-zero", "/version", "1.00.0".into()),
        bad("suite-target-empty", "/targetAgentId", "".into()),
        bad("suite-modes-empty", "/modes", json!([])),
        bad("suite-modes-unknown", "/modes", json!(["vibes"])),
        bad("suite-modes-twice", "/modes", json!(["golden", "golden"])),
        bad("suite-models-unknown", "/allowedModels", json!(["gpt"])),
        bad("suite-score-high", "/thresholds/passScore", json!(1.01)),
        bad("suite-cost-negative", "/thresholds/maxCostUsd", json!(-1)),
        bad(
            "suite-latency-part",
            "/thresholds/maxP95LatencyMs",
            json!(0.5),
        ),
        bad("suite-threshold-unknown", "/thresholds/minScore", json!(1)),
        bad("suite-unknown", "/judge", json!({})),
        bad("suite-tasks-empty", "/tasks", json!([])),
        bad("task-id-form", "/tasks/0/taskId", "Sky one".into()),
        bad("task-id-twice", "/tasks/1/taskId", "sky".into()),
        lacks("task-no-input", "/tasks/0/input"),
        loads("task-null-input", set("/tasks/0/input", Value::Null)),
        lacks("task-no-expected", "/tasks/0/expected"),
        bad("task-unknown", "/tasks/0/hint", "blue".into()),
        bad(
            "expected-kind",
            "/tasks/0/expected/kind",
            "adversarial".into(),
        ),
        bad(
            "expected-strategy",
            "/tasks/0/expected/match/strategy",
            "regex".into(),
        ),
        lacks("expected-no-value", "/tasks/0/expected/match/value"),
        lacks("expected-no-match", "/tasks/0/expected/match"),
        lacks("expected-no-rubric", "/tasks/1/expected/rubric"),
        bad("rubric-empty", "/tasks/1/expected/rubric", json!([])),
        bad(
            "rubric-heavy",
            "/tasks/1/expected/rubric/0/weight",
            json!(1.5),
        ),
        bad(
            "rubric-weightless",
            "/tasks/1/expected/rubric/0/weight",
            json!(0),
        ),
        bad(
            "rubric-blank",
            "/tasks/1/expected/rubric/0/criterion",
            "".into(),
        ),
        bad("fixture-unknown", "/tasks/1/fixtures/network", true.into()),
        lacks("fixture-no-tool", "/tasks/1/fixtures/toolResponses/0/tool"),
        bad(
            "fixture-memory-text",
            "/tasks/1/fixtures/memorySeed/0",
            "x".into(),
        ),
        written("suite-nan", |s| s.replace("0.5", "NaN")),
        written("suite-infinite", |s| s.replace("0.5", "1e999")),
        written("suite-deep", |s| {
            s.replace(
                "\"sky\"}",
                &format!("{}0{}}}", "[".repeat(20_000), "]".repeat(20_000)),
            )
        }),
        written("suite-double-member", |s| {
            s.replacen('{', "{\"version\":\"1.0.0\",", 1)
        }),
        written("suite-list", |s| format!("[{s}]")),
        written("suite-no-json", |_| "suiteId: x\n".to_owned()),
    ]
}
