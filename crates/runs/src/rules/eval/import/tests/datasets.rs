//! Datasets: what becomes a task, what is reported, and what is rejected.

use std::io::Write as _;

use rstest::rstest;

use super::*;

#[test]
fn a_table_becomes_tasks() {
    let it = imported(
        "id,input,expected,note\nFirst One,What?,yes,\n,\"{\"\"a\"\": 1}\",\"[1, 2]\",why\n,x,42,\n,,lost,\n",
        Format::Table,
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
                r#""note" of a sample has no equivalent in a suite"#,
                1,
                "row 3"
            ),
            ("a sample without `input`, left out", 1, "row 5"),
        ]
    );
    assert_eq!(it.suite["modes"], json!(["golden"]));
    assert_eq!(it.scoring, None);
}

#[test]
fn nested_columns_are_named_by_paths() {
    let columns = Columns {
        input: Some("inputs.question".to_owned()),
        expected: Some("outputs.text".to_owned()),
        id: Some("metadata.name".to_owned()),
    };
    let text = br#"{"inputs": {"question": "2+2?"}, "outputs": {"text": "4", "cost": 1}, "metadata": {"name": "sum"}}"#;
    let source = Source::alone(text);
    let it = convert_with(&source, Format::Table, MatchStrategy::Exact, &columns).unwrap();
    assert_eq!(tasks(&it), [("sum".to_owned(), json!("2+2?"), exact("4"))]);
    assert_lost(&it, &[r#""outputs" of a sample"#]);
}

#[test]
fn an_unknown_column_is_reported_with_the_known_ones() {
    let columns = Columns {
        input: Some("query".to_owned()),
        ..Columns::default()
    };
    let source = Source::alone(b"question,answer\na,b\n");
    let fault = convert_with(&source, Format::Table, MatchStrategy::Exact, &columns).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "not a valid table file: --input names the column `query`, but its columns are question, answer"
    );
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
    assert_eq!(found[1].1, json!("2+2?"));
    assert_eq!(messages(&it, "task-1"), Value::Null);
    assert_eq!(
        messages(&it, "task-2"),
        json!([{"role": "system", "content": "Count."}])
    );
    assert_eq!(found[1].2, exact("4"));
    assert_eq!(
        assertions(&it, "task-2"),
        json!([{"type": "equals", "anyOf": ["4", "four"]}])
    );
    assert_eq!(found[2].2, of_structure(json!({"a": 1})));
    assert_lost(
        &it,
        &[
            r#""metadata" of a sample"#,
            r#""criteria" of a sample"#,
            "without an `ideal` answer",
        ],
    );
    let places: Vec<&str> = it.losses.iter().map(|loss| loss.first.as_str()).collect();
    assert!(places.contains(&"line 5"), "{places:?}");
}

/// The messages before the input of a task.
fn messages(it: &Imported, task: &str) -> Value {
    let scoring = it.scoring.as_ref();
    let entry = scoring.and_then(|it| it["tasks"].get(task));
    entry.map_or(Value::Null, |it| it["conversation"]["messages"].clone())
}

#[test]
fn chat_messages_are_sent_as_messages() {
    let row = |input: Value| json!({"input": input, "ideal": "yes"}).to_string();
    let text = [
        row(json!([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "2+2?", "name": "ann"},
            {"role": "assistant", "content": [{"type": "text", "text": "4"}]},
            {"role": "user", "content": "Sure?"},
        ])),
        row(json!([{"role": "user", "content": "Q"}, {"role": "system", "content": "Answer now."}])),
        row(json!([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}])),
        row(json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])),
        row(json!([{"role": "system", "content": " "}, {"role": "user", "content": "Q"}])),
        row(json!(["a", "b"])),
    ]
    .join("\n");
    let it = imported(&text, Format::OpenaiEvals);
    let found = tasks(&it);
    assert_eq!(found[0].1, json!("Sure?"));
    assert_eq!(
        messages(&it, "task-1"),
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "4"}])
    );
    assert_eq!(found[1].1, json!("Answer now."));
    assert!(found[2].1.is_array() && found[3].1.is_array());
    assert_eq!(
        (&found[4].1, messages(&it, "task-5")),
        (&json!("Q"), Value::Null)
    );
    assert_eq!(found[5].1, json!(["a", "b"]));
    assert_lost(
        &it,
        &[
            r#""name" of a message is not sent"#,
            "it is sent as the user's",
            "the last message is the assistant's",
            "other content than text",
            "an empty message",
        ],
    );
}

