use rstest::rstest;
use serde_json::{Value, json};

use super::turns::TurnLog;
use super::*;
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::eval::scoring_document::read::read;
use touchstone_kit::ids::TaskId;

/// A document with one task `t` that has this entry.
pub(super) fn document(entry: &Value) -> ScoringDocument {
    let document =
        json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x", "tasks": {"t": entry}});
    read(document.to_string().as_bytes()).unwrap().document
}

fn answered(call: ToolCall) -> ToolCall {
    ToolCall {
        is_answered: true,
        ..call
    }
}

fn calls() -> Vec<ToolCall> {
    let call = |tool: &str, arguments: Value| answered(ToolCall::new("c", tool, Some(&arguments)));
    vec![
        call(
            "crm:find",
            json!({"id": 7, "fields": {"name": true, "email": true}}),
        ),
        call("crm:note", json!({"text": "called"})),
        call("crm:find", json!({"id": 8})),
    ]
}

fn evaluated(entry: &Value, answer: &Value) -> Evaluation {
    let document = document(entry);
    let calls = calls();
    let observed = Observed {
        answer,
        calls: &calls,
        latency_ms: Some(1200),
        cost: NanoUsd::from_usd(0.002),
        tokens: 500,
        expected: Some(Expectation {
            score: 1.0,
            passed: true,
        }),
        external: External::default(),
    };
    evaluate(&document.of_task(&TaskId::from("t")).unwrap(), &observed)
}

fn holds(assertion: &Value, answer: &Value) -> bool {
    let result = evaluated(&json!({"assertions": [assertion]}), answer);
    assert!(!result.gave_up);
    assert_eq!(result.passed, result.assertions[0].holds);
    result.passed
}

