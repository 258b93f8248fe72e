//! `touchstone rating progress`: how much of the evidence that a rating needs is there.

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::client::Client;
use crate::cli::exit::Failure;
use crate::cli::rating::{agent, agents, progress};
use crate::cli::terminal::Terminal;
use crate::render::rating::progress::CollectionProgress;

const EXAMPLES: &str = "\
The tasks of the assessment window against the minimum that each axis needs, as an assessment would count them now.

Exit codes: 0 shown, 1 error, 2 bad usage.

Examples:
  touchstone rating progress
  touchstone rating progress triage --json";

/// Show how much of the evidence that a rating needs is collected
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The agent, by name or id [default: all that are enrolled]
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

#[derive(Serialize)]
struct Shown {
    agent_id: String,
    name: String,
    #[serde(flatten)]
    progress: CollectionProgress,
}

pub async fn run(
    client: &Client,
    terminal: &Terminal,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let agents = match &arguments.agent {
        Some(named) => vec![agent(client, named).await?],
        None => agents(client).await?,
    };
    let mut shown = Vec::new();
    for agent in agents {
        shown.push(Shown {
            progress: progress(client, &agent.id).await?,
            agent_id: agent.id,
            name: agent.name,
        });
    }
    if terminal.json() {
        terminal.document(&json!({"ok": true, "agents": shown}));
        return Ok(());
    }
    if shown.is_empty() {
        terminal.note("no agent is enrolled");
        return Ok(());
    }
    let agents = shown.iter().map(|it| (it.name.as_str(), &it.progress));
    let text = crate::render::rating::progress::progress(agents, terminal.style());
    terminal.print(text.trim_end());
    Ok(())
}
