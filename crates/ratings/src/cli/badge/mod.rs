//! `touchstone rating badge`: export a rating's badge from a host, or verify one offline.

pub mod fetch;
pub mod verify;

use clap::{Args, Subcommand};

use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Exports the badge of a rating: the signed credential (Open Badges 3.0), a picture that contains
it, JSON or Markdown. If ASSESSMENT is an agent, exports the badge of its latest rating.

Exit codes: 0 written, 1 the rating has no badge, 2 bad input, 3 could not complete, 4 no
rating yet.

Examples:
  touchstone rating badge triage
  touchstone rating badge triage --format png --output triage.png
  touchstone rating badge 0199c0de-0000-7000-8000-000000000001 --format svg,json
  touchstone rating badge 0199c0de-0000-7000-8000-000000000001 \\
    --format credential --output triage.json
  touchstone rating badge verify triage.png";

/// Export or verify a rating badge
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
    pub const fn target(&self) -> CommandTarget {
        match self.check {
            Some(Check::Verify(_)) => CommandTarget::Files,
            None => CommandTarget::Host,
        }
    }
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.check {
        Some(Check::Verify(arguments)) => verify::run(context, arguments),
        None => fetch::run(context, &arguments.wanted).await,
    }
}
