use rstest::rstest;
use serde_json::{Value, json};

use super::read::{read, read_for};
use super::*;
use crate::rules::eval::suite_rules::check_suite;
use crate::rules::kind::Kinds;

fn with(assertion: &Value) -> Value {
    json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x", "tasks": {"t1": {"assertions": [assertion]}}})
}

fn with_tags(tags: &Value) -> Value {
    json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x", "tasks": {"t1": {"tags": tags}}})
}

#[rstest]
#[case(json!([]), "", "must be an array of tags")]
#[case(json!("billing"), "", "must be an array of tags")]
#[case(json!([""]), "/0", "must be 1 to 64 letters")]
#[case(json!(["ok", " spaced"]), "/1", "must be 1 to 64 letters")]
#[case(json!(["a,b"]), "/0", "must be 1 to 64 letters")]
#[case(json!(["x".repeat(65)]), "/0", "must be 1 to 64 letters")]
#[case(json!([5]), "/0", "must be 1 to 64 letters")]
#[case(json!(["a", "b", "a"]), "/2", "listed twice")]
#[case(json!(vec!["t"; 51]), "", "has 51 tags; a task may have at most 50")]
fn malformed_tags_are_refused(#[case] tags: Value, #[case] place: &str, #[case] reason: &str) {
    let found = faults(&with_tags(&tags));
    let at = format!("/tasks/t1/tags{place}");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(&at), "{found:?}");
    assert!(found[0].contains(reason), "{found:?}");
}

#[test]
fn a_task_with_tags_alone_keeps_its_expectation() {
    let text = with_tags(&json!(["billing", "locale/de", "Größe: L"])).to_string();
    let document = read(text.as_bytes()).unwrap().document;
    assert_eq!(document.tags(&"t1".into()).len(), 3);
    assert!(document.tags(&"t2".into()).is_empty());
    assert_eq!(document.of_task(&"t1".into()), None);
}

#[test]
fn defaults_have_no_tags() {
    let document = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x",
        "defaults": {"assertions": [{"type": "refusal"}], "tags": ["x"]}});
    let found = faults(&document);
    assert!(found[0].contains("not a known member"), "{found:?}");
}

