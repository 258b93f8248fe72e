//! Configurations of promptfoo: structure, variables and assertions.

use rstest::rstest;

use super::*;

const CONFIGURATION: &str = r#"
description: Support
prompts: ["Answer {{question}} for {{name}}"]
providers: [openai:gpt-4o-mini]
sharing: true
defaultTest:
  vars: {name: Ann}
  assert:
    - {type: latency, threshold: 2000}
tests:
  - description: Greets
    vars: {question: "How are you?"}
    assert:
      - {type: contains, value: "Hello {{name}}", metric: tone}
      - {type: not-equals, value: never}
      - {type: llm-rubric, value: is polite}
  - vars: {question: [one, two]}
    assert: [{type: equals, value: {said: "{{ question }}"}}]
  - vars: {question: judged}
    threshold: 0.5
    assert:
      - {type: llm-rubric, value: "is polite to {{name}}", weight: 3}
      - {type: g-eval, value: [is short], weight: 1}
      - {type: javascript, value: "output.length < 10"}
  - vars: {question: file://question.txt}
    assert: [{type: equals, value: x}]
  - vars: {question: template}
    assert: [{type: equals, value: "{{ question | replace('a', 'b') }}"}]
  - file://more.py
"#;

#[test]
fn a_configuration_of_promptfoo_becomes_tasks() {
    let it = imported(CONFIGURATION, Format::Promptfoo);
    let asked = |question: &str| json!({"name": "Ann", "question": question});
    let said = |question: &str| of_structure(json!({"said": question}));
    let rubric = json!({"kind": "rubric", "rubric": [
        {"criterion": "is polite to Ann", "weight": 0.75}, {"criterion": "is short", "weight": 0.25}]});
    let polite = json!({"kind": "rubric", "rubric": [{"criterion": "is polite", "weight": 1.0}]});
    let any = contains("");
    assert_eq!(
        tasks(&it),
        [
            ("greets".to_owned(), asked("How are you?"), polite),
            ("task-2".to_owned(), asked("one"), said("one")),
            ("task-3".to_owned(), asked("two"), said("two")),
            ("task-4".to_owned(), asked("judged"), rubric),
            ("task-5".to_owned(), asked("template"), any),
        ]
    );
    let latency = json!({"type": "latency", "maxMs": 2000});
    assert_eq!(
        it.scoring.as_ref().unwrap()["tasks"],
        json!({
            "greets": {"assertions": [
                {"type": "expected"},
                {"type": "contains", "value": "Hello Ann", "metric": "tone"},
                {"type": "equals", "value": "never", "not": true},
                latency,
            ]},
            "task-2": {"assertions": [{"type": "equals", "value": {"said": "one"}}, latency]},
            "task-3": {"assertions": [{"type": "equals", "value": {"said": "two"}}, latency]},
            "task-4": {"assertions": [{"type": "expected", "weight": 4.0}, latency], "threshold": 0.5},
            "task-5": {"assertions": [latency]},
        })
    );
    assert_eq!(it.suite["modes"], json!(["golden", "rubric"]));
    assert_lost(
        &it,
        &[
            "`providers` (openai:gpt-4o-mini)",
            "`description`",
            r#""sharing" of the configuration"#,
            r#"type "javascript" is code"#,
            "variables cannot be read: in question.txt",
            "a template with more than variables",
            "made by a script",
        ],
    );
    let code = it
        .losses
        .iter()
        .find(|it| it.what.contains("javascript"))
        .unwrap();
    assert_eq!(code.first, "tests[2]");
}

/// The assertions of one test with this assertion.
fn one(assert: &Value) -> Result<(Value, Option<Value>), Vec<Loss>> {
    let text = json!({"tests": [{"vars": {"q": "a"}, "assert": [assert]}]}).to_string();
    match converted(text.as_bytes(), Format::Promptfoo, MatchStrategy::Exact) {
        Ok(it) => {
            let scored = it
                .scoring
                .is_some()
                .then(|| assertions(&it, "task-1")[0].clone());
            Ok((tasks(&it)[0].2.clone(), scored))
        }
        Err(Fault::NoTasks(losses)) => Err(losses),
        Err(fault) => panic!("{fault}"),
    }
}

#[rstest]
#[case(json!({"type": "equals", "value": "x"}), exact("x"))]
#[case(json!({"type": "equals", "value": {"a": 1}}), of_structure(json!({"a": 1})))]
#[case(json!({"type": "contains", "value": "{{q}}", "weight": 2}), contains("a"))]
fn a_single_assertion_that_a_suite_can_hold_needs_no_scoring(
    #[case] assert: Value,
    #[case] expected: Value,
) {
    assert_eq!(one(&assert).unwrap(), (expected, None));
}

#[rstest]
#[case(json!({"type": "not-contains", "value": "x"}), json!({"type": "contains", "value": "x", "not": true}))]
#[case(json!({"type": "icontains", "value": 5}), json!({"type": "icontains", "value": "5"}))]
#[case(json!({"type": "contains-any", "value": ["a", "b"]}), json!({"type": "contains-any", "values": ["a", "b"]}))]
#[case(json!({"type": "contains-all", "value": "a, b"}), json!({"type": "contains-all", "values": ["a", "b"]}))]
#[case(json!({"type": "icontains-any", "value": ["a"]}), json!({"type": "contains-any", "values": ["a"], "ignoreCase": true}))]
#[case(json!({"type": "starts-with", "value": "a"}), json!({"type": "starts-with", "value": "a"}))]
#[case(json!({"type": "regex", "value": "^a+$"}), json!({"type": "regex", "pattern": "^a+$"}))]
#[case(json!({"type": "is-json"}), json!({"type": "is-json"}))]
#[case(json!({"type": "is-json", "value": "type: object"}), json!({"type": "is-json", "schema": {"type": "object"}}))]
#[case(json!({"type": "levenshtein", "value": "a", "threshold": 3}), json!({"type": "levenshtein", "value": "a", "maxDistance": 3}))]
#[case(json!({"type": "rouge-n", "value": "a"}), json!({"type": "rouge-n", "value": "a", "min": 0.75}))]
#[case(json!({"type": "bleu", "value": "a", "threshold": 0.4}), json!({"type": "bleu", "value": "a", "min": 0.4}))]
#[case(json!({"type": "similar", "value": "a"}), json!({"type": "similar", "value": "a", "min": 0.75}))]
#[case(json!({"type": "similar", "value": ["a", "b"], "threshold": 0.8}), json!({"type": "similar", "anyOf": ["a", "b"], "min": 0.8}))]
#[case(json!({"type": "not-similar", "value": "a"}), json!({"type": "similar", "value": "a", "min": 0.75, "not": true}))]
#[case(json!({"type": "latency", "threshold": 1500}), json!({"type": "latency", "maxMs": 1500}))]
#[case(json!({"type": "cost", "threshold": 0.01}), json!({"type": "cost", "maxUsd": 0.01}))]
#[case(json!({"type": "not-is-refusal"}), json!({"type": "refusal", "not": true}))]
#[case(
    json!({"type": "assert-set", "threshold": 0.5, "weight": 2, "assert": [{"type": "equals", "value": "a"}, {"type": "contains", "value": "b"}]}),
    json!({"type": "all", "threshold": 0.5, "weight": 2.0, "assertions": [{"type": "equals", "value": "a"}, {"type": "contains", "value": "b"}]})
)]
fn an_assertion_becomes_scoring(#[case] assert: Value, #[case] expected: Value) {
    let (_, scored) = one(&assert).unwrap();
    assert_eq!(scored.unwrap(), expected);
}

