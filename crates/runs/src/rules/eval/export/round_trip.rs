//! `suite export --format jsonl` and `suite import` change nothing of a task.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::tests::imported_again;
use super::*;
use crate::rules::eval::import::{Columns, Format as Foreign, Recognition, recognize};
use crate::rules::eval::scoring_document::checks::TYPES;
use crate::rules::eval::scoring_document::read::read_for;

const SUITE: &str = "vendor.acme.evals.x";

/// An assertion of this type.
fn sample(name: &str) -> Value {
    let nested = json!([{"type": "contains", "value": "a", "weight": 2.0}, {"type": "refusal", "not": true}]);
    let parameters = match name {
        "equals" => json!({"anyOf": [null, 1, "a"]}),
        "contains" | "starts-with" => json!({"value": "a", "ignoreCase": true}),
        "icontains" | "ends-with" => json!({"value": "a"}),
        "contains-any" | "contains-all" => json!({"values": ["a", "b"]}),
        "regex" => json!({"pattern": "^a+$"}),
        "is-json" => json!({"schema": {"type": "object"}}),
        "json-path" => json!({"path": "$.a[*]", "operator": "<=", "value": 3}),
        "json-pointer" => json!({"pointer": "/a", "operator": "matches", "value": "b"}),
        "number" => json!({"equals": 2.5, "tolerance": 0.5}),
        "levenshtein" => json!({"value": "a", "maxDistance": 2}),
        "rouge-n" | "bleu" | "similar" => json!({"value": "a b c"}),
        "latency" => json!({"maxMs": 900}),
        "cost" => json!({"maxUsd": 0.5}),
        "tokens" => json!({"max": 100}),
        "tool-called" => json!({"name": "crm:find", "arguments": {"id": 7}, "max": 2}),
        "tools-called-in-order" => json!({"names": ["crm:find", "crm:update"]}),
        "tool-not-called" => json!({"name": "crm:delete"}),
        "closed-question" => json!({"question": "Is it polite?"}),
        "rubric" => json!({"criteria": [{"criterion": "is kind", "weight": 1.0}]}),
        "factuality" => json!({"reference": "Lisbon"}),
        "faithfulness" | "context-relevance" => json!({"context": "The order is in Lisbon."}),
        "context-precision" | "context-recall" => {
            json!({"context": ["The order is in Lisbon."], "reference": "Lisbon"})
        }
        "command" => json!({"name": "python", "config": {"value": "file://check.py"}}),
        "all" | "any" => json!({"assertions": nested, "threshold": 0.5}),
        "none" => json!({"assertions": nested}),
        _ => json!({}),
    };
    let mut assertion = json!({"type": name});
    merge(&mut assertion, &parameters);
    assertion
}

fn merge(into: &mut Value, from: &Value) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else {
        panic!("objects");
    };
    into.extend(from.clone());
}

fn assertion() -> impl Strategy<Value = Value> {
    let common = (any::<bool>(), 1_u8..4, prop::option::of("[a-z]{1,5}"));
    (prop::sample::select(TYPES.to_vec()), common).prop_map(|(name, (not, weight, metric))| {
        let mut assertion = sample(name);
        merge(&mut assertion, &json!({"weight": f64::from(weight)}));
        if not && name != "preferred-to-baseline" {
            merge(&mut assertion, &json!({"not": true}));
        }
        if let Some(metric) = metric {
            merge(&mut assertion, &json!({"metric": metric}));
        }
        assertion
    })
}

/// The entry of a task in the scoring document; `None` if it has none.
fn entry() -> impl Strategy<Value = Option<Value>> {
    let parts = (
        prop::collection::vec(assertion(), 0..4),
        prop::option::of(1_u8..5),
        0_u8..4,
        any::<bool>(),
        prop::collection::btree_set("[a-z]{1,4}", 0..3),
    );
    parts.prop_map(|(mut assertions, threshold, conversation, has_file, tags)| {
        // A run without a baseline leaves this one out, so it cannot be alone.
        if assertions.iter().all(|it| it["type"] == "preferred-to-baseline") && !assertions.is_empty() {
            assertions.push(sample("icontains"));
        }
        let mut entry = Map::new();
        let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        if !assertions.is_empty() {
            put("assertions", json!(assertions));
            if let Some(quarters) = threshold {
                put("threshold", json!(f64::from(quarters) / 4.0));
            }
        }
        match conversation {
            1 => put("conversation", json!({"turns": ["And now?"]})),
            2 => put("conversation", json!({"messages": [{"role": "system", "content": "Be kind."}]})),
            3 => put("conversation", json!({"user": {"goal": "wants a refund"}})),
            _ => None,
        };
        if has_file {
            let file = json!({"path": "evals/files/a.pdf", "sha256": "0".repeat(64), "mediaType": "application/pdf"});
            put("attachments", json!([file]));
        }
        if !tags.is_empty() {
            put("tags", json!(tags));
        }
        (!entry.is_empty()).then_some(Value::Object(entry))
    })
}

