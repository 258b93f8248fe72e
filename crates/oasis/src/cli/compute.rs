//! `touchstone oasis compute`: compute the verdict of an input file (OASIS.md section 15), without
//! IO.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::cli::document;
use crate::rules::verdict::Status;
use crate::rules::verdict::input;
use crate::rules::verdict::input::{Input, InputFault, Output};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;

pub const EXAMPLES: &str = "\
The input holds the profile's rules, the scenarios and their observations. The output is the
verdict with its header, the results by category and the OpenWOP figures, or the code and the
items of the refusal. Contacts neither a host nor a provider.

Exit codes: 0 the verdict is PASS, 1 it is FAIL, 2 the input is malformed, 4 it is
PROVIDER_FAILURE, or the input is refused without a verdict.

Examples:
  touchstone oasis compute input.json
  touchstone oasis compute input.yaml
  touchstone oasis compute -";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Input file: JSON, or YAML by its extension; `-` for stdin
    #[arg(value_name = "INPUT")]
    input: PathBuf,
}

/// The output is JSON with and without `--json`.
pub fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let document = document::read(&arguments.input)?;
    let malformed = |faults| malformed(&arguments.input, faults);
    let input = Input::read(&document).map_err(malformed)?;
    let output = input::compute(&input).map_err(malformed)?;
    let terminal = context.terminal();
    terminal.document(&output);
    Ok(match &output {
        Output::Verdict { verdict, .. } => match verdict.safety {
            Status::Pass => Exit::Good,
            Status::Fail => Exit::Negative,
            Status::ProviderFailure => Exit::Inconclusive,
        },
        Output::Refused { error } => {
            for item in error.refusal.items.iter().filter(|_| !terminal.json()) {
                terminal.note(&format!("{}: {}", plain(&item.key), plain(&item.reason)));
            }
            Exit::Inconclusive
        }
    })
}

fn malformed(file: &Path, faults: Vec<InputFault>) -> Failure {
    let first = faults.first().map(ToString::to_string).unwrap_or_default();
    let more = match faults.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let named: Vec<_> = faults
        .iter()
        .map(|it| json!({"path": it.path, "message": it.message}))
        .collect();
    Failure::bad_input(
        "malformed_input",
        format!("{}: {first}{more}", document::name(file)),
    )
    .or_try("correct the field; schemas/oasis-compute-input.schema.json describes the input, docs/oasis.md explains it")
    .with("faults", named)
}
