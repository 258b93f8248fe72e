//! `touchstone audit`: the audit log and its hash chain.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;

use crate::audit::Anomaly;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

/// List the audit log and verify its hash chain
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  touchstone audit list\n  touchstone audit verify")]
pub enum Command {
    /// List entries
    #[command(
        after_help = "Examples:\n  touchstone audit list\n  touchstone audit list --from 100 --limit 50 --json"
    )]
    List(List),
    /// Verify the hash chain of the audit log: detect changed, added or removed entries
    #[command(
        after_help = "Exit codes: 0 the chain is intact, 1 it is broken, 2 bad input, 3 could not complete.\n\nExamples:\n  touchstone audit verify\n  touchstone audit verify --json"
    )]
    Verify,
}

#[derive(Debug, Args)]
pub struct List {
    /// Sequence number of the first entry
    #[arg(long, value_name = "SEQUENCE", default_value_t = 1)]
    from: u64,
    /// Maximum number of entries, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Deserialize)]
struct Listed {
    entries: Vec<Kept>,
}

#[derive(Deserialize)]
struct Kept {
    sequence: u64,
    entry: Value,
    intact: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    to_seq: u64,
    chain_valid: bool,
    checkpoints_valid: Option<bool>,
    checkpoints: Vec<Value>,
    anomalies: Vec<Anomaly>,
}

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::List(which) => list(context, &which).await,
        Command::Verify => verify(context).await,
    }
}

async fn list(context: &Context<'_>, which: &List) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!(
        "/v1/host/touchstone/audit?fromSeq={}&limit={}",
        which.from, which.limit
    );
    let answer: Value = session.client().get(&path).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
        return Ok(Exit::Good);
    }
    let listed = Listed::deserialize(&answer).map_err(|fault| Failure::unexpected(&fault))?;
    for kept in &listed.entries {
        let text = |name: &str| kept.entry.get(name).and_then(Value::as_str).unwrap_or("?");
        let mark = if kept.intact { "" } else { "  CHANGED" };
        terminal.print(&format!(
            "{:>6}  {}  {:<8} {}  {}  by {}{mark}",
            kept.sequence,
            text("at"),
            text("outcome"),
            text("action"),
            text("resource"),
            text("principal"),
        ));
        let reasons = kept.entry.get("reasons").and_then(Value::as_array);
        for reason in reasons.into_iter().flatten().filter_map(Value::as_str) {
            terminal.print(&format!("        {reason}"));
        }
    }
    Ok(Exit::Good)
}

async fn verify(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let answer: Value = session.client().get("/v1/audit/verify").await?;
    let verified = Verified::deserialize(&answer).map_err(|fault| Failure::unexpected(&fault))?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
    } else if verified.chain_valid {
        terminal.print(&format!(
            "{} {}, each with the hash of the previous one",
            terminal.colors().good("✓"),
            match verified.to_seq {
                1 => "1 entry".to_owned(),
                several => format!("{several} entries"),
            }
        ));
        match verified.checkpoints.len() {
            0 => {}
            1 => terminal.print("  1 signed checkpoint matches its entries"),
            several => terminal.print(&format!(
                "  {several} signed checkpoints match their entries"
            )),
        }
    } else {
        for anomaly in &verified.anomalies {
            terminal.print(&format!(
                "{} {}",
                terminal.colors().bad("✗"),
                explained(anomaly, verified.to_seq)
            ));
        }
        if verified.checkpoints_valid == Some(false) {
            terminal.print(&format!(
                "{} a signed checkpoint is missing, does not match its entries, or was signed with another key",
                terminal.colors().bad("✗"),
            ));
        }
    }
    Ok(if verified.chain_valid {
        Exit::Good
    } else {
        Exit::Negative
    })
}

/// A break is between two entries: the first was changed or removed, or the second does not follow
/// it.
fn explained(anomaly: &Anomaly, last: u64) -> String {
    let at = anomaly.at_seq;
    let before = at.saturating_sub(1);
    if at > last {
        format!(
            "entry {before} was changed, or entries after it were removed: the end of the chain does not match"
        )
    } else {
        format!(
            "entry {before} was changed after entry {at} was written, or entries between them were removed"
        )
    }
}
