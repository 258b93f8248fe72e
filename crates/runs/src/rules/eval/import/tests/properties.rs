//! Every part of a document becomes a task or is reported, whatever the document is.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::rules::eval::suite_rules::check_suite;
use crate::rules::kind::Kinds;

const DOCUMENT: &str = r#"
prompts: ["Answer {{question}}"]
defaultTest:
  vars: {name: Ann}
tests:
  - vars: {question: [one, two]}
    assert:
      - {type: equals, value: "{{ question | upper }}"}
      - {type: assert-set, threshold: 0.5, assert: [{type: not-icontains, value: x}, {type: regex, value: "a+"}]}
scenarios:
  - config: [{vars: {a: 1}}]
    tests: [{vars: {b: 2}}]
"#;

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
    let kind = "(equals|contains|llm-rubric|g-eval|regex|is-json|not-contains|contains-any|latency|javascript)";
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
        // No row has a column of the format, which the message names.
        Err(Fault::Format { reason, .. }) if reason.starts_with("it has no column") => {
            return Ok(());
        }
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
        let it = converted(text.as_bytes(), format, MatchStrategy::Contains);
        let unit = if lines && entries > 1 { "line" } else { "sample" };
        accounted_for(it, entries, Comes::ToOne, |n| format!("{unit} {}", n + 1))?;
    }

    #[test]
    fn every_row_is_a_task_or_named(
        rows in prop::collection::vec((any::<bool>(), cell(), cell(), cell()), 1..6),
        inspect in any::<bool>(),
    ) {
        let (entries, format) = (rows.len(), if inspect { Format::Inspect } else { Format::Table });
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(["id", "input", if inspect { "target" } else { "expected" }, "note"]).unwrap();
        for (n, (asks, id, answer, note)) in rows.iter().enumerate() {
            let input = if *asks { marked(n) } else { String::new() };
            table.write_record([id, &input, answer, note]).unwrap();
        }
        let it = converted(&table.into_inner().unwrap(), format, MatchStrategy::Exact);
        accounted_for(it, entries, Comes::ToOne, |n| format!("row {}", n + 2))?;
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
        let text = json!({"prompts": ["ask {{q}}", "or ask {{q}}"], "tests": tests}).to_string();
        let it = converted(text.as_bytes(), Format::Promptfoo, MatchStrategy::Exact);
        accounted_for(it, entries, Comes::ToMany, |n| format!("tests[{n}]"))?;
    }

    /// A document that was slightly changed.
    #[test]
    fn converting_corrupted_documents_does_not_panic(
        which in 0..4_usize, at in any::<prop::sample::Index>(), cut in 0..12_usize,
        put in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let documents = [
            DOCUMENT,
            r#"[{"input": [{"role": "user", "content": "2+2?"}], "ideal": ["4", "four"], "id": 1}]"#,
            r#"{"input": "Pick", "choices": ["x", "y"], "target": "A", "id": 7}"#,
            "id,input,expected\nFirst,\"2+2?\",4\n,\"{\"\"a\"\": 1}\",\"[1]\"\n",
        ];
        let mut bytes = documents[which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + cut);
        bytes.splice(at..end, put);
        for format in Format::ALL {
            let _ = converted(&bytes, format, MatchStrategy::Contains);
        }
        let _ = recognize(&bytes, &Columns::default());
    }

    #[test]
    fn converting_arbitrary_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in Format::ALL {
            let _ = converted(&bytes, format, MatchStrategy::Exact);
        }
        let _ = recognize(&bytes, &Columns::default());
    }
}
