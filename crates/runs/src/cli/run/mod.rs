//! `touchstone run`: inspect, cancel, pause, answer, retry and delete runs.

pub mod annotate;
pub mod bundle;
pub mod delete;
pub mod diff;
pub mod fork;
pub mod interrupts;
pub mod pause;
pub mod statistics;
pub mod void;

pub use crate::cli::run::statistics::exit_of;

use std::time::Duration;

use clap::{Args, Subcommand};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::cli::watch::{Outputs, Started, fetch, show, watch};
use crate::rules::kind::Kinds;
use crate::rules::run::fold::RunStatus;
use touchstone_agents::cli::{ModelEndpoint, work_with};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::{Client, EventPage};
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;

/// How long a cancellation may take: the lease of a killed process has to expire first.
const CANCEL_TAKES: Duration = Duration::from_secs(30);
/// How long `run cancel` waits for the run to end.
const CANCEL_SHOWS: Duration = Duration::from_secs(3);

/// Inspect, cancel, pause, answer, retry, fork and delete runs
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone run show run_0199c0de\n  touchstone run events run_0199c0de --follow"
)]
pub enum Command {
    /// Show the scorecard of a run; exits like `touchstone eval`, with 0 while the run is
    /// unfinished
    #[command(
        after_help = "Examples:\n  touchstone run show run_0199c0de\n  touchstone run show run_0199c0de --junit eval.xml\n  touchstone --json run show run_0199c0de"
    )]
    Show(Show),
    /// Print the recorded events of a run
    #[command(
        after_help = "Examples:\n  touchstone run events run_0199c0de\n  touchstone run events run_0199c0de --follow\n  touchstone --json run events run_0199c0de | jq .type"
    )]
    Events(Events),
    /// Annotate a run or the score of a task; recorded events do not change
    #[command(
        after_help = "Examples:\n  touchstone run annotate run_0199c0de --task refund-twice --correct billing\n  touchstone run annotate run_0199c0de --rating 4 --note good"
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
    Statistics(statistics::Which),
    /// Fork a run: replay it, or branch from an event
    #[command(
        after_help = "Exit codes: 0 passed with significance, 1 failed, 2 bad input, 3 could not complete, 4 inconclusive. Workflows: 0 completed or waiting for an answer, 1 failed, 4 cancelled.\n\nExamples:\n  touchstone run fork run_0199c0de\n  touchstone run fork run_0199c0de --mode branch --from-seq 120"
    )]
    Fork(fork::Fork),
    /// Cancel a run
    #[command(
        after_help = "Examples:\n  touchstone run cancel run_0199c0de --reason 'wrong model'"
    )]
    Cancel(Cancel),
    /// Pause a run after the tasks in flight have ended
    #[command(
        after_help = "Exit codes: 0 paused or pausing, 2 not running, 3 no host.\n\nExamples:\n  touchstone run pause run_0199c0de\n  touchstone run pause run_0199c0de --now"
    )]
    Pause(pause::Pause),
    /// Resume a paused run
    #[command(
        after_help = "Exit codes: 0 resumed, 2 not paused, 3 no host.\n\nExamples:\n  touchstone run resume run_0199c0de"
    )]
    Resume(pause::Resume),
    /// List the open interrupts of a run: the questions and approvals it waits for
    #[command(
        after_help = "Examples:\n  touchstone run interrupts run_0199c0de\n  touchstone --json run interrupts run_0199c0de | jq '.interrupts[].token'"
    )]
    Interrupts(interrupts::Interrupts),
    /// Answer an interrupt of a run
    #[command(
        after_help = "Exit codes: 0 answered, 2 refused or too late, 3 no host.\n\nExamples:\n  touchstone run answer run_0199c0de gate --accept\n  touchstone run answer run_0199c0de ask --value '{\"answers\":{\"q1\":\"blue\"}}'"
    )]
    Answer(interrupts::Answer),
    /// Create a run that reuses the judged tasks and executes the others
    #[command(
        after_help = "Exit codes: 0 passed with significance, 1 failed, 2 bad input, 3 could not complete, 4 still inconclusive. If the command of an unfinished run was killed and the models are the same, that run is resumed instead.\n\nExamples:\n  touchstone run retry run_0199c0de\n  touchstone run retry run_0199c0de --junit eval.xml"
    )]
    Retry(Retry),
    /// Delete runs that have ended; gates keep the scores of eval runs
    #[command(
        after_help = "Deletes inputs, messages and annotations. Scores of eval runs are kept without content, because gates count every attempt. Needs the scope runs:delete.\n\nExit codes: 0 deleted, 2 not found or refused, 3 could not complete.\n\nExamples:\n  touchstone run delete run_0199c0de"
    )]
    Delete(delete::Delete),
    /// Place a legal hold on a run, so that it cannot be deleted
    #[command(
        after_help = "Needs the scope runs:hold.\n\nExamples:\n  touchstone run hold run_0199c0de --reason case-17"
    )]
    Hold(delete::Hold),
    /// Release the legal hold of a run
    #[command(
        after_help = "Needs the scope runs:hold.\n\nExamples:\n  touchstone run release run_0199c0de"
    )]
    Release(delete::Release),
    /// Show storage use and quotas
    #[command(after_help = "Examples:\n  touchstone run usage\n  touchstone --json run usage")]
    Usage,
    /// Declare an eval run void: gates no longer count its scores
    #[command(
        after_help = "A gate pools all runs of the same agent, suite and model, and each run makes it stricter. A void run still counts as an attempt. Report, gate checks and audit log show the principal and the reason. This cannot be undone. Needs the scope runs:void.\n\nExit codes: 0 voided, 2 refused, 3 no host.\n\nExamples:\n  touchstone run void run_0199c0de --reason misconfigured"
    )]
    Void(void::Void),
}

