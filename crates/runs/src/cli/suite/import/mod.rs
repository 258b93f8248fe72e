//! `touchstone suite import`: import a suite or another tool's tasks, or convert them for a pack.

pub mod folder;
mod lines;
mod output;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use self::folder::Folder;
use self::output::Output;
use crate::cli::suite::init::suite_id;
use crate::cli::suite::{File, Shown, read, read_octets, scoring, show_faults};
use crate::rules::eval::import::{
    Columns, Fault, Format, Identity, Imported, Loss, Options, Recognition, Source, convert,
    recognize,
};
use crate::rules::kind::Kinds;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::suite::MatchStrategy;

#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    file: File,
    /// Format of the file: promptfoo, openai-evals, inspect, inspect-log, deepeval, langfuse,
    /// braintrust, otel, table or touchstone [default: detected, else a suite]
    #[arg(long, alias = "from", value_name = "FORMAT", value_parser = format)]
    format: Option<Format>,
    /// Column that holds the input; dots separate nested members
    #[arg(long, value_name = "COLUMN")]
    input: Option<String>,
    /// Column that holds the expected answer; dots separate nested members
    #[arg(long, value_name = "COLUMN")]
    expected: Option<String>,
    /// Column that holds the name of a task; dots separate nested members
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// Folder that the files named in FILE must be in [default: the folder of FILE]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
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
    /// Scoring document of the suite in FILE: assertions that the suite's own format cannot express
    /// [default: NAME.scoring.json next to NAME.json, if it exists]
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    scoring: Option<PathBuf>,
    /// Write to this file (.json: the suite, with NAME.scoring.json next to it) or folder (a pack
    /// with an agent per prompt) instead of importing
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    /// Overwrite the files of an existing pack
    #[arg(long, requires = "out")]
    force: bool,
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
            ("--input", self.input.is_some()),
            ("--expected", self.expected.is_some()),
            ("--id", self.id.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    fn columns(&self) -> Columns {
        Columns {
            input: self.input.clone(),
            expected: self.expected.clone(),
            id: self.id.clone(),
        }
    }
}

pub fn format(text: &str) -> Result<Format, String> {
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

/// The format of the file and what it was read as; `None` for a suite.
fn format_of(
    arguments: &Import,
    bytes: &[u8],
    columns: &Columns,
) -> Result<Option<(Format, Option<String>)>, Failure> {
    if let Some(format) = arguments.format {
        return Ok(Some((format, None)));
    }
    if arguments.scoring.is_some() {
        return Ok(None);
    }
    let file = arguments.file.file.display();
    match recognize(bytes, columns) {
        Recognition::Format(it) => Ok(Some((it.format, Some(it.explanation)))),
        Recognition::Suite => match arguments.for_a_made_suite() {
            Some(flag) => Err(Failure::usage(format!(
                "{flag} applies only to files of other tools, and {file} is a suite"
            ))
            .or_try("change the value in the file, or set the file's format with --format")),
            None => Ok(None),
        },
        Recognition::Unknown(reason) => {
            Err(
                Failure::bad_input("not_recognized", format!("{file}: {reason}")).or_try(
                    "name the columns with --input and --expected, or the format with --format; \
             docs/importing.md lists the formats",
                ),
            )
        }
    }
}

pub async fn run(context: &Context<'_>, kinds: Kinds, arguments: &Import) -> Result<Exit, Failure> {
    if arguments.format.is_none() && lines::is_suite_of_lines(&arguments.file.file) {
        let program = context.program();
        let output = Output {
            terminal: context.terminal(),
            program: &program,
            read_as: None,
        };
        return lines::import(context, &output, arguments).await;
    }
    let bytes = read_octets(&arguments.file.file)?;
    let columns = arguments.columns();
    let format = format_of(arguments, &bytes, &columns)?;
    let read_as = format
        .as_ref()
        .and_then(|(_, explanation)| explanation.clone());
    let program = context.program();
    let output = Output {
        terminal: context.terminal(),
        program: &program,
        read_as: read_as.as_deref(),
    };
    let is_made = format.is_some();
    let mut imported = match format {
        Some((format, explanation)) => {
            if let Some(explanation) = explanation.filter(|_| !output.terminal.json()) {
                let file = arguments.file.file.display();
                let change = "--format, --input and --expected change it";
                output
                    .terminal
                    .note(&format!("read {file} as {explanation} ({change})"));
            }
            converted(arguments, &bytes, format, &columns)?
        }
        None => match suite(context, kinds, arguments)? {
            Some(imported) => imported,
            None => return Ok(Exit::BadInput),
        },
    };
    let is_pack = arguments
        .out
        .as_deref()
        .is_some_and(|out| !is_suite_file(out));
    if !is_pack {
        drop_agents(&mut imported);
    }
    if arguments.strict && !imported.losses.is_empty() {
        return Ok(output.not_all(&imported.losses));
    }
    if !output.terminal.json() {
        output.losses(&imported.losses);
    }
    match &arguments.out {
        Some(file) if is_suite_file(file) => output.suite(file, &imported),
        Some(folder) => output.pack(folder, arguments.force, &imported),
        None => {
            let session = context.write().await?;
            let client = session.client();
            let path = "/v1/host/touchstone/suites";
            let body = match &imported.scoring {
                Some(scoring) => json!({"suite": imported.suite, "scoring": scoring}),
                None => imported.suite,
            };
            let shown: Result<Shown, Failure> = client.post(path, &body).await;
            let shown = shown.map_err(|failure| match is_made {
                true if failure.code == ErrorCode::Conflict.as_str() => failure.or_try(
                    "name the suite with --suite-id ID, or give it another version with \
                     --suite-version VERSION",
                ),
                _ => failure,
            })?;
            output.installed(&shown, &imported.losses);
            Ok(Exit::Good)
        }
    }
}

fn is_suite_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("json"))
}

