//! `touchstone suite`: create, lint, import, export and list suites.

pub mod export;
pub mod import;
pub mod init;
pub(crate) mod scoring;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use crate::rules::eval::scoring::tasks as counted;
use crate::rules::eval::suite_lint;
use crate::rules::eval::suite_rules::{read_suite, read_yaml_suite};
use crate::rules::kind::Kinds;
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_openwop::suite::{SuiteDocument, SuiteFault};

/// Maximum size of a suite file in bytes, above what a pack may contain.
const MAX_OCTETS: u64 = 64 << 20;

/// Create, lint, import, export and list suites
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone suite init vendor.acme.evals.triage\n  touchstone suite lint evals/triage.json\n  touchstone suite import evals/triage.json\n  touchstone suite list"
)]
pub enum Command {
    /// Create an example suite with comments
    #[command(
        after_help = "Examples:\n  touchstone suite init vendor.acme.evals.triage\n  touchstone suite init vendor.acme.evals.triage --out evals/triage.yaml"
    )]
    Init(init::Init),
    /// Check a suite file for errors and likely mistakes
    #[command(
        after_help = "Also checks the scoring document of the suite, NAME.scoring.json beside NAME.json.\n\nErrors make a suite invalid. Warnings are for duplicate tasks, inputs that contain their answer, weights that do not add up to 1, modes without tasks, and too few tasks to show that the pass score is reached.\n\nExit codes: 0 valid, 1 errors (with --strict also warnings), 2 bad usage.\n\nExamples:\n  touchstone suite lint evals/triage.json\n  touchstone suite lint evals/triage.json --strict --json\n  touchstone suite lint evals/triage.json --scoring triage.scoring.json"
    )]
    Lint(Lint),
    /// Import a suite without a pack, marked unsigned; or convert tasks of promptfoo, OpenAI evals,
    /// Inspect, DeepEval, Langfuse, Braintrust, OpenTelemetry, JSON, CSV or Parquet
    #[command(
        after_help = "Says what the file was read as, and reports everything that has no equivalent in a suite or its scoring document. A suite of lines (the suite without its tasks, then one task a line) is sent while it is read, so it may be large.\n\nExit codes: 0 done, 1 some parts cannot be imported (--strict), 2 bad input, 3 could not complete.\n\nExamples:\n  touchstone suite import evals/triage.json\n  touchstone suite import evals/triage.json --scoring other.scoring.json\n  touchstone suite import labels.jsonl\n  touchstone suite import promptfooconfig.yaml --out my-pack\n  touchstone suite import samples.jsonl --match contains --out evals/samples.json \\\n    --suite-id vendor.acme.evals.samples\n  touchstone suite import questions.csv --input question --expected best_answer --out my-pack"
    )]
    Import(Box<import::Import>),
    /// Write a suite as JSON lines or as a promptfoo configuration
    #[command(
        after_help = "Reports everything that the format cannot hold. The tasks of an installed suite on a remote host need the scope runs:content.\n\nExamples:\n  touchstone suite export evals/triage.json --format jsonl --out triage.jsonl\n  touchstone suite export evals/triage.json --format promptfoo --out promptfooconfig.yaml\n  touchstone suite export vendor.acme.evals.triage@1.0.0 --format jsonl"
    )]
    Export(export::Export),
    /// List installed suites
    #[command(after_help = "Examples:\n  touchstone suite list")]
    List,
}

impl Command {
    pub fn target(&self) -> CommandTarget {
        match self {
            Self::Export(arguments) => arguments.target(),
            Self::Lint(_) | Self::Init(_) => CommandTarget::Files,
            Self::Import(_) | Self::List => CommandTarget::Host,
        }
    }
}

#[derive(Debug, Args)]
pub struct File {
    /// File to read
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Lint {
    #[command(flatten)]
    file: File,
    /// Exit with 1 on warnings too
    #[arg(long)]
    strict: bool,
    /// Scoring document of the suite [default: NAME.scoring.json beside NAME.json, if it exists]
    #[arg(long, value_name = "FILE")]
    scoring: Option<PathBuf>,
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
    scoring_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pack: Option<String>,
    added_at: String,
}

/// Runs a command. `kinds` are the evaluation kinds that suites may have.
pub async fn run(context: &Context<'_>, kinds: Kinds, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Init(arguments) => init::run(context, &arguments),
        Command::Lint(arguments) => lint(context, kinds, &arguments),
        Command::Import(arguments) => import::run(context, kinds, &arguments).await,
        Command::Export(arguments) => export::run(context, kinds, &arguments).await,
        Command::List => list(context).await,
    }
}

