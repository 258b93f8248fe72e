//! `touchstone oasis verify`: verify verdict documents of any author (OASIS.md section 9).

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::document;
use crate::rules::verdict::rules::{Violation, check};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;

pub const EXAMPLES: &str = "\
A file holds a verdict document, or a document that contains one: the output of `compute`, or an
example with its expected output. A valid document may say FAIL: the command checks the
document, not the agent.

Exit codes: 0 every document is valid, 1 one is not, 2 a file contains no verdict.

Examples:
  touchstone oasis verify verdict.json
  touchstone oasis verify verdicts/a.json verdicts/b.yaml --json
  touchstone oasis compute input.json | touchstone oasis verify -";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Documents: JSON, or YAML by the extension; `-` for stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut checked = Vec::new();
    for file in &arguments.files {
        let read = document::read(file)?;
        let name = document::name(file);
        let Some(verdict) = verdict_in(&read) else {
            return Err(Failure::bad_input("no_verdict", format!("{name} contains no verdict"))
                .or_try("use a document with the member `verdict`, such as the output of `touchstone oasis compute`"));
        };
        let status = verdict.pointer("/verdict/safety").cloned();
        checked.push((name, status.unwrap_or(Value::Null), check(&verdict)));
    }
    let good = checked
        .iter()
        .all(|(_, _, violations)| violations.is_empty());
    let terminal = context.terminal();
    if terminal.json() {
        let documents: Vec<Value> = checked
            .iter()
            .map(|(file, status, violations)| {
                json!({"file": file, "safety": status, "sound": violations.is_empty(), "violations": violations})
            })
            .collect();
        terminal.document(&json!({"ok": good, "documents": documents}));
    } else {
        for (file, status, violations) in &checked {
            let told = report_of(file, status, violations);
            let mark = match violations.as_slice() {
                [] => terminal.colors().good("✓"),
                _ => terminal.colors().bad("✗"),
            };
            terminal.print(&format!("{mark} {told}"));
        }
    }
    Ok(if good { Exit::Good } else { Exit::Negative })
}

/// The verdict document itself, or the one at the usual place in a larger document.
fn verdict_in(document: &Value) -> Option<Value> {
    let holders = ["", "/expected", "/output"];
    let verdict = holders
        .iter()
        .find_map(|holder| document.pointer(&format!("{holder}/verdict")))?;
    // In a larger document, members next to the verdict are not part of it; otherwise all members
    // are checked.
    let is_larger = [
        "report_header",
        "category_results",
        "eval_summary",
        "expected",
        "output",
        "input",
    ]
    .iter()
    .any(|member| document.get(member).is_some());
    Some(match is_larger {
        true => json!({ "verdict": verdict }),
        false => document.clone(),
    })
}

fn report_of(file: &str, status: &Value, violations: &[Violation]) -> String {
    let status = plain(status.as_str().unwrap_or("no status"));
    if violations.is_empty() {
        return format!("{file}: valid, {status}");
    }
    let mut text = format!("{file}: not valid, {status}");
    for it in violations {
        let place = match it.path.as_str() {
            "" => "the document",
            path => path,
        };
        text.push_str(&format!(
            "\n  {:<6} {}: {}",
            it.rule,
            plain(place),
            plain(&it.message)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"verdict": 1}), Some(json!({"verdict": 1})))]
    #[case(json!({"verdict": 1, "note": 2}), Some(json!({"verdict": 1, "note": 2})))]
    #[case(json!({"verdict": 1, "report_header": 2, "eval_summary": 3}), Some(json!({"verdict": 1})))]
    #[case(json!({"input": {}, "expected": {"verdict": 1, "report_header": 2}}), Some(json!({"verdict": 1})))]
    #[case(json!({"error": {"code": "x"}}), None)]
    #[case(json!([1]), None)]
    fn a_verdict_is_found_where_documents_hold_one(
        #[case] document: Value,
        #[case] expected: Option<Value>,
    ) {
        assert_eq!(verdict_in(&document), expected);
    }
}