/// Every type with an answer that satisfies it and one that does not; for checks of facts other
/// than the answer, `answer` is the same and the parameters differ.
#[rstest]
#[case::text(json!({"type": "equals", "value": "Paris"}), json!("Paris"), json!("paris"))]
#[case::folded(json!({"type": "equals", "value": "Paris", "ignoreCase": true}), json!("PARIS"), json!("Rome"))]
#[case::several(json!({"type": "equals", "anyOf": ["Paris", "City of Light"]}), json!("City of Light"), json!("Rome"))]
#[case::json(json!({"type": "equals", "value": {"a": 1}}), json!("{\"a\": 1.0}"), json!({"a": 2}))]
#[case::null(json!({"type": "equals", "value": null}), json!(null), json!("x"))]
#[case(json!({"type": "contains", "value": "refund"}), json!("a refund is due"), json!("Refund"))]
#[case(json!({"type": "contains", "value": "refund", "ignoreCase": true}), json!("REFUND"), json!("ref"))]
#[case(json!({"type": "icontains", "value": "straße"}), json!("Hauptstraße"), json!("Platz"))]
#[case(json!({"type": "contains-any", "values": ["a1", "b2"]}), json!("x b2"), json!("c3"))]
#[case(json!({"type": "contains-all", "values": ["a1", "B2"], "ignoreCase": true}), json!("b2 A1"), json!("a1"))]
#[case(json!({"type": "starts-with", "value": "Dear"}), json!("Dear Ann"), json!("dear Ann"))]
#[case(json!({"type": "ends-with", "value": "ANN", "ignoreCase": true}), json!("Dear Ann"), json!("Ann, hello"))]
#[case(json!({"type": "regex", "pattern": "^order-[0-9]{4}$"}), json!("order-1234"), json!("order-12345"))]
#[case(json!({"type": "regex", "pattern": "PAID", "ignoreCase": true}), json!("paid"), json!("open"))]
#[case(json!({"type": "is-json"}), json!("[1, 2]"), json!("[1, 2"))]
#[case(json!({"type": "is-json", "schema": {"type": "object", "required": ["id"]}}), json!({"id": 1}), json!("{\"no\": 1}"))]
#[case(json!({"type": "json-path", "path": "$.items[*].price", "operator": "<", "value": 10}), json!({"items": [{"price": 20}, {"price": 9}]}), json!({"items": []}))]
#[case(json!({"type": "json-path", "path": "$.items[*].price", "operator": "<", "value": 10, "quantifier": "all"}), json!({"items": [{"price": 8}]}), json!({"items": [{"price": 20}, {"price": 9}]}))]
#[case(json!({"type": "json-path", "path": "$..id"}), json!("{\"a\": {\"id\": 1}}"), json!("not JSON"))]
#[case(json!({"type": "json-pointer", "pointer": "/total", "operator": "equals", "value": 5}), json!({"total": 5.0}), json!({"total": "5"}))]
#[case(json!({"type": "json-pointer", "pointer": "/total", "operator": "not-equals", "value": 5}), json!({"total": 6}), json!({}))]
#[case(json!({"type": "json-pointer", "pointer": "/total", "operator": ">=", "value": 5}), json!({"total": 5}), json!({"total": 4.9}))]
#[case(json!({"type": "json-pointer", "pointer": "/total", "operator": ">", "value": 5}), json!({"total": 6}), json!({"total": 5}))]
#[case(json!({"type": "json-pointer", "pointer": "/total", "operator": "<=", "value": 5}), json!({"total": 5}), json!({"total": 6}))]
#[case(json!({"type": "json-pointer", "pointer": "/tags", "operator": "contains", "value": "b"}), json!({"tags": ["a", "b"]}), json!({"tags": ["a"]}))]
#[case(json!({"type": "json-pointer", "pointer": "", "operator": "contains", "value": "b"}), json!(["b"]), json!({"b": 1}))]
#[case(json!({"type": "json-pointer", "pointer": "/id", "operator": "matches", "value": "^A[0-9]+$"}), json!({"id": "A1"}), json!({"id": 1}))]
#[case(json!({"type": "json-pointer", "pointer": "/id", "operator": "exists"}), json!({"id": null}), json!({}))]
#[case(json!({"type": "number", "equals": 0.3, "tolerance": 0.1}), json!(" 0.4 "), json!(0.41))]
#[case(json!({"type": "number", "equals": 200, "relativeTolerance": 0.01}), json!(202), json!(203))]
#[case(json!({"type": "number", "min": 1, "max": 2}), json!(2), json!("2.01"))]
#[case(json!({"type": "number", "equals": 1234.5, "extract": true}), json!("It costs 1,234.5 USD."), json!("1234.5 of 2000"))]
#[case(json!({"type": "number", "equals": 4}), json!(4), json!("The answer is 4"))]
#[case(json!({"type": "levenshtein", "value": "kitten", "maxDistance": 3}), json!("sitting"), json!("sittings"))]
#[case(json!({"type": "levenshtein", "anyOf": ["abcde", "vwxyz"], "ignoreCase": true}), json!("VWXYa"), json!("VWXab"))]
#[case(json!({"type": "rouge-n", "value": "the cat sat on the mat", "n": 2, "min": 0.5}), json!("The cat sat on a mat"), json!("A dog"))]
#[case(json!({"type": "bleu", "value": "the cat sat on the mat"}), json!("the cat sat on the mat"), json!("a dog ran"))]
#[case(json!({"type": "refusal"}), json!("I’m sorry, but I can’t help with that."), json!("I can help. Sorry for the wait."))]
#[case(json!({"type": "any", "assertions": [{"type": "equals", "value": "a"}, {"type": "equals", "value": "b"}]}), json!("b"), json!("c"))]
#[case(json!({"type": "all", "assertions": [{"type": "contains", "value": "a"}, {"type": "contains", "value": "b"}]}), json!("ab"), json!("a"))]
#[case(json!({"type": "all", "threshold": 0.5, "assertions": [{"type": "contains", "value": "a"}, {"type": "contains", "value": "b"}]}), json!("a"), json!("c"))]
#[case(json!({"type": "none", "assertions": [{"type": "contains", "value": "a"}]}), json!("b"), json!("a"))]
fn each_type_tells_good_answers_from_bad_ones(
    #[case] assertion: Value,
    #[case] good: Value,
    #[case] bad: Value,
) {
    assert!(holds(&assertion, &good));
    assert!(!holds(&assertion, &bad));
    let mut negated = assertion;
    negated["not"] = json!(true);
    assert!(!holds(&negated, &good));
    assert!(holds(&negated, &bad));
}

