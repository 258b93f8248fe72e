//! `touchstone badge`: the badge of an assessment, taken from a host or checked without one.

mod fetch;
mod verify;

use clap::{Args, Subcommand};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::reach::Reach;

const EXAMPLES: &str = "\
The badge of a rating in one of its forms: the signed credential (Open Badges 3.0), a picture that holds it, JSON or Markdown.
An agent stands for its last rating.

Exit codes: 0 written, 1 error, or there is no badge, 2 bad usage.

Examples:
  touchstone badge triage
  touchstone badge triage --format png --output triage.png
  touchstone badge 0199c0de-0000-7000-8000-000000000001 --format svg,json
  touchstone badge 0199c0de-0000-7000-8000-000000000001 --format credential --output triage.json
  touchstone badge verify triage.png";

/// Take the badge of a rating, or check one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    check: Option<Check>,
    #[command(flatten)]
    wanted: fetch::Arguments,
}

#[derive(Debug, Subcommand)]
enum Check {
    Verify(verify::Arguments),
}

impl Arguments {
    /// What the command works on.
    pub const fn reach(&self) -> Reach {
        match self.check {
            Some(Check::Verify(_)) => Reach::Files,
            None => Reach::Host,
        }
    }
}

/// Runs the command.
pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.check {
        Some(Check::Verify(arguments)) => verify::run(context, arguments),
        None => fetch::run(context, &arguments.wanted).await,
    }
}