fn faults(document: &Value) -> Vec<String> {
    match read(document.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

/// Every type, malformed: the place and a part of the reason.
#[rstest]
#[case(json!({"type": "expected", "value": 1}), "/value", "not a known member")]
#[case(json!({"type": "equals"}), "", "needs `value`, or `anyOf`")]
#[case(json!({"type": "equals", "value": 1, "anyOf": [2]}), "", "both `value` and `anyOf`")]
#[case(json!({"type": "equals", "anyOf": []}), "/anyOf", "is empty")]
#[case(json!({"type": "contains"}), "", "missing member `value`")]
#[case(json!({"type": "contains", "value": ""}), "/value", "every answer satisfies it")]
#[case(json!({"type": "contains", "valeu": "x"}), "", "unknown member `valeu`")]
#[case(json!({"type": "contains", "valeu": "x"}), "", "did you mean `value`?")]
#[case(json!({"type": "json-path", "path": "$.a", "operator": "equal"}), "", "did you mean `equals`?")]
#[case(json!({"type": "levenshtein", "value": "x", "min": 0.5, "maxDistance": 2}), "", "both `min` and `maxDistance`")]
#[case(json!({"type": "icontains", "value": "x", "ignoreCase": true}), "", "unknown member `ignoreCase`")]
#[case(json!({"type": "contains-any", "values": []}), "/values", "one or more")]
#[case(json!({"type": "contains-all", "values": "x"}), "", "expected a sequence")]
#[case(json!({"type": "starts-with", "value": 5}), "", "expected a string")]
#[case(json!({"type": "ends-with", "value": ""}), "/value", "is empty")]
#[case(json!({"type": "regex", "pattern": "(a"}), "/pattern", "unclosed group")]
#[case(json!({"type": "regex", "pattern": "(?=a)"}), "/pattern", "look-around")]
#[case(json!({"type": "regex", "pattern": "(\\w{50}){50}"}), "/pattern", "too large when compiled")]
#[case(json!({"type": "is-json", "schema": {"type": "objekt"}}), "/schema/type", "JSON Schema")]
#[case(json!({"type": "json-path", "path": "items"}), "/path", "is not a JSON Path")]
#[case(json!({"type": "json-path", "path": "$..a..b"}), "/path", "more than once")]
#[case(json!({"type": "json-path", "path": "$.a", "operator": "="}), "", "unknown variant")]
#[case(json!({"type": "json-path", "path": "$.a", "value": 1}), "/value", "not used by `exists`")]
#[case(json!({"type": "json-pointer", "pointer": "total"}), "/pointer", "JSON Pointer")]
#[case(json!({"type": "json-pointer", "pointer": "/a", "operator": "<"}), "", "needs `value`")]
#[case(json!({"type": "json-pointer", "pointer": "/a", "operator": "<", "value": "b"}), "/value", "must be a number")]
#[case(json!({"type": "json-pointer", "pointer": "/a", "operator": "matches", "value": "("}), "/value", "regular expression")]
#[case(json!({"type": "number"}), "", "needs `equals`, `min` or `max`")]
#[case(json!({"type": "number", "min": 2, "max": 1}), "/max", "below `min`")]
#[case(json!({"type": "number", "min": 2, "tolerance": 1}), "/tolerance", "needs `equals`")]
#[case(json!({"type": "levenshtein", "value": "x", "min": 1.5}), "/min", "from 0 to 1")]
#[case(json!({"type": "rouge-n", "value": "x", "n": 9}), "/n", "from 1 to 4")]
#[case(json!({"type": "bleu"}), "", "needs `value`")]
#[case(json!({"type": "similar"}), "", "needs `value`")]
#[case(json!({"type": "similar", "value": "x", "min": 2}), "/min", "from 0 to 1")]
#[case(json!({"type": "similar", "value": " "}), "", "empty text")]
#[case(json!({"type": "similar", "anyOf": vec!["x"; 33]}), "", "more than 32 texts")]
#[case(json!({"type": "similar", "value": "x".repeat(70_000)}), "", "more than 32 texts or 65536 bytes")]
#[case(json!({"type": "command"}), "", "missing member `name`")]
#[case(json!({"type": "command", "name": ""}), "/name", "is empty")]
#[case(json!({"type": "command", "name": "x".repeat(201)}), "/name", "longer than 200 bytes")]
#[case(json!({"type": "command", "name": "x", "command": "rm"}), "", "unknown member `command`")]
#[case(json!({"type": "latency", "maxMs": -1}), "", "invalid value")]
#[case(json!({"type": "cost", "maxUsd": -1}), "/maxUsd", "at least 0")]
#[case(json!({"type": "tokens"}), "", "missing member `max`")]
#[case(json!({"type": "tool-called", "name": "a", "max": 0}), "/max", "below `min`")]
#[case(json!({"type": "tool-called", "tool": "a"}), "", "unknown member `tool`")]
#[case(json!({"type": "tools-called-in-order", "names": []}), "/names", "one or more")]
#[case(json!({"type": "tool-not-called", "name": ""}), "/name", "is empty")]
#[case(json!({"type": "refusal", "metrics": "m"}), "/metrics", "did you mean `metric`?")]
#[case(json!({"type": "closed-question"}), "", "missing member `question`")]
#[case(json!({"type": "closed-question", "question": " "}), "/question", "is empty")]
#[case(json!({"type": "closed-question", "question": "x".repeat(70_000)}), "/question", "longer than")]
#[case(json!({"type": "rubric", "criteria": []}), "/criteria", "`weight` above 0")]
#[case(json!({"type": "rubric", "criteria": [{"criterion": "", "weight": 1}]}), "/criteria/0/criterion", "is empty")]
#[case(json!({"type": "rubric", "criteria": [{"criterion": "a", "weight": -1}]}), "/criteria/0/weight", "at least 0")]
#[case(json!({"type": "rubric", "criteria": [{"criterion": "a"}], "min": 2}), "/min", "from 0 to 1")]
#[case(json!({"type": "factuality"}), "", "missing member `reference`")]
#[case(json!({"type": "factuality", "reference": "a", "accept": []}), "/accept", "is empty")]
#[case(json!({"type": "factuality", "reference": "a", "accept": ["A"]}), "", "unknown variant `A`")]
#[case(json!({"type": "answer-relevance", "min": -1}), "/min", "from 0 to 1")]
#[case(json!({"type": "answer-relevance", "context": "x"}), "", "unknown member `context`")]
#[case(json!({"type": "faithfulness", "context": []}), "/context", "1 to 200 texts")]
#[case(json!({"type": "faithfulness", "context": 5}), "", "did not match")]
#[case(json!({"type": "faithfulness", "context": "x", "contextPointer": "/c"}), "", "keep one of them")]
#[case(json!({"type": "faithfulness", "reference": "x"}), "/reference", "not used by `faithfulness`")]
#[case(json!({"type": "context-precision", "contextPointer": "docs"}), "/contextPointer", "JSON Pointer")]
#[case(json!({"type": "context-recall"}), "", "needs `reference`")]
#[case(json!({"type": "context-relevance", "threshold": 1}), "", "unknown member `threshold`")]
#[case(json!({"type": "preferred-to-baseline", "min": 2}), "/min", "from 0 to 1")]
#[case(json!({"type": "all", "assertions": [{"type": "preferred-to-baseline"}]}), "/assertions", "run without a baseline leaves out")]
#[case(json!({"type": "all", "assertions": []}), "/assertions", "`weight` above 0")]
#[case(json!({"type": "any", "assertions": [{"type": "contians"}]}), "/assertions/0/type", "did you mean `contains`?")]
#[case(json!({"type": "none", "assertions": [{"type": "refusal"}], "threshold": 1}), "", "unknown member `threshold`")]
#[case(json!({"type": "made-up-check"}), "/type", "docs/assertions.md")]
#[case(json!({"type": 5}), "", "needs `type`")]
#[case(json!("contains"), "", "must be an object")]
#[case(json!({"type": "expected", "weight": -1}), "/weight", "at least 0")]
#[case(json!({"type": "expected", "weight": 0}), "", "add up to 0")]
#[case(json!({"type": "expected", "metric": "the answer is \"x\""}), "/metric", "reports show it")]
#[case(json!({"type": "expected", "not": "yes"}), "", "expected a boolean")]
#[case(json!({"type": "contains", "value": "x", "on": "transkript"}), "", "unknown variant")]
#[case(json!({"type": "contains", "value": "x", "turn": "last"}), "", "expected i32")]
#[case(json!({"type": "contains", "value": "x", "turn": 0}), "/turn", "must not be 0")]
#[case(json!({"type": "contains", "value": "x", "turn": 2}), "/turn", "add a `conversation`")]
#[case(json!({"type": "contains", "value": "x", "turn": -2}), "/turn", "add a `conversation`")]
#[case(json!({"type": "contains", "value": "x", "turn": 1, "on": "answers"}), "", "both `on` and `turn`")]
#[case(json!({"type": "expected", "turn": 1}), "", "about the whole task")]
#[case(json!({"type": "latency", "maxMs": 1, "on": "transcript"}), "", "about the whole task")]
#[case(json!({"type": "closed-question", "question": "Polite?", "on": "answers"}), "", "decided about the last answer")]
#[case(json!({"type": "similar", "value": "x", "on": "transcript"}), "", "decided about the last answer")]
#[case(json!({"type": "all", "on": "answers", "assertions": [{"type": "command", "name": "c"}]}), "", "`command` is decided about")]
#[case(json!({"type": "all", "assertions": [{"type": "refusal", "turn": 3}]}), "/assertions/0/turn", "further turns")]
fn malformed_assertions_are_refused(
    #[case] assertion: Value,
    #[case] place: &str,
    #[case] reason: &str,
) {
    let found = faults(&with(&assertion));
    let at = match reason {
        "add up to 0" => "/tasks/t1/assertions".to_owned(),
        _ => format!("/tasks/t1/assertions/0{place}"),
    };
    assert!(
        found
            .iter()
            .any(|it| it.starts_with(&format!("{at}: ")) && it.contains(reason)),
        "{found:#?}"
    );
}

#[rstest]
#[case(json!([]), "must be an object")]
#[case(json!({"suiteId": "x", "tasks": {}}), "scoringVersion")]
#[case(json!({"scoringVersion": 2, "suiteId": "x"}), "must be 1")]
#[case(json!({"scoringVersion": 1}), "suiteId")]
#[case(json!({"scoringVersion": 1, "suiteId": "x", "task": {}}), "did you mean `tasks`?")]
#[case(json!({"scoringVersion": 1, "suiteId": "x", "tasks": {"t": {"assertions": []}}}), "is empty")]
#[case(json!({"scoringVersion": 1, "suiteId": "x", "tasks": {"t": {"assertions": [{"type": "refusal"}], "treshold": 1}}}), "did you mean `threshold`?")]
#[case(json!({"scoringVersion": 1, "suiteId": "x", "tasks": {"t": {"assertions": [{"type": "refusal"}], "threshold": 2}}}), "from 0 to 1")]
fn malformed_documents_are_refused(#[case] document: Value, #[case] reason: &str) {
    let found = faults(&document);
    assert!(found.iter().any(|it| it.contains(reason)), "{found:#?}");
}

#[rstest]
#[case(json!({"conversation": []}), "/conversation", "must be an object")]
#[case(json!({"conversation": {}}), "/conversation", "is empty")]
#[case(json!({"conversation": {"turn": ["a"]}}), "/conversation/turn", "did you mean `turns`?")]
#[case(json!({"conversation": {"user": {"gaol": "g"}}}), "/conversation/user/gaol", "did you mean `goal`?")]
#[case(json!({"conversation": {"user": {"persona": "p"}}}), "/conversation", "missing member `goal`")]
#[case(json!({"conversation": {"user": {"goal": "g", "opens": "yes"}}}), "/conversation", "invalid type")]
#[case(json!({"conversation": {"user": {"goal": "g", "open": true}}}), "/conversation/user/open", "did you mean `opens`?")]
#[case(json!({"conversation": {"turns": [""]}}), "/conversation/turns/0", "is empty")]
#[case(json!({"conversation": {"messages": [{"role": "bot", "content": "a"}]}}), "/conversation", "unknown variant")]
#[case(json!({"conversation": {"turns": ["a"]}, "threshold": 1}), "/threshold", "needs `assertions`")]
#[case(json!({"attachments": []}), "/attachments", "must be an array")]
#[case(json!({"attachments": [{"path": "evals/files/a.png", "sha256": "a", "mediaType": "image/png"}]}), "/attachments/0/sha256", "64 lower-case")]
#[case(json!({"attachments": [{"path": "evals/files/a.svg", "sha256": "a", "mediaType": "image/svg"}]}), "/attachments/0", "unknown variant")]
#[case(json!({"attachments": [{"file": "a.png"}]}), "/attachments/0/file", "use only `path`")]
#[case(json!({"attachments": vec![json!({}); 11]}), "/attachments", "at most 10")]
#[case(json!({"conversation": {"turns": ["a"]}, "assertions": [{"type": "refusal", "turn": 3}]}),
    "/assertions/0/turn", "at most 2 turns")]
