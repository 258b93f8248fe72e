//! `touchstone compare`: what changed from one run to another, task by task, and what of it chance explains.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::run::run_id;
use crate::domain::eval::comparison::RunComparison;
use crate::domain::statistics::RegressionVerdict;
use crate::render::comparison::{comparison, markdown};

const EXAMPLES: &str = "\
Exit codes: 0 compared; 1 a regression, and 4 it may be one, under --fail-on-regression only; 2 bad input, 3 not carried out.

Examples:
  touchstone compare run_0199c0de run_0199c0df
  touchstone compare run_0199c0de run_0199c0df --fail-on-regression
  touchstone compare run_0199c0de run_0199c0df --fail-on-regression=any --markdown -
  touchstone --json compare run_0199c0de run_0199c0df | jq '.changes[] | select(.turn == \"broke\").taskId'";

/// Compare two runs: what broke, what was fixed, what of it chance explains
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The run to compare with; a trial stands for all of its experiment
    #[arg(value_name = "BASELINE", value_parser = run_id)]
    baseline: String,

    /// The run to look at
    #[arg(value_name = "CANDIDATE", value_parser = run_id)]
    candidate: String,

    /// Exit with 1 if the candidate is worse: beyond chance and the margin, or if any task broke
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "shown")]
    fail_on_regression: Option<Regression>,

    /// Write the comparison as Markdown; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// What is taken for a regression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Regression {
    /// Worse by more than the margin, beyond chance; 4 where that can be neither said nor ruled out
    Shown,
    /// Any task that passed and does not now, chance or not
    Any,
}

/// Compares them.
pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let path = format!(
        "/v1/host/touchstone/runs/{}/comparison?baseline={}",
        arguments.candidate, arguments.baseline
    );
    let found: RunComparison = session.client().get(&path).await?;
    let terminal = context.terminal();
    let to_stdout = arguments.markdown.as_deref() == Some(Path::new("-"));
    if terminal.json() {
        terminal.document(&found);
    } else if to_stdout {
        terminal.print(&markdown(&found));
    } else {
        terminal.print(&comparison(&found, terminal.style()));
    }
    if let Some(file) = arguments.markdown.as_ref().filter(|_| !to_stdout) {
        std::fs::write(file, markdown(&found)).map_err(|cause| {
            Failure::not_done(
                "file_not_written",
                format!("{} cannot be written: {cause}", file.display()),
            )
        })?;
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
