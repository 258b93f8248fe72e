//! `touchstone compare`: what changed between two runs, task by task, and which changes are
//! significant.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::output::{print_result, write_file};
use crate::cli::run::reference::{explained, resolve_all};
use crate::cli::run::run_id;
use crate::cli::run::tasks::{SHOWN, show_answers};
use crate::render::comparison::{comparison, markdown};
use crate::rules::eval::comparison::{ChangeKind, RunComparison};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::statistics::RegressionVerdict;

const EXAMPLES: &str = "\
Exit codes: 0 compared; with --fail-on-regression also 1 regression and 4 undecided; 2 bad
input, 3 could not complete.

Examples:
  touchstone compare run_0199c0de run_0199c0df
  touchstone compare run_0199c0de run_0199c0df --fail-on-regression
  touchstone compare run_0199c0de run_0199c0df --fail-on-regression=any \\
    --markdown -
  touchstone --json compare run_0199c0de run_0199c0df \\
    | jq '.changes[] | select(.turn == \"broke\").taskId'";

/// Compare two runs: regressions, improvements and their significance
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Baseline run, by its id or a unique start of it, `latest` or `latest-passed`; if it is a
    /// trial, all trials of its experiment are compared
    #[arg(value_name = "BASELINE", value_parser = run_id)]
    baseline: String,

    /// Candidate run
    #[arg(value_name = "CANDIDATE", value_parser = run_id)]
    candidate: String,

    /// Exit with 1 on a regression: `shown` if the candidate is significantly worse, by more than
    /// the margin; `any` if any task that passed before fails now
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "shown")]
    fail_on_regression: Option<Regression>,

    /// Write the comparison as Markdown to this file; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Regression {
    /// Significantly worse, by more than the margin; exits with 4 if undecided
    Shown,
    /// Any task that passed before and fails now
    Any,
}

pub async fn run(context: &Context<'_>, mut arguments: Arguments) -> Result<Exit, Failure> {
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

async fn compare(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!(
        "/v1/host/touchstone/runs/{}/comparison?baseline={}",
        arguments.candidate, arguments.baseline
    );
    let found: RunComparison = session.client().get(&path).await?;
    let terminal = context.terminal();
    let to_stdout = arguments.markdown.as_deref() == Some(Path::new("-"));
    print_result(terminal, &found, || match to_stdout {
        true => markdown(&found),
        false => comparison(&found, terminal.style()),
    });
    if terminal.interactive() && !terminal.json() && !to_stdout {
        show_broken(context, session.client(), &found).await;
    }
    if let Some(file) = arguments.markdown.as_ref().filter(|_| !to_stdout) {
        write_file(file, &markdown(&found))?;
    }
    Ok(match arguments.fail_on_regression {
        None => Exit::Good,
        Some(Regression::Shown) => match found.regression.verdict {
            RegressionVerdict::Regressed => Exit::Negative,
            RegressionVerdict::NotWorse => Exit::Good,
            RegressionVerdict::Inconclusive => Exit::Inconclusive,
        },
        Some(Regression::Any) if found.broke > 0 => Exit::Negative,
        Some(Regression::Any) if found.is_whole() => Exit::Good,
        Some(Regression::Any) => Exit::Inconclusive,
    })
}

/// Prints both answers of the first tasks that broke.
async fn show_broken(context: &Context<'_>, client: &Client, found: &RunComparison) {
    let (Some(before), Some(after)) = (
        found.baseline.run_ids.first(),
        found.candidate.run_ids.first(),
    ) else {
        return;
    };
    let broke = found
        .changes
        .iter()
        .filter(|change| change.turn == ChangeKind::Broke);
    for change in broke.take(SHOWN) {
        context.terminal().print("\n");
        let runs = [before.as_str(), after.as_str()];
        let shown = show_answers(context, client, runs, change.task_id.as_str()).await;
        // The comparison is complete without them, and a key may have no access to content.
        if let Err(failure) = shown {
            let note = format!("the answers of broken tasks are not shown: {failure}");
            return context.terminal().note(&note);
        }
    }
}
