//! Recognizes the format of a document by members that only one format has.

use serde_json::Value;

use super::datasets::{Columns, inspect_log, openai_evals, records};
use super::parquet;
use super::rows::{Rows, named};
use super::source::document;
use super::{Format, lines, traces, unknown_column};

/// A format and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognized {
    pub format: Format,
    /// The reading of the document in words, with the columns it uses.
    pub explanation: String,
}

/// The result of looking at a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    Format(Recognized),
    /// A suite, or a document that only the suite's validation can explain.
    Suite,
    /// Neither, with the reason.
    Unknown(String),
}

/// Recognizes a document. Columns that the user names make any rows a table.
pub fn recognize(bytes: &[u8], columns: &Columns) -> Recognition {
    if inspect_log::is_archive(bytes) {
        return found(Format::InspectLog, "a log of Inspect");
    }
    match Rows::read(bytes) {
        Ok(rows) if parquet::is_parquet(bytes) => of_rows(&rows, columns),
        Ok(rows) => {
            if let Some(recognition) = of_document(&rows) {
                return recognition;
            }
            // Text without commas is a table of one column, but YAML too.
            if rows.notation == "CSV"
                && let Some(recognition) = of_yaml(bytes)
            {
                return recognition;
            }
            if rows.notation == "CSV" && rows.columns.len() < 2 {
                return Recognition::Unknown(no_table(bytes));
            }
            of_rows(&rows, columns)
        }
        Err(reason) => of_yaml(bytes).unwrap_or(Recognition::Unknown(reason)),
    }
}

fn found(format: Format, explanation: impl Into<String>) -> Recognition {
    Recognition::Format(Recognized {
        format,
        explanation: explanation.into(),
    })
}

/// Recognizes a single JSON document that is not a row.
fn of_document(rows: &Rows) -> Option<Recognition> {
    let first = &rows.rows.first()?.value;
    let has = |member: &str| first.get(member).is_some();
    if has("suiteId") || (has("modes") && has("tasks")) {
        return Some(Recognition::Suite);
    }
    if traces::is_export(first) {
        return Some(found(Format::Otel, "OpenTelemetry spans (OTLP JSON)"));
    }
    if rows.notation == "CSV" {
        return None;
    }
    if inspect_log::is_log(first) {
        return Some(found(Format::InspectLog, "a log of Inspect"));
    }
    is_promptfoo(first).then(|| found(Format::Promptfoo, "a promptfoo configuration"))
}

fn is_promptfoo(document: &Value) -> bool {
    let has = |member: &str| document.get(member).is_some();
    has("tests") || has("scenarios") || (has("prompts") && (has("providers") || has("targets")))
}

/// Why a text is neither a table nor a document.
fn no_table(bytes: &[u8]) -> String {
    match document(bytes) {
        Err(reason) => format!("it has no columns, and {reason}"),
        Ok(_) => {
            "it is neither JSON nor YAML with members, nor CSV with several columns".to_owned()
        }
    }
}

fn of_yaml(bytes: &[u8]) -> Option<Recognition> {
    let document = document(bytes).ok()?;
    let members = document.as_object()?;
    if members.contains_key("suiteId") {
        return Some(Recognition::Suite);
    }
    if is_promptfoo(&document) {
        return Some(found(Format::Promptfoo, "a promptfoo configuration"));
    }
    if openai_evals::is_registry(members) {
        return Some(found(
            Format::OpenaiEvals,
            "a registry file of OpenAI evals",
        ));
    }
    Some(Recognition::Unknown(format!(
        "it is YAML, but neither a suite nor a configuration: its members are {}",
        named(&members.keys().cloned().collect::<Vec<_>>())
    )))
}

fn of_rows(rows: &Rows, columns: &Columns) -> Recognition {
    let notation = rows.notation;
    let table = |input: &str, expected: &str| {
        found(
            Format::Table,
            format!(
                "{notation} with the input in `{input}` and the expected answer in `{expected}`"
            ),
        )
    };
    if let Some(reason) = unknown_column(rows, columns) {
        return Recognition::Unknown(reason);
    }
    if columns.is_empty() && lines::is_export(rows) {
        return found(
            Format::Lines,
            format!("tasks of a suite that `suite export` wrote ({notation})"),
        );
    }
    if columns.input.is_none()
        && columns.expected.is_none()
        && let Some(recognition) = of_known_columns(rows)
    {
        return recognition;
    }
    match records::chosen(rows, &records::TABLE, columns) {
        (Some(input), Some(expected)) if input != expected => table(input, expected),
        (input, expected) => {
            let missing = match (input, expected) {
                (None, _) => "input",
                (Some(_), None) => "expected answer",
                _ => "expected answer apart from the input",
            };
            Recognition::Unknown(format!(
                "it has no column that is known to hold the {missing}; its columns are {}",
                rows.named_columns()
            ))
        }
    }
}

/// Recognizes a format by columns that only it has.
fn of_known_columns(rows: &Rows) -> Option<Recognition> {
    let has = |names: &[&str]| names.iter().any(|name| rows.has(name));
    let columns = |names: &[&str]| {
        let used = names.iter().copied().filter(|name| rows.has(name));
        used.collect::<Vec<_>>().join(", ")
    };
    if has(&["ideal"]) && has(&["input"]) {
        let used = columns(&["input", "ideal"]);
        return Some(found(
            Format::OpenaiEvals,
            format!("samples of OpenAI evals: {used}"),
        ));
    }
    if has(&["_xact_id", "root_span_id"]) && has(&["input"]) {
        let used = columns(&["input", "expected", "id"]);
        return Some(found(
            Format::Braintrust,
            format!("a dataset of Braintrust: {used}"),
        ));
    }
    let langfuse = [
        "datasetId",
        "datasetName",
        "sourceTraceId",
        "expectedOutput",
        "source_trace_id",
        "dataset_id",
    ];
    let deepeval = [
        "actual_output",
        "retrieval_context",
        "expected_tools",
        "tools_called",
        "additional_metadata",
        "actualOutput",
        "retrievalContext",
        "expectedTools",
    ];
    if has(&deepeval) || (has(&["expected_output"]) && !has(&langfuse)) || has(&["turns"]) {
        let used = columns(&[
            "input",
            "expected_output",
            "expectedOutput",
            "expected_tools",
        ]);
        return Some(found(
            Format::Deepeval,
            format!("goldens of DeepEval: {used}"),
        ));
    }
    if has(&langfuse) && has(&["input"]) {
        let used = columns(&["input", "expectedOutput", "expected_output", "id"]);
        return Some(found(
            Format::Langfuse,
            format!("a dataset of Langfuse: {used}"),
        ));
    }
    if has(&["input"]) && has(&["target"]) {
        let used = columns(&["input", "target", "choices", "id"]);
        return Some(found(
            Format::Inspect,
            format!("a dataset of Inspect: {used}"),
        ));
    }
    None
}
