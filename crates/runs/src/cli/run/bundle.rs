//! `touchstone run bundle`: export a debug bundle, for support.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::cli::output::write_file;
use crate::cli::run::run_id;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub struct Bundle {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Maximum number of events, from the first one [default: all]
    #[arg(long, value_name = "N")]
    max_events: Option<u64>,
    /// File to write instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub async fn run(context: &Context<'_>, arguments: &Bundle) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let mut path = format!("/v1/runs/{}/debug-bundle", arguments.run);
    if let Some(most) = arguments.max_events {
        path.push_str(&format!("?maxEvents={most}"));
    }
    let bundle: Value = session.client().get(&path).await?;
    let terminal = context.terminal();
    if bundle.get("truncated") == Some(&Value::Bool(true)) {
        terminal.note("the bundle is truncated; see its `truncatedReason`");
    }
    match &arguments.out {
        // Always JSON, even on a terminal: the bundle is for programs and attachments.
        None => terminal.document(&bundle),
        Some(file) => write_file(file, &format!("{bundle:#}"))?,
    }
    Ok(Exit::Good)
}
