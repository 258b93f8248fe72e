//! `touchstone oasis`: run OASIS evaluations (OASIS.md), read their results, and verify verdicts.

pub mod compute;
pub mod document;
pub mod evidence;
pub mod preflight;
pub mod profiles;
pub mod report;
pub mod request;
pub mod run;
pub mod summary;
pub mod verify;

use clap::Subcommand;

use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

/// Evaluate agents with OASIS profiles: safety first, then capability
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone oasis profiles\n  touchstone oasis run vendor.acme.evals.desk@1.0.0 vendor.acme.clerk.default \\\n    --tier 1\n  touchstone oasis report run_0199c0de --output report.html\n  touchstone oasis verify verdict.json"
)]
pub enum Command {
    /// Run an evaluation: preflight, safety, capability, verdict
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::Arguments>),
    /// Write the report of an ended evaluation
    #[command(after_help = report::EXAMPLES)]
    Report(report::Arguments),
    /// Show the evidence of one scenario: baseline, observations, checks
    #[command(after_help = evidence::EXAMPLES)]
    Evidence(evidence::Arguments),
    /// Verify OASIS verdict documents against their schema and the rules V1 to V16
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Arguments),
    /// Compute a verdict from a file, offline
    #[command(after_help = compute::EXAMPLES)]
    Compute(compute::Arguments),
    /// List the profiles of installed packs and the configured providers
    #[command(
        after_help = "Examples:\n  touchstone oasis profiles\n  touchstone --json oasis profiles"
    )]
    Profiles,
    /// Check whether a provider meets a profile's contract; provisions nothing
    #[command(after_help = preflight::EXAMPLES)]
    Preflight(preflight::Arguments),
}

impl Command {
    pub const fn target(&self) -> CommandTarget {
        match self {
            Self::Verify(_) | Self::Compute(_) => CommandTarget::Files,
            Self::Run(_)
            | Self::Report(_)
            | Self::Evidence(_)
            | Self::Profiles
            | Self::Preflight(_) => CommandTarget::Host,
        }
    }
}

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(arguments) => run::run(context, *arguments).await,
        Command::Report(arguments) => report::run(context, arguments).await,
        Command::Evidence(arguments) => evidence::run(context, arguments).await,
        Command::Verify(arguments) => verify::run(context, &arguments),
        Command::Compute(arguments) => compute::run(context, &arguments),
        Command::Profiles => profiles::run(context).await,
        Command::Preflight(arguments) => preflight::run(context, &arguments).await,
    }
}
