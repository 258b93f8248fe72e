//! `touchstone compare LOG RUN`: a run against the scores of a log of Inspect.

use std::path::Path;

use serde_json::json;

use super::Arguments;
use crate::cli::output::{print_result, write_file};
use crate::cli::run::reference::resolve_all;
use crate::cli::run::tasks::{SHOWN, show_answers_beside};
use crate::cli::suite::read_octets;
use crate::cli::watch::fetch;
use crate::render::comparison::log::{log_comparison, log_markdown};
use crate::rules::eval::comparison::log_baseline::{
    LogComparison, LogFault, ScoredLog, compare_with_log, read,
};
use crate::rules::eval::report::{EvalReport, Verdict};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

/// Compares and prints the result.
///
/// # Errors
/// The log cannot be read, or the run has not ended or does not exist.
pub(super) async fn run(context: &Context<'_>, mut arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.answers && context.terminal().json() {
        return Err(
            Failure::usage("--answers with --json works only between two runs")
                .or_try("omit --json; the answers of the log are in its file"),
        );
    }
    let file = Path::new(&arguments.baseline);
    let log = read_log(file, arguments.scorer.as_deref())?;
    resolve_all(context, vec![&mut arguments.candidate]).await?;
    let session = context.read().await?;
    let client = session.client();
    let report = fetch(client, &arguments.candidate).await?;
    if report.verdict == Verdict::Pending {
        return Err(Failure::bad_input(
            "conflict",
            format!("eval run `{}` has not ended", report.run_id),
        )
        .or_try("compare the run once it has ended"));
    }
    let found = compared(&log, &report)?;
    let terminal = context.terminal();
    let to_stdout = arguments.to_stdout();
    print_result(terminal, &found, || match to_stdout {
        true => log_markdown(&found),
        false => log_comparison(&found, terminal.style()),
    });
    if (terminal.interactive() || arguments.answers) && !terminal.json() && !to_stdout {
        show_broken(context, client, &found, &log).await;
    }
    if let Some(file) = arguments.markdown.as_ref().filter(|_| !to_stdout) {
        write_file(file, &log_markdown(&found))?;
    }
    Ok(arguments.exit(found.regression.verdict, found.broke, found.is_whole()))
}

/// Reads a log with one of its scores.
///
/// # Errors
/// The file cannot be read, is not a log with scores, or has several scores to choose from.
pub fn read_log(file: &Path, scorer: Option<&str>) -> Result<ScoredLog, Failure> {
    let bytes = read_octets(file)?;
    read(&bytes, scorer).map_err(|fault| refused(file, &fault))
}

/// Compares a run that has ended with a log.
///
/// # Errors
/// They have no task in common.
pub fn compared(log: &ScoredLog, report: &EvalReport) -> Result<LogComparison, Failure> {
    compare_with_log(log, report)
        .map_err(|cause| Failure::bad_input("nothing_in_common", cause.to_string()))
}

fn refused(file: &Path, fault: &LogFault) -> Failure {
    let failure = Failure::bad_input("no_log", format!("{}: {fault}", file.display()));
    match fault {
        LogFault::SeveralScorers(known) | LogFault::UnknownScorer { known, .. } => failure
            .with("scorers", json!(known))
            .or_try("choose one with --scorer NAME"),
        LogFault::NotAScore { .. } => failure.or_try("choose another one with --scorer NAME"),
        LogFault::NotALog(_) => failure.or_try("name a log of Inspect, or the id of a run"),
        LogFault::NoScores => failure,
    }
}

/// Prints both answers of the first tasks that broke.
async fn show_broken(
    context: &Context<'_>,
    client: &Client,
    found: &LogComparison,
    log: &ScoredLog,
) {
    let run = found.candidate.run_id.as_str();
    for task in found.broken().take(SHOWN) {
        context.terminal().print("\n");
        let answer = log.answer(task);
        let shown = show_answers_beside(context, client, answer, run, task.as_str()).await;
        // The comparison is complete without them, and a key may have no access to content.
        if let Err(failure) = shown {
            let note = format!("the answers of broken tasks are not shown: {failure}");
            return context.terminal().note(&note);
        }
    }
}
