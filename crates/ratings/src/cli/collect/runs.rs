//! Eval runs of the host as evidence (AAAF S10), projected by the host.

use axum::http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::cli::collect::{Arguments, MAX_PRINTED};
use crate::cli::{API, agent, with_ok, with_remedy};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::retry::retry_until_answered;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::render::words::plain;

#[derive(Default, Deserialize, Serialize)]
struct CollectionSummary {
    runs: u64,
    events: u64,
    /// Whether the request must be repeated.
    #[serde(default)]
    more: bool,
    #[serde(default)]
    skipped: Vec<Skipped>,
}

#[derive(Deserialize, Serialize)]
struct Skipped {
    run_id: String,
    reason: String,
}

/// Makes the host record its new eval runs as evidence.
pub async fn collect(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = context.write().await?;
    let gathered = gather(session.client(), arguments).await;
    let summary = gathered.map_err(|failure| with_remedy(context, failure))?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&with_ok(summary, true));
    } else {
        show(terminal, &summary);
    }
    Ok(Exit::Good)
}

async fn gather(client: &Client, arguments: &Arguments) -> Result<CollectionSummary, Failure> {
    let mut body = Map::new();
    if let Some(named) = arguments.agent() {
        body.insert("agent_id".to_owned(), json!(agent(client, named).await?.id));
    }
    if let Some(from) = arguments.from {
        body.insert("from".to_owned(), json!(from));
    }
    let body = Value::Object(body);
    let path = format!("{API}/events/collect");
    let mut all = CollectionSummary::default();
    loop {
        let key = Uuid::now_v7().to_string();
        let gathered = retry_until_answered(|| {
            let call = Call::new(Method::POST, &path).header("idempotency-key", &key);
            client.call::<CollectionSummary>(call.json(&body))
        });
        let part = gathered.await?;
        all = CollectionSummary {
            runs: all.runs + part.runs,
            events: all.events + part.events,
            ..part
        };
        // If the host read no runs, it would give the same answer again.
        if !all.more || part.runs == 0 {
            return Ok(all);
        }
    }
}

fn show(terminal: &Terminal, summary: &CollectionSummary) {
    for skipped in summary.skipped.iter().take(MAX_PRINTED) {
        terminal.note(&format!(
            "{} is not evidence: {}",
            plain(&skipped.run_id),
            plain(&skipped.reason)
        ));
    }
    let skipped = summary.skipped.len();
    terminal.print(&format!(
        "{} recorded from {} runs{}",
        summary.events,
        summary.runs,
        match skipped {
            0 => String::new(),
            _ => format!(", {skipped} skipped"),
        }
    ));
}
