//! `touchstone archive show`.

use std::io;
use std::path::Path;

use clap::Args;
use serde_json::Value;

use super::source::Source;
use crate::cli::output::not_written;
use crate::render::document::json::ReportJson;
use crate::render::document::list::JsonForm;
use crate::render::document::{Next, RunDocument};
use crate::render::scorecard::Scorecard;
use crate::rules::archive::reader::read;
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
    let terminal = context.terminal();
    if arguments.events {
        let verified = read(source.reader()?, None, |_, _| {});
        verified.map_err(|fault| source.refused(&fault))?;
        // Only now the digests of the events are verified.
        let printed = read(source.reader()?, None, |_, event| {
            terminal.print(&String::from_utf8_lossy(event));
        });
        printed.map_err(|fault| source.refused(&fault))?;
        return Ok(Exit::Good);
    }
    let found = ArchivedRun::read(source.reader()?, None, |_| {});
    let run = found.map_err(|fault| source.refused(&fault))?;
    match run.assessed(kinds) {
        Some((totals, _)) if terminal.json() => {
            let document = ReportJson::new(&totals, JsonForm::Indented);
            let mut document = document.map_err(|cause| Failure::unexpected(&cause))?;
            print(terminal, &run, &mut document)?;
        }
        Some((totals, statistics)) => {
            let mut document = Scorecard::new(&totals, &statistics, None, terminal.style());
            print(terminal, &run, &mut document)?;
        }
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

/// Tasks of the suite that are written at a time.
const PAGE: usize = 1000;

fn print(
    terminal: &Terminal,
    run: &ArchivedRun,
    document: &mut dyn RunDocument,
) -> Result<(), Failure> {
    let mut out = terminal.printer();
    let mut write = || {
        document.begin(&mut out)?;
        loop {
            for rows in run.rows(PAGE) {
                document.add(&rows, &mut out)?;
            }
            if document.end(&mut out)? == Next::Done {
                return Ok(());
            }
        }
    };
    let written: io::Result<()> = write();
    match written.and_then(|()| out.finish()) {
        // The reader wants no more, as with `head`.
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(not_written(Path::new("stdout"), &cause))
        }
        _ => Ok(()),
    }
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
