//! `touchstone suite import`: import a suite or another tool's tasks, or convert them for a pack.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::output::write_file;
use crate::cli::suite::init::suite_id;
use crate::cli::suite::{File, Shown, read, read_octets, scoring, show_faults};
use crate::rules::eval::import::{Fault, Format, Identity, Imported, Loss, convert};
use crate::rules::eval::suite_rules::check_suite;
use crate::rules::kind::Kinds;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::Terminal;
use touchstone_openwop::suite::MatchStrategy;

#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    file: File,
    /// Format of the file: promptfoo, openai-evals, inspect or csv [default: detected, else a
    /// suite]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<Format>,
    /// Id of the created suite [default: private.imported.evals. and the file name]
    #[arg(long, value_name = "ID", value_parser = suite_id)]
    suite_id: Option<String>,
    /// Version of the created suite [default: 1.0.0]
    #[arg(long, value_name = "VERSION")]
    suite_version: Option<String>,
    /// Target agent of the created suite
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Pass score of the created suite, 0 to 1
    #[arg(long, value_name = "SCORE")]
    pass_score: Option<f64>,
    /// How to compare answers where the file does not specify it: exact or contains [default:
    /// exact]
    #[arg(long = "match", value_name = "HOW", value_parser = strategy)]
    strategy: Option<MatchStrategy>,
    /// Scoring document of the suite: assertions that the suite's own format cannot express
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    scoring: Option<PathBuf>,
    /// Write the suite to this file, in the form packs use, instead of importing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Fail if any part of the file cannot be imported
    #[arg(long)]
    strict: bool,
}

impl Import {
    /// The first flag that applies only to suites created from other formats.
    fn for_a_made_suite(&self) -> Option<&'static str> {
        [
            ("--suite-id", self.suite_id.is_some()),
            ("--suite-version", self.suite_version.is_some()),
            ("--agent", self.agent.is_some()),
            ("--pass-score", self.pass_score.is_some()),
            ("--match", self.strategy.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }
}

fn format(text: &str) -> Result<Format, String> {
    Format::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.as_str()).collect();
        format!("must be one of {}", known.join(", "))
    })
}

pub fn strategy(text: &str) -> Result<MatchStrategy, String> {
    match text {
        "exact" => Ok(MatchStrategy::Exact),
        "contains" => Ok(MatchStrategy::Contains),
        _ => Err("must be exact or contains".to_owned()),
    }
}

pub async fn run(context: &Context<'_>, kinds: Kinds, arguments: &Import) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let bytes = read_octets(&arguments.file.file)?;
    let foreign = arguments.from.or_else(|| Format::of(&bytes));
    if foreign.is_none()
        && let Some(flag) = arguments.for_a_made_suite()
    {
        return Err(Failure::usage(format!(
            "{flag} applies only to files of other tools, and {} is a suite",
            arguments.file.file.display()
        ))
        .or_try("change the value in the file, or set the file's format with --from"));
    }
    let (suite, losses) = match foreign {
        Some(format) => {
            let strategy = arguments.strategy.unwrap_or(MatchStrategy::Exact);
            let converted = convert(&bytes, format, strategy, &identity(arguments));
            let Imported { suite, losses } =
                converted.map_err(|fault| refused(arguments, fault))?;
            if arguments.strict && !losses.is_empty() {
                return Ok(not_all(terminal, &losses));
            }
            (suite, losses)
        }
        None => match read(kinds, &arguments.file)? {
            Ok(document) => {
                let suite = serde_json::from_str(&document.canonical)
                    .map_err(|cause| Failure::bad_input("no_suite", cause.to_string()))?;
                (suite, Vec::new())
            }
            Err(faults) => {
                show_faults(context, &arguments.file, &faults);
                return Ok(Exit::BadInput);
            }
        },
    };
    if !terminal.json() {
        show_losses(terminal, &losses);
    }
    match &arguments.out {
        Some(file) => written(terminal, file, &suite, &losses),
        None => {
            let body = match with_scoring(context, kinds, arguments, suite)? {
                Some(body) => body,
                None => return Ok(Exit::BadInput),
            };
            let session = context.look().await?;
            let client = session.client();
            let shown: Shown = client.post("/v1/host/touchstone/suites", &body).await?;
            if terminal.json() {
                terminal.document(&json!({"ok": true, "suite": shown, "notCarriedOver": losses}));
            } else {
                imported(terminal, &shown);
            }
            Ok(Exit::Good)
        }
    }
}