fn converted(
    arguments: &Import,
    bytes: &[u8],
    format: Format,
    columns: &Columns,
) -> Result<Imported, Failure> {
    let files = Folder::of(&arguments.file.file, arguments.root.as_deref())?;
    let source = Source {
        bytes,
        files: &files,
    };
    let identity = identity(arguments);
    let options = Options {
        format,
        strategy: arguments.strategy.unwrap_or(MatchStrategy::Exact),
        columns,
        identity: &identity,
    };
    convert(&source, &options).map_err(|fault| refused(arguments, fault))
}

/// Only a pack has agents.
fn drop_agents(imported: &mut Imported) {
    let agents = std::mem::take(&mut imported.agents);
    if !agents.is_empty() {
        imported.losses.push(Loss {
            what: "prompts; write a pack with --out DIR to turn them into agents".to_owned(),
            count: agents.len(),
            first: "prompts".to_owned(),
            left_out: Vec::new(),
        });
    }
}

/// The suite in the file, with its scoring document if one is given or beside it. `None` after
/// faults are shown.
fn suite(
    context: &Context<'_>,
    kinds: Kinds,
    arguments: &Import,
) -> Result<Option<Imported>, Failure> {
    let document = match read(kinds, &arguments.file)? {
        Ok(document) => document,
        Err(faults) => {
            show_faults(context, &arguments.file, &faults);
            return Ok(None);
        }
    };
    let parsed = |text: &str| {
        serde_json::from_str(text)
            .map_err(|cause| Failure::bad_input("no_suite", cause.to_string()))
    };
    let mut imported = Imported::of_suite(parsed(&document.canonical)?);
    let named = arguments.scoring.clone();
    if let Some(file) = named.or_else(|| scoring::beside(&arguments.file.file)) {
        let Some(read) = scoring::read(context, &file, &document.suite)? else {
            return Ok(None);
        };
        if arguments.scoring.is_none() {
            scoring::announce(context, &file);
        }
        imported.scoring = Some(parsed(&read.canonical)?);
    }
    Ok(Some(imported))
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
        format!("private.imported.evals.{}", name.trim_matches('-'))
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
        Fault::Format { .. } => failure.or_try(
            "set the format with --format, or the columns with --input, --expected and --id",
        ),
        Fault::NoTasks(losses) => {
            // The reason that concerns most tasks.
            let most = losses.iter().max_by_key(|loss| loss.left_out.len());
            failure
                .with("notCarriedOver", json!(losses))
                .or_try(most.map_or_else(
                    || "check that the file has tasks".to_owned(),
                    |loss| format!("check {}: {}", loss.first, loss.what),
                ))
        }
        Fault::NoSuite(_) => failure.or_try("set --suite-id, --suite-version or --pass-score"),
    }
}
