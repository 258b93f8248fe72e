//! `touchstone run void`: declares that a run is not evidence.

use clap::Args;
use serde_json::{Value, json};

use super::run_id;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

/// Which run, and why.
#[derive(Debug, Args)]
pub struct Void {
    /// The eval run
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// Why its scores say nothing about the agent; recorded in the audit log and shown with the run
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Runs the command.
pub async fn run(context: &Context<'_>, arguments: &Void) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let path = format!("/v1/host/touchstone/runs/{}:void", arguments.run);
    let body = json!({"reason": arguments.reason});
    let answer: Value = session.client().post(&path, &body).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
    } else {
        terminal.print(&format!("{} is void", arguments.run));
    }
    Ok(Exit::Good)
}
