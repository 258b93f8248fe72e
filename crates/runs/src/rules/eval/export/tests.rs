use serde_json::{Value, json};

use super::*;
use crate::rules::eval::import::{
    Columns, Format as Foreign, Identity, Imported, Options, Source, convert,
};

const SUITE: &str = r#"{
  "suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": ["golden", "rubric"],
  "thresholds": {"passScore": 0.8},
  "tasks": [
    {"taskId": "exact", "input": "2+2?", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "4"}}},
    {"taskId": "json", "input": "As JSON", "expected": {"kind": "golden", "match": {"strategy": "json-match", "value": {"a": 1}}},
      "fixtures": {"toolResponses": [{"tool": "a:b", "response": 1}]}},
    {"taskId": "judged", "input": "Be kind", "expected": {"kind": "rubric", "rubric": [{"criterion": "is kind", "weight": 1.0}]}},
    {"taskId": "several", "input": "Who?", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "Ann"}}}
  ]
}"#;

const SCORING: &str = r#"{
  "scoringVersion": 1, "suiteId": "vendor.acme.evals.x",
  "tasks": {
    "judged": {"threshold": 0.5, "assertions": [
      {"type": "expected"}, {"type": "contains", "value": "sorry", "not": true, "weight": 2, "metric": "tone"},
      {"type": "number", "min": 1}]},
    "several": {"assertions": [{"type": "equals", "anyOf": ["Ann", "Anna"]}]}
  }
}"#;

fn exported(format: Format) -> Exported {
    let suite = serde_json::from_str(SUITE).unwrap();
    let scoring = serde_json::from_str(SCORING).unwrap();
    export(&suite, Some(&scoring), format).unwrap()
}

pub(super) fn imported_again(text: &str, format: Foreign) -> Imported {
    let identity = Identity {
        suite_id: "vendor.acme.evals.x".to_owned(),
        version: "1.0.0".to_owned(),
        target_agent_id: None,
        pass_score: Some(0.8),
    };
    let options = Options {
        format,
        strategy: touchstone_openwop::suite::MatchStrategy::Exact,
        columns: &Columns::default(),
        identity: &identity,
    };
    convert(&Source::alone(text.as_bytes()), &options).unwrap()
}

#[test]
fn lines_hold_everything_of_a_task() {
    let it = exported(Format::Jsonl);
    let rows: Vec<Value> = it
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        rows[0],
        json!({"id": "exact", "input": "2+2?", "expected": "4", "match": "exact"})
    );
    assert_eq!(rows[1]["fixtures"]["toolResponses"][0]["tool"], "a:b");
    assert_eq!(rows[2]["threshold"], 0.5);
    assert_eq!(
        rows[3]["assertions"],
        json!([{"type": "equals", "anyOf": ["Ann", "Anna"]}])
    );
    let what: Vec<&str> = it.losses.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(what, ["the thresholds of the suite"]);
}

#[test]
fn exported_lines_are_imported_again() {
    let suite: Value = serde_json::from_str(SUITE).unwrap();
    let scoring: Value = serde_json::from_str(SCORING).unwrap();
    for format in [Foreign::Table, Foreign::Lines] {
        let it = imported_again(&exported(Format::Jsonl).text, format);
        assert_eq!(it.suite["tasks"], suite["tasks"]);
        let entries = &it.scoring.unwrap()["tasks"];
        let threshold = |entries: &Value| entries["judged"]["threshold"].clone();
        assert_eq!(threshold(entries), threshold(&scoring["tasks"]));
        assert_eq!(it.losses, []);
    }
}

#[test]
fn a_configuration_of_promptfoo_has_the_same_assertions() {
    let it = exported(Format::Promptfoo);
    let config: Value = serde_saphyr::from_str(&it.text).unwrap();
    assert_eq!(config["prompts"], json!(["{{input}}"]));
    let asserts = |n: usize| config["tests"][n]["assert"].clone();
    assert_eq!(asserts(0), json!([{"type": "equals", "value": "4"}]));
    assert_eq!(asserts(1), json!([{"type": "equals", "value": {"a": 1}}]));
    assert_eq!(config["tests"][2]["threshold"], 0.5);
    assert_eq!(
        asserts(2),
        json!([
            {"type": "llm-rubric", "value": "is kind", "weight": 1.0},
            {"type": "not-contains", "value": "sorry", "weight": 2.0, "metric": "tone"},
        ])
    );
    assert_eq!(asserts(3)[0]["type"], "assert-set");
    let what: Vec<&str> = it.losses.iter().map(|it| it.what.as_str()).collect();
    for words in ["thresholds", "the agent", "fixtures", "`number`"] {
        assert!(
            what.iter().any(|it| it.contains(words)),
            "{words}: {what:?}"
        );
    }
}

#[test]
fn an_exported_configuration_is_imported_again() {
    let it = imported_again(&exported(Format::Promptfoo).text, Foreign::Promptfoo);
    let tasks = it.suite["tasks"].as_array().unwrap();
    let ids: Vec<&Value> = tasks.iter().map(|task| &task["taskId"]).collect();
    assert_eq!(ids, ["exact", "json", "judged", "several"]);
    assert_eq!(tasks[0]["expected"]["match"]["value"], "4");
    assert_eq!(it.scoring.unwrap()["tasks"]["judged"]["threshold"], 0.5);
}

#[test]
fn members_of_inputs_become_variables() {
    let suite = json!({
        "suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": ["golden"],
        "tasks": [{"taskId": "a", "input": {"text": "Hi", "tags": ["x", "y"]},
            "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "Hi"}}}]});
    let suite = serde_json::from_value(suite).unwrap();
    let it = export(&suite, None, Format::Promptfoo).unwrap();
    let config: Value = serde_saphyr::from_str(&it.text).unwrap();
    assert_eq!(config["prompts"][0], "tags: {{tags}}\ntext: {{text}}");
    assert_eq!(
        config["tests"][0]["vars"],
        json!({"text": "Hi", "tags": ["x", "y"]})
    );
    assert_eq!(
        config["defaultTest"]["options"]["disableVarExpansion"],
        true
    );
}