fn expected() -> impl Strategy<Value = Value> {
    let answers = vec![
        json!("a"),
        json!(""),
        json!(null),
        json!(7),
        json!({"a": [1]}),
    ];
    let golden = (
        prop::sample::select(vec!["exact", "contains", "json-match"]),
        prop::sample::select(answers),
    );
    prop_oneof![
        golden.prop_map(|(strategy, value)| json!({"kind": "golden", "match": {"strategy": strategy, "value": value}})),
        Just(json!({"kind": "rubric", "rubric": [{"criterion": "is kind", "weight": 1.0}]})),
    ]
}

fn task() -> impl Strategy<Value = (Value, Option<Value>)> {
    let input = prop::sample::select(vec![json!("Hi"), json!(null), json!({"q": ["a", 1]})]);
    (input, expected(), any::<bool>(), entry()).prop_map(|(input, expected, has_fixtures, entry)| {
        let mut task = json!({"input": input, "expected": expected});
        if has_fixtures {
            let responses = json!([{"tool": "crm:find", "response": {"id": 7}}, {"tool": "orders", "response": null}]);
            task["fixtures"] = json!({"toolResponses": responses, "memorySeed": [{"k": 1}]});
        }
        (task, entry)
    })
}

fn check(tasks: Vec<(Value, Option<Value>)>, defaults: Option<Value>) {
    const IDS: [&str; 4] = ["a", "7--x-", "charged-twice", "b"];
    let mut entries = Map::new();
    let mut of_suite = Vec::new();
    for ((mut task, entry), id) in tasks.into_iter().zip(IDS) {
        task["taskId"] = json!(id);
        of_suite.push(task);
        entries.extend(entry.map(|entry| (id.to_owned(), entry)));
    }
    let suite =
        json!({"suiteId": SUITE, "version": "1.0.0", "modes": ["golden"], "tasks": of_suite});
    let suite: AgentEvalSuite = serde_json::from_value(suite).unwrap();
    let mut scoring = json!({"scoringVersion": 1, "suiteId": SUITE, "tasks": entries});
    if let Some(defaults) = defaults {
        scoring["defaults"] = json!({"assertions": [defaults], "threshold": 0.5});
    }
    let before = read_for(scoring.to_string().as_bytes(), &suite)
        .unwrap()
        .document;

    let text = export(&suite, Some(&before), Format::Jsonl).unwrap().text;
    let recognized = recognize(text.as_bytes(), &Columns::default());
    assert!(
        matches!(&recognized, Recognition::Format(it) if it.format == Foreign::Lines),
        "{recognized:?}: {text}"
    );
    let it = imported_again(&text, Foreign::Lines);
    assert_eq!(it.losses, []);
    let again: AgentEvalSuite = serde_json::from_value(it.suite).unwrap();
    assert_eq!(again.tasks, suite.tasks);
    let after = it.scoring.map_or_else(
        || ScoringDocument::new(SUITE),
        |scoring| serde_json::from_value(scoring).unwrap(),
    );
    for task in &suite.tasks {
        let id = &task.task_id;
        assert_eq!(after.of_task(id), before.of_task(id));
        assert_eq!(after.conversation(id), before.conversation(id));
        assert_eq!(after.attachments(id), before.attachments(id));
        assert_eq!(after.tags(id), before.tags(id));
    }
}

#[test]
fn every_type_of_assertion_is_imported_again() {
    for name in TYPES {
        let task = json!({"input": "Hi", "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "a"}}});
        check(
            vec![(
                task,
                Some(json!({"assertions": [sample(name), sample("icontains")]})),
            )],
            None,
        );
    }
}

proptest! {
    #[test]
    fn every_task_is_imported_again(
        tasks in prop::collection::vec(task(), 1..5),
        has_defaults in any::<bool>(),
    ) {
        let defaults = json!({"type": "contains", "value": "sorry", "not": true});
        check(tasks, has_defaults.then_some(defaults));
    }
}

#[test]
fn a_row_that_is_not_a_task_is_named() {
    let golden = json!({"id": "a", "input": 1, "expected": "b", "match": "exact"});
    let mut rows = vec![golden.clone()];
    for more in [
        json!({"assertions": [{"type": "regex", "pattern": "("}]}),
        json!({"fixtures": {"tools": []}}),
        json!({"tags": "billing"}),
        json!({"match": "fuzzy"}),
    ] {
        let mut row = golden.clone();
        merge(&mut row, &more);
        rows.push(row);
    }
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let it = imported_again(&text, Foreign::Lines);
    assert_eq!(it.suite["tasks"].as_array().unwrap().len(), 1);
    let left_out: Vec<&String> = it.losses.iter().flat_map(|loss| &loss.left_out).collect();
    assert_eq!(left_out, ["line 2", "line 3", "line 4", "line 5"]);
    let what: Vec<&str> = it.losses.iter().map(|it| it.what.as_str()).collect();
    for part in ["`assertions/0/pattern`", "`fixtures", "`tags", "`match`"] {
        assert!(what.iter().any(|it| it.contains(part)), "{part}: {what:?}");
    }
}
