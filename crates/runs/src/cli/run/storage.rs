//! `touchstone run delete`, `run hold`, `run release`, `run archive` and `run usage`.

use axum::http::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::output::print_result;
use crate::cli::run::{RunArgument, post_action, run_id};
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub struct Delete {
    /// Runs, each by its id or a unique start of it
    #[arg(value_name = "RUN", value_parser = run_id, required = true)]
    pub(super) runs: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Hold {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Reason for the audit log, 1 to 500 characters
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Deletes the runs in order; stops at the first refusal.
pub async fn delete(context: &Context<'_>, arguments: &Delete) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let terminal = context.terminal();
    for run in &arguments.runs {
        let path = format!("/v1/host/touchstone/runs/{run}");
        let answer: Value = session
            .client()
            .call(Call::new(Method::DELETE, &path))
            .await?;
        print_result(terminal, &answer, || format!("{run} deleted"));
    }
    Ok(Exit::Good)
}

pub async fn hold(context: &Context<'_>, arguments: &Hold) -> Result<Exit, Failure> {
    let body = json!({"reason": arguments.reason});
    post_action(context, &arguments.run, "hold", &body, "under legal hold").await
}

pub async fn release(context: &Context<'_>, arguments: &RunArgument) -> Result<Exit, Failure> {
    post_action(context, &arguments.run, "release", &json!({}), "released").await
}

pub async fn archive(context: &Context<'_>, arguments: &RunArgument) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let run = &arguments.run;
    let path = format!("/v1/host/touchstone/runs/{run}:archive");
    let answer: Value = session.client().post(&path, &json!({})).await?;
    let object = answer.pointer("/archive/object").and_then(Value::as_str);
    let object = object.unwrap_or_default();
    print_result(context.terminal(), &answer, || {
        format!("{run} archived as {object}")
    });
    Ok(Exit::Good)
}

#[derive(Deserialize)]
struct UsageOfQuota {
    used: u64,
    quota: Option<u64>,
}

pub async fn usage(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let answer: Value = session.client().get("/v1/host/touchstone/usage").await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
        return Ok(Exit::Good);
    }
    for unit in ["packs", "suites", "runs", "bytes"] {
        let member = answer.get(unit).unwrap_or(&Value::Null);
        let usage =
            UsageOfQuota::deserialize(member).map_err(|cause| Failure::unexpected(&cause))?;
        let quota = match usage.quota {
            Some(quota) => format!("of {quota}"),
            None => "no limit".to_owned(),
        };
        terminal.print(&format!("{unit:<7} {:>12}  {quota}", usage.used));
    }
    Ok(Exit::Good)
}
