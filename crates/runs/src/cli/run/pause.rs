//! `touchstone run pause` and `run resume`.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::run::run_id;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_openwop::events::DrainPolicy;

#[derive(Debug, Args)]
pub struct Pause {
    /// Run id
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// Abandon tasks in flight instead of letting them end; they start again after the pause
    #[arg(long)]
    now: bool,
    /// Reason to record with the pause
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct Resume {
    /// Run id
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
}

pub async fn pause(context: &Context<'_>, arguments: &Pause) -> Result<Exit, Failure> {
    let policy = match arguments.now {
        true => DrainPolicy::Immediate,
        false => DrainPolicy::DrainCurrentNode,
    };
    let body = json!({"drainPolicy": policy, "reason": arguments.reason});
    post(context, &arguments.run, "pause", &body).await
}

pub async fn resume(context: &Context<'_>, arguments: &Resume) -> Result<Exit, Failure> {
    post(context, &arguments.run, "resume", &json!({})).await
}

async fn post(
    context: &Context<'_>,
    run: &str,
    action: &str,
    body: &Value,
) -> Result<Exit, Failure> {
    let session = context.look().await?;
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
        terminal.note("the process that executes the run will do this");
        if action == "resume" {
            terminal.note(&format!(
                "if its command has ended, continue the run with {} run retry {run}",
                context.program()
            ));
        }
    }
    Ok(Exit::Good)
}
