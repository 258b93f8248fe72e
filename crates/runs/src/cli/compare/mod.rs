//! `touchstone compare`: what changed between two runs, task by task, and which changes are
//! significant. The baseline may be a file: the attestation of a run, or a log of Inspect.

pub mod baseline_file;
pub mod log;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use crate::cli::compare::baseline_file::{
    BaselineFile, BaselineOptions, FileComparison, ReadAttested,
};
use crate::cli::output::{print_result, write_file};
use crate::cli::results::RunReport;
use crate::cli::run::reference::{explained, resolve_all};
use crate::cli::run::run_id;
use crate::cli::run::tasks::{SHOWN, fetch as fetch_task, show_answers};
use crate::cli::saved::{SavedList, SavedResponse};
use crate::cli::watch::fetch_totals;
use crate::render::comparison::{comparison, markdown};
use crate::rules::eval::comparison::{
    CHANGES, ChangeKind, ExcludedTask, RunComparison, ShortComparison, TaskChange,
};
use crate::rules::eval::report::Verdict;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::ids::TaskId;
use touchstone_kit::statistics::RegressionVerdict;

/// Tasks whose answers are shown on request.
const MAX_ANSWERS: usize = 100;
const _: () = assert!(
    MAX_ANSWERS <= CHANGES,
    "a short comparison has further tasks"
);

const EXAMPLES: &str = "\
Exit codes: 0 compared; with --fail-on-regression also 1 regression and 4 undecided; 2 bad
input, 3 could not complete.

Examples:
  touchstone compare run_0199c0de run_0199c0df
  touchstone compare run_0199c0de run_0199c0df --fail-on-regression
  touchstone compare run_0199c0de run_0199c0df --fail-on-regression=any \\
    --markdown -
  touchstone compare run_0199c0de run_0199c0df --answers
  touchstone compare logs/capitals.eval latest --scorer match
  touchstone compare main.intoto.jsonl latest --baseline-key ci.pub --fail-on-regression
  touchstone --json compare run_0199c0de run_0199c0df \\
    | jq '.changes[] | select(.turn == \"broke\").taskId'";

/// Compare two runs: regressions, improvements and their significance
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Baseline run, by its id or a unique start of it, `latest` or `latest-passed`; if it is a
    /// trial, all trials of its experiment are compared. Or a file `.jsonl` that `touchstone attest`
    /// wrote and a trusted key signed (--baseline-key). Or a log of Inspect, as a file `.eval` or
    /// `.json`: its scores are compared by task id
    #[arg(value_name = "BASELINE", value_parser = baseline)]
    baseline: String,

    /// Candidate run
    #[arg(value_name = "CANDIDATE", value_parser = run_id)]
    candidate: String,

    #[command(flatten)]
    options: BaselineOptions,

    /// Exit with 1 on a regression: `shown` if the candidate is significantly worse, by more than
    /// the margin; `any` if any task that passed before fails now
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "shown")]
    fail_on_regression: Option<Regression>,

    /// Also show both answers of the tasks that broke, in a pipe and with --json. Needs the scope
    /// runs:content [default: of the first 3 in a terminal]
    #[arg(long)]
    answers: bool,

    /// Write the comparison as Markdown to this file; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// A run, or the path of a log or an attestation.
///
/// # Errors
/// It is none of these.
pub fn baseline(text: &str) -> Result<String, String> {
    match is_log(text) || is_attestation(text) {
        true => Ok(text.to_owned()),
        false => run_id(text),
    }
}

/// Whether a baseline is the path of a log. Ids of runs contain no dots.
pub fn is_log(text: &str) -> bool {
    let extension = Path::new(text).extension();
    extension.is_some_and(|it| it.eq_ignore_ascii_case("eval") || it.eq_ignore_ascii_case("json"))
}

