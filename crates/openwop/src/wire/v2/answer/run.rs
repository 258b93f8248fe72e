//! Answers about runs.

use serde_json::{Value, json};

use super::{Closed, each, interrupt, run_path};
use crate::wire::id::{IdError, Seat, bound, opaque};
use crate::wire::v2::names;
use crate::wire::v2::payload::run_code;
use crate::wire::v2::request::{nested, refused_entry};
use crate::wire::v2::subject::Subject;
use crate::wire::v2::translation::{Context, Unprojectable};

/// The first era whose owners are Subjects.
const SUBJECTS: u64 = 3;
const CANCELLED: &str = "cancelled";
const CANCELLING: &str = "cancelling";

pub fn created(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut run = Closed::of("RunCreated", body)?;
    let id = run.bind(context, "runId")?;
    run.keep(&["status"])?;
    let path = run_path(context.tenant, &id);
    run.put("eventsUrl", format!("{path}/events"));
    run.put("statusUrl", path);
    Ok(run.done())
}

pub fn forked(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut run = Closed::of("RunForked", body)?;
    let id = run.bind(context, "runId")?;
    run.bind(context, "sourceRunId")?;
    run.keep(&["mode", "status"])?;
    run.keep_any(&["fromSeq"]);
    run.put(
        "eventsUrl",
        format!("{}/events", run_path(context.tenant, &id)),
    );
    Ok(run.done())
}

pub fn list(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut page = Closed::of("RunList", body)?;
    let runs = page.list("runs")?;
    page.put("runs", each(runs, |run| snapshot(context, run))?);
    page.keep_any(&["nextCursor"]);
    Ok(page.done())
}

/// The snapshot of a run. Its options are nested again, and those about the evaluation are left
/// out: `eval.started` has them.
pub fn snapshot(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut run = Closed::of("RunSnapshot", body)?;
    run.bind(context, "runId")?;
    let workflow = run.text("workflowId")?;
    run.put("workflowId", names::workflow(&workflow));
    run.keep(&["status", "eventLogSchemaVersion"])?;
    let era = run
        .made
        .get("eventLogSchemaVersion")
        .and_then(Value::as_u64);
    let era = era.ok_or_else(|| run.lacks("eventLogSchemaVersion"))?;
    let owner = run.needed("owner")?;
    run.put("owner", owned(owner, era)?);
    run.bind_any(context, "parentRunId")?;
    run.keep_any(&[
        "currentNodeId",
        "startedAt",
        "completedAt",
        "variables",
        "channels",
        "tags",
        "metadata",
        "parentNodeId",
    ]);
    if let Some(error) = run.take("error") {
        run.put("error", failure(error)?);
    }
    if let Some(states) = run.take("nodeStates") {
        run.put("nodeStates", node_states(states));
    }
    // Text under major 1.
    let engine = run.take("engineVersion");
    let engine = engine.and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
    if let Some(engine) = engine {
        run.put("engineVersion", engine);
    }
    for name in ["agent", "runOrchestrator"] {
        if let Some(agent) = run.take(name) {
            run.put(name, agent_ref(agent)?);
        }
    }
    let options = run.take("configurable");
    if let Some(options) = options.and_then(|it| nested(context.tenant, &it)) {
        run.put("configurable", options);
    }
    if let Some(cost) = run.take("metrics").and_then(cost) {
        run.put("metrics", cost);
    }
    if let Some(interrupt) = run.take("interrupt") {
        run.put("interrupt", interrupt::requested(interrupt)?);
    }
    Ok(run.done())
}

/// The owner of a run of an era.
fn owned(owner: Value, era: u64) -> Result<Value, Unprojectable> {
    let mut owner = Closed::of("Owner", owner)?;
    let tenant = owner.text("tenant")?;
    // Runs of early versions may lack it, and major 2 the subject never.
    let principal = owner.take("principal").unwrap_or_default();
    let principal = principal.as_str().unwrap_or_default();
    let subject = match era < SUBJECTS {
        true => Subject::of_old_log(&tenant, principal),
        false => Subject::of(&tenant, principal),
    };
    owner.put("subject", json!(subject));
    owner.put("tenant", tenant);
    owner.keep_any(&["workspace"]);
    Ok(owner.done())
}

/// The error of a run with a registered code. A code that is not registered is kept as
/// `details.reason`.
fn failure(error: Value) -> Result<Value, Unprojectable> {
    let mut error = Closed::of("RunError", error)?;
    let inner = error.text("code")?;
    let code = run_code(&inner);
    error.keep(&["message"])?;
    error.put("code", code);
    let details = match error.take("details") {
        Some(Value::Object(details)) => Some(details),
        _ => None,
    };
    let details = match code == inner {
        true => details,
        false => {
            let mut details = details.unwrap_or_default();
            if inner == "no_active_deployment" {
                details.insert("service".to_owned(), "agents".into());
            }
            details.insert("reason".to_owned(), inner.into());
            Some(details)
        }
    };
    if let Some(details) = details {
        error.put("details", details);
    }
    Ok(error.done())
}

/// The states of nodes are open; only the codes in them are translated.
fn node_states(mut states: Value) -> Value {
    let nodes = states.as_object_mut().into_iter().flatten();
    for error in nodes.filter_map(|(_, state)| state.get_mut("error")) {
        if let Ok(outer) = failure(error.clone()) {
            *error = outer;
        }
    }
    states
}