#[rstest]
#[case(json!({"type": "latency", "maxMs": 1200}), true)]
#[case(json!({"type": "latency", "maxMs": 1199}), false)]
#[case(json!({"type": "cost", "maxUsd": 0.002}), true)]
#[case(json!({"type": "cost", "maxUsd": 0.0019}), false)]
#[case(json!({"type": "tokens", "max": 500}), true)]
#[case(json!({"type": "tokens", "max": 499}), false)]
#[case(json!({"type": "expected"}), true)]
#[case::called(json!({"type": "tool-called", "name": "crm:find"}), true)]
#[case::other(json!({"type": "tool-called", "name": "crm:delete"}), false)]
#[case::subset(json!({"type": "tool-called", "name": "crm:find", "arguments": {"fields": {"name": true}}}), true)]
#[case::wrong(json!({"type": "tool-called", "name": "crm:find", "arguments": {"id": 9}}), false)]
#[case::equal(json!({"type": "tool-called", "name": "crm:find", "arguments": {"id": 8}, "argumentsMatch": "equal"}), true)]
#[case::unequal(json!({"type": "tool-called", "name": "crm:find", "arguments": {"fields": {}}, "argumentsMatch": "equal"}), false)]
#[case::twice(json!({"type": "tool-called", "name": "crm:find", "min": 2, "max": 2}), true)]
#[case::once(json!({"type": "tool-called", "name": "crm:find", "max": 1}), false)]
#[case::never(json!({"type": "tool-called", "name": "crm:find", "min": 0, "max": 0}), false)]
#[case::after(json!({"type": "tool-called", "name": "crm:find", "after": "crm:note"}), true)]
#[case::not_after(json!({"type": "tool-called", "name": "crm:note", "after": "crm:note"}), false)]
#[case::order(json!({"type": "tools-called-in-order", "names": ["crm:find", "crm:find"]}), true)]
#[case::wrong_order(json!({"type": "tools-called-in-order", "names": ["crm:note", "crm:note"]}), false)]
#[case::exact(json!({"type": "tools-called-in-order", "names": ["crm:find", "crm:note", "crm:find"], "exact": true}), true)]
#[case::not_exact(json!({"type": "tools-called-in-order", "names": ["crm:find", "crm:note"], "exact": true}), false)]
#[case::forbidden(json!({"type": "tool-not-called", "name": "crm:note"}), false)]
#[case::unused(json!({"type": "tool-not-called", "name": "crm:find", "arguments": {"id": 9}}), true)]
fn facts_about_the_invocation_are_checked(#[case] assertion: Value, #[case] expected: bool) {
    assert_eq!(holds(&assertion, &json!("done")), expected);
    let mut negated = assertion;
    negated["not"] = json!(true);
    assert_eq!(holds(&negated, &json!("done")), !expected);
}

#[test]
fn the_score_is_the_weighted_mean() {
    let entry = json!({"threshold": 0.7, "assertions": [
        {"type": "contains", "value": "a", "weight": 3},
        {"type": "contains", "value": "b"},
        {"type": "contains", "value": "z", "weight": 0, "metric": "has z"},
    ]});
    let result = evaluated(&entry, &json!("a"));
    assert!((result.score - 0.75).abs() < 1e-12);
    assert!(result.passed);
    assert_eq!(result.metrics()["has z"], 0.0);
    assert!(!evaluated(&entry, &json!("b")).passed);
}

#[test]
fn without_a_threshold_every_assertion_must_hold() {
    let entry = json!({"assertions": [
        {"type": "contains", "value": "a", "weight": 99}, {"type": "contains", "value": "b"},
    ]});
    let result = evaluated(&entry, &json!("a"));
    assert!((result.score - 0.99).abs() < 1e-12);
    assert!(!result.passed);
}

