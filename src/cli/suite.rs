//! `touchstone suite`: begin suites, check them, import them for local work, list them.

mod import;
mod init;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::reach::Reach;
use crate::domain::eval::suite_lint;
use crate::domain::eval::suite_rules::{SuiteDocument, SuiteFault, read_suite, read_yaml_suite};

/// Octets of a suite that are read; more is more than a pack may hold.
const MAX_OCTETS: u64 = 64 << 20;

/// Begin suites, check them, import them for local work, list them
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone suite init vendor.acme.evals.triage\n  touchstone suite lint evals/triage.json\n  touchstone suite import evals/triage.json\n  touchstone suite list"
)]
pub enum Command {
    /// Write a first suite with words beside everything in it
    #[command(
        after_help = "Examples:\n  touchstone suite init vendor.acme.evals.triage\n  touchstone suite init vendor.acme.evals.triage --out evals/triage.yaml"
    )]
    Init(init::Init),
    /// Check a suite file: faults, and what is likely not meant
    #[command(
        after_help = "Faults keep a suite from being one. Beside them it warns of tasks that ask the same, inputs that hold their\nanswer, weights that are not shares of 1, modes without tasks, and fewer tasks than the pass score takes to be shown.\n\nExit codes: 0 sound, 1 faults (with --strict also warnings), 2 bad usage.\n\nExamples:\n  touchstone suite lint evals/triage.json\n  touchstone suite lint evals/triage.json --strict --json"
    )]
    Lint(Lint),
    /// Import a suite that comes with no pack, or tasks of promptfoo, OpenAI evals, Inspect or a table; it is marked unsigned
    #[command(
        after_help = "What has no place in a suite is reported, never dropped without a word.\n\nExit codes: 0 done, 1 not everything can be carried over (--strict), 2 bad input, 3 not carried out.\n\nExamples:\n  touchstone suite import evals/triage.json\n  touchstone suite import promptfooconfig.yaml\n  touchstone suite import samples.jsonl --match contains --out evals/samples.json \\\n    --suite-id vendor.acme.evals.samples"
    )]
    Import(Box<import::Import>),
    /// List the suites that can be run
    #[command(after_help = "Examples:\n  touchstone suite list")]
    List,
}

impl Command {
    /// What the command works on.
    pub fn reach(&self) -> Reach {
        match self {
            Self::Lint(_) | Self::Init(_) => Reach::Files,
            Self::Import(_) | Self::List => Reach::Host,
        }
    }
}

/// A suite file.
#[derive(Debug, Args)]
pub struct File {
    /// The file
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
        Command::Init(arguments) => init::run(context, &arguments),
        Command::Lint(arguments) => lint(context, &arguments),
        Command::Import(arguments) => import::run(context, &arguments).await,
        Command::List => list(context).await,
    }
}

fn read_octets(file: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    let mut octets = Vec::new();
    let unreadable = |cause: String| {
        let file = file.display();
        Failure::bad_input("unreadable", format!("{file} cannot be read: {cause}"))
    };
    std::fs::File::open(file)
        .and_then(|file| file.take(MAX_OCTETS + 1).read_to_end(&mut octets))
        .map_err(|cause| unreadable(cause.to_string()))?;
    // A table that is cut off would still be one.
    if octets.len() as u64 > MAX_OCTETS {
        return Err(unreadable(format!("it has more than {MAX_OCTETS} octets")));
    }
    Ok(octets)
}

fn read(arguments: &File) -> Result<Result<SuiteDocument, Vec<SuiteFault>>, Failure> {
    let octets = read_octets(&arguments.file)?;
    let extension = arguments.file.extension().and_then(|it| it.to_str());
    Ok(match extension {
        Some("yaml" | "yml") => read_yaml_suite(&octets),
        _ => read_suite(&octets),
    })
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
