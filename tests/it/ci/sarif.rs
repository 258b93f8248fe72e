//! SARIF files, checked with the published schema.

use std::path::Path;

use serde_json::{Value, json};

use super::wrong_answers;
use crate::cli::home::{Done, Home};
use crate::client::not_run;

const NODE: &str = "TOUCHSTONE_TEST_NODE_MODULES";

/// The document of a file, after checking it with the schema if that is installed.
fn checked(home: &Home, name: &str) -> Value {
    let read =
        |file: &Path| -> Value { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() };
    let document = read(&home.path(name));
    match std::env::var_os(NODE) {
        None => not_run("the schema of SARIF", NODE),
        Some(modules) => {
            let schema = "@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json";
            let mut schema = read(&Path::new(&modules).join(schema));
            // This pattern has a bracket too many, which strict readers of expressions refuse.
            for owner in ["run", "toolComponent"] {
                let language = format!("/definitions/{owner}/properties/language");
                let language = schema.pointer_mut(&language).unwrap();
                language.as_object_mut().unwrap().remove("pattern");
            }
            let schema = jsonschema::validator_for(&schema);
            let faults: Vec<String> = schema
                .unwrap()
                .iter_errors(&document)
                .map(|fault| format!("{}: {fault}", fault.instance_path()))
                .collect();
            assert!(faults.is_empty(), "{faults:#?}");
        }
    }
    document
}

fn expect(done: &Done, code: i32) {
    assert_eq!(done.code, code, "{}{}", done.stdout, done.stderr);
}

#[test]
fn a_folder_gives_results_at_the_lines_of_its_suite() {
    let home = Home::with_folder();
    let script = "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({'id': json.loads(line)['id'], 'output': {'label': 'mail me at mallory@evil-corp.net'}}), flush=True)\n";
    std::fs::write(home.path("agent.py"), script).unwrap();
    let done = home.run(&[
        "eval",
        "my-agent",
        "--agent-command",
        "python3 agent.py",
        "--sarif",
        "eval.sarif",
    ]);
    expect(&done, 1);
    let document = checked(&home, "eval.sarif");
    let run = &document["runs"][0];
    let results = run["results"].as_array().unwrap();
    let rules: Vec<&str> = results
        .iter()
        .map(|it| it["ruleId"].as_str().unwrap())
        .collect();
    assert!(rules.contains(&"task-failed"), "{rules:?}");
    assert!(rules.contains(&"pii-email"), "{rules:?}");
    for result in results {
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("my-agent/evals/"), "{uri}");
        let line = place["region"]["startLine"].as_u64().unwrap();
        let text = std::fs::read_to_string(home.path(uri)).unwrap();
        let text = text
            .lines()
            .nth(usize::try_from(line).unwrap() - 1)
            .unwrap();
        let task = result["locations"][0]["logicalLocations"][0]["name"]
            .as_str()
            .unwrap();
        assert!(text.contains(task), "{line}: {text}");
    }
    assert!(!document.to_string().contains("mallory"), "{document}");
}

#[test]
fn a_run_is_written_as_sarif_with_content_only_on_request() {
    let home = Home::with_pack();
    home.model(&wrong_answers(2));
    let run = home.run_of(&home.eval(&["--json"]).document());
    let suite = "suite.json";
    let files = touchstone::demo::pack::Release::Present.files();
    std::fs::write(home.path(suite), &files["evals/support-triage.json"]).unwrap();
    let report = |more: &[&str]| {
        let command = ["run", "report", &run, "--sarif", "eval.sarif"];
        home.run(&[&command[..], more].concat())
    };
    expect(&report(&["--suite-file", suite]), 0);
    let document = checked(&home, "eval.sarif");
    let results = &document["runs"][0]["results"];
    assert_eq!(results.as_array().unwrap().len(), 2, "{results}");
    assert!(!document.to_string().contains("nowhere"), "{document}");
    let uri = "/0/locations/0/physicalLocation/artifactLocation/uri";
    assert_eq!(results.pointer(uri), Some(&json!(suite)));
    let fingerprint = results[0]["partialFingerprints"].clone();

    expect(&report(&["--with-content"]), 0);
    let document = checked(&home, "eval.sarif");
    let results = &document["runs"][0]["results"];
    let text = results[0]["message"]["text"].as_str().unwrap();
    assert!(
        text.contains("\nactual: ") && text.contains("nowhere"),
        "{text}"
    );
    assert_eq!(results[0]["partialFingerprints"], fingerprint);
    assert!(results[0]["locations"][0].get("physicalLocation").is_none());
    expect(&report(&["--suite-file", "absent.json"]), 2);
    expect(&home.run(&["run", "report", &run]), 2);
}