pub(crate) fn read_octets(file: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let unreadable = |cause: String| {
        let file = file.display();
        Failure::bad_input("unreadable", format!("could not read {file}: {cause}"))
            .or_try("name a file that exists and that this user can read")
    };
    std::fs::File::open(file)
        .and_then(|file| file.take(MAX_OCTETS + 1).read_to_end(&mut bytes))
        .map_err(|cause| unreadable(cause.to_string()))?;
    // A CSV file cut off at the limit would still parse.
    if bytes.len() as u64 > MAX_OCTETS {
        return Err(unreadable(format!("larger than {MAX_OCTETS} bytes")).or_try("split the file"));
    }
    Ok(bytes)
}

fn read(kinds: Kinds, arguments: &File) -> Result<Result<SuiteDocument, Vec<SuiteFault>>, Failure> {
    let bytes = read_octets(&arguments.file)?;
    let extension = arguments.file.extension().and_then(|it| it.to_str());
    Ok(match extension {
        Some("yaml" | "yml") => read_yaml_suite(kinds, &bytes),
        _ => read_suite(kinds, &bytes),
    })
}

fn lint(context: &Context<'_>, kinds: Kinds, arguments: &Lint) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let document = match read(kinds, &arguments.file)? {
        Ok(document) => document,
        Err(faults) => {
            show_faults(context, &arguments.file, &faults);
            return Ok(Exit::Negative);
        }
    };
    let (reference, tasks) = (document.suite.reference(), document.suite.tasks.len());
    let beside = || scoring::beside(&arguments.file.file);
    let scoring = match arguments.scoring.clone().or_else(beside) {
        None => None,
        Some(file) => match scoring::read(context, &file, &document.suite)? {
            Some(read) => Some(read),
            None => return Ok(Exit::Negative),
        },
    };
    let document_of = scoring.as_ref().map(|it| &it.document);
    let advice = suite_lint::lint(&document.suite, document_of);
    let good = advice.is_empty() || !arguments.strict;
    if terminal.json() {
        terminal.document(&json!({
            "ok": good, "reference": reference, "taskCount": tasks, "digest": document.digest(),
            "scoringDigest": scoring.map(|it| it.digest()),
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
        let assertions = scoring.map_or_else(String::new, |it| {
            format!(", {} with assertions", it.document.tasks.len())
        });
        terminal.print(&format!(
            "{reference}: {}{assertions}, no errors{warnings}",
            counted(tasks)
        ));
    }
    Ok(if good { Exit::Good } else { Exit::Negative })
}

fn show_faults(context: &Context<'_>, arguments: &File, faults: &[SuiteFault]) {
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "ok": false,
            "error": {"code": "validation_error", "message": "the suite has errors"},
            "faults": faults,
        }));
        return;
    }
    for fault in faults {
        terminal.note(&format!("{}: {fault}", arguments.file.display()));
    }
}

async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let listed: Listed = session.client().get("/v1/host/touchstone/suites").await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"suites": listed.suites}));
        return Ok(Exit::Good);
    }
    if listed.suites.is_empty() {
        terminal.note("no suites; install a pack or run `touchstone suite import FILE`");
    }
    for suite in &listed.suites {
        let origin = match (&suite.pack, suite.signed) {
            (Some(pack), true) => format!("signed, from {pack}"),
            (Some(pack), false) => format!("unsigned, from {pack}"),
            (None, _) => "unsigned, imported".to_owned(),
        };
        let assertions = match suite.scoring_digest {
            Some(_) => ", with assertions",
            None => "",
        };
        terminal.print(&format!(
            "{}@{}  {}  {origin}{assertions}",
            suite.suite_id,
            suite.version,
            counted(usize::try_from(suite.task_count).unwrap_or(usize::MAX))
        ));
    }
    Ok(Exit::Good)
}
