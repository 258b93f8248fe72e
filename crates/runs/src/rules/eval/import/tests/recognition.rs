//! Formats are recognized by the content of a document.

use rstest::rstest;

use super::*;

fn recognized(text: &str) -> Result<Recognized, Option<String>> {
    match recognize(text.as_bytes(), &Columns::default()) {
        Recognition::Format(it) => Ok(it),
        Recognition::Suite => Err(None),
        Recognition::Unknown(reason) => Err(Some(reason)),
    }
}

#[rstest]
#[case("input,expected\na,b\n", Format::Table)]
#[case("target,input\na,b\n", Format::Inspect)]
#[case("question,answer\na,b\n", Format::Table)]
#[case(r#"{"input": 1, "ideal": 2}"#, Format::OpenaiEvals)]
#[case(
    "my-eval.v0:\n  class: evals.elsuite.basic.match:Match\n  args: {samples_jsonl: x.jsonl}",
    Format::OpenaiEvals
)]
#[case(
    "{\"input\": 1, \"target\": 2}\n{\"input\": 1, \"target\": 2}",
    Format::Inspect
)]
#[case(r#"[{"input": 1, "target": 2}]"#, Format::Inspect)]
#[case(
    r#"{"version": 2, "status": "success", "eval": {}, "samples": []}"#,
    Format::InspectLog
)]
#[case("PK\u{3}\u{4}", Format::InspectLog)]
#[case(
    r#"[{"input": 1, "expected_output": 2, "retrieval_context": []}]"#,
    Format::Deepeval
)]
#[case(
    r#"{"data": [{"id": "i", "datasetId": "d", "input": 1, "expectedOutput": 2}]}"#,
    Format::Langfuse
)]
#[case(
    r#"{"id": "i", "_xact_id": "1", "input": 1, "expected": 2}"#,
    Format::Braintrust
)]
#[case(r#"{"resourceSpans": []}"#, Format::Otel)]
#[case("prompts: [a]\ntests: [{vars: {q: x}}]", Format::Promptfoo)]
#[case("scenarios: []", Format::Promptfoo)]
#[case(r#"{"prompts": [], "tests": []}"#, Format::Promptfoo)]
fn the_import_format_is_detected_from_the_content(#[case] text: &str, #[case] format: Format) {
    assert_eq!(recognized(text).unwrap().format, format);
}

#[rstest]
#[case(r#"{"suiteId": "a.evals.b", "tasks": []}"#)]
#[case(r#"{"modes": ["golden"], "tasks": []}"#)]
#[case("suiteId: a.evals.b\ntasks: []\n")]
fn a_suite_is_not_another_format(#[case] text: &str) {
    assert_eq!(recognized(text), Err(None));
}

#[rstest]
#[case("", "it is empty")]
#[case("a,b\n1,2\n", "hold the input; its columns are a, b")]
#[case(
    "question,b\n1,2\n",
    "hold the expected answer; its columns are question, b"
)]
#[case("{\"a\": 1}\n{\"b\": ", "line 2 ends in the middle of the document")]
#[case("input,expected\na\n", "line 2 has 1 cells, but the header has 2")]
#[case("a: 1\nb: 2\n", "its members are a, b")]
#[case("hello", "neither JSON nor YAML with members")]
#[case("a: [", "it has no columns, and")]
fn the_reason_names_the_columns_or_the_line(#[case] text: &str, #[case] reason: &str) {
    let found = recognized(text).unwrap_err().unwrap();
    assert!(found.contains(reason), "{found}");
}

#[test]
fn a_guess_is_explained() {
    let it = recognized("id,question,answer\n1,a,b\n").unwrap();
    assert_eq!(
        it.explanation,
        "CSV with the input in `question` and the expected answer in `answer`"
    );
}

#[test]
fn named_columns_make_any_rows_a_table() {
    let columns = Columns {
        input: Some("target".to_owned()),
        expected: Some("input".to_owned()),
        id: None,
    };
    let text = br#"[{"input": "a", "target": "b"}]"#;
    let Recognition::Format(it) = recognize(text, &columns) else {
        panic!("not recognized");
    };
    assert_eq!(it.format, Format::Table);
    let source = Source::alone(text);
    let it = convert_with(&source, it.format, MatchStrategy::Exact, &columns).unwrap();
    assert_eq!(tasks(&it), [("task-1".to_owned(), json!("b"), exact("a"))]);
}
