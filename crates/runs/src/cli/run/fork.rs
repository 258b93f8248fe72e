//! `touchstone run fork`: replay a run, or branch from one of its events.

use std::time::Duration;

use clap::{Args, ValueEnum};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::cli::output::print_result;
use crate::cli::run::run_id;
use crate::cli::watch::{Outputs, Started, watch};
use crate::rules::kind::Kinds;
use touchstone_agents::cli::{AssertOptions, ModelEndpoint, work_with};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub struct Fork {
    /// Run to fork
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// How to fork
    #[arg(long, value_enum, default_value_t = Mode::Replay)]
    mode: Mode,
    /// Keep the events before this sequence number; required for a branch, 0 for none
    #[arg(long, value_name = "SEQUENCE", required_if_eq("mode", "branch"))]
    from_seq: Option<u64>,
    #[command(flatten)]
    model: ModelEndpoint,
    #[command(flatten)]
    assertions: AssertOptions,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Replay the whole run without calling a model
    Replay,
    /// Execute again from --from-seq
    Branch,
}

pub async fn run(context: &Context<'_>, kinds: Kinds, arguments: &Fork) -> Result<Exit, Failure> {
    arguments.outputs.check()?;
    let mode = match arguments.mode {
        Mode::Replay => "replay",
        Mode::Branch => "branch",
    };
    let own = OwnModels {
        assertions: arguments.assertions.settings()?,
        ..OwnModels::default()
    };
    let session = work_with(context, arguments.model.config(), own).await?;
    let outcome = async {
        let path = format!("/v1/runs/{}:fork", arguments.run);
        let body = json!({"mode": mode, "fromSeq": arguments.from_seq.unwrap_or(0)});
        let client = session.client();
        let source: Value = client.get(&format!("/v1/runs/{}", arguments.run)).await?;
        let is_eval = source.get("agent").is_some();
        if !is_eval && !arguments.outputs.is_empty() {
            return Err(Failure::bad_input(
                "no_eval",
                "--junit and --markdown apply only to eval runs; omit them",
            ));
        }
        let started: Started = client.post(&path, &body).await.map_err(advised)?;
        if is_eval {
            watch(
                context,
                &session,
                kinds,
                &started.run_id,
                &arguments.outputs,
            )
            .await
        } else {
            follow_workflow(context, client, &started.run_id).await
        }
    }
    .await;
    session.close().await;
    outcome
}

/// Adds the options that name the run's model to a refused fork.
fn advised(failure: Failure) -> Failure {
    let reason = failure.details.get("reason").and_then(Value::as_str);
    match reason {
        Some("model_changed" | "model_missing") => failure.or_try(
            "use the run's --model-url and --model, or its [[models]] in the configuration",
        ),
        _ => failure,
    }
}

/// Follows a workflow run until it has ended or waits for an answer, and prints its status.
async fn follow_workflow(
    context: &Context<'_>,
    client: &Client,
    run: &str,
) -> Result<Exit, Failure> {
    let path = format!("/v1/runs/{run}");
    {
        let mut events = std::pin::pin!(client.events(run, "updates", Duration::ZERO, None));
        while let Some(event) = events.next().await {
            let event = event?;
            let kind = event.get("type").and_then(Value::as_str);
            // The event may be part of the copied history, where it was already answered.
            if matches!(kind, Some("node.suspended" | "run.paused"))
                && has_stopped(&client.get(&path).await?)
            {
                break;
            }
        }
    }
    let snapshot: Value = client.get(&path).await?;
    print_result(context.terminal(), &snapshot, || {
        format!("{run} {}", status(&snapshot))
    });
    Ok(match status(&snapshot) {
        "failed" => Exit::Negative,
        "cancelled" => Exit::Inconclusive,
        _ => Exit::Good,
    })
}

fn has_stopped(snapshot: &Value) -> bool {
    !matches!(status(snapshot), "pending" | "running")
}

fn status(snapshot: &Value) -> &str {
    let status = snapshot.get("status").and_then(Value::as_str);
    status.unwrap_or("pending")
}
