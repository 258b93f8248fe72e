//! `touchstone suite export`: write a suite in the format of another tool.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::cli::output::write_file;
use crate::cli::suite::{File, read, read_octets, show_faults};
use crate::rules::eval::export::{Exported, Format, export};
use crate::rules::eval::scoring_document::{ScoringDocument, read as scoring};
use crate::rules::kind::Kinds;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_openwop::suite::AgentEvalSuite;

#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    file: File,
    /// Format to write: jsonl or promptfoo
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Format,
    /// Scoring document of the suite [default: the file beside the suite, if it exists]
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
    let file = &arguments.file.file;
    let suite = match read(kinds, &arguments.file)? {
        Ok(document) => document.suite,
        Err(faults) => {
            show_faults(context, &arguments.file, &faults);
            return Ok(Exit::BadInput);
        }
    };
    let scoring = scoring_of(file, arguments.scoring.as_deref(), &suite)?;
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

/// The scoring document that the user names, or the one beside the suite.
fn scoring_of(
    file: &Path,
    named: Option<&Path>,
    suite: &AgentEvalSuite,
) -> Result<Option<ScoringDocument>, Failure> {
    let beside = file.with_extension("scoring.json");
    let path = match named {
        Some(named) => named,
        None if beside.is_file() => &beside,
        None => return Ok(None),
    };
    let read = scoring::read_for(&read_octets(path)?, suite).map_err(|faults| {
        let first = faults.first().map(ToString::to_string);
        let path = path.display();
        Failure::bad_input(
            "no_scoring",
            format!("{path}: {}", first.unwrap_or_default()),
        )
    })?;
    Ok(Some(read.document))
}
