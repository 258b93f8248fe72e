//! `touchstone archive`: list, verify and show archives of runs, without a host.

mod list;
mod show;
mod source;
mod verify;

use clap::Subcommand;

use crate::rules::kind::Kinds;
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

/// List, verify and show archives of runs, without a database or a host
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Archives are files, or objects of the archive in the configuration ([archive], docs/archive.md). `touchstone run archive` writes one.\n\nExamples:\n  touchstone archive list --tenant default\n  touchstone archive verify run_0199c0de.run.jsonl.gz --key host.pub\n  touchstone archive show run_0199c0de"
)]
pub enum Command {
    /// List the archives at the configured place, newest first
    #[command(
        after_help = "Needs the access key of the archive, if it is a bucket.\n\nExit codes: 0 listed, 2 no archive is configured, 3 could not complete.\n\nExamples:\n  touchstone archive list\n  touchstone --json archive list --tenant default --limit 1000 | jq -r '.archives[].runId'"
    )]
    List(list::List),
    /// Verify the signature, the digests and the log of an archive
    #[command(
        after_help = "Reads a file, or the archive of a run at the configured place.\n\nExit codes: 0 signed by this key and unchanged; 1 changed, incomplete or signed by another key; 2 bad input; 3 could not complete.\n\nExamples:\n  touchstone archive verify run_0199c0de.run.jsonl.gz --key host.pub\n  touchstone archive verify run_0199c0de --key host.pub"
    )]
    Verify(verify::Verify),
    /// Show the run in an archive as `touchstone run show` does, or print its events
    #[command(
        after_help = "Verifies the digests, but not the signature: use `touchstone archive verify` for that. A run that is not an eval run is shown as its snapshot. With --events, prints the recorded events, which contain task content, one JSON document per line.\n\nExit codes: 0 shown, whatever the verdict; 2 the archive is changed, incomplete or not an archive; 3 could not complete.\n\nExamples:\n  touchstone archive show run_0199c0de.run.jsonl.gz\n  touchstone --json archive show run_0199c0de | jq .verdict\n  touchstone archive show run_0199c0de --events | jq -r .type"
    )]
    Show(show::Show),
}

impl Command {
    pub const fn target(&self) -> CommandTarget {
        match self {
            Self::List(_) | Self::Show(_) => CommandTarget::FilesByRules,
            Self::Verify(_) => CommandTarget::SigningByRules,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The archive cannot be read.
pub async fn run(context: &Context<'_>, kinds: Kinds, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::List(arguments) => list::run(context, &arguments).await,
        Command::Verify(arguments) => verify::run(context, &arguments).await,
        Command::Show(arguments) => show::run(context, kinds, &arguments).await,
    }
}
