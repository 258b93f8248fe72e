//! `touchstone suite export`: write a suite in the format of another tool.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::eval::suite as installed_reference;
use crate::cli::output::write_file;
use crate::cli::suite::{File, read, scoring, show_faults};
use crate::rules::eval::export::{Exported, Format, export};
use crate::rules::eval::scoring::tasks;
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::eval::scoring_document::read::read_for;
use crate::rules::eval::suite_rules::read_suite;
use crate::rules::kind::Kinds;
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::suite::{AgentEvalSuite, SuiteFault};

#[derive(Debug, Args)]
pub struct Export {
    /// File of a suite; or an installed suite, by id and exact version
    #[arg(value_name = "FILE|SUITE@VERSION")]
    source: PathBuf,
    /// Format to write: jsonl or promptfoo
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Format,
    /// Scoring document of the suite [default: NAME.scoring.json next to NAME.json, if it exists]
    /// An installed suite has its own
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

impl Export {
    /// The reference of an installed suite; `None` for a file.
    fn reference(&self) -> Option<String> {
        let text = self.source.to_str().filter(|_| !self.source.is_file())?;
        installed_reference(text).ok()
    }

    pub fn target(&self) -> CommandTarget {
        match self.reference() {
            Some(_) => CommandTarget::Host,
            None => CommandTarget::Files,
        }
    }
}

/// A suite and its scoring document.
struct Documents {
    suite: AgentEvalSuite,
    scoring: Option<ScoringDocument>,
}

#[derive(Deserialize)]
struct Answered {
    suite: Value,
    scoring: Option<Value>,
}

/// The documents of an installed suite.
async fn installed(
    context: &Context<'_>,
    kinds: Kinds,
    reference: &str,
) -> Result<Documents, Failure> {
    let (id, version) = reference.split_once('@').unwrap_or((reference, ""));
    let session = context.read().await?;
    let path = format!("/v1/host/touchstone/suites/{id}/{version}/document");
    let answered: Result<Answered, Failure> = session.client().get(&path).await;
    let answered = answered.map_err(|failure| match &*failure.code {
        code if code == ErrorCode::NotFound.as_str() => Failure {
            message: format!("no suite {reference} is installed"),
            ..failure
        }
        .or_try(format!("list suites with {} suite list", context.program())),
        _ => failure,
    })?;
    let invalid = |faults: Vec<SuiteFault>| {
        let first = faults.first().map(ToString::to_string).unwrap_or_default();
        Failure::not_done("unexpected_answer", format!("{reference}: {first}"))
            .or_try("check that host and command have the same version")
    };
    let suite = read_suite(kinds, answered.suite.to_string().as_bytes()).map_err(invalid)?;
    let scoring = match &answered.scoring {
        Some(scoring) => {
            let read = read_for(scoring.to_string().as_bytes(), &suite.suite);
            Some(read.map_err(invalid)?.document)
        }
        None => None,
    };
    Ok(Documents {
        suite: suite.suite,
        scoring,
    })
}

/// The suite in a file, and its scoring document. `None` after faults are shown.
fn in_file(
    context: &Context<'_>,
    kinds: Kinds,
    arguments: &Export,
) -> Result<Option<Documents>, Failure> {
    let file = File {
        file: arguments.source.clone(),
    };
    let suite = match read(kinds, &file)? {
        Ok(document) => document.suite,
        Err(faults) => {
            show_faults(context, &file, &faults);
            return Ok(None);
        }
    };
    let named = arguments.scoring.clone();
    let scoring = match named.or_else(|| scoring::beside(&file.file)) {
        None => None,
        Some(file) => match scoring::read(context, &file, &suite)? {
            Some(read) => Some(read.document),
            None => return Ok(None),
        },
    };
    Ok(Some(Documents { suite, scoring }))
}

pub async fn run(context: &Context<'_>, kinds: Kinds, arguments: &Export) -> Result<Exit, Failure> {
    let documents = match arguments.reference() {
        Some(_) if arguments.scoring.is_some() => {
            return Err(
                Failure::usage("an installed suite has its own scoring document")
                    .or_try("omit --scoring"),
            );
        }
        Some(reference) => installed(context, kinds, &reference).await?,
        None => match in_file(context, kinds, arguments)? {
            Some(documents) => documents,
            None => return Ok(Exit::BadInput),
        },
    };
    write(context, arguments, &documents)
}

fn write(
    context: &Context<'_>,
    arguments: &Export,
    documents: &Documents,
) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let Documents { suite, scoring } = documents;
    let exported = export(suite, scoring.as_ref(), arguments.format)
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
            terminal.print(&format!("{}: {}", out.display(), tasks(suite.tasks.len())));
        }
        None => terminal.print(text.trim_end()),
    }
    Ok(Exit::Good)
}