#[rstest]
#[case(json!({"type": "similar", "value": "a", "threshold": 2}), "not from 0 to 1")]
#[case(json!({"type": "similar"}), "without a value")]
#[case(json!({"type": "made-up"}), "no counterpart")]
#[case(json!({"type": "equals"}), "without a value")]
#[case(json!({"type": "contains", "value": ""}), "every answer satisfies")]
#[case(json!({"type": "contains-any", "value": []}), "not a list of texts")]
#[case(json!({"type": "regex", "value": "(?=a)"}), "look-around")]
#[case(json!({"type": "is-json", "value": "a: ["}), "has a schema")]
#[case(json!({"type": "is-json", "value": {"type": "nothing"}}), "is not JSON Schema")]
#[case(json!({"type": "rouge-n", "value": "a", "threshold": 2}), "not from 0 to 1")]
#[case(json!({"type": "latency"}), "without a threshold")]
#[case(json!({"type": "not-llm-rubric"}), "without a value")]
#[case(json!({"type": "context-recall", "value": "a"}), "needs a variable `context`")]
#[case(json!({"type": "answer-relevance", "threshold": 2}), "not from 0 to 1")]
#[case(json!({"type": "llm-rubric", "value": ["is kind", 5]}), "empty or not a string")]
#[case(json!({"type": "equals", "value": "file://answer.txt"}), "cannot be read")]
#[case(json!({"type": "equals", "value": "{{missing}}"}), "a variable that the test does not set")]
#[case(json!({"type": "equals", "value": "a", "weight": 0}), "weight 0")]
#[case(json!({"value": "a"}), "without a type")]
#[case(json!("file://asserts.yaml"), "in another file")]
fn an_assertion_that_cannot_be_imported_is_named(#[case] assert: Value, #[case] reason: &str) {
    let losses = one(&assert).unwrap_err();
    let found = losses.iter().find(|loss| loss.what.contains(reason));
    assert_eq!(
        found.map(|it| it.first.as_str()),
        Some("tests[0]"),
        "{losses:?}"
    );
}

