//! `touchstone suite`: check suites, import them for local work, list them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::reach::Reach;
use super::terminal::Terminal;
use crate::domain::eval::suite_lint;
use crate::domain::eval::suite_rules::{SuiteDocument, SuiteFault, read_suite};

/// Octets of a suite that are read; more is more than a pack may hold.
const MAX_OCTETS: u64 = 64 << 20;

/// Check suites, import them for local work, list them
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone suite lint evals/triage.json\n  touchstone suite import evals/triage.json\n  touchstone suite list"
)]
pub enum Command {
    /// Check a suite file: faults, and what is likely not meant
    #[command(
        after_help = "Faults keep a suite from being one. Beside them it warns of tasks that ask the same, inputs that hold their\nanswer, weights that are not shares of 1, modes without tasks, and fewer tasks than the pass score takes to be shown.\n\nExit codes: 0 sound, 1 faults (with --strict also warnings), 2 bad usage.\n\nExamples:\n  touchstone suite lint evals/triage.json\n  touchstone suite lint evals/triage.json --strict --json"
    )]
    Lint(Lint),
    /// Import a suite that comes with no pack; it is marked unsigned
    #[command(after_help = "Examples:\n  touchstone suite import evals/triage.json")]
    Import(File),
    /// List the suites that can be run
    #[command(after_help = "Examples:\n  touchstone suite list")]
    List,
}

impl Command {
    /// What the command works on.
    pub fn reach(&self) -> Reach {
        match self {
            Self::Lint(_) => Reach::Files,
            Self::Import(_) | Self::List => Reach::Host,
        }
    }
}

/// A suite file.
#[derive(Debug, Args)]
pub struct File {
    /// The suite, JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A suite file to look at closely.
#[derive(Debug, Args)]
pub struct Lint {
    #[command(flatten)]
    file: File,
    /// Exit 1 on warnings, too
    #[arg(long)]
    strict: bool,
}

#[derive(Deserialize)]
struct Listed {
    suites: Vec<Shown>,
}

#[derive(Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    suite_id: String,
    version: String,
    digest: String,
    task_count: u64,
    signed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pack: Option<String>,
    added_at: String,
}

/// Runs the command.
pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Lint(arguments) => lint(context, &arguments),
        Command::Import(arguments) => import(context, &arguments).await,
        Command::List => list(context).await,
    }
}

fn read(arguments: &File) -> Result<Result<SuiteDocument, Vec<SuiteFault>>, Failure> {
    use std::io::Read as _;
    let mut octets = Vec::new();
    std::fs::File::open(&arguments.file)
        .and_then(|file| file.take(MAX_OCTETS).read_to_end(&mut octets))
        .map_err(|cause| {
            let file = arguments.file.display();
            Failure::bad_input("unreadable", format!("{file} cannot be read: {cause}"))
        })?;
    Ok(read_suite(&octets))
}

fn lint(context: &Context<'_>, arguments: &Lint) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let document = match read(&arguments.file)? {
        Ok(document) => document,
        Err(faults) => {
            show_faults(context, &arguments.file, &faults);
            return Ok(Exit::Negative);
        }
    };
    let (reference, tasks) = (document.suite.reference(), document.suite.tasks.len());
    let advice = suite_lint::lint(&document.suite);
    let good = advice.is_empty() || !arguments.strict;
    if terminal.json() {
        terminal.document(&json!({
            "ok": good, "reference": reference, "taskCount": tasks, "digest": document.digest(),
            "warnings": advice,
        }));
    } else {
        for it in &advice {
            terminal.note(&format!(
                "warning: {}: {} ({})",
                it.pointer,
                it.reason,
                it.rule.as_str()
            ));
        }
        let warnings = match advice.len() {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            n => format!(", {n} warnings"),
        };
        terminal.print(&format!("{reference}: {tasks} tasks, no faults{warnings}"));
    }
    Ok(if good { Exit::Good } else { Exit::Negative })
}

fn show_faults(context: &Context<'_>, arguments: &File, faults: &[SuiteFault]) {
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "ok": false,
            "error": {"code": "validation_error", "message": "the suite has faults"},
            "faults": faults,
        }));
        return;
    }
    for fault in faults {
        terminal.note(&format!("{}: {fault}", arguments.file.display()));
    }
}

async fn import(context: &Context<'_>, arguments: &File) -> Result<Exit, Failure> {
    let document = match read(arguments)? {
        Ok(document) => document,
        Err(faults) => {
            show_faults(context, arguments, &faults);
            return Ok(Exit::BadInput);
        }
    };
    let body: Value = serde_json::from_str(&document.canonical)
        .map_err(|cause| Failure::bad_input("no_suite", cause.to_string()))?;
    let session = context.look().await?;
    let shown: Shown = session
        .client()
        .post("/v1/host/touchstone/suites", &body)
        .await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"ok": true, "suite": shown}));
    } else {
        imported(terminal, &shown);
    }
    Ok(Exit::Good)
}

/// What an import came to. A document that a pack has brought already stays the pack's, signed or not.
fn imported(terminal: &Terminal, suite: &Shown) {
    let reference = format!("{}@{}", suite.suite_id, suite.version);
    let tasks = suite.task_count;
    let Some(pack) = &suite.pack else {
        terminal.print(&format!("imported {reference}: {tasks} tasks, unsigned"));
        return;
    };
    let signed = if suite.signed { "signed" } else { "unsigned" };
    terminal.print(&format!(
        "{reference}: {tasks} tasks, {signed}, from {pack}"
    ));
    terminal.note(&format!(
        "{pack} has brought the very same document; the import counts only once that pack is removed, unsigned"
    ));
}

async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let listed: Listed = session.client().get("/v1/host/touchstone/suites").await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"suites": listed.suites}));
        return Ok(Exit::Good);
    }
    if listed.suites.is_empty() {
        terminal.note("no suites; they come with packs, or by `touchstone suite import FILE`");
    }
    for suite in &listed.suites {
        let origin = match (&suite.pack, suite.signed) {
            (Some(pack), true) => format!("signed, from {pack}"),
            (Some(pack), false) => format!("unsigned, from {pack}"),
            (None, _) => "unsigned, imported".to_owned(),
        };
        terminal.print(&format!(
            "{}@{}  {} tasks  {origin}",
            suite.suite_id, suite.version, suite.task_count
        ));
    }
    Ok(Exit::Good)
}
