//! `touchstone run void`: exclude a run from gate evidence.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::run::run_id;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub struct Void {
    /// Run id of the eval run
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// Why the scores are not evidence; recorded in the audit log and shown with the run
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

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
