//! `touchstone suite init`: create an example suite with comments.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::rules::eval::suite_rules::SuiteRef;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

const STARTER: &str = include_str!("starter.yaml");
const PLACEHOLDER: &str = "SUITE_ID";

#[derive(Debug, Args)]
pub struct Init {
    /// Suite id, such as vendor.acme.evals.triage
    #[arg(value_name = "NAME", value_parser = suite_id)]
    name: String,
    /// File to write [default: the last part of NAME, with .yaml]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn suite_id(text: &str) -> Result<String, String> {
    match format!("{text}@1.0.0").parse::<SuiteRef>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(
            "must be SCOPE.ORGANIZATION.evals.NAME in lower case, such as vendor.acme.evals.triage"
                .to_owned(),
        ),
    }
}

pub fn run(context: &Context<'_>, arguments: &Init) -> Result<Exit, Failure> {
    let last = arguments.name.rsplit('.').next().unwrap_or_default();
    let usual = || PathBuf::from(format!("{last}.yaml"));
    let file = arguments.out.clone().unwrap_or_else(usual);
    let text = STARTER.replace(PLACEHOLDER, &arguments.name);
    std::fs::File::create_new(&file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|cause| {
            Failure::bad_input(
                "unwritable",
                format!("could not write {}: {cause}", file.display()),
            )
            .or_try("choose another file with --out")
        })?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"ok": true, "file": file, "suiteId": arguments.name}));
    } else {
        terminal.print(&file.display().to_string());
        terminal.note(&format!("next: touchstone suite lint {}", file.display()));
    }
    Ok(Exit::Good)
}