#[derive(Debug, Args)]
pub struct Show {
    /// Run id
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Debug, Args)]
pub struct Events {
    /// Run id
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// Wait for further events until the run ends
    #[arg(long)]
    follow: bool,
    /// Show only events with a higher sequence number
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    after: u64,
}

#[derive(Debug, Args)]
pub struct Cancel {
    /// Run id
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// Reason to record with the cancellation
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct Retry {
    /// Run id of the run with unjudged tasks
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    #[command(flatten)]
    model: ModelEndpoint,
    #[command(flatten)]
    outputs: Outputs,
}

/// Parses a run id. Other characters could change the request path.
pub fn run_id(text: &str) -> Result<String, String> {
    let sound = (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'_' | b'-'));
    if sound {
        Ok(text.to_owned())
    } else {
        Err("a run id may contain only letters, digits, `_` and `-`".to_owned())
    }
}

pub async fn run(context: &Context<'_>, kinds: Kinds, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Show(arguments) => {
            let outputs = arguments.outputs.as_asked();
            outputs.check()?;
            let session = context.look().await?;
            let report = fetch(session.client(), &arguments.run).await?;
            show(context, &session, kinds, &report, &outputs).await
        }
        Command::Events(arguments) => events(context, &arguments).await,
        Command::Annotate(arguments) => annotate::run(context, &arguments).await,
        Command::Statistics(arguments) => statistics::run(context, &arguments).await,
        Command::Bundle(arguments) => bundle::run(context, &arguments).await,
        Command::Diff(arguments) => diff::run(context, &arguments).await,
        Command::Fork(arguments) => fork::run(context, kinds, &arguments).await,
        Command::Cancel(arguments) => cancel(context, &arguments).await,
        Command::Pause(arguments) => pause::pause(context, &arguments).await,
        Command::Resume(arguments) => pause::resume(context, &arguments).await,
        Command::Interrupts(arguments) => interrupts::list(context, &arguments).await,
        Command::Answer(arguments) => interrupts::answer(context, &arguments).await,
        Command::Retry(arguments) => retry(context, kinds, &arguments).await,
        Command::Delete(arguments) => delete::delete(context, &arguments).await,
        Command::Hold(arguments) => delete::hold(context, &arguments).await,
        Command::Release(arguments) => delete::release(context, &arguments).await,
        Command::Usage => delete::usage(context).await,
        Command::Void(arguments) => void::run(context, &arguments).await,
    }
}

async fn retry(context: &Context<'_>, kinds: Kinds, arguments: &Retry) -> Result<Exit, Failure> {
    arguments.outputs.check()?;
    let session = work_with(context, arguments.model.config(), OwnModels::default()).await?;
    let outcome = async {
        let started = start_retry(context, session.client(), &arguments.run).await?;
        watch(
            context,
            &session,
            kinds,
            &started.run_id,
            &arguments.outputs,
        )
        .await
    }
    .await;
    session.close().await;
    outcome
}

/// Requests a retry. If the run is still being cancelled, waits for it to end and requests it
/// again.
async fn start_retry(
    context: &Context<'_>,
    client: &Client,
    run: &str,
) -> Result<Started, Failure> {
    let path = format!("/v1/host/touchstone/runs/{run}:retry");
    let refused = match client.post(&path, &json!({})).await {
        Err(failure) if reason(&failure) == Some("cancelling") => failure,
        outcome => return outcome.map_err(|failure| advised(context, run, failure)),
    };
    context
        .terminal()
        .note(&format!("{run} is being cancelled; waiting for it to end"));
    match tokio::time::timeout(CANCEL_TAKES, until_ended(client, run)).await {
        Ok(ended) => ended?,
        Err(_) => return Err(advised(context, run, refused)),
    }
    let outcome = client.post(&path, &json!({})).await;
    outcome.map_err(|failure| advised(context, run, failure))
}

