//! `touchstone deploy approve`: answer the approval that a promotion waits for.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use touchstone_host::cli::client::{Client, is_terminal};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_runs::cli::run::reference::resolve_all;
use touchstone_runs::cli::run::run_id;
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::service::command::Command;
use touchstone_runs::service::runs::interrupts::GATE_NODE;

#[derive(Debug, Args)]
pub struct Approve {
    /// Run id of the gate, as printed by `deploy promote`
    #[arg(value_name = "GATE", value_parser = run_id)]
    gate: String,
    /// Reject the promotion
    #[arg(long, conflicts_with = "override_reason")]
    reject: bool,
    /// Override the quorum, for principals with the override role; REASON is recorded in the audit
    /// log
    #[arg(long = "override", value_name = "REASON")]
    override_reason: Option<String>,
}

#[derive(Deserialize)]
struct Answered {
    status: String,
}

pub async fn run(context: &Context<'_>, mut approve: Approve) -> Result<Exit, Failure> {
    resolve_all(context, vec![&mut approve.gate]).await?;
    // The embedded host is this process: it both sends and processes the answer.
    let session = context.work().await?;
    if let Some(command) = session.service::<Arc<Command>>() {
        command.add_run(approve.gate.as_str().into());
    }
    let outcome = answer(context, session.client(), &approve).await;
    session.close().await;
    outcome
}

async fn answer(
    context: &Context<'_>,
    client: &Client,
    approve: &Approve,
) -> Result<Exit, Failure> {
    let gate = &approve.gate;
    until(client, gate, |event| {
        event.get("type").and_then(Value::as_str) == Some("interrupt.requested")
    })
    .await?;
    let mut value = json!({"action": if approve.reject { "reject" } else { "accept" }});
    if let (Some(reason), Some(members)) = (&approve.override_reason, value.as_object_mut()) {
        members.insert("override".to_owned(), json!({"reason": reason}));
    }
    let path = format!("/v1/runs/{gate}/interrupts/{GATE_NODE}");
    let document: Value = client.post(&path, &json!({"resumeValue": value})).await?;
    let answered = Answered::deserialize(&document).map_err(|cause| Failure::unexpected(&cause))?;
    let waits = answered.status == RunStatus::WaitingApproval.as_str();
    if !waits {
        // Wait, so that the next promotion finds the decision.
        until(client, gate, |_| false).await?;
    }
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&document);
    } else if waits {
        terminal.print("recorded; further approvals are needed");
    } else if approve.reject {
        terminal.print("rejected");
    } else {
        terminal.print("approved; promote again");
    }
    Ok(Exit::Good)
}

/// Follows a gate run until an event matches `found`, or until it ends.
async fn until(client: &Client, gate: &str, found: impl Fn(&Value) -> bool) -> Result<(), Failure> {
    let mut events = pin!(client.events(gate, "updates", Duration::ZERO, None));
    while let Some(event) = events.next().await {
        let event = event?;
        if found(&event) || is_terminal(&event) {
            break;
        }
    }
    Ok(())
}
