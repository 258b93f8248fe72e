//! `touchstone run`: list, inspect, cancel, pause, answer, retry and delete runs.

pub mod annotate;
pub mod bundle;
pub mod control;
pub mod diff;
pub mod events;
pub mod fork;
pub mod interrupts;
pub mod list;
pub mod reference;
pub mod report;
pub mod retry;
pub mod statistics;
pub mod storage;
pub mod tag;
pub mod tasks;

pub use crate::cli::run::statistics::exit_of;

use std::time::Duration;

use clap::{Args, Subcommand};
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::cli::output::print_result;
use crate::cli::results::RunReport;
use crate::cli::watch::{Outputs, show};
use crate::rules::kind::Kinds;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

/// List, inspect, cancel, pause, answer, retry, fork and delete runs
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone run list --verdict fail\n  touchstone run show run_0199c0de\n  touchstone run events run_0199c0de --follow"
)]
pub enum Command {
    /// List runs, newest first
    #[command(
        after_help = "A run is listed if it meets all conditions. In a terminal, ids are shortened to a prefix that other commands accept; pipes and --json get the whole ids.\n\nExamples:\n  touchstone run list\n  touchstone run list --agent vendor.acme.triage.default --verdict fail --since 7d\n  touchstone run list --suite vendor.acme.evals.triage@1.0.0 --limit 100\n  touchstone --json run list --status running | jq -r '.runs[].runId'"
    )]
    List(Box<list::List>),
    /// Show the scorecard of a run, or its tasks in detail; the scorecard exits like
    /// `touchstone eval`, with 0 while the run is unfinished
    #[command(
        after_help = "--task and --failed show the content of tasks. They exit with 0 if the tasks can be read, and need the scope runs:content on a remote host. With --json, --failed prints one document per line.\n\nExamples:\n  touchstone run show run_0199c0de\n  touchstone run show run_0199c0de --task refund-twice\n  touchstone run show run_0199c0de --failed\n  touchstone run show run_0199c0de --junit eval.xml\n  touchstone --json run show run_0199c0de"
    )]
    Show(Show),
    /// Write the result of a run as an HTML page, for people who approve, or as SARIF
    #[command(
        after_help = "The page is one file and loads nothing. It shows verdict and confidence, conditions of a gate, the comparison with a baseline, distributions, cost, and the tasks that did not pass. --with-content adds their inputs, answers and transcripts, and marks the page; it needs the scope runs:content on a remote host. The SARIF file has a result for every safety finding and every task that did not pass, for code scanning.\n\nExamples:\n  touchstone run report run_0199c0de --html report.html\n  touchstone run report run_0199c0de --sarif eval.sarif --suite-file evals/triage.json\n  touchstone run report run_0199c0de --html report.html --baseline run_0199c0dd\n  touchstone run report run_0199c0de --html report.html --with-content"
    )]
    Report(report::Report),
    /// Print the recorded events of a run
    #[command(
        after_help = "Examples:\n  touchstone run events run_0199c0de\n  touchstone run events run_0199c0de --follow\n  touchstone --json run events run_0199c0de | jq .type"
    )]
    Events(events::Events),
    /// Annotate a run or the score of a task; recorded events do not change
    #[command(
        after_help = "Examples:\n  touchstone run annotate run_0199c0de --task refund-twice --correct billing\n  touchstone run annotate run_0199c0de --rating 4 --note good\n  touchstone run annotate latest --note prompt-2"
    )]
    Annotate(annotate::Annotate),
    /// Export a debug bundle without task content
    #[command(
        after_help = "Examples:\n  touchstone run bundle run_0199c0de --out bundle.json\n  touchstone run bundle run_0199c0de --max-events 100 | jq .run.status"
    )]
    Bundle(bundle::Bundle),
    /// Compare two runs event by event
    #[command(
        after_help = "Exit codes: 0 no difference, 1 different, 2 bad input, 3 could not complete.\n\nExamples:\n  touchstone run diff run_0199c0de run_0199c0df\n  touchstone --json run diff run_0199c0de run_0199c0df"
    )]
    Diff(diff::Diff),
    /// Show confidence intervals and significance of a run's scores
    #[command(
        after_help = "Exit codes: 0 the pass score is reached with significance, 1 missed with significance, 2 bad input, 3 could not complete, 4 too few tasks to decide.\n\nExamples:\n  touchstone run statistics run_0199c0de\n  touchstone --json run statistics run_0199c0de | jq .gate"
    )]
    Statistics(RunArgument),
    /// Fork a run: replay it, or branch from an event
    #[command(
        after_help = "Exit codes: 0 passed with significance, 1 failed, 2 bad input, 3 could not complete, 4 inconclusive. Workflows: 0 completed or waiting for an answer, 1 failed, 4 cancelled.\n\nExamples:\n  touchstone run fork run_0199c0de\n  touchstone run fork run_0199c0de --mode branch --from-seq 120"
    )]
    Fork(fork::Fork),
    /// Cancel a run
    #[command(
        after_help = "Examples:\n  touchstone run cancel run_0199c0de --reason 'wrong model'"
    )]
    Cancel(control::Cancel),
    /// Pause a run after the tasks in flight have ended
    #[command(
        after_help = "Exit codes: 0 paused or pausing, 2 not running, 3 no host.\n\nExamples:\n  touchstone run pause run_0199c0de\n  touchstone run pause run_0199c0de --now"
    )]
    Pause(control::Pause),
    /// Resume a paused run
    #[command(
        after_help = "Exit codes: 0 resumed, 2 not paused, 3 no host.\n\nExamples:\n  touchstone run resume run_0199c0de"
    )]
    Resume(RunArgument),
    /// List the open interrupts of a run: the questions and approvals it waits for
    #[command(
        after_help = "Examples:\n  touchstone run interrupts run_0199c0de\n  touchstone --json run interrupts run_0199c0de | jq '.interrupts[].token'"
    )]
    Interrupts(RunArgument),
    /// Answer an interrupt of a run
    #[command(
        after_help = "Exit codes: 0 answered, 2 refused or too late, 3 no host.\n\nExamples:\n  touchstone run answer run_0199c0de gate --accept\n  touchstone run answer run_0199c0de ask --value '{\"answers\":{\"q1\":\"blue\"}}'"
    )]
    Answer(interrupts::Answer),
    /// Create a run that reuses the judged tasks and executes the others
    #[command(
        after_help = "Exit codes: 0 passed with significance, 1 failed, 2 bad input, 3 could not complete, 4 still inconclusive. A run whose command was killed is continued instead, as by `touchstone run continue`.\n\nExamples:\n  touchstone run retry run_0199c0de\n  touchstone run retry run_0199c0de --junit eval.xml"
    )]
    Retry(retry::Retry),
    /// Continue an unfinished run whose process has ended
    #[command(
        after_help = "Continues a run whose command was killed, with the same models: judged tasks are kept. A remote host continues its runs itself; then this command only follows the run. A paused run is resumed with `touchstone run resume`, and unjudged tasks of a run that has ended are executed by `touchstone run retry`.\n\nExit codes: 0 passed with significance, 1 failed, 2 bad input, 3 could not complete, 4 inconclusive.\n\nExamples:\n  touchstone run continue run_0199c0de\n  touchstone run continue latest --agent-command ./agent.py"
    )]
    Continue(retry::Retry),
    /// Add tags to a run, or remove them
    #[command(
        after_help = "Tags group runs in lists. They change no score.\n\nExamples:\n  touchstone run tag latest nightly\n  touchstone run tag run_0199c0de nightly --remove\n  touchstone run list --tag nightly"
    )]
    Tag(tag::Tag),
    /// Delete runs that have ended; gates keep the scores of eval runs
    #[command(
        after_help = "Deletes inputs, messages and annotations. Scores of eval runs are kept without content, because gates count every attempt. Needs the scope runs:delete.\n\nExit codes: 0 deleted, 2 not found or refused, 3 could not complete.\n\nExamples:\n  touchstone run delete run_0199c0de"
    )]
    Delete(storage::Delete),
    /// Place a legal hold on a run, so that it cannot be deleted
    #[command(
        after_help = "Needs the scope runs:hold.\n\nExamples:\n  touchstone run hold run_0199c0de --reason case-17"
    )]
    Hold(storage::Hold),
    /// Release the legal hold of a run
    #[command(
        after_help = "Needs the scope runs:hold.\n\nExamples:\n  touchstone run release run_0199c0de"
    )]
    Release(RunArgument),
    /// Archive a run that has ended; the run stays
    #[command(
        after_help = "Writes the run with its log and its annotations to the archive of the host ([archive] in its configuration), and replaces an earlier archive of the run. `touchstone archive` reads archives. Needs the scope runs:delete.\n\nExit codes: 0 archived, 2 not found or not ended, 3 could not complete.\n\nExamples:\n  touchstone run archive run_0199c0de"
    )]
    Archive(RunArgument),
    /// Show storage use and quotas
    #[command(after_help = "Examples:\n  touchstone run usage\n  touchstone --json run usage")]
    Usage,
    /// Declare an eval run void: gates no longer count its scores
    #[command(
        after_help = "A gate pools all runs of the same agent, suite and model, and each run makes it stricter. A void run still counts as an attempt. Report, gate checks and audit log show the principal and the reason. This cannot be undone. Needs the scope runs:void.\n\nExit codes: 0 voided, 2 refused, 3 no host.\n\nExamples:\n  touchstone run void run_0199c0de --reason misconfigured"
    )]
    Void(control::Void),
}

