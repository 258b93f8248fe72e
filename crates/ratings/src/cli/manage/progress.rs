//! `touchstone rating progress`: the evidence collected towards a rating.

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::{agent, agents, progress};
use crate::render::progress::CollectionProgress;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::terminal::Terminal;

const EXAMPLES: &str = "\
Compares the number of tasks in the assessment window with the minimum of each axis, as an
assessment would count them now.

Exit codes: 0 shown, 2 bad input, 3 could not complete.

Examples:
  touchstone rating progress
  touchstone rating progress triage --json";

/// Show the evidence collected towards a rating
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Agent, by name or id [default: all enrolled agents]
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
        terminal.note("no agents are enrolled");
        return Ok(());
    }
    let agents = shown.iter().map(|it| (it.name.as_str(), &it.progress));
    let text = crate::render::progress::progress(agents, terminal.style());
    terminal.print(text.trim_end());
    Ok(())
}