#[test]
fn several_ideals_with_contains_accept_any_of_them() {
    let text = br#"{"input": "a", "ideal": ["4", "four"]}"#;
    let it = converted(text, Format::OpenaiEvals, MatchStrategy::Contains).unwrap();
    assert_eq!(
        assertions(&it, "task-1"),
        json!([{"type": "contains-any", "values": ["4", "four"]}])
    );
}

#[test]
fn a_registry_file_names_samples_and_their_comparison() {
    let registry = "
sums:
  id: sums.dev.v0
  metrics: [accuracy]
sums.dev.v0:
  class: evals.elsuite.basic.match:Match
  args: {samples_jsonl: sums/samples.jsonl}
words.dev.v0:
  class: evals.elsuite.basic.includes:Includes
  args: {samples_jsonl: words.jsonl, ignore_case: true}
graded.dev.v0:
  class: evals.elsuite.modelgraded.classify:ModelBasedClassify
  args: {samples_jsonl: words.jsonl, modelgraded_spec: fact}
missing.dev.v0:
  class: evals.elsuite.basic.match:Match
  args: {samples_jsonl: missing.jsonl}
";
    let files = Memory::of([
        (
            "../data/sums/samples.jsonl",
            r#"{"input": "1+1?", "ideal": ["2", "two"]}"#,
        ),
        ("words.jsonl", r#"{"input": "Say a", "ideal": "a"}"#),
    ]);
    let it = imported_with(registry, Format::OpenaiEvals, &files);
    assert_eq!(tasks(&it).len(), 2);
    assert_eq!(
        assertions(&it, "task-1"),
        json!([{"type": "any", "assertions": [
            {"type": "starts-with", "value": "2"}, {"type": "starts-with", "value": "two"}]}])
    );
    assert_eq!(
        assertions(&it, "task-2"),
        json!([{"type": "contains-any", "values": ["a"], "ignoreCase": true}])
    );
    assert_lost(
        &it,
        &[
            "ModelBasedClassify",
            "missing.jsonl cannot be read: it does not exist",
        ],
    );
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
fn several_targets_of_inspect_are_all_accepted() {
    let text = r#"[{"input": "Who?", "target": ["Ann", "Anna"]}, {"input": "Pick", "choices": ["x", "y"], "target": ["A", "B"]}]"#;
    let it = imported(text, Format::Inspect);
    assert_eq!(
        assertions(&it, "task-1"),
        json!([{"type": "equals", "anyOf": ["Ann", "Anna"]}])
    );
    assert_eq!(tasks(&it)[1].2, exact("A, B"));
    assert_lost(&it, &["several correct choices"]);
}

#[test]
fn a_table_of_inspect_becomes_tasks() {
    let it = imported("input,target\nCapital of France?,Paris\n", Format::Inspect);
    let question = json!("Capital of France?");
    assert_eq!(
        tasks(&it),
        [("task-1".to_owned(), question, exact("Paris"))]
    );
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
        [("a sample without `input`, left out", 1, "row 3")]
    );
}

const SAMPLE: &str = r#"{"id": "s1", "epoch": 1, "input": "2+2?", "target": "4", "output": {"completion": "5"}, "scores": {"match": {"value": "I"}}, "metadata": {}}"#;

#[test]
fn a_log_of_inspect_gives_its_samples_once() {
    let log = format!(
        r#"{{"version": 2, "status": "success", "eval": {{"task": "sums"}}, "samples": [{SAMPLE}, {SAMPLE}]}}"#
    );
    let it = imported(&log, Format::InspectLog);
    assert_eq!(tasks(&it), [("s1".to_owned(), json!("2+2?"), exact("4"))]);
    assert_lost(
        &it,
        &["a further epoch", "the results of the evaluated run"],
    );
}

#[test]
fn an_archive_of_inspect_gives_its_samples() {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (name, text) in [("header.json", "{}"), ("samples/s1_epoch_1.json", SAMPLE)] {
        archive.start_file(name, options).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    let bytes = archive.finish().unwrap().into_inner();
    let it = converted(&bytes, Format::InspectLog, MatchStrategy::Exact).unwrap();
    assert_eq!(tasks(&it), [("s1".to_owned(), json!("2+2?"), exact("4"))]);
    let cut = &bytes[..bytes.len() - 4];
    assert!(converted(cut, Format::InspectLog, MatchStrategy::Exact).is_err());
}

#[test]
fn a_log_without_samples_is_rejected_with_the_reason() {
    let log = r#"{"version": 2, "status": "success", "eval": {}}"#;
    let fault = converted(log.as_bytes(), Format::InspectLog, MatchStrategy::Exact).unwrap_err();
    assert!(fault.to_string().contains("saved without them"), "{fault}");
}

#[test]
fn goldens_of_deepeval_become_tasks() {
    let text = r#"[
        {"input": "Hi", "expected_output": "Hello", "context": ["a fact"], "name": "greets"},
        {"input": "Look it up", "expected_output": null, "expected_tools": [{"name": "search", "input_parameters": {"q": 1}}, {"name": ""}]},
        {"input": "Both", "expected_output": "yes", "expected_tools": [{"name": "search"}]},
        {"scenario": "A customer complains", "expected_outcome": "calm"},
        {"input": "Nothing expected"}]"#;
    let it = imported(text, Format::Deepeval);
    let found = tasks(&it);
    assert_eq!(found[0], ("greets".to_owned(), json!("Hi"), exact("Hello")));
    assert_eq!(
        assertions(&it, "task-2"),
        json!([{"type": "tool-called", "name": "search"}])
    );
    assert_eq!(
        assertions(&it, "task-3"),
        json!([{"type": "expected"}, {"type": "tool-called", "name": "search"}])
    );
    assert_lost(
        &it,
        &[
            r#""context" of a golden"#,
            "details of an expected tool",
            "a conversational golden",
            "an expected tool without a name",
            "without `expected_output` or `expected_tools`",
        ],
    );
}

#[test]
fn exports_of_langfuse_and_braintrust_become_tasks() {
    let langfuse = r#"{"data": [
        {"id": "i1", "status": "ACTIVE", "input": {"q": "a"}, "expectedOutput": {"a": 1}, "metadata": null},
        {"id": "i2", "status": "ARCHIVED", "input": "b", "expectedOutput": "c"}], "meta": {}}"#;
    let it = imported(langfuse, Format::Langfuse);
    assert_eq!(
        tasks(&it),
        [(
            "i1".to_owned(),
            json!({"q": "a"}),
            of_structure(json!({"a": 1}))
        )]
    );
    assert_lost(&it, &["an archived item", r#""status" of a sample"#]);
    let csv = "id,input,expected_output\ni1,\"{\"\"q\"\": \"\"a\"\"}\",yes\n";
    let it = imported(csv, Format::Langfuse);
    assert_eq!(
        tasks(&it),
        [("i1".to_owned(), json!({"q": "a"}), exact("yes"))]
    );
    let braintrust =
        r#"{"events": [{"id": "e", "_xact_id": "9", "input": "a", "expected": "b", "tags": []}]}"#;
    let it = imported(braintrust, Format::Braintrust);
    assert_eq!(tasks(&it), [("e".to_owned(), json!("a"), exact("b"))]);
    assert_lost(&it, &[r#""_xact_id" of a sample"#]);
}

#[rstest]
#[case::braintrust(Format::Braintrust, json!({"input": "a", "expected": "b", "tags": ["x", "y"]}), json!(["x", "y"]))]
#[case::langfuse(Format::Langfuse, json!({"input": "a", "expectedOutput": "b", "metadata": {"tags": ["x"]}}), json!(["x"]))]
#[case::deepeval(Format::Deepeval, json!({"input": "a", "expected_output": "b", "additional_metadata": {"tags": "x, y"}}), json!(["x", "y"]))]
#[case::inspect(Format::Inspect, json!({"input": "a", "target": "b", "metadata": {"tags": [" x ", "x", ""]}}), json!(["x"]))]
#[case::openai(Format::OpenaiEvals, json!({"input": "a", "ideal": ["b", "c"], "metadata": {"tags": ["x"]}}), json!(["x"]))]
#[case::a_cell_with_json(Format::Table, json!({"input": "a", "expected": "b", "metadata": "{\"tags\": [\"x\"]}"}), json!(["x"]))]
fn tags_of_samples_become_tags_of_tasks(
    #[case] format: Format,
    #[case] sample: Value,
    #[case] expected: Value,
) {
    let it = imported(&json!([sample]).to_string(), format);
    assert_eq!(tags(&it, "task-1"), expected);
    assert_eq!(
        it.losses.iter().map(|it| &it.what).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
}

#[test]
fn tags_that_a_suite_cannot_hold_are_reported() {
    let rows = json!([
        {"input": "a", "expected": "b", "tags": ["ok", "a;b"]},
        {"input": "c", "expected": "d", "tags": [1]},
        {"input": "e", "expected": "f", "tags": (0..60).map(|n| n.to_string()).collect::<Vec<_>>()},
    ]);
    let it = imported(&rows.to_string(), Format::Table);
    assert_eq!(tags(&it, "task-1"), json!(["ok"]));
    assert_eq!(tags(&it, "task-3").as_array().unwrap().len(), 50);
    assert_lost(
        &it,
        &[
            "a tag that is too long",
            r#""tags" of a sample"#,
            "tags after the first 50",
        ],
    );
}

#[test]
fn rows_of_the_hugging_face_viewer_become_tasks() {
    let text =
        r#"{"features": [], "rows": [{"row_idx": 0, "row": {"question": "a", "answer": "b"}}]}"#;
    let it = imported(text, Format::Table);
    assert_eq!(tasks(&it), [("task-1".to_owned(), json!("a"), exact("b"))]);
}

#[test]
fn duplicate_task_ids_get_numbers_and_are_reported() {
    let it = imported("id,input,expected\nA!,1,1\na,2,2\n,3,3\n", Format::Table);
    let ids: Vec<String> = tasks(&it).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["a", "a-2", "task-3"]);
    assert_eq!(it.losses.len(), 1);
}

#[rstest]
#[case(b"", Format::Table, "it is empty")]
#[case(
    b"a,b\na,b\n",
    Format::Table,
    "its columns are a, b. Name a column with --input"
)]
#[case(b"{\"input\": 1", Format::OpenaiEvals, "ends in the middle")]
#[case(
    b"{\"input\": \"x\", \"criteria\": \"y\"}",
    Format::OpenaiEvals,
    "no column `ideal`"
)]
#[case(
    b"{\"input\": 1, \"ideal\": 1}\nx",
    Format::OpenaiEvals,
    "line 2 is not JSON at column 1"
)]
#[case(b"- 1\n- 2\n", Format::Promptfoo, "it is not a mapping")]
#[case(b"\xff", Format::Promptfoo, "line 1 is not UTF-8")]
#[case(b"3", Format::Inspect, "no column `input`")]
#[case(b"{}", Format::Otel, "sample 1 has no `resourceSpans`")]
#[case(b"{}", Format::InspectLog, "it has no `eval`")]
fn malformed_documents_are_rejected_with_the_reason(
    #[case] bytes: &[u8],
    #[case] format: Format,
    #[case] reason: &str,
) {
    let fault = converted(bytes, format, MatchStrategy::Exact).unwrap_err();
    assert!(matches!(fault, Fault::Format { .. }), "{fault:?}");
    assert!(fault.to_string().contains(reason), "{fault}");
}

#[test]
fn an_import_without_tasks_reports_the_losses() {
    let text = br#"{"input": "x", "criteria": "y", "ideal": null}"#;
    let fault = converted(text, Format::OpenaiEvals, MatchStrategy::Exact);
    assert!(matches!(fault, Err(Fault::NoTasks(losses)) if losses.len() == 2));
}