/// The body of the request: the suite, with its scoring document if one is given. `None` after the
/// scoring document's faults are shown.
fn with_scoring(
    context: &Context<'_>,
    kinds: Kinds,
    arguments: &Import,
    suite: Value,
) -> Result<Option<Value>, Failure> {
    let Some(file) = &arguments.scoring else {
        return Ok(Some(suite));
    };
    let invalid = |cause: String| Failure::bad_input("no_suite", cause);
    let checked = check_suite(kinds, &suite).map_err(|faults| {
        let first = faults.first().map(ToString::to_string);
        invalid(first.unwrap_or_default())
    })?;
    let Some(read) = scoring::read(context, file, &checked)? else {
        return Ok(None);
    };
    let scoring: Value =
        serde_json::from_str(&read.canonical).map_err(|cause| invalid(cause.to_string()))?;
    Ok(Some(json!({"suite": suite, "scoring": scoring})))
}

fn identity(arguments: &Import) -> Identity {
    let usual = || {
        let stem = arguments.file.file.file_stem().unwrap_or_default();
        let name: String = stem
            .to_string_lossy()
            .to_ascii_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        format!("private.imported.evals.{name}")
    };
    Identity {
        suite_id: arguments.suite_id.clone().unwrap_or_else(usual),
        version: arguments
            .suite_version
            .clone()
            .unwrap_or_else(|| "1.0.0".to_owned()),
        target_agent_id: arguments.agent.clone(),
        pass_score: arguments.pass_score,
    }
}

fn refused(arguments: &Import, fault: Fault) -> Failure {
    let file = arguments.file.file.display();
    let failure = Failure::bad_input("not_imported", format!("{file}: {fault}"));
    match fault {
        Fault::Format { .. } => failure.or_try("set the format with --from"),
        Fault::NoTasks(losses) => {
            failure
                .with("notCarriedOver", json!(losses))
                .or_try(losses.first().map_or_else(
                    || "check that the file has tasks".to_owned(),
                    |loss| format!("check {}: {}", loss.first, loss.what),
                ))
        }
        Fault::NoSuite(_) => failure.or_try("set --suite-id, --suite-version or --pass-score"),
    }
}

fn not_all(terminal: &Terminal, losses: &[Loss]) -> Exit {
    if terminal.json() {
        terminal.document(&json!({
            "ok": false,
            "error": {"code": "not_all_carried_over", "message": "some parts of the file cannot be imported"},
            "notCarriedOver": losses,
        }));
    } else {
        show_losses(terminal, losses);
    }
    Exit::Negative
}

fn show_losses(terminal: &Terminal, losses: &[Loss]) {
    for loss in losses {
        terminal.note(&format!("not imported: {} ({})", loss.what, places(loss)));
    }
}

/// Number of skipped tasks that are listed without `--json`.
const NAMED: usize = 8;

/// Where parts were lost: every skipped task, but only the first of other details.
fn places(loss: &Loss) -> String {
    let (named, more) = loss.left_out.split_at(loss.left_out.len().min(NAMED));
    match (named, more.len(), loss.count) {
        ([], _, 1) | ([_], _, 1) => loss.first.clone(),
        ([] | [_], _, n) => format!("{}, {n} times", loss.first),
        (_, 0, _) => named.join(", "),
        (_, more, _) => format!("{} and {more} more; --json lists all", named.join(", ")),
    }
}

fn written(
    terminal: &Terminal,
    file: &Path,
    suite: &Value,
    losses: &[Loss],
) -> Result<Exit, Failure> {
    write_file(file, &format!("{suite:#}\n"))?;
    let tasks = suite
        .get("tasks")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    if terminal.json() {
        terminal.document(&json!({
            "ok": true, "file": file, "suiteId": suite.get("suiteId"), "version": suite.get("version"),
            "taskCount": tasks, "notCarriedOver": losses,
        }));
    } else {
        terminal.print(&format!("{}: {tasks} tasks", file.display()));
        terminal.note(&format!("next: touchstone suite lint {}", file.display()));
    }
    Ok(Exit::Good)
}

/// Reports an import. If a pack already provides the document, it remains the pack's, signed or
/// not.
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
        "{pack} already provides this suite; the unsigned import takes effect only if that pack is \
         removed"
    ));
}