fn malformed_conversations_are_refused(
    #[case] entry: Value,
    #[case] place: &str,
    #[case] reason: &str,
) {
    let document = json!({"scoringVersion": 1, "suiteId": "x", "tasks": {"t1": entry}});
    let found = faults(&document);
    let start = format!("/tasks/t1{place}: ");
    assert!(
        found
            .iter()
            .any(|it| it.starts_with(&start) && it.contains(reason)),
        "{found:#?}"
    );
}

#[test]
fn defaults_have_no_conversation() {
    let document = json!({"scoringVersion": 1, "suiteId": "x",
        "defaults": {"assertions": [], "conversation": {"turns": ["a"]}}});
    let found = faults(&document);
    assert!(found[0].contains("is not a known member"), "{found:#?}");
}

#[test]
fn a_task_with_a_conversation_alone_is_scored_by_the_suite() {
    let entry = json!({"conversation": {"turns": ["And now?"]}});
    let document = |defaults: &Value| {
        let document = json!({"scoringVersion": 1, "suiteId": "x", "defaults": defaults,
            "tasks": {"t1": entry}});
        read(document.to_string().as_bytes()).unwrap().document
    };
    let id = TaskId::from("t1");
    let alone = document(&json!({"assertions": []}));
    assert_eq!(alone.of_task(&id), None);
    assert_eq!(alone.conversation(&id).unwrap().turns, ["And now?"]);
    let with_defaults = document(&json!({"assertions": [{"type": "refusal", "not": true}]}));
    let scoring = with_defaults.of_task(&id).unwrap();
    let types: Vec<&str> = scoring
        .assertions
        .iter()
        .map(|it| it.check.name())
        .collect();
    assert_eq!(types, ["refusal", "expected"]);
}

