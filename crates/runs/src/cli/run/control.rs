//! `touchstone run cancel`, `run pause`, `run resume` and `run void`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::run::{RunArgument, post_action, run_id, until_ended};
use crate::rules::run::fold::RunStatus;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_openwop::events::DrainPolicy;

/// How long `run cancel` waits for the run to end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub struct Cancel {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Reason to record with the cancellation
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct Pause {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Abandon tasks in flight instead of letting them end; they start again after the pause
    #[arg(long)]
    now: bool,
    /// Reason to record with the pause
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct Void {
    /// Run id of the eval run
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Why the scores are not evidence; recorded in the audit log and shown with the run
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub async fn cancel(context: &Context<'_>, arguments: &Cancel) -> Result<Exit, Failure> {
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
        if let Ok(ended) = tokio::time::timeout(END_TIMEOUT, ended).await {
            ended?;
            answer = session.client().post(&path, &body).await?;
        }
    }
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
    } else {
        let status = answer.get("status").and_then(Value::as_str);
        let status = status.unwrap_or("cancelling");
        terminal.print(&format!("{} {status}", arguments.run));
        if !matches!(status, "cancelling" | "cancelled") {
            terminal.note("the run had already ended; nothing was cancelled");
        }
        if context.is_embedded() && status == "cancelling" {
            terminal
                .note("the request is recorded; the process that executes the run will cancel it");
        }
    }
    Ok(Exit::Good)
}

pub async fn pause(context: &Context<'_>, arguments: &Pause) -> Result<Exit, Failure> {
    let policy = match arguments.now {
        true => DrainPolicy::Immediate,
        false => DrainPolicy::DrainCurrentNode,
    };
    let body = json!({"drainPolicy": policy, "reason": arguments.reason});
    post_pause(context, &arguments.run, "pause", &body).await
}

pub async fn resume(context: &Context<'_>, arguments: &RunArgument) -> Result<Exit, Failure> {
    post_pause(context, &arguments.run, "resume", &json!({})).await
}

async fn post_pause(
    context: &Context<'_>,
    run: &str,
    action: &str,
    body: &Value,
) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!("/v1/runs/{run}:{action}");
    let answer: Value = session.client().post(&path, body).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
        return Ok(Exit::Good);
    }
    let status = answer.get("status").and_then(Value::as_str);
    terminal.print(&format!("{run} {}", status.unwrap_or(action)));
    if context.is_embedded() {
        terminal
            .note("the request is recorded; the process that executes the run will carry it out");
        if action == "resume" {
            terminal.note(&format!(
                "if its command has ended, continue the run with {} run continue {run}",
                context.program()
            ));
        }
    }
    Ok(Exit::Good)
}

pub async fn void(context: &Context<'_>, arguments: &Void) -> Result<Exit, Failure> {
    let body = json!({"reason": arguments.reason});
    post_action(context, &arguments.run, "void", &body, "is void").await
}