#[derive(Debug, Args)]
pub struct Show {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,

    /// Show this task only: input, expected and actual answer, and transcript
    #[arg(long, value_name = "TASK", conflicts_with = "failed")]
    task: Option<String>,

    /// Show every task that did not pass like with --task
    #[arg(long)]
    failed: bool,

    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Debug, Args)]
pub struct RunArgument {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub run: String,
}

/// Parses a run id. Other characters could change the request path.
pub fn run_id(text: &str) -> Result<String, String> {
    let valid = (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if valid {
        Ok(text.to_owned())
    } else {
        Err("a run id may contain only letters, digits, `_` and `-`".to_owned())
    }
}

impl Command {
    /// The arguments that name runs.
    fn named_runs(&mut self) -> Vec<&mut String> {
        match self {
            Self::Show(it) => vec![&mut it.run],
            Self::Report(it) => std::iter::once(&mut it.run)
                .chain(&mut it.baseline)
                .collect(),
            Self::Events(it) => vec![&mut it.run],
            Self::Annotate(it) => vec![&mut it.run],
            Self::Bundle(it) => vec![&mut it.run],
            Self::Diff(it) => vec![&mut it.a, &mut it.b],
            Self::Fork(it) => vec![&mut it.run],
            Self::Cancel(it) => vec![&mut it.run],
            Self::Pause(it) => vec![&mut it.run],
            Self::Answer(it) => vec![&mut it.run],
            Self::Retry(it) | Self::Continue(it) => vec![&mut it.run],
            Self::Tag(it) => vec![&mut it.run],
            Self::Hold(it) => vec![&mut it.run],
            Self::Void(it) => vec![&mut it.run],
            Self::Delete(it) => it.runs.iter_mut().collect(),
            Self::Statistics(it)
            | Self::Resume(it)
            | Self::Interrupts(it)
            | Self::Release(it)
            | Self::Archive(it) => {
                vec![&mut it.run]
            }
            Self::List(_) | Self::Usage => Vec::new(),
        }
    }
}

pub async fn run(
    context: &Context<'_>,
    kinds: Kinds,
    mut command: Command,
) -> Result<Exit, Failure> {
    reference::resolve_all(context, command.named_runs()).await?;
    let runs: Vec<String> = command
        .named_runs()
        .into_iter()
        .map(|it| it.clone())
        .collect();
    match dispatch(context, kinds, command).await {
        Err(failure) => Err(reference::explained(context, &runs, failure).await),
        done => done,
    }
}

async fn dispatch(context: &Context<'_>, kinds: Kinds, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Show(arguments) => {
            let outputs = arguments.outputs.as_asked();
            outputs.check()?;
            let session = context.read().await?;
            if let Some(task) = &arguments.task {
                return tasks::show_task(context, session.client(), &arguments.run, task).await;
            }
            if arguments.failed {
                return tasks::show_failed(context, &session, &arguments.run).await;
            }
            let report = RunReport::fetch(session.client(), &arguments.run).await?;
            show(context, &session, kinds, &report, &outputs).await
        }
        Command::List(arguments) => list::run(context, &arguments).await,
        Command::Report(arguments) => report::run(context, &arguments).await,
        Command::Events(arguments) => events::run(context, &arguments).await,
        Command::Annotate(arguments) => annotate::run(context, &arguments).await,
        Command::Statistics(arguments) => statistics::run(context, &arguments).await,
        Command::Bundle(arguments) => bundle::run(context, &arguments).await,
        Command::Diff(arguments) => diff::run(context, &arguments).await,
        Command::Fork(arguments) => fork::run(context, kinds, &arguments).await,
        Command::Cancel(arguments) => control::cancel(context, &arguments).await,
        Command::Pause(arguments) => control::pause(context, &arguments).await,
        Command::Resume(arguments) => control::resume(context, &arguments).await,
        Command::Interrupts(arguments) => interrupts::list(context, &arguments).await,
        Command::Answer(arguments) => interrupts::answer(context, &arguments).await,
        Command::Retry(arguments) => retry::retry(context, kinds, &arguments).await,
        Command::Continue(arguments) => retry::resume(context, kinds, &arguments).await,
        Command::Tag(arguments) => tag::run(context, &arguments).await,
        Command::Delete(arguments) => storage::delete(context, &arguments).await,
        Command::Hold(arguments) => storage::hold(context, &arguments).await,
        Command::Release(arguments) => storage::release(context, &arguments).await,
        Command::Archive(arguments) => storage::archive(context, &arguments).await,
        Command::Usage => storage::usage(context).await,
        Command::Void(arguments) => control::void(context, &arguments).await,
    }
}

/// Follows a run to its end.
async fn until_ended(client: &Client, run: &str) -> Result<(), Failure> {
    let mut events = std::pin::pin!(client.events(run, "updates", Duration::ZERO, None));
    while let Some(event) = events.next().await {
        event?;
    }
    Ok(())
}

/// Posts to an action of a run, and prints that it is `done`.
async fn post_action(
    context: &Context<'_>,
    run: &str,
    action: &str,
    body: &Value,
    done: &str,
) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!("/v1/host/touchstone/runs/{run}:{action}");
    let answer: Value = session.client().post(&path, body).await?;
    print_result(context.terminal(), &answer, || format!("{run} {done}"));
    Ok(Exit::Good)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("run_0199c0de", true)]
    #[case("", false)]
    #[case("../keys", false)]
    #[case("run_1?x=1", false)]
    fn only_run_ids_become_part_of_a_path(#[case] text: &str, #[case] sound: bool) {
        assert_eq!(run_id(text).is_ok(), sound);
    }
}
