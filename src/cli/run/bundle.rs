//! `touchstone run bundle`: one run in one document, to hand to whoever is to find out what went wrong.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::run_id;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

/// Which run, and how much of it.
#[derive(Debug, Args)]
pub struct Bundle {
    /// The run
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// Only so many events, from the first one
    #[arg(long, value_name = "N")]
    max_events: Option<u64>,
    /// Write it to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Fetches the bundle.
pub async fn run(context: &Context<'_>, arguments: &Bundle) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let mut path = format!("/v1/runs/{}/debug-bundle", arguments.run);
    if let Some(most) = arguments.max_events {
        path.push_str(&format!("?maxEvents={most}"));
    }
    let bundle: Value = session.client().get(&path).await?;
    let terminal = context.terminal();
    if bundle.get("truncated") == Some(&Value::Bool(true)) {
        terminal.note("not everything is in the bundle; its `truncatedReason` says why");
    }
    match &arguments.out {
        // A document for programs and attachments, also on a terminal.
        None => terminal.document(&bundle),
        Some(file) => {
            let unwritten = |cause: String| {
                Failure::not_done(
                    "file_not_written",
                    format!("{} cannot be written: {cause}", file.display()),
                )
            };
            let text = serde_json::to_string_pretty(&bundle)
                .map_err(|cause| unwritten(cause.to_string()))?;
            std::fs::write(file, text).map_err(|cause| unwritten(cause.to_string()))?;
        }
    }
    Ok(Exit::Good)
}
