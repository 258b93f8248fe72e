use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::rules::eval::suite_rules::check_suite;
use crate::rules::kind::Kinds;

fn identity() -> Identity {
    Identity {
        suite_id: "vendor.acme.evals.x".to_owned(),
        version: "1.0.0".to_owned(),
        target_agent_id: None,
        pass_score: None,
    }
}

fn imported(text: &str, format: Format) -> Imported {
    convert(text.as_bytes(), format, MatchStrategy::Exact, &identity()).unwrap()
}

/// Every task as id, input and expectation.
fn tasks(imported: &Imported) -> Vec<(String, Value, Value)> {
    let tasks = imported.suite["tasks"].as_array().unwrap();
    tasks
        .iter()
        .map(|task| {
            let id = task["taskId"].as_str().unwrap().to_owned();
            (id, task["input"].clone(), task["expected"].clone())
        })
        .collect()
}

fn lost(imported: &Imported) -> Vec<(&str, usize, &str)> {
    let losses = imported.losses.iter();
    losses
        .map(|loss| (loss.what.as_str(), loss.count, loss.first.as_str()))
        .collect()
}

fn exact(value: &str) -> Value {
    json!({"kind": "golden", "match": {"strategy": "exact", "value": value}})
}

fn contains(value: &str) -> Value {
    json!({"kind": "golden", "match": {"strategy": "contains", "value": value}})
}

fn of_structure(value: Value) -> Value {
    json!({"kind": "golden", "match": {"strategy": "json-match", "value": value}})
}

#[test]
fn a_table_becomes_tasks() {
    let it = imported(
        "id,input,expected,note\nFirst One,What?,yes,\n,\"{\"\"a\"\": 1}\",\"[1, 2]\",why\n,x,42,\n,,lost,\n",
        Format::Csv,
    );
    assert_eq!(
        tasks(&it),
        [
            ("first-one".to_owned(), json!("What?"), exact("yes")),
            (
                "task-2".to_owned(),
                json!({"a": 1}),
                of_structure(json!([1, 2]))
            ),
            ("task-3".to_owned(), json!("x"), exact("42")),
        ]
    );
    assert_eq!(it.losses[1].left_out, ["row 5"]);
    assert_eq!(
        lost(&it),
        [
            (
                r#""note" of a row has no equivalent in a suite"#,
                1,
                "row 3"
            ),
            ("a row without `input`, left out", 1, "row 5"),
        ]
    );
    assert_eq!(it.suite["modes"], json!(["golden"]));
}

#[test]
fn samples_of_openai_evals_become_tasks() {
    let text = [
        r#"{"input": [{"role": "user", "content": "2+2?"}], "ideal": "4"}"#,
        "",
        r#"{"input": [{"role": "system", "content": "Count."}, {"role": "user", "content": "2+2?"}], "ideal": ["4", "four"]}"#,
        r#"{"input": "Say it", "ideal": {"a": 1}, "metadata": {"x": 1}}"#,
        r#"{"input": "Grade me", "criteria": "is polite"}"#,
    ]
    .join("\n");
    let it = imported(&text, Format::OpenaiEvals);
    let found = tasks(&it);
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].1, json!("2+2?"));
    assert_eq!(found[1].1[0]["content"], "Count.");
    assert_eq!(found[1].2, exact("4"));
    assert_eq!(found[2].2, of_structure(json!({"a": 1})));
    let what: Vec<&str> = it.losses.iter().map(|loss| loss.what.as_str()).collect();
    for words in [
        "further correct answers",
        "a conversation",
        r#""metadata" of a sample"#,
        r#""criteria" of a sample"#,
        "without an `ideal` answer",
    ] {
        assert!(
            what.iter().any(|it| it.contains(words)),
            "{words}: {what:?}"
        );
    }
}

#[rstest]
#[case::lines(
    r#"{"input": "Pick", "choices": ["x", "y"], "target": "A", "id": 7, "sandbox": "docker"}"#
)]
#[case::list(
    r#"[{"input": "Pick", "choices": ["x", "y"], "target": ["A"], "id": 7, "sandbox": "docker"}]"#
)]
fn samples_of_inspect_become_tasks(#[case] text: &str) {
    let it = imported(text, Format::Inspect);
    let input = json!({"input": "Pick", "choices": ["x", "y"]});
    assert_eq!(tasks(&it), [("7".to_owned(), input, exact("A"))]);
    let what: Vec<&str> = it.losses.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(what.len(), 2, "{what:?}");
    assert!(what[0].contains("sandbox") && what[1].contains("choices"));
}

#[test]
fn a_table_of_inspect_becomes_tasks() {
    let it = imported("input,target\nCapital of France?,Paris\n", Format::Inspect);
    let expected = (
        "task-1".to_owned(),
        json!("Capital of France?"),
        exact("Paris"),
    );
    assert_eq!(tasks(&it), [expected]);
}

