//! The scoring document of a suite's file.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::cli::suite::read_octets;
use crate::rules::eval::scoring_document::SUFFIX;
use crate::rules::eval::scoring_document::read::{ReadScoring, read_for};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::shell::quoted;
use touchstone_kit::json_place::place;
use touchstone_openwop::suite::{AgentEvalSuite, SuiteFault};

/// The scoring document beside a suite, as packs name it, if there is one.
pub fn beside(suite_file: &Path) -> Option<PathBuf> {
    let stem = suite_file.file_stem()?.to_str()?;
    let file = suite_file.with_file_name(format!("{stem}{SUFFIX}"));
    file.is_file().then_some(file)
}

/// Reads a scoring document; shows its faults with their places if it has any.
pub fn read(
    context: &Context<'_>,
    file: &Path,
    suite: &AgentEvalSuite,
) -> Result<Option<ReadScoring>, Failure> {
    let bytes = read_octets(file)?;
    match read_for(&bytes, suite) {
        Ok(read) => Ok(Some(read)),
        Err(faults) => {
            show_faults(context, file, &bytes, &faults);
            Ok(None)
        }
    }
}

/// The scoring document beside a suite, checked against it and announced if `reports`; `None` if
/// there is none.
///
/// # Errors
/// The suite or the scoring document is not valid.
pub fn found_beside(
    context: &Context<'_>,
    suite_file: &Path,
    suite: &Value,
    reports: bool,
) -> Result<Option<Value>, Failure> {
    let Some(file) = beside(suite_file) else {
        return Ok(None);
    };
    let lint = format!(
        "check it with {} suite lint {}",
        context.program(),
        quoted(&suite_file.display().to_string())
    );
    let suite = AgentEvalSuite::deserialize(suite).map_err(|cause| {
        let shown = suite_file.display();
        Failure::bad_input("suite_not_valid", format!("{shown}: {cause}")).or_try(lint.clone())
    })?;
    let shown = file.display();
    let read = read_for(&read_octets(&file)?, &suite).map_err(|faults| {
        let first = faults.first().map(ToString::to_string).unwrap_or_default();
        let more = match faults.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        Failure::bad_input("scoring_not_valid", format!("{shown}: {first}{more}")).or_try(lint)
    })?;
    if reports {
        announce(context, &file);
    }
    serde_json::from_str(&read.canonical)
        .map(Some)
        .map_err(|cause| Failure::bad_input("scoring_not_valid", format!("{shown}: {cause}")))
}

/// Says which scoring document is used although no flag names it.
pub fn announce(context: &Context<'_>, file: &Path) {
    let shown = file.display();
    context
        .terminal()
        .note(&format!("assertions are read from {shown}"));
}

fn show_faults(context: &Context<'_>, file: &Path, bytes: &[u8], faults: &[SuiteFault]) {
    let terminal = context.terminal();
    // A text that is not JSON has its place in the reason.
    let is_json = faults.iter().any(|fault| !fault.pointer.is_empty());
    let place_of = |fault: &SuiteFault| is_json.then(|| place(bytes, &fault.pointer));
    if terminal.json() {
        let faults: Vec<Value> = faults
            .iter()
            .map(|fault| {
                let (line, column) = place_of(fault).unzip();
                json!({
                    "file": file, "pointer": fault.pointer, "reason": fault.reason,
                    "line": line, "column": column,
                })
            })
            .collect();
        terminal.document(&json!({
            "ok": false,
            "error": {"code": "validation_error", "message": "the scoring document has errors"},
            "faults": faults,
        }));
        return;
    }
    for fault in faults {
        let at = match place_of(fault) {
            Some((line, column)) => format!("{}:{line}:{column}", file.display()),
            None => file.display().to_string(),
        };
        let pointer = match fault.pointer.as_str() {
            "" => String::new(),
            pointer => format!("{pointer}: "),
        };
        terminal.note(&format!("{at}: {pointer}{}", fault.reason));
    }
}