#[test]
fn a_graded_similarity_is_its_own_score() {
    let of = |graded: bool| {
        let entry = json!({"assertions": [
            {"type": "levenshtein", "value": "abcd", "min": 0.5, "graded": graded, "metric": "close"},
        ]});
        evaluated(&entry, &json!("abcx"))
    };
    assert!((of(true).score - 0.75).abs() < 1e-12);
    assert!((of(false).score - 1.0).abs() < 1e-12);
    assert!((of(false).metrics()["close"] - 0.75).abs() < 1e-12);
}

#[test]
fn assertions_that_share_a_metric_are_averaged() {
    let entry = json!({"assertions": [
        {"type": "contains", "value": "a", "metric": "facts"},
        {"type": "any", "assertions": [{"type": "contains", "value": "b", "metric": "facts"}, {"type": "expected"}]},
    ]});
    assert!((evaluated(&entry, &json!("a")).metrics()["facts"] - 0.5).abs() < 1e-12);
}

#[rstest]
#[case::nested("(a+)+$")]
#[case::alternation("(a|aa)+$")]
#[case::many("(.*a){20}b")]
#[case::counted("(?:a?){500}a{500}b")]
fn patterns_that_hang_other_engines_end_quickly(#[case] pattern: &str) {
    let assertion = json!({"type": "regex", "pattern": pattern});
    let answer = json!(format!("{}!", "a".repeat(50_000)));
    // An engine that backtracks would not come back within a lifetime.
    let result = evaluated(&json!({"assertions": [assertion]}), &answer);
    assert!(!result.gave_up);
}

#[test]
fn an_answer_that_is_too_large_to_evaluate_fails_also_under_not() {
    let text = "ab".repeat(20_000);
    let entry = json!({"assertions": [{"type": "levenshtein", "value": text, "not": true}]});
    let result = evaluated(&entry, &json!("ba".repeat(20_000)));
    assert!(result.gave_up && !result.passed);
    assert_eq!(result.score, 0.0);
}

#[test]
fn results_say_what_was_expected_and_found() {
    let entry = json!({"assertions": [
        {"type": "contains", "value": "refund", "not": true},
        {"type": "json-pointer", "pointer": "/total", "operator": "<=", "value": 10},
        {"type": "tool-called", "name": "crm:find", "arguments": {"id": 9}, "max": 2},
    ]});
    let result = evaluated(&entry, &json!("{\"total\": 12, \"text\": \"refund\"}"));
    let lines: Vec<String> = result
        .assertions
        .iter()
        .map(|it| format!("{}: {}", it.expected, it.found.as_deref().unwrap_or("")))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// A call that no fixture or tool answers is an attempt.
#[rstest]
#[case::called(json!({"type": "tool-called", "name": "crm:drop"}), false)]
#[case::called_after_an_attempt(json!({"type": "tool-called", "name": "crm:find", "after": "crm:drop"}), false)]
#[case::in_order(json!({"type": "tools-called-in-order", "names": ["crm:find", "crm:drop"]}), false)]
#[case::nothing_else(json!({"type": "tools-called-in-order", "names": ["crm:find"], "exact": true}), true)]
#[case::not_called(json!({"type": "tool-not-called", "name": "crm:drop"}), false)]
fn a_call_without_an_answer_counts_only_against_tool_not_called(
    #[case] assertion: Value,
    #[case] holds: bool,
) {
    let document = document(&json!({"assertions": [assertion]}));
    let mut calls = ["crm:drop", "crm:find"].map(|tool| ToolCall::new(tool, tool, None));
    mark_answered(&mut calls, "crm:find");
    let observed = Observed {
        answer: &json!("done"),
        calls: &calls,
        latency_ms: None,
        cost: None,
        tokens: 0,
        expected: None,
        external: External::default(),
    };
    let found = evaluate(&document.of_task(&TaskId::from("t")).unwrap(), &observed);
    assert_eq!(found.passed, holds, "{found:?}");
    let listed = found.assertions[0].found.as_deref();
    assert_eq!(listed, Some("crm:drop (not answered), crm:find"));
}

/// Two turns: a question after a call of `crm:find`, and an answer after a call of `crm:refund`.
fn conversation() -> (TurnLog, Vec<ToolCall>, Value) {
    let call = |tool: &str| answered(ToolCall::new("c", tool, None));
    let last = json!({"refunded": true});
    let mut turns = TurnLog::default();
    turns.called();
    turns.answered(&json!("Which order?"));
    turns.said("Order 17, secret word tulip.");
    turns.called();
    turns.answered(&last);
    (turns, vec![call("crm:find"), call("crm:refund")], last)
}

fn in_conversation(assertion: &Value) -> AssertionResult {
    let document = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x", "tasks": {"t": {
        "conversation": {"user": {"goal": "g"}}, "assertions": [assertion]}}});
    let document = read(document.to_string().as_bytes()).unwrap().document;
    let (turns, calls, answer) = conversation();
    let observed = Observed {
        answer: &answer,
        calls: &calls,
        latency_ms: Some(1200),
        cost: Some(NanoUsd(0)),
        tokens: 0,
        expected: None,
        external: External::default(),
    };
    let scoring = document.of_task(&TaskId::from("t")).unwrap();
    let mut found = evaluate_turns(&scoring, &observed, &json!("Hello"), &turns);
    found.assertions.remove(0)
}