const PROMPTFOO: &str = r#"
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
      - {type: equals, value: never}
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
    assert: [{type: equals, value: "{{ question | upper }}"}]
  - file://more.yaml
"#;

#[test]
fn a_configuration_of_promptfoo_becomes_tasks() {
    let it = imported(PROMPTFOO, Format::Promptfoo);
    let asked = |question: &str| json!({"name": "Ann", "question": question});
    let said = |question: &str| of_structure(json!({"said": question}));
    let rubric = json!({"kind": "rubric", "rubric": [
        {"criterion": "is polite to Ann", "weight": 0.75}, {"criterion": "is short", "weight": 0.25}]});
    assert_eq!(
        tasks(&it),
        [
            (
                "greets".to_owned(),
                asked("How are you?"),
                contains("Hello Ann")
            ),
            ("task-2".to_owned(), asked("one"), said("one")),
            ("task-3".to_owned(), asked("two"), said("two")),
            ("task-4".to_owned(), asked("judged"), rubric),
        ]
    );
    assert_eq!(it.suite["modes"], json!(["golden", "rubric"]));
    let what: Vec<&str> = it.losses.iter().map(|loss| loss.what.as_str()).collect();
    for words in [
        "`prompts`",
        "`providers`",
        "`description`",
        r#""sharing" of the configuration"#,
        r#"type "latency""#,
        r#""metric" of an assertion"#,
        "further assertions",
        "a rubric in addition",
        r#""threshold" of a test"#,
        r#"type "javascript""#,
        "variables are in another file",
        "a template with more than variables",
        "without an assertion that can be imported",
        "tests in another file",
    ] {
        assert!(
            what.iter().any(|it| it.contains(words)),
            "{words}: {what:?}"
        );
    }
}

#[test]
fn duplicate_task_ids_get_numbers_and_are_reported() {
    let it = imported("id,input,expected\nA!,1,1\na,2,2\n,3,3\n", Format::Csv);
    let ids: Vec<String> = tasks(&it).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["a", "a-2", "task-3"]);
    assert_eq!(it.losses.len(), 1);
}

#[rstest]
#[case(b"", Format::Csv)]
#[case(b"question,answer\na,b\n", Format::Csv)]
#[case(b"{\"input\": 1", Format::OpenaiEvals)]
#[case(b"- 1\n- 2\n", Format::Promptfoo)]
#[case(b"\xff", Format::Promptfoo)]
#[case(b"3", Format::Inspect)]
fn malformed_documents_are_rejected(#[case] bytes: &[u8], #[case] format: Format) {
    let fault = convert(bytes, format, MatchStrategy::Exact, &identity()).unwrap_err();
    assert!(matches!(fault, Fault::Format { .. }), "{fault:?}");
}

#[test]
fn an_import_without_tasks_reports_the_losses() {
    let fault = convert(
        br#"{"input": "x", "criteria": "y"}"#,
        Format::OpenaiEvals,
        MatchStrategy::Exact,
        &identity(),
    );
    assert!(matches!(fault, Err(Fault::NoTasks(losses)) if losses.len() == 2));
}

#[rstest]
#[case("input,expected\na,b\n", Some(Format::Csv))]
#[case("target,input\na,b\n", Some(Format::Inspect))]
#[case("a,b\n1,2\n", None)]
#[case(r#"{"input": 1, "ideal": 2}"#, Some(Format::OpenaiEvals))]
#[case(
    "{\"input\": 1, \"target\": 2}\n{\"input\": 1, \"target\": 2}",
    Some(Format::Inspect)
)]
#[case(r#"[{"input": 1, "target": 2}]"#, Some(Format::Inspect))]
#[case(PROMPTFOO, Some(Format::Promptfoo))]
#[case(r#"{"prompts": [], "tests": []}"#, Some(Format::Promptfoo))]
#[case(r#"{"suiteId": "a.evals.b", "tasks": []}"#, None)]
#[case("", None)]
fn the_import_format_is_detected_from_the_content(
    #[case] text: &str,
    #[case] format: Option<Format>,
) {
    assert_eq!(Format::of(text.as_bytes()), format);
}

/// Any JSON value.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "(file://x|\\{\\{ a \\}\\}|\\{% if %\\})".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(
                prop_oneof![
                    "(input|ideal|target|id|choices|vars|assert|type|value|weight|role|content)",
                    "[a-z]{1,4}"
                ],
                inner,
                0..4
            )
            .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn assertion() -> impl Strategy<Value = Value> {
    let kind = "(equals|contains|llm-rubric|g-eval|regex|is-json)";
    (kind, json_value(), json_value())
        .prop_map(|(kind, value, weight)| json!({"type": kind, "value": value, "weight": weight}))
}