/// Follows a run to its end.
async fn until_ended(client: &Client, run: &str) -> Result<(), Failure> {
    let mut events = std::pin::pin!(client.events(run, "updates", Duration::ZERO, 0));
    while let Some(event) = events.next().await {
        event?;
    }
    Ok(())
}

fn reason(failure: &Failure) -> Option<&str> {
    failure.details.get("reason").and_then(Value::as_str)
}

/// Adds the command to use instead to a refused retry.
fn advised(context: &Context<'_>, run: &str, failure: Failure) -> Failure {
    let program = context.program();
    let remedy = match reason(&failure) {
        Some("running") => {
            format!("{program} run events {run} --follow, or {program} run cancel {run}")
        }
        Some("cancelling") => {
            format!("{program} run show {run}, and retry when it shows the run as cancelled")
        }
        Some("judged") => {
            format!("{program} run show {run} for its verdict, or {program} eval … for a new run")
        }
        Some("model_changed") => {
            "use the run's --model-url and --model, or its [[models]] in the configuration"
                .to_owned()
        }
        Some("judge_changed") => {
            "use the run's --judge-url and --judge-model, or its [judge] in the configuration"
                .to_owned()
        }
        _ => return failure,
    };
    failure.or_try(remedy)
}

async fn cancel(context: &Context<'_>, arguments: &Cancel) -> Result<Exit, Failure> {
    // With the embedded host, this process ends the run if the command that executed it is gone.
    let session = context.work().await?;
    let outcome = request_cancel(context, &session, arguments).await;
    session.close().await;
    outcome
}

async fn request_cancel(
    context: &Context<'_>,
    session: &Session,
    arguments: &Cancel,
) -> Result<Exit, Failure> {
    let body = match &arguments.reason {
        Some(reason) => json!({"reason": reason}),
        None => json!({}),
    };
    let path = format!("/v1/runs/{}/cancel", arguments.run);
    let mut answer: Value = session.client().post(&path, &body).await?;
    let cancelling = |answer: &Value| {
        answer.get("status").and_then(Value::as_str) == Some(RunStatus::Cancelling.as_str())
    };
    if context.is_embedded() && cancelling(&answer) {
        let ended = until_ended(session.client(), &arguments.run);
        if let Ok(ended) = tokio::time::timeout(CANCEL_SHOWS, ended).await {
            ended?;
            answer = session.client().post(&path, &body).await?;
        }
    }
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
    } else {
        let status = answer
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or("cancelling");
        terminal.print(&format!("{} {status}", arguments.run));
        if !matches!(status, "cancelling" | "cancelled") {
            terminal.note("the run had already ended; nothing was cancelled");
        }
        if context.is_embedded() && status == "cancelling" {
            terminal.note("the process that executes the run will end it");
        }
    }
    Ok(Exit::Good)
}

async fn events(context: &Context<'_>, arguments: &Events) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let client = session.client();
    let terminal = context.terminal();
    if arguments.follow {
        let mut events =
            std::pin::pin!(client.events(&arguments.run, "debug", Duration::ZERO, arguments.after));
        while let Some(event) = events.next().await {
            print(terminal, &event?);
        }
        return Ok(Exit::Good);
    }
    // Events recorded so far; while there are more pages, polling returns immediately.
    let snapshot: Value = client.get(&format!("/v1/runs/{}", arguments.run)).await?;
    let ended = matches!(
        snapshot.get("status").and_then(Value::as_str),
        Some("completed" | "failed" | "cancelled")
    );
    let mut after = arguments.after;
    // For an unfinished run, prints all events up to now, over as many pages as needed.
    let began = SystemClock.now().to_string();
    loop {
        let path = format!(
            "/v1/runs/{}/events/poll?lastSequence={after}&timeout=1",
            arguments.run
        );
        let page: EventPage = client.get(&path).await?;
        for event in &page.events {
            after = event
                .get("sequence")
                .and_then(Value::as_u64)
                .unwrap_or(after)
                .max(after);
            print(terminal, event);
        }
        let newest = page
            .events
            .last()
            .and_then(|event| event.get("timestamp"))
            .and_then(Value::as_str);
        let caught_up = !ended && newest.is_some_and(|newest| newest > began.as_str());
        if page.is_complete || page.events.is_empty() || caught_up {
            return Ok(Exit::Good);
        }
    }
}

fn print(terminal: &Terminal, event: &Value) {
    if terminal.json() {
        terminal.line(event);
    } else {
        terminal.print(&line(event));
    }
}

fn line(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let sequence = event
        .get("sequence")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    format!(
        "{sequence:>6}  {}  {:<28}  {}  {}",
        text("timestamp"),
        text("type"),
        text("nodeId"),
        event.get("payload").unwrap_or(&Value::Null)
    )
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