#[test]
fn deep_nesting_is_refused() {
    let mut assertion = json!({"type": "refusal"});
    for _ in 0..12 {
        assertion = json!({"type": "all", "assertions": [assertion]});
    }
    assert!(
        faults(&with(&assertion))
            .iter()
            .any(|it| it.contains("deeper"))
    );
}

#[test]
fn tasks_that_the_suite_lacks_are_named_with_a_near_match() {
    let suite = check_suite(
        Kinds::NONE,
        &json!({
            "suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": ["golden"],
            "tasks": [{"taskId": "refund-late", "input": "x",
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}}],
        }),
    )
    .unwrap();
    let document = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.y",
        "tasks": {"refund-lat": {"assertions": [{"type": "refusal"}]}}});
    let found = read_for(document.to_string().as_bytes(), &suite).unwrap_err();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        found[0].starts_with("/suiteId: must be the id of the suite"),
        "{found:?}"
    );
    assert!(
        found[1].ends_with("did you mean `refund-late`?"),
        "{found:?}"
    );
}

#[test]
fn a_context_that_the_input_lacks_is_a_fault() {
    let suite = check_suite(
        Kinds::NONE,
        &json!({
            "suiteId": "vendor.acme.evals.x", "version": "1.0.0", "modes": ["golden"],
            "tasks": [{"taskId": "t1", "input": {"docs": ["a"]},
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}}],
        }),
    )
    .unwrap();
    let of = |pointer: &str| {
        let nested = json!({"type": "any", "assertions": [
            {"type": "faithfulness", "contextPointer": pointer}]});
        let faults = read_for(with(&nested).to_string().as_bytes(), &suite).err();
        faults.map(|faults| faults[0].to_string())
    };
    assert_eq!(of("/docs"), None);
    let fault = of("/doc").unwrap();
    assert!(
        fault.starts_with("/tasks/t1/assertions/0/assertions/0/contextPointer: names nothing"),
        "{fault}"
    );
}

