//! A run that is not an eval run: its state.

use askama::Template;
use serde_json::Value;

use crate::api::ConsoleApi;
use crate::page::answer::{html, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::runs::words::{self, Badge, is_open, status};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_kit::ids::RunId;

#[derive(Template)]
#[template(path = "runs/workflow.html")]
struct Page {
    chrome: Chrome,
    id: String,
    workflow: String,
    /// The agent whose deployment this run records.
    agent: Option<String>,
    waits: bool,
    started: Time,
    status: Badge,
    may_cancel: bool,
}

pub async fn page(api: &ConsoleApi, visit: &Visit, run: &RunId) -> Answer {
    let runs = &api.runs.runs;
    let record = runs.record(visit.tenant(), run).await?;
    let snapshot = runs.snapshot(visit.tenant(), run).await?;
    let state = snapshot.get("status").and_then(Value::as_str);
    let state = state.unwrap_or_default();
    html(&Page {
        chrome: visit.chrome(Section::Runs),
        id: run.to_string(),
        workflow: words::workflow(&record.spec.workflow_id),
        agent: deployed(&record.spec.workflow_id),
        waits: state.starts_with("waiting"),
        started: record.created_at.into(),
        status: status(state),
        may_cancel: is_open(state) && visit.may(Scope::RunsCancel),
    })
}

/// The page of the agent that a deployment run is about.
fn deployed(workflow: &str) -> Option<String> {
    let agent = workflow.strip_prefix("deployment:")?;
    Some(format!("/console/deployments/{}", segment(agent)))
}
