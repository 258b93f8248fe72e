//! `touchstone suite export`: write a suite in the format of another tool.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::output::write_file;
use crate::cli::suite::{File, read, scoring, show_faults};
use crate::rules::eval::export::{Exported, Format, export};
use crate::rules::kind::Kinds;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    file: File,
    /// Format to write: jsonl or promptfoo
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Format,
    /// Scoring document of the suite [default: NAME.scoring.json next to NAME.json, if it exists]
    #[arg(long, value_name = "FILE")]
    scoring: Option<PathBuf>,
    /// File to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn format(text: &str) -> Result<Format, String> {
    Format::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.as_str()).collect();
        format!("must be one of {}", known.join(", "))
    })
}

pub fn run(context: &Context<'_>, kinds: Kinds, arguments: &Export) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let suite = match read(kinds, &arguments.file)? {
        Ok(document) => document.suite,
        Err(faults) => {
            show_faults(context, &arguments.file, &faults);
            return Ok(Exit::BadInput);
        }
    };
    let named = arguments.scoring.clone();
    let scoring = match named.or_else(|| scoring::beside(&arguments.file.file)) {
        None => None,
        Some(file) => match scoring::read(context, &file, &suite)? {
            Some(read) => Some(read.document),
            None => return Ok(Exit::BadInput),
        },
    };
    let exported = export(&suite, scoring.as_ref(), arguments.format)
        .map_err(|cause| Failure::not_done("not_exported", cause))?;
    let Exported { text, losses } = exported;
    if let Some(out) = &arguments.out {
        write_file(out, &text)?;
    }
    if terminal.json() {
        let mut document = json!({
            "ok": true, "format": arguments.format.as_str(), "taskCount": suite.tasks.len(),
            "notCarriedOver": losses,
        });
        if let Some(members) = document.as_object_mut() {
            match &arguments.out {
                Some(out) => members.insert("file".to_owned(), json!(out)),
                None => members.insert("text".to_owned(), json!(text)),
            };
        }
        terminal.document(&document);
        return Ok(Exit::Good);
    }
    for loss in &losses {
        terminal.note(&format!("not exported: {} ({})", loss.what, loss.first));
    }
    match &arguments.out {
        Some(out) => {
            terminal.print(&format!("{}: {} tasks", out.display(), suite.tasks.len()));
        }
        None => terminal.print(text.trim_end()),
    }
    Ok(Exit::Good)
}
