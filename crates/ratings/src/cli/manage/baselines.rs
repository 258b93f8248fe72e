//! `touchstone rating baselines`: baseline task durations, derived from an agent's first tasks.

use std::collections::{BTreeMap, HashMap, HashSet};

use axum::http::Method;
use clap::Args;
use serde_json::{Value, json};

use crate::cli::manage::{get, organization, send, show};
use crate::cli::{Pages, agent};
use crate::rules::assessment::baseline::{AcceptedTask, TASKS, propose};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::terminal::Terminal;

const EXAMPLES: &str = "\
Prints the median duration of the agent's first 50 accepted tasks for each complexity level.
--apply replaces the organization's baselines for these levels; existing ratings keep the
baselines they were computed with.

Exit codes: 0 proposed, 2 bad input or refused, 3 could not complete, 4 --apply with fewer
than 50 tasks.

Examples:
  touchstone rating baselines triage
  touchstone rating baselines triage --apply --json";

/// Propose baseline durations for the speed dimension from an agent's first tasks
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Agent, by name or id
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Set the proposed baselines for the organization
    #[arg(long)]
    apply: bool,
}

pub async fn run(
    client: &Client,
    terminal: &Terminal,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let agent = agent(client, &arguments.agent).await?;
    let proposal = propose(&first_tasks(client, &agent.id).await?);
    if arguments.apply {
        if proposal.tasks < TASKS {
            let message = format!(
                "baselines need {TASKS} accepted tasks with a complexity level, found {}",
                proposal.tasks
            );
            return Err(Failure::inconclusive("INSUFFICIENT_TASKS", message)
                .or_try("omit --apply to see the proposal, or record more tasks"));
        }
        let which = organization::Which::default();
        let path = format!("{}/config", organization::path(client, &which).await?);
        let config: Value = get(client, &path).await?;
        let name = "baseline_seconds_by_complexity";
        let there = config.get(name).cloned().unwrap_or_default();
        let there: BTreeMap<String, f64> =
            serde_json::from_value(there).map_err(|fault| Failure::unexpected(&fault))?;
        let mut merged = there;
        merged.extend(proposal.baseline_seconds_by_complexity.clone());
        let body = json!({ name: merged });
        let _: Value = send(client, Method::PATCH, &path, &body).await?;
    }
    let mut shown = json!(proposal);
    if let Some(members) = shown.as_object_mut() {
        members.insert("applied".to_owned(), json!(arguments.apply));
    }
    show(terminal, shown);
    Ok(())
}

/// The first accepted tasks with a known complexity level, in order of completion.
async fn first_tasks(client: &Client, agent: &str) -> Result<Vec<AcceptedTask>, Failure> {
    let of = |kind: &str| [format!("agent_id={agent}"), format!("type={kind}")];
    let mut levels: HashMap<String, u8> = HashMap::new();
    let mut assigned = Pages::new(client, "events", &of("task_assigned"));
    while let Some(page) = assigned.next::<Value>().await? {
        for event in &page {
            if let (Some(task), Some(level)) = (task(event), level(event)) {
                levels.insert(task.to_owned(), level);
            }
        }
    }
    let (mut tasks, mut seen) = (Vec::new(), HashSet::new());
    let mut completed = Pages::new(client, "events", &of("task_completed"));
    while let Some(page) = completed.next::<Value>().await? {
        for event in &page {
            let member = |name: &str| event.get("data").and_then(|it| it.get(name));
            let status = member("completion_status").and_then(Value::as_str);
            let seconds = member("time_to_complete_seconds").and_then(Value::as_f64);
            let (Some(task), Some(seconds), Some("accepted")) = (task(event), seconds, status)
            else {
                continue;
            };
            // The assigner's complexity level takes precedence over the agent's.
            let level = levels.get(task).copied().or_else(|| level(event));
            if let Some(level) = level
                && seen.insert(task.to_owned())
            {
                tasks.push(AcceptedTask { level, seconds });
            }
        }
        if tasks.len() >= TASKS {
            break;
        }
    }
    Ok(tasks)
}

fn task(event: &Value) -> Option<&str> {
    event.pointer("/data/task_id")?.as_str()
}

fn level(event: &Value) -> Option<u8> {
    let level = event.pointer("/data/complexity_level")?.as_u64()?;
    u8::try_from(level).ok()
}