#[test]
fn defaults_come_before_the_tasks_own_assertions() {
    let document = json!({"scoringVersion": 1, "suiteId": "x",
        "defaults": {"assertions": [{"type": "latency", "maxMs": 5}], "threshold": 0.5},
        "tasks": {"t1": {"assertions": [{"type": "refusal"}]}}});
    let document = read(document.to_string().as_bytes()).unwrap().document;
    let types = |id: &str| -> Vec<&str> {
        let scoring = document.of_task(&TaskId::from(id)).unwrap();
        assert_eq!(scoring.threshold, Some(0.5));
        scoring
            .assertions
            .iter()
            .map(|it| it.check.name())
            .collect()
    };
    assert_eq!(types("t1"), ["latency", "refusal"]);
    // A task without an entry keeps its expectation.
    assert_eq!(types("t2"), ["latency", "expected"]);
}

#[test]
fn a_task_without_an_entry_is_scored_by_the_suite() {
    let document = ScoringDocument::new("x");
    assert_eq!(document.of_task(&TaskId::from("t1")), None);
}

#[test]
fn the_digest_does_not_depend_on_formatting() {
    let document = with(&json!({"type": "equals", "value": "x"}));
    let (a, b) = (document.to_string(), format!("{document:#}"));
    assert_eq!(
        read(a.as_bytes()).unwrap().digest(),
        read(b.as_bytes()).unwrap().digest()
    );
}

#[test]
fn a_written_document_reads_back() {
    let value = with(
        &json!({"type": "any", "weight": 2.0, "metric": "m", "assertions": [
            {"type": "equals", "anyOf": [null, 1]}, {"type": "expected", "not": true},
            {"type": "json-path", "path": "$.a", "operator": "<=", "value": 3},
        ]}),
    );
    let document = read(value.to_string().as_bytes()).unwrap().document;
    let written = serde_json::to_string(&document).unwrap();
    assert_eq!(read(written.as_bytes()).unwrap().document, document);
}
