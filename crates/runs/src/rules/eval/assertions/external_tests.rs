use rstest::rstest;
use serde_json::{Value, json};

use super::tests::document;
use super::*;
use crate::render::words::assertion_sign;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::{AssertionDecision, AssertionReason};

pub(super) fn decision(assertion: &str, by: &str, score: f64, holds: bool) -> AssertionDecision {
    AssertionDecision {
        assertion: assertion.to_owned(),
        by: by.to_owned(),
        score,
        holds,
        label: None,
        verdicts: Vec::new(),
    }
}

pub(super) fn decided(
    entry: &Value,
    decisions: &[AssertionDecision],
    reasons: &[AssertionReason],
) -> Evaluation {
    let document = document(entry);
    let observed = Observed {
        answer: &json!("On Monday."),
        calls: &[],
        latency_ms: None,
        cost: Some(NanoUsd(0)),
        tokens: 0,
        expected: None,
        external: External {
            decisions,
            reasons,
            has_baseline: true,
        },
    };
    evaluate(&document.of_task(&TaskId::from("t")).unwrap(), &observed)
}

fn question() -> Value {
    json!({"type": "closed-question", "question": "Does it name a day?"})
}

#[rstest]
#[case::yes(true, false, true)]
#[case::no(false, false, false)]
#[case::yes_negated(true, true, false)]
#[case::no_negated(false, true, true)]
fn a_closed_question_holds_if_the_judge_says_yes(
    #[case] yes: bool,
    #[case] not: bool,
    #[case] holds: bool,
) {
    let mut assertion = question();
    assertion["not"] = json!(not);
    let score = if yes { 1.0 } else { 0.0 };
    let result = decided(
        &json!({"assertions": [assertion]}),
        &[decision("0", "j", score, yes)],
        &[],
    );
    assert_eq!(result.held(), [holds]);
    assert_eq!(result.passed, holds);
}

#[rstest]
#[case::plain(false)]
#[case::negated(true)]
fn an_assertion_without_a_recorded_decision_has_no_result(#[case] not: bool) {
    let mut assertion = question();
    assertion["not"] = json!(not);
    let entry = json!({"assertions": [assertion]});
    // The decision is about another place.
    let result = decided(&entry, &[decision("0.0", "j", 1.0, true)], &[]);
    assert!(result.undecided && !result.passed);
    assert_eq!(result.assertions, []);
}

#[test]
fn a_decision_is_found_by_the_place_of_its_assertion() {
    let entry = json!({"assertions": [
        {"type": "contains", "value": "Monday"},
        {"type": "all", "assertions": [question(), {"type": "any", "assertions": [question()]}]},
    ]});
    let decisions = [
        decision("1.0", "j", 0.0, false),
        decision("1.1.0", "j", 1.0, true),
    ];
    let result = decided(&entry, &decisions, &[]);
    let nested: Vec<bool> = result.assertions[1]
        .assertions
        .iter()
        .map(|it| it.holds)
        .collect();
    assert_eq!(nested, [false, true]);
    let scoring = document(&entry);
    let scoring = scoring.of_task(&TaskId::from("t")).unwrap();
    let places: Vec<String> = scoring.external().into_iter().map(|(it, _)| it).collect();
    assert_eq!(places, ["1.0", "1.1.0"]);
}

#[rstest]
#[case::majority(&[true, true, false], true, 2.0 / 3.0)]
#[case::minority(&[true, false, false], false, 1.0 / 3.0)]
#[case::tie(&[true, false], false, 0.5)]
fn the_majority_of_several_judges_decides(
    #[case] said: &[bool],
    #[case] holds: bool,
    #[case] value: f64,
) {
    let decisions: Vec<AssertionDecision> = said
        .iter()
        .enumerate()
        .map(|(n, yes)| decision("0", &n.to_string(), if *yes { 1.0 } else { 0.0 }, *yes))
        .collect();
    let result = decided(&json!({"assertions": [question()]}), &decisions, &[]);
    assert_eq!(result.held(), [holds]);
    assert!((result.assertions[0].value - value).abs() < 1e-12);
}

#[test]
fn the_reason_of_a_judge_is_shown_with_its_decision() {
    let reason = AssertionReason {
        assertion: "0".to_owned(),
        by: "j".to_owned(),
        reason: "It says Monday.".to_owned(),
    };
    let result = decided(
        &json!({"assertions": [question()]}),
        &[decision("0", "j", 1.0, true)],
        &[reason],
    );
    let found = result.assertions[0].found.as_deref();
    assert_eq!(found, Some("yes: It says Monday."));
}

/// Every judged type with one decision: its score, and whether the assertion holds.
#[rstest]
#[case::measure_reached(json!({"type": "faithfulness"}), 0.5, true)]
#[case::measure_not_reached(json!({"type": "answer-relevance"}), 0.4, false)]
#[case::own_minimum(json!({"type": "context-precision", "min": 0.9}), 0.8, false)]
#[case::recall(json!({"type": "context-recall", "reference": "r", "min": 0.3}), 0.3, true)]
#[case::relevance(json!({"type": "context-relevance", "min": 0.0}), 0.0, true)]
#[case::rubric_share(json!({"type": "rubric", "criteria": [{"criterion": "c"}], "min": 0.5}), 0.5, true)]
#[case::rubric_share_not_reached(json!({"type": "rubric", "criteria": [{"criterion": "c"}], "min": 0.6}), 0.5, false)]
#[case::not_worse(json!({"type": "preferred-to-baseline"}), 0.5, true)]
#[case::not_better(json!({"type": "preferred-to-baseline", "min": 1}), 0.5, false)]
fn a_measure_holds_at_its_minimum(
    #[case] assertion: Value,
    #[case] score: f64,
    #[case] holds: bool,
) {
    for not in [false, true] {
        let mut assertion = assertion.clone();
        assertion["not"] = json!(not);
        // What the judge's decision says about the minimum is not what counts.
        let decisions = [decision("0", "j", score, !holds)];
        let entry = json!({"assertions": [assertion, {"type": "contains", "value": "Monday"}]});
        let result = decided(&entry, &decisions, &[]);
        assert_eq!(result.held(), [holds != not, true], "{assertion}");
    }
}

