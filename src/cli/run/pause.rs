//! `touchstone run pause` and `run resume`.

use clap::Args;
use serde_json::{Value, json};

use super::run_id;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::protocol::openwop::events::DrainPolicy;

/// Which run, and how.
#[derive(Debug, Args)]
pub struct Pause {
    /// The run
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
    /// Abandon what is in flight instead of letting it end; it is begun anew after the pause
    #[arg(long)]
    now: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Which run.
#[derive(Debug, Args)]
pub struct Resume {
    /// The run
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
}

/// Pauses the run.
pub async fn pause(context: &Context<'_>, arguments: &Pause) -> Result<Exit, Failure> {
    let policy = match arguments.now {
        true => DrainPolicy::Immediate,
        false => DrainPolicy::DrainCurrentNode,
    };
    let body = json!({"drainPolicy": policy, "reason": arguments.reason});
    post(context, &arguments.run, "pause", &body).await
}

/// Lets the run go on.
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
        terminal.note("the process that executes the run acts on the request");
        if action == "resume" {
            terminal.note(&format!(
                "if its command has ended, {} run retry {run} carries the run on",
                context.program()
            ));
        }
    }
    Ok(Exit::Good)
}
