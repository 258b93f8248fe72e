//! `touchstone archive show`.

use clap::Args;
use serde_json::Value;

use super::source::Source;
use crate::render::scorecard::scorecard;
use crate::rules::archive::view::ArchivedRun;
use crate::rules::kind::Kinds;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::Terminal;

#[derive(Debug, Args)]
pub struct Show {
    /// File, or run in the configured archive
    #[arg(value_name = "FILE|RUN")]
    archive: String,
    /// Print the recorded events instead
    #[arg(long)]
    events: bool,
}

pub async fn run(context: &Context<'_>, kinds: Kinds, arguments: &Show) -> Result<Exit, Failure> {
    let mut source = Source::open(context, &arguments.archive).await?;
    let found = ArchivedRun::read(source.reader()?, None, |_| {});
    let run = found.map_err(|fault| source.refused(&fault))?;
    let terminal = context.terminal();
    if arguments.events {
        // Only now the digests of the events are verified.
        let printed = ArchivedRun::read(source.reader()?, None, |event| {
            terminal.print(&String::from_utf8_lossy(event));
        });
        printed.map_err(|fault| source.refused(&fault))?;
        return Ok(Exit::Good);
    }
    match run.report(kinds) {
        Some(report) if terminal.json() => terminal.document(&report),
        Some(report) => terminal.print(&scorecard(&report, None, terminal.style())),
        None => {
            let snapshot = run.snapshot(kinds);
            show_snapshot(
                terminal,
                &snapshot.map_err(|cause| Failure::unexpected(&cause))?,
            );
        }
    }
    if !terminal.json() {
        terminal.note("the signature is not verified; touchstone archive verify does that");
    }
    Ok(Exit::Good)
}

fn show_snapshot(terminal: &Terminal, snapshot: &Value) {
    if terminal.json() {
        terminal.document(snapshot);
        return;
    }
    for member in ["runId", "workflowId", "status", "startedAt", "completedAt"] {
        if let Some(value) = snapshot.get(member).and_then(Value::as_str) {
            terminal.print(&format!("{member:<12} {value}"));
        }
    }
}