#[rstest]
#[case(json!({"type": "python", "value": "file://check.py", "threshold": 0.5, "weight": 2}),
    json!({"type": "command", "name": "python", "weight": 2.0,
        "config": {"value": "file://check.py", "threshold": 0.5}}))]
#[case(json!({"type": "not-javascript", "value": "output.length"}),
    json!({"type": "command", "name": "javascript", "not": true, "config": {"value": "output.length"}}))]
fn code_alone_is_left_to_a_program_of_the_user(#[case] assert: Value, #[case] expected: Value) {
    let (suite, scored) = one(&assert).unwrap();
    assert_eq!(suite, contains(""));
    assert_eq!(scored.unwrap(), expected);
    let text = json!({"description": "d", "tests": [{"vars": {"q": "a"}, "assert": [assert]}]});
    let it = imported(&text.to_string(), Format::Promptfoo);
    assert_lost(&it, &["is code, which is not executed", "--assert-command"]);
}

#[test]
fn code_beside_other_assertions_is_reported_and_left_out() {
    let text = json!({"tests": [{"vars": {"q": "a"}, "assert": [
        {"type": "python", "value": "check.py"},
        {"type": "equals", "value": "b"},
        {"type": "assert-set", "assert": [{"type": "python", "value": "check.py"}]},
    ]}]});
    let it = imported(&text.to_string(), Format::Promptfoo);
    assert_eq!(tasks(&it)[0].2, exact("b"));
    assert_eq!(it.scoring, None);
    assert_lost(
        &it,
        &["is code, which is not executed; the assertion `command`"],
    );
}

#[test]
fn changes_of_the_answer_by_code_are_reported_with_their_place() {
    let text = json!({
        "defaultTest": {"options": {"transform": "output.trim()"}},
        "tests": [{"description": "Sums", "vars": {"q": "a"}, "options": {"transformVars": "vars"},
            "assert": [{"type": "equals", "value": "a", "transform": "output.x"}]}],
    });
    let it = imported(&text.to_string(), Format::Promptfoo);
    let places: Vec<(&str, &str)> = it
        .losses
        .iter()
        .map(|loss| (loss.what.split(',').next().unwrap(), loss.first.as_str()))
        .collect();
    assert_eq!(
        places,
        [
            ("`transform`", "defaultTest"),
            ("`transformVars`", "tests[0] (Sums)"),
            (
                "`transform` of an assertion of type \"equals\"",
                "tests[0] (Sums)"
            ),
        ]
    );
}

#[test]
fn variables_that_name_others_are_filled_in_or_the_test_is_left_out() {
    let it = imported(
        r#"{"prompts": ["p {{x}}"], "tests": [
            {"vars": {"name": "Ann", "ask": "Is {{name}} in?"}, "assert": [{"type": "equals", "value": "yes, {{ask}}"}]},
            {"vars": {"ask": "Is {{missing}} in?"}, "assert": [{"type": "equals", "value": "a"}]},
            {"vars": {"a": "{{b}}", "b": "{{a}}"}, "assert": [{"type": "equals", "value": "a"}]},
            {"vars": {"ask": {"deep": ["file://questions.txt"]}}, "assert": [{"type": "equals", "value": "a"}]},
            {"assert": [{"type": "equals", "value": "a"}]}]}"#,
        Format::Promptfoo,
    );
    let found = tasks(&it);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, json!({"name": "Ann", "ask": "Is Ann in?"}));
    assert_eq!(found[0].2, exact("yes, Is Ann in?"));
    let lost = lost(&it);
    let of = |part: &str| {
        lost.iter()
            .find(|(what, ..)| what.contains(part))
            .map(|it| it.1)
    };
    assert_eq!(
        of("a variable that the test does not set"),
        Some(2),
        "{lost:?}"
    );
    assert_eq!(of("are in another file"), Some(1), "{lost:?}");
    assert_eq!(of("a test without input"), Some(1), "{lost:?}");
}

