//! `touchstone rating appeal`: appeal against a rating, and resolve appeals.

use std::path::PathBuf;

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::cli::assessment;
use crate::cli::manage::{all, get, list, send, show};
use crate::rules::Dimension;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::files;
use touchstone_host::cli::terminal::Terminal;

/// Maximum size of an overrides file in bytes; the API accepts 64 KiB.
const MAX_OVERRIDES: u64 = 1 << 20;

/// File, list, show and resolve appeals against a rating
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone rating appeal list triage\n  touchstone rating appeal show triage 0199c0de-0000-7000-8000-000000000002"
)]
pub enum Command {
    /// File an appeal against dimensions of a rating, at most 14 days after the rating
    #[command(
        after_help = "Exit codes: 0 filed, 2 bad input or refused, 3 could not complete, 4 no rating yet.\n\nExamples:\n  touchstone rating appeal file triage --dimension accuracy \\\n    --justification Unclear --counter-evidence t-7=impossible"
    )]
    File(File),
    /// List the appeals against a rating
    #[command(after_help = "Examples:\n  touchstone rating appeal list triage --json")]
    List(Of),
    /// Show an appeal
    #[command(
        after_help = "Examples:\n  touchstone rating appeal show triage 0199c0de-0000-7000-8000-000000000002"
    )]
    Show(Which),
    /// Resolve an appeal, as a principal other than the one who filed it
    #[command(
        after_help = "OVERRIDES is a JSON array; docs/ratings.md describes its format.\n\nExit codes: 0 decided, 2 bad input or refused, 3 could not complete, 4 no rating yet.\n\nExamples:\n  touchstone rating appeal resolve triage \\\n    0199c0de-0000-7000-8000-000000000002 --review\n  touchstone rating appeal resolve triage \\\n    0199c0de-0000-7000-8000-000000000002 --accept overrides.json"
    )]
    Resolve(Resolve),
}

#[derive(Debug, Args)]
pub struct Of {
    /// Assessment id; or an agent's name or id, for its latest rating
    #[arg(value_name = "ASSESSMENT")]
    of: String,
}

#[derive(Debug, Args)]
pub struct File {
    #[command(flatten)]
    rating: Of,
    /// Dimension to appeal against; repeat the option for several
    #[arg(long = "dimension", value_name = "DIMENSION", required = true, value_parser = crate::cli::dimension)]
    dimensions: Vec<Dimension>,
    /// Why the score is wrong
    #[arg(long, value_name = "TEXT")]
    justification: String,
    /// Task id and your claim about the task; repeat the option for several
    #[arg(long = "counter-evidence", value_name = "TASK=CLAIM", required = true, value_parser = claim)]
    claims: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct Which {
    #[command(flatten)]
    rating: Of,
    /// Appeal id, as shown by `rating appeal list`
    #[arg(value_name = "APPEAL")]
    appeal: Uuid,
}

#[derive(Debug, Args)]
pub struct Resolve {
    #[command(flatten)]
    which: Which,
    /// Mark the appeal as under review
    #[arg(long, required_unless_present_any = ["accept", "reject"], conflicts_with_all = ["accept", "reject", "reason"])]
    review: bool,
    /// Accept the appeal with the score overrides in this file; `-` for stdin
    #[arg(long, value_name = "OVERRIDES", conflicts_with = "reject")]
    accept: Option<PathBuf>,
    /// Reject the appeal
    #[arg(long, requires = "reason")]
    reject: bool,
    /// Reason; required for --reject
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

fn claim(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((task, claim)) if !task.is_empty() && !claim.is_empty() => {
            Ok((task.to_owned(), claim.to_owned()))
        }
        _ => Err("must be TASK=CLAIM".to_owned()),
    }
}

pub async fn run(client: &Client, terminal: &Terminal, command: &Command) -> Result<(), Failure> {
    match command {
        Command::File(arguments) => {
            let path = appeals(client, &arguments.rating).await?;
            let claims = arguments.claims.iter();
            let claims: Vec<Value> = claims
                .map(|(task, claim)| json!({"task_id": task, "claim": claim}))
                .collect();
            let body = json!({
                "dimensions": arguments.dimensions,
                "justification": arguments.justification,
                "counter_evidence": claims,
            });
            show(terminal, send(client, Method::POST, &path, &body).await?);
        }
        Command::List(of) => {
            let path = appeals(client, of).await?;
            let members = ["id", "status", "dimensions", "filed_by", "created_at"];
            let found = all(client, &path).await?;
            list(terminal, &found, &members, "no appeals against this rating");
        }
        Command::Show(which) => {
            let path = appeals(client, &which.rating).await?;
            let path = format!("{path}/{}", which.appeal);
            show(terminal, get(client, &path).await?);
        }
        Command::Resolve(arguments) => {
            let body = ruling(arguments)?;
            let which = &arguments.which;
            let path = appeals(client, &which.rating).await?;
            let path = format!("{path}/{}/resolve", which.appeal);
            show(terminal, send(client, Method::POST, &path, &body).await?);
        }
    }
    Ok(())
}

/// API path of the appeals against a rating.
async fn appeals(client: &Client, rating: &Of) -> Result<String, Failure> {
    let assessed = assessment(client, &rating.of).await?;
    Ok(format!("assessments/{}/appeals", assessed.id))
}

fn ruling(arguments: &Resolve) -> Result<Value, Failure> {
    let mut body = Map::new();
    let decision = match (&arguments.accept, arguments.reject) {
        (Some(file), _) => {
            let bytes = match file.as_os_str() == "-" {
                true => files::read_stdin(MAX_OVERRIDES)?,
                false => files::read(file, MAX_OVERRIDES)?,
            };
            let overrides: Value = serde_json::from_slice(&bytes).map_err(|fault| {
                let message = format!("{} is not a JSON document: {fault}", file.display());
                Failure::bad_input("INVALID_REQUEST", message)
            })?;
            body.insert("overrides".to_owned(), overrides);
            "accept"
        }
        (None, true) => "reject",
        (None, false) => "review",
    };
    body.insert("decision".to_owned(), json!(decision));
    if let Some(reason) = &arguments.reason {
        body.insert("reason".to_owned(), json!(reason));
    }
    Ok(Value::Object(body))
}