#[rstest]
#[case(json!({"type": "factuality", "reference": "r"}))]
#[case(json!({"type": "rubric", "criteria": [{"criterion": "c"}]}))]
fn a_decision_without_a_minimum_holds_as_it_was_made(#[case] assertion: Value) {
    for holds in [false, true] {
        let entry = json!({"assertions": [assertion]});
        let result = decided(&entry, &[decision("0", "j", 0.5, holds)], &[]);
        assert_eq!(result.held(), [holds]);
    }
}

#[rstest]
#[case::plain(false, 1.0)]
#[case::graded(true, 0.75)]
fn a_measure_counts_as_itself_only_if_it_is_graded(#[case] graded: bool, #[case] score: f64) {
    let entry = json!({"assertions": [{"type": "faithfulness", "graded": graded}]});
    let result = decided(&entry, &[decision("0", "j", 0.75, true)], &[]);
    assert!((result.score - score).abs() < 1e-12);
    assert!((result.assertions[0].value - 0.75).abs() < 1e-12);
}

#[test]
fn a_comparison_with_the_baseline_is_left_out_without_one() {
    let entry = json!({"assertions": [
        {"type": "contains", "value": "Monday"},
        {"type": "preferred-to-baseline", "metric": "better"},
        {"type": "all", "assertions": [
            {"type": "contains", "value": "Monday"}, {"type": "preferred-to-baseline", "not": true}]},
    ]});
    let document = document(&entry);
    let observed = Observed {
        answer: &json!("On Monday."),
        calls: &[],
        latency_ms: None,
        cost: Some(NanoUsd(0)),
        tokens: 0,
        expected: None,
        external: External::default(),
    };
    let result = evaluate(&document.of_task(&TaskId::from("t")).unwrap(), &observed);
    assert!(result.passed && (result.score - 1.0).abs() < 1e-12);
    assert_eq!(result.held(), [true, false, true]);
    assert_eq!(result.left_out(), 1);
    assert_eq!(result.metrics(), BTreeMap::new());
    let signs = result.assertions.iter().map(assertion_sign);
    assert_eq!(signs.collect::<String>(), "✓–✓");
}

#[rstest]
#[case::above(0.8, json!({"value": "x"}), true, 1.0)]
#[case::at_the_minimum(0.75, json!({"value": "x"}), true, 1.0)]
#[case::below(0.74, json!({"value": "x"}), false, 0.0)]
#[case::own_minimum(0.74, json!({"anyOf": ["x", "y"], "min": 0.5}), true, 1.0)]
#[case::graded(0.6, json!({"value": "x", "graded": true}), false, 0.6)]
#[case::negated(0.6, json!({"value": "x", "not": true}), true, 1.0)]
#[case::graded_negated(0.6, json!({"value": "x", "graded": true, "not": true}), true, 0.4)]
fn a_similarity_holds_from_its_minimum_on(
    #[case] similarity: f64,
    #[case] mut assertion: Value,
    #[case] holds: bool,
    #[case] score: f64,
) {
    assertion["type"] = json!("similar");
    // What the decision itself says is not needed: the recorded similarity decides.
    let decision = decision("0", "e", similarity, false);
    let result = decided(&json!({"assertions": [assertion]}), &[decision], &[]);
    assert_eq!(result.held(), [holds]);
    assert!((result.score - score).abs() < 1e-9, "{}", result.score);
}

#[rstest]
#[case::pass(true, 1.0, json!({}), true, 1.0)]
#[case::fail(false, 0.0, json!({}), false, 0.0)]
#[case::score_without_graded(true, 0.4, json!({}), true, 1.0)]
#[case::graded(true, 0.4, json!({"graded": true}), true, 0.4)]
#[case::negated(true, 1.0, json!({"not": true}), false, 0.0)]
fn a_command_decides(
    #[case] pass: bool,
    #[case] said: f64,
    #[case] mut assertion: Value,
    #[case] holds: bool,
    #[case] score: f64,
) {
    assertion["type"] = json!("command");
    assertion["name"] = json!("short");
    let reason = AssertionReason {
        assertion: "0".to_owned(),
        by: "c".to_owned(),
        reason: "3 words".to_owned(),
    };
    let decisions = [decision("0", "c", said, pass)];
    let result = decided(&json!({"assertions": [assertion]}), &decisions, &[reason]);
    assert_eq!(result.held(), [holds]);
    assert!((result.score - score).abs() < 1e-9, "{}", result.score);
    let found = result.assertions[0].found.as_deref().unwrap();
    assert!(found.ends_with("3 words"), "{found}");
}

#[rstest]
#[case(json!({"type": "similar", "value": "x"}))]
#[case(json!({"type": "command", "name": "x", "not": true}))]
fn without_a_decision_there_is_no_result(#[case] assertion: Value) {
    let result = decided(&json!({"assertions": [assertion]}), &[], &[]);
    assert!(result.undecided && !result.passed);
}
