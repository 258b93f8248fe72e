//! `touchstone suite`: check suites, import them for local work, list them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::context::Context;
use super::exit::{Exit, Failure};

/// Check suites, import them for local work, list them
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone suite lint evals/triage.json\n  touchstone suite import evals/triage.json\n  touchstone suite list"
)]
pub enum Command {
    /// Check a suite file
    #[command(after_help = "Examples:\n  touchstone suite lint evals/triage.json")]
    Lint(File),
    /// Import a suite that comes with no pack; it stays marked unsigned
    #[command(after_help = "Examples:\n  touchstone suite import evals/triage.json")]
    Import(File),
    /// List the suites that can be run
    #[command(after_help = "Examples:\n  touchstone suite list")]
    List,
}

/// A suite file.
#[derive(Debug, Args)]
pub struct File {
    /// The suite, JSON
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Runs the command.
pub async fn run(_context: &Context<'_>, _command: Command) -> Result<Exit, Failure> {
    Err(Failure::not_done(
        "not_built",
        "suite commands are not part of this build",
    ))
}
