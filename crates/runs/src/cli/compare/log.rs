//! `touchstone compare LOG RUN`: a run against the scores of a log of Inspect.

use std::path::Path;

use serde_json::json;

use crate::cli::run::tasks::{SHOWN, show_answers_beside};
use crate::cli::suite::read_octets;
use crate::rules::eval::comparison::log_baseline::{
    LogComparison, LogFault, ScoredLog, compare_with_log, read,
};
use crate::rules::eval::statistics::ListedRun;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;

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
pub fn compared(log: &ScoredLog, run: &ListedRun) -> Result<LogComparison, Failure> {
    compare_with_log(log, run)
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
pub(super) async fn show_broken(
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
