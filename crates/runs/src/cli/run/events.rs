//! `touchstone run events`: print the recorded events of a run.

use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::cli::run::run_id;
use touchstone_host::cli::client::EventPage;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;

#[derive(Debug, Args)]
pub struct Events {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Wait for further events until the run ends
    #[arg(long)]
    follow: bool,
    /// Show only events with a higher sequence number
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<u64>,
}

pub async fn run(context: &Context<'_>, arguments: &Events) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let client = session.client();
    let terminal = context.terminal();
    if arguments.follow {
        let mut events =
            std::pin::pin!(client.events(&arguments.run, "debug", Duration::ZERO, arguments.after));
        while let Some(event) = events.next().await {
            print(terminal, &event?);
        }
        return Ok(Exit::Good);
    }
    // Events recorded so far; while there are more pages, polling returns immediately.
    let snapshot: Value = client.get(&format!("/v1/runs/{}", arguments.run)).await?;
    let ended = matches!(
        snapshot.get("status").and_then(Value::as_str),
        Some("completed" | "failed" | "cancelled")
    );
    let mut after = arguments.after;
    // For an unfinished run, prints all events up to now, over as many pages as needed.
    let began = SystemClock.now().to_string();
    loop {
        let path = format!(
            "/v1/runs/{}/events/poll?lastSequence={}&timeout=1",
            arguments.run,
            after.unwrap_or_default()
        );
        let page: EventPage = client.get(&path).await?;
        // `lastSequence=0` reads from the beginning, also in a log that begins with the number 0.
        let is_new = |event: &&Value| {
            let sequence = event.get("sequence").and_then(Value::as_u64);
            sequence.is_none_or(|it| after.is_none_or(|after| it > after))
        };
        let new: Vec<&Value> = page.events.iter().filter(is_new).collect();
        for event in &new {
            print(terminal, event);
        }
        let sequences = new
            .iter()
            .filter_map(|event| event.get("sequence")?.as_u64());
        let newest = new
            .last()
            .and_then(|event| event.get("timestamp"))
            .and_then(Value::as_str);
        let caught_up = !ended && newest.is_some_and(|newest| newest > began.as_str());
        after = sequences.max().or(after);
        if page.is_complete || new.is_empty() || caught_up {
            return Ok(Exit::Good);
        }
    }
}

fn print(terminal: &Terminal, event: &Value) {
    if terminal.json() {
        terminal.line(event);
    } else {
        terminal.print(&line(event));
    }
}

fn line(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let sequence = event
        .get("sequence")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    format!(
        "{sequence:>6}  {}  {:<28}  {}  {}",
        text("timestamp"),
        text("type"),
        text("nodeId"),
        event.get("payload").unwrap_or(&Value::Null)
    )
}