fn agent_ref(agent: Value) -> Result<Value, Unprojectable> {
    let mut agent = Closed::of("AgentRef", agent)?;
    agent.keep(&["agentId"])?;
    agent.keep_any(&[
        "name",
        "modelClass",
        "memoryRef",
        "version",
        "sourceManifestId",
    ]);
    if !agent.made.contains_key("version") {
        agent.keep_any(&["channel"]);
    }
    Ok(agent.done())
}

fn cost(metrics: Value) -> Option<Value> {
    let mut metrics = Closed::of("RunMetrics", metrics).ok()?;
    let mut cost = Closed::of("RunCost", metrics.take("openwopCost")?).ok()?;
    cost.keep_any(&["usd", "model", "provider", "duration_ms"]);
    if let Some(tokens) = cost.take("tokens") {
        let mut tokens = Closed::of("RunTokens", tokens).ok()?;
        tokens.keep_any(&["input", "output"]);
        cost.put("tokens", tokens.done());
    }
    metrics.put("openwopCost", cost.done());
    Some(metrics.done())
}

pub fn cancelled(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut run = Closed::of("RunCancelled", body)?;
    run.bind(context, "runId")?;
    let status = run.text("status")?;
    run.put("status", cancel_status(&status));
    Ok(run.done())
}

/// A run whose cancellation was requested earlier may still be shown as running.
fn cancel_status(status: &str) -> &'static str {
    match status {
        CANCELLED => CANCELLED,
        _ => CANCELLING,
    }
}

pub fn bulk(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut answer = Closed::of("BulkCancelled", body)?;
    let results = answer.list("results")?;
    answer.put(
        "results",
        each(results, |entry| bulk_entry(context, entry))?,
    );
    Ok(answer.done())
}

fn bulk_entry(context: &Context<'_>, entry: Value) -> Result<Value, Unprojectable> {
    let mut entry = Closed::of("BulkCancelResult", entry)?;
    let id = entry.text("runId")?;
    if let Some(sent) = refused_entry(&id) {
        let (code, message) = match opaque(context.tenant, Seat::Body, sent) {
            Err(IdError::OtherTenant) => ("id_tenant_mismatch", "the id names another tenant"),
            _ => (
                "validation_error",
                "the id must have its tenant: `TENANT/ID`",
            ),
        };
        entry.put("runId", sent);
        entry.put("ok", false);
        entry.put("error", envelope(code, message));
        return Ok(entry.done());
    }
    entry.put("runId", bound(context.tenant, &id));
    let is_ok = entry.needed("ok")?;
    if is_ok == true {
        let status = entry.text("status")?;
        entry.put("status", cancel_status(&status));
    } else {
        let mut error = Closed::of("Error", entry.needed("error")?)?;
        let code = error.text("error")?;
        let message = error.text("message")?;
        let code = run_code(&code);
        entry.put("error", envelope(code, &message));
    }
    entry.put("ok", is_ok);
    Ok(entry.done())
}

fn envelope(code: &str, message: &str) -> Value {
    json!({"error": code, "message": message})
}

pub fn paused(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut run = Closed::of("RunPaused", body)?;
    run.bind(context, "runId")?;
    run.keep(&["status"])?;
    run.keep_any(&["pausedAt"]);
    Ok(run.done())
}

pub fn resumed(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut run = Closed::of("RunResumed", body)?;
    run.bind(context, "runId")?;
    run.keep(&["status"])?;
    run.keep_any(&["resumedAt"]);
    Ok(run.done())
}

/// The differences of two runs. The events in it have the form of major 2 already.
pub fn diff(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut diff = Closed::of("RunDiff", body)?;
    diff.bind(context, "a")?;
    diff.bind(context, "b")?;
    let diverged = diff.take("divergedAtSeq");
    diff.put("divergedAtSeq", diverged);
    let diffs = diff.list("eventDiffs")?;
    diff.put("eventDiffs", each(diffs, event_diff)?);
    diff.keep(&["stateDiff"])?;
    diff.keep_any(&["truncated"]);
    Ok(diff.done())
}

fn event_diff(body: Value) -> Result<Value, Unprojectable> {
    let mut one = Closed::of("RunEventDiff", body)?;
    one.keep(&["seq", "op"])?;
    one.keep_any(&["aEvent", "bEvent"]);
    Ok(one.done())
}

/// The envelope of a poll. The page writes it, so that its events are not parsed again.
#[derive(Clone, Copy, Debug)]
pub struct Poll<'a> {
    pub tenant: &'a str,
    /// Without tenant.
    pub run: &'a str,
    /// The highest sequence in the log; `None` if it is empty.
    pub last_sequence: Option<u64>,
    pub status: &'a str,
    pub is_terminal: bool,
}

impl Poll<'_> {
    /// The text before the events, which are separated by commas.
    pub fn head(&self) -> String {
        let run = Value::from(bound(self.tenant, self.run));
        format!(r#"{{"runId":{run},"events":["#)
    }

    /// The text after the events.
    pub fn tail(&self) -> String {
        let last = match self.last_sequence {
            Some(last) => last.to_string(),
            None => "-1".to_owned(),
        };
        let status = Value::from(self.status);
        let is_terminal = self.is_terminal;
        format!(r#"],"lastSequence":{last},"status":{status},"isTerminal":{is_terminal}}}"#)
    }
}

/// The answer of a poll that was written with [`Poll`].
pub fn polled(body: Value) -> Result<Value, Unprojectable> {
    let mut page = Closed::of("RunPoll", body)?;
    page.keep(&["runId", "events", "lastSequence", "status", "isTerminal"])?;
    Ok(page.done())
}
