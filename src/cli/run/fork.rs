//! `touchstone run fork`: repeat what a run recorded, or go on from the middle of it.

use clap::{Args, ValueEnum};
use serde_json::json;

use super::run_id;
use crate::cli::context::{Context, ModelEndpoint};
use crate::cli::exit::{Exit, Failure};
use crate::cli::watch::{Outputs, Started, watch};

/// What to fork, and how.
#[derive(Debug, Args)]
pub struct Fork {
    /// The run to begin with
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// What to do with what it recorded
    #[arg(long, value_enum, default_value_t = Mode::Replay)]
    mode: Mode,
    /// Keep the events before this sequence as they are; a branch needs it, 0 for none
    #[arg(long, value_name = "SEQUENCE", required_if_eq("mode", "branch"))]
    from_seq: Option<u64>,
    #[command(flatten)]
    model: ModelEndpoint,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Repeat all of it; no model is asked
    Replay,
    /// Execute anew from --from-seq
    Branch,
}

/// Forks the run and follows the fork to its end.
pub async fn run(context: &Context<'_>, arguments: &Fork) -> Result<Exit, Failure> {
    arguments.outputs.check()?;
    let mode = match arguments.mode {
        Mode::Replay => "replay",
        Mode::Branch => "branch",
    };
    let session = context.work(arguments.model.config()).await?;
    let outcome = async {
        let path = format!("/v1/runs/{}:fork", arguments.run);
        let body = json!({"mode": mode, "fromSeq": arguments.from_seq.unwrap_or(0)});
        let started: Started = session.client().post(&path, &body).await?;
        watch(context, &session, &started.run_id, &arguments.outputs).await
    }
    .await;
    session.close().await;
    outcome
}