/// A text that distinguishes the question of one entry from all others.
fn marked(n: usize) -> String {
    format!("question {n}.")
}

/// How many tasks an entry of a document may become.
#[derive(Clone, Copy, PartialEq)]
enum Comes {
    /// One, or none.
    ToOne,
    /// Any number, some of which may be left out.
    ToMany,
}

/// The result is a valid suite, and every entry of the document is either a task or reported.
/// `place` gives the name of an entry in the report.
fn accounted_for(
    result: Result<Imported, Fault>,
    entries: usize,
    comes: Comes,
    place: impl Fn(usize) -> String,
) -> Result<(), TestCaseError> {
    let (inputs, losses) = match result {
        Ok(it) => {
            prop_assert!(check_suite(Kinds::NONE, &it.suite).is_ok());
            let inputs: Vec<String> = tasks(&it)
                .iter()
                .map(|(_, input, _)| input.to_string())
                .collect();
            (inputs, it.losses)
        }
        Err(Fault::NoTasks(losses)) => (Vec::new(), losses),
        Err(fault) => return Err(TestCaseError::fail(format!("{fault:?}"))),
    };
    for n in 0..entries {
        let is_task = inputs.iter().any(|input| input.contains(&marked(n)));
        let is_named = losses.iter().any(|loss| loss.left_out.contains(&place(n)));
        prop_assert!(
            is_task != is_named || comes == Comes::ToMany && is_task,
            "{}: task {is_task}, named {is_named}: {losses:?}",
            place(n)
        );
    }
    for loss in &losses {
        prop_assert!(
            loss.left_out.len() <= loss.count && loss.count > 0,
            "{loss:?}"
        );
    }
    Ok(())
}

/// The question of an entry: its mark in some form, or nothing.
#[derive(Clone, Debug)]
enum Asks {
    Text,
    Chat,
    Messages,
    Deep,
    Nothing,
    NoObject,
}

fn asks() -> impl Strategy<Value = Asks> {
    prop::sample::select(vec![
        Asks::Text,
        Asks::Chat,
        Asks::Messages,
        Asks::Deep,
        Asks::Nothing,
        Asks::NoObject,
    ])
}

/// Sample number `n`, with an answer and further members of any kind.
fn sample(n: usize, asks: &Asks, answer: &Value, more: &Value) -> Value {
    let mark = marked(n);
    let user = json!({"role": "user", "content": mark});
    let input = match asks {
        Asks::Text => json!(mark),
        Asks::Chat => json!([user]),
        Asks::Messages => json!([{"role": "system", "content": "Be kind."}, user]),
        Asks::Deep => json!({"asked": [{"text": mark}]}),
        Asks::Nothing => Value::Null,
        Asks::NoObject => return more.as_array().cloned().unwrap_or_default().into(),
    };
    let mut sample = json!({"more": more, "id": more, "choices": more});
    for (member, value) in [("input", &input), ("ideal", answer), ("target", answer)] {
        sample[member] = value.clone();
    }
    sample
}

/// A value that a table cell can contain.
fn cell() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "\\PC{0,12}",
        json_value().prop_map(|value| value.to_string()),
        "[ -~\n\r]{0,12}",
    ]
}

/// The variables of test number `n`.
fn vars(n: usize, asks: &Asks, more: &Value) -> Value {
    let mark = marked(n);
    match asks {
        Asks::Text => json!({"q": mark, "more": more}),
        Asks::Chat => json!({"q": [mark]}),
        Asks::Messages => json!({"q": [mark, format!("{mark} {{{{ a }}}}")], "a": more}),
        Asks::Deep => json!({"q": {"asked": [mark]}, "to": "{{q}}"}),
        Asks::Nothing | Asks::NoObject => json!([]),
    }
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
            .map(|(_, n, _)| *n)
    };
    assert_eq!(
        of("templates with more than plain variables"),
        Some(2),
        "{lost:?}"
    );
    assert_eq!(of("are in another file"), Some(1), "{lost:?}");
    assert_eq!(
        of("a test without input"),
        Some(1),
        "a prompt with an unset variable: {lost:?}"
    );
}