#[rstest]
#[case::last_answer(json!({"type": "json-pointer", "pointer": "/refunded", "operator": "equals", "value": true}), true)]
#[case::first_turn(json!({"type": "contains", "value": "Which order?", "turn": 1}), true)]
#[case::first_turn_negated(json!({"type": "contains", "value": "refunded", "turn": 1, "not": true}), true)]
#[case::last_turn(json!({"type": "contains", "value": "refunded", "turn": -1}), true)]
#[case::other_turn(json!({"type": "contains", "value": "Which order?", "turn": 2}), false)]
#[case::transcript_has_the_user(json!({"type": "contains", "value": "tulip", "on": "transcript"}), true)]
#[case::transcript_has_the_input(json!({"type": "contains", "value": "user: Hello", "on": "transcript"}), true)]
#[case::answers_do_not_have_the_user(json!({"type": "contains", "value": "tulip", "on": "answers"}), false)]
#[case::answers_have_all(json!({"type": "contains-all", "values": ["Which order?", "refunded"], "on": "answers"}), true)]
#[case::call_of_a_turn(json!({"type": "tool-called", "name": "crm:refund", "turn": 2}), true)]
#[case::call_of_another_turn(json!({"type": "tool-called", "name": "crm:refund", "turn": 1}), false)]
#[case::call_of_any_turn(json!({"type": "tool-called", "name": "crm:find"}), true)]
#[case::not_called_in_a_turn(json!({"type": "tool-not-called", "name": "crm:find", "turn": 2}), true)]
#[case::missing_turn(json!({"type": "contains", "value": "x", "turn": 5}), false)]
#[case::missing_turn_negated(json!({"type": "contains", "value": "x", "turn": 5, "not": true}), false)]
#[case::missing_turn_in_none(json!({"type": "none", "assertions": [{"type": "contains", "value": "x", "turn": 5}]}), true)]
#[case::combinator_in_a_turn(json!({"type": "all", "turn": 1, "assertions": [{"type": "contains", "value": "Which"},
    {"type": "contains", "value": "order?"}]}), true)]
#[case::nested_with_its_own_turn(json!({"type": "all", "turn": 1, "assertions": [{"type": "contains", "value": "Which"},
    {"type": "contains", "value": "refunded", "turn": 2}]}), true)]
#[case::nested_about_the_answer(json!({"type": "all", "turn": 1, "assertions": [
    {"type": "contains", "value": "refunded", "on": "answer"}]}), true)]
fn an_assertion_looks_at_its_part_of_the_conversation(
    #[case] assertion: Value,
    #[case] holds: bool,
) {
    let found = in_conversation(&assertion);
    assert_eq!(found.holds, holds, "{found:?}");
}

#[test]
fn the_result_names_the_part_of_the_conversation() {
    let found = in_conversation(&json!({"type": "contains", "value": "x", "turn": 2}));
    assert_eq!(found.expected, "turn 2: contains \"x\"");
    let missing = in_conversation(&json!({"type": "contains", "value": "x", "turn": -5}));
    assert_eq!(missing.expected, "turn -5 from the end takes place");
    assert_eq!(missing.score, 0.0);
}