/// Whether a baseline is the path of an attestation.
pub fn is_attestation(text: &str) -> bool {
    let extension = Path::new(text).extension();
    extension.is_some_and(|it| it.eq_ignore_ascii_case("jsonl"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Regression {
    /// Significantly worse, by more than the margin; exits with 4 if undecided
    Shown,
    /// Any task that passed before and fails now
    Any,
}

pub async fn run(
    context: &Context<'_>,
    read: ReadAttested,
    mut arguments: Arguments,
) -> Result<Exit, Failure> {
    let file = BaselineFile::open(context, &arguments.baseline, &arguments.options, read)?;
    if let Some(file) = file {
        return compare_with_file(context, &file, arguments).await;
    }
    let named = vec![&mut arguments.baseline, &mut arguments.candidate];
    resolve_all(context, named).await?;
    match compare(context, &arguments).await {
        Err(failure) => {
            let runs = [arguments.baseline, arguments.candidate];
            Err(explained(context, &runs, failure).await)
        }
        done => done,
    }
}

async fn compare_with_file(
    context: &Context<'_>,
    file: &BaselineFile,
    mut arguments: Arguments,
) -> Result<Exit, Failure> {
    if arguments.answers && context.terminal().json() {
        return Err(
            Failure::usage("--answers with --json works only between two runs of a host")
                .or_try("omit --json or --answers"),
        );
    }
    resolve_all(context, vec![&mut arguments.candidate]).await?;
    let session = context.read().await?;
    let client = session.client();
    let totals = fetch_totals(client, &arguments.candidate).await?;
    if totals.verdict == Verdict::Pending {
        return Err(Failure::bad_input(
            "conflict",
            format!("eval run `{}` has not ended", totals.run_id),
        )
        .or_try("compare the run once it has ended"));
    }
    let report = RunReport::fetch(client, &arguments.candidate).await?;
    let found = file.compared(client, &report).await?;
    let terminal = context.terminal();
    let to_stdout = arguments.to_stdout();
    print_result(terminal, &found, || match to_stdout {
        true => found.markdown(),
        false => found.text(terminal.style()),
    });
    // An attestation has no answers.
    if let (BaselineFile::Log(log), FileComparison::Log(found)) = (file, &found)
        && (terminal.interactive() || arguments.answers)
        && !terminal.json()
        && !to_stdout
    {
        log::show_broken(context, client, found, log).await;
    }
    if let Some(file) = arguments.markdown.as_ref().filter(|_| !to_stdout) {
        write_file(file, &found.markdown())?;
    }
    Ok(match &found {
        FileComparison::Log(it) => arguments.exit(it.regression.verdict, it.broke, it.is_whole()),
        FileComparison::Run(it) => {
            arguments.exit(it.regression.verdict, it.broke, it.short().is_whole())
        }
    })
}

async fn compare(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!(
        "/v1/host/touchstone/runs/{}/comparison?baseline={}",
        arguments.candidate, arguments.baseline
    );
    let client = session.client();
    let mut response = SavedResponse::get(client, &path).await?;
    let found: ShortComparison = response.parse()?;
    let terminal = context.terminal();
    let to_stdout = arguments.to_stdout();
    if terminal.json() {
        let answers = match arguments.answers {
            true => Some(answers_of_broken(client, &found).await?),
            false => None,
        };
        terminal.document(&WithAnswers {
            comparison: response.parse()?,
            answers,
        });
    } else {
        terminal.print(&match to_stdout {
            true => markdown(&found),
            false => comparison(&found, terminal.style()),
        });
        if arguments.answers {
            show_broken(context, client, &found, MAX_ANSWERS).await?;
        } else if terminal.interactive() && !to_stdout {
            // The comparison is complete without them, and a key may have no access to content.
            if let Err(failure) = show_broken(context, client, &found, SHOWN).await {
                terminal.note(&format!(
                    "the answers of broken tasks are not shown: {failure}"
                ));
            }
        }
    }
    if let Some(file) = arguments.markdown.as_ref().filter(|_| !to_stdout) {
        write_file(file, &markdown(&found))?;
    }
    Ok(arguments.exit(found.regression.verdict, found.broke, found.is_whole()))
}

impl Arguments {
    /// Whether Markdown replaces the table.
    fn to_stdout(&self) -> bool {
        self.markdown.as_deref() == Some(Path::new("-"))
    }

    fn exit(&self, verdict: RegressionVerdict, broke: u64, is_whole: bool) -> Exit {
        match self.fail_on_regression {
            None => Exit::Good,
            Some(Regression::Shown) => match verdict {
                RegressionVerdict::Regressed => Exit::Negative,
                RegressionVerdict::NotWorse => Exit::Good,
                RegressionVerdict::Inconclusive => Exit::Inconclusive,
            },
            Some(Regression::Any) if broke > 0 => Exit::Negative,
            Some(Regression::Any) if is_whole => Exit::Good,
            Some(Regression::Any) => Exit::Inconclusive,
        }
    }
}

/// A comparison with all its tasks, and both answers of those that broke, if they are requested.
#[derive(Serialize)]
struct WithAnswers {
    #[serde(flatten)]
    comparison: RunComparison<SavedList<TaskChange>, SavedList<ExcludedTask>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Vec<BrokenAnswers>>,
}

/// A task that broke, in both runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BrokenAnswers {
    task_id: TaskId,
    baseline: Option<Value>,
    candidate: Option<Value>,
}

/// The first runs of both sides, and the tasks that broke.
fn broken(found: &ShortComparison, most: usize) -> Option<([&str; 2], Vec<&TaskId>)> {
    let (before, after) = (
        found.baseline.run_ids.first()?,
        found.candidate.run_ids.first()?,
    );
    let broke = found
        .changes
        .first
        .iter()
        .filter(|change| change.turn == ChangeKind::Broke);
    let tasks = broke.take(most).map(|change| &change.task_id);
    Some(([before.as_str(), after.as_str()], tasks.collect()))
}

/// Prints both answers of the first tasks that broke.
async fn show_broken(
    context: &Context<'_>,
    client: &Client,
    found: &ShortComparison,
    most: usize,
) -> Result<(), Failure> {
    let Some((runs, tasks)) = broken(found, most) else {
        return Ok(());
    };
    for task in tasks {
        context.terminal().print("\n");
        show_answers(context, client, runs, task.as_str()).await?;
    }
    Ok(())
}

async fn answers_of_broken(
    client: &Client,
    found: &ShortComparison,
) -> Result<Vec<BrokenAnswers>, Failure> {
    let Some(([before, after], tasks)) = broken(found, MAX_ANSWERS) else {
        return Ok(Vec::new());
    };
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(BrokenAnswers {
            task_id: task.clone(),
            baseline: fetch_task(client, before, task.as_str()).await?.actual,
            candidate: fetch_task(client, after, task.as_str()).await?.actual,
        });
    }
    Ok(answers)
}