#[test]
fn a_test_without_assertions_accepts_every_answer_as_in_promptfoo() {
    let it = imported(r#"{"tests": [{"vars": {"q": "a"}}]}"#, Format::Promptfoo);
    assert_eq!(tasks(&it)[0].2, contains(""));
    assert_lost(&it, &["a test without assertions"]);
}

#[test]
fn changed_names_are_reported() {
    let text = json!({"tests": [
        {"description": "Grüße", "vars": {"q": "a"}, "assert": [{"type": "equals", "value": "x"}]},
        {"description": "n".repeat(70), "vars": {"q": "b"}, "assert": [{"type": "equals", "value": "x"}]},
        {"description": "Plain, with marks!", "vars": {"q": "c"}, "assert": [{"type": "equals", "value": "x"}]},
    ]});
    let it = imported(&text.to_string(), Format::Promptfoo);
    let lost = lost(&it);
    let names = lost
        .iter()
        .find(|(what, ..)| what.starts_with("characters of a name"));
    assert_eq!(names.map(|it| it.1), Some(2), "{lost:?}");
}

#[test]
fn factuality_compares_with_a_reference() {
    let (_, scoring) = one(&json!({"type": "factuality", "value": "{{q}} is 4"})).unwrap();
    let expected = json!({"type": "factuality", "reference": "a is 4"});
    assert_eq!(scoring, Some(expected));
}

#[rstest]
#[case(json!({"type": "not-llm-rubric", "value": "is rude"}),
    json!({"type": "rubric", "criteria": [{"criterion": "is rude"}], "not": true}))]
#[case(json!({"type": "model-graded-closedqa", "value": "is {{q}}", "metric": "kind"}),
    json!({"type": "rubric", "criteria": [{"criterion": "is a"}], "metric": "kind"}))]
#[case(json!({"type": "not-factuality", "value": "r", "weight": 2}),
    json!({"type": "factuality", "reference": "r", "not": true, "weight": 2.0}))]
#[case(json!({"type": "answer-relevance", "threshold": 0.8}),
    json!({"type": "answer-relevance", "min": 0.8, "graded": true}))]
#[case::in_a_set(json!({"type": "assert-set", "assert": [{"type": "llm-rubric", "value": "is kind"}]}),
    json!({"type": "all", "assertions": [{"type": "rubric", "criteria": [{"criterion": "is kind"}]}]}))]
fn judgements_that_a_rubric_cannot_hold_become_judged_assertions(
    #[case] assert: Value,
    #[case] expected: Value,
) {
    let (_, scoring) = one(&assert).unwrap();
    assert_eq!(scoring, Some(expected));
}

#[test]
fn a_configuration_without_tests_says_so() {
    let text = br#"{"prompts": ["a"], "providers": ["b"]}"#;
    let fault = converted(text, Format::Promptfoo, MatchStrategy::Exact).unwrap_err();
    let Fault::NoTasks(losses) = fault else {
        panic!("{fault}");
    };
    assert!(
        losses
            .iter()
            .any(|it| it.what.contains("without `tests` or `scenarios`"))
    );
}

#[test]
fn tags_in_the_metadata_of_tests_become_tags_of_tasks() {
    let text = r#"
prompts: ["{{q}}"]
defaultTest: {metadata: {tags: [all]}}
tests:
  - {vars: {q: a}, assert: [{type: equals, value: b}]}
  - {vars: {q: b}, assert: [{type: icontains, value: b}], metadata: {tags: [slow], owner: ann}}
"#;
    let it = imported(text, Format::Promptfoo);
    assert_eq!(tags(&it, "task-1"), json!(["all"]));
    assert_eq!(tags(&it, "task-2"), json!(["slow"]));
    assert_eq!(assertions(&it, "task-2")[0]["type"], "icontains");
    assert_lost(&it, &[r#""metadata" of a test"#]);
}
