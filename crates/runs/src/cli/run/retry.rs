//! `touchstone run retry` and `run continue`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::run::{run_id, until_ended};
use crate::cli::watch::{Outputs, Started, fetch_totals, watch};
use crate::rules::eval::report::Verdict;
use crate::rules::kind::Kinds;
use touchstone_agents::cli::{AssertOptions, ModelEndpoint, work_with};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

/// How long a cancellation may take: the lease of a killed process has to expire first.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub struct Retry {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    #[command(flatten)]
    model: ModelEndpoint,
    /// The run's --agent-command: the command that acts as the agent instead of a model
    #[arg(long, value_name = "COMMAND", conflicts_with = "model_url")]
    agent_command: Option<String>,
    #[command(flatten)]
    assertions: AssertOptions,
    #[command(flatten)]
    outputs: Outputs,
}

/// Executes the unjudged tasks of a run again, in a new run.
pub async fn retry(
    context: &Context<'_>,
    kinds: Kinds,
    arguments: &Retry,
) -> Result<Exit, Failure> {
    execute(context, kinds, arguments, false).await
}

/// Continues a run whose process has ended.
pub async fn resume(
    context: &Context<'_>,
    kinds: Kinds,
    arguments: &Retry,
) -> Result<Exit, Failure> {
    execute(context, kinds, arguments, true).await
}

async fn execute(
    context: &Context<'_>,
    kinds: Kinds,
    arguments: &Retry,
    only_continue: bool,
) -> Result<Exit, Failure> {
    arguments.outputs.check()?;
    if arguments.agent_command.is_some() && !context.is_embedded() {
        return Err(Failure::usage(
            "--agent-command works only with the embedded host: no other host executes commands",
        )
        .or_try("omit --server"));
    }
    let own = OwnModels {
        agent_command: arguments.agent_command.clone(),
        assertions: arguments.assertions.settings()?,
        ..OwnModels::default()
    };
    let session = work_with(context, arguments.model.config(), own).await?;
    let outcome = async {
        let (client, run) = (session.client(), &arguments.run);
        if only_continue {
            check_unfinished(context, kinds, client, run).await?;
        }
        // A host continues its runs itself; only a command's run needs another command.
        let started = match only_continue && !context.is_embedded() {
            true => Started {
                run_id: run.clone(),
            },
            false => start(context, client, run).await?,
        };
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

async fn check_unfinished(
    context: &Context<'_>,
    kinds: Kinds,
    client: &Client,
    run: &str,
) -> Result<(), Failure> {
    let snapshot: Value = client.get(&format!("/v1/runs/{run}")).await?;
    let program = context.program();
    let status = snapshot.get("status").and_then(Value::as_str);
    match status.unwrap_or_default() {
        status @ ("completed" | "failed" | "cancelled") => Err(Failure::bad_input(
            "run_has_ended",
            format!("run {run} has ended: {status}"),
        )
        .or_try(match has_unjudged_tasks(kinds, client, run).await {
            true => format!(
                "{program} run show {run} for its result, or {program} run retry {run} for its \
                 unjudged tasks"
            ),
            false => format!("{program} run show {run} for its result"),
        })),
        "paused" => Err(
            Failure::bad_input("run_is_paused", format!("run {run} is paused"))
                .or_try(format!("{program} run resume {run}, then continue it")),
        ),
        _ => Ok(()),
    }
}

/// Whether a run that has ended can be retried.
async fn has_unjudged_tasks(kinds: Kinds, client: &Client, run: &str) -> bool {
    // A workflow run has no report.
    let report = fetch_totals(client, run).await.ok();
    report.is_some_and(|it| it.lenient_verdict() == Verdict::Inconclusive && !kinds.are_in(&it))
}

/// Requests a retry. If the run is still being cancelled, waits for it to end and requests it
/// again.
async fn start(context: &Context<'_>, client: &Client, run: &str) -> Result<Started, Failure> {
    let path = format!("/v1/host/touchstone/runs/{run}:retry");
    let refused = match client.post(&path, &json!({})).await {
        Err(failure) if reason(&failure) == Some("cancelling") => failure,
        outcome => return outcome.map_err(|failure| advised(context, run, failure)),
    };
    context
        .terminal()
        .note(&format!("{run} is being cancelled; waiting for it to end"));
    match tokio::time::timeout(CANCEL_TIMEOUT, until_ended(client, run)).await {
        Ok(ended) => ended?,
        Err(_) => return Err(advised(context, run, refused)),
    }
    let outcome = client.post(&path, &json!({})).await;
    outcome.map_err(|failure| advised(context, run, failure))
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
            "use the run's --model-url and --model, its --agent-command, or its [[models]] in the configuration"
                .to_owned()
        }
        Some("judge_changed") => {
            "use the run's --judge-url and --judge-model, or its [judge] in the configuration"
                .to_owned()
        }
        Some("embeddings_changed") => {
            "use the run's --embeddings-url and --embeddings-model, or its [embeddings] in the configuration"
                .to_owned()
        }
        Some("assert_command_changed") => {
            "use the run's --assert-command, or its [assertions] in the configuration".to_owned()
        }
        Some("user_changed") => {
            "use the run's --user-url and --user-model, or its [simulated_user] in the configuration"
                .to_owned()
        }
        _ => return failure,
    };
    failure.or_try(remedy)
}