#[test]
fn lost_criteria_and_changed_names_are_reported() {
    let long = "n".repeat(70);
    let text = json!({"tests": [
        {"description": "Grüße", "vars": {"q": "a"}, "assert": [{"type": "llm-rubric", "value": ["is kind", 5, " "]}]},
        {"description": long, "vars": {"q": "b"}, "assert": [{"type": "equals", "value": "x"}]},
        {"description": "Plain, with marks!", "vars": {"q": "c"}, "assert": [{"type": "equals", "value": "x"}]},
    ]});
    let it = imported(&text.to_string(), Format::Promptfoo);
    assert_eq!(
        tasks(&it)[0].2["rubric"],
        json!([{"criterion": "is kind", "weight": 1.0}])
    );
    let lost = lost(&it);
    assert!(
        lost.contains(&("a criterion that is empty or not a string", 2, "tests[0]")),
        "{lost:?}"
    );
    let names = lost
        .iter()
        .find(|(what, ..)| what.starts_with("characters of a name"))
        .unwrap();
    assert_eq!(names.1, 2, "{lost:?}");
}

#[test]
fn empty_table_cells_are_ignored() {
    let it = imported(
        "input,target,id,choices,note\nWhat?,yes,,,\n,no,b,,\n",
        Format::Inspect,
    );
    assert_eq!(
        tasks(&it),
        [("task-1".to_owned(), json!("What?"), exact("yes"))]
    );
    assert_eq!(
        lost(&it),
        [("a sample without `input`, left out", 1, "sample 2")]
    );
}

proptest! {
    #[test]
    fn every_sample_is_a_task_or_named(
        samples in prop::collection::vec((asks(), json_value(), json_value()), 1..6),
        inspect in any::<bool>(),
        lines in any::<bool>(),
    ) {
        let (entries, format) = (samples.len(), if inspect { Format::Inspect } else { Format::OpenaiEvals });
        let samples: Vec<Value> = samples
            .iter()
            .enumerate()
            .map(|(n, (asks, answer, more))| sample(n, asks, answer, more))
            .collect();
        let text = match lines && entries > 1 {
            true => samples.iter().map(|sample| format!("{sample}\n")).collect(),
            false => Value::from(samples).to_string(),
        };
        let it = convert(text.as_bytes(), format, MatchStrategy::Contains, &identity());
        accounted_for(it, entries, Comes::ToOne, |n| format!("sample {}", n + 1))?;
    }

    #[test]
    fn every_row_is_a_task_or_named(
        rows in prop::collection::vec((any::<bool>(), cell(), cell(), cell()), 1..6),
        inspect in any::<bool>(),
    ) {
        let (entries, format) = (rows.len(), if inspect { Format::Inspect } else { Format::Csv });
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(["id", "input", if inspect { "target" } else { "expected" }, "note"]).unwrap();
        for (n, (asks, id, answer, note)) in rows.iter().enumerate() {
            let input = if *asks { marked(n) } else { String::new() };
            table.write_record([id, &input, answer, note]).unwrap();
        }
        let it = convert(&table.into_inner().unwrap(), format, MatchStrategy::Exact, &identity());
        let named = |n: usize| match inspect {
            true => format!("sample {}", n + 1),
            false => format!("row {}", n + 2),
        };
        accounted_for(it, entries, Comes::ToOne, named)?;
    }

    #[test]
    fn every_test_is_a_task_or_named(
        tests in prop::collection::vec(
            (asks(), json_value(), prop::collection::vec(assertion(), 0..4)), 1..5),
    ) {
        let entries = tests.len();
        let tests: Vec<Value> = tests
            .iter()
            .enumerate()
            .map(|(n, (asks, more, asserts))| match asks {
                Asks::NoObject => more.as_array().cloned().unwrap_or_default().into(),
                _ => json!({"vars": vars(n, asks, more), "assert": asserts, "more": more}),
            })
            .collect();
        let text = json!({"prompts": ["ask", "or ask"], "tests": tests}).to_string();
        let it = convert(text.as_bytes(), Format::Promptfoo, MatchStrategy::Exact, &identity());
        accounted_for(it, entries, Comes::ToMany, |n| format!("tests[{n}]"))?;
    }

    /// A document that was slightly changed.
    #[test]
    fn converting_corrupted_documents_does_not_panic(
        which in 0..4_usize, at in any::<prop::sample::Index>(), cut in 0..12_usize,
        put in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let documents = [
            PROMPTFOO,
            r#"[{"input": [{"role": "user", "content": "2+2?"}], "ideal": ["4", "four"], "id": 1}]"#,
            r#"{"input": "Pick", "choices": ["x", "y"], "target": "A", "id": 7}"#,
            "id,input,expected\nFirst,\"2+2?\",4\n,\"{\"\"a\"\": 1}\",\"[1]\"\n",
        ];
        let mut bytes = documents[which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + cut);
        bytes.splice(at..end, put);
        for format in Format::ALL {
            let _ = convert(&bytes, format, MatchStrategy::Contains, &identity());
        }
        let _ = Format::of(&bytes);
    }

    #[test]
    fn converting_arbitrary_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in Format::ALL {
            let _ = convert(&bytes, format, MatchStrategy::Exact, &identity());
        }
        let _ = Format::of(&bytes);
    }
}
