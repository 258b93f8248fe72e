//! `touchstone run interrupts` and `run answer`.

use clap::{ArgGroup, Args};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::output::print_result;
use crate::cli::run::{RunArgument, run_id};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["accept", "reject", "value"]))]
pub struct Answer {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Node that waits, as shown by `run interrupts`
    #[arg(value_name = "NODE", value_parser = node_id)]
    node: String,
    /// Approve
    #[arg(long)]
    accept: bool,
    /// Reject
    #[arg(long)]
    reject: bool,
    /// Other answer, as JSON
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    value: Option<Value>,
    /// Comment for the approval or rejection
    #[arg(long, value_name = "TEXT", conflicts_with = "value")]
    feedback: Option<String>,
    /// Override the quorum for this reason, which is recorded in the audit log
    #[arg(long = "override", value_name = "REASON", requires = "accept")]
    over: Option<String>,
}

/// Parses a node id that is safe as a path segment.
fn node_id(text: &str) -> Result<String, String> {
    run_id(text).map_err(|_| "a node id may contain only letters, digits, `_` and `-`".to_owned())
}

fn json_value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|cause| format!("must be JSON ({cause}); put quotes around a string"))
}

#[derive(Deserialize)]
struct Listed {
    interrupts: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    node_id: String,
    kind: String,
    data: Value,
    requested_at: String,
    #[serde(default)]
    granted_by: Vec<String>,
}

pub async fn list(context: &Context<'_>, arguments: &RunArgument) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let run = &arguments.run;
    let path = format!("/v1/host/touchstone/runs/{run}/interrupts");
    let listed: Listed = session.client().get(&path).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"interrupts": listed.interrupts}));
        return Ok(Exit::Good);
    }
    if listed.interrupts.is_empty() {
        terminal.note("the run has no open interrupts");
    }
    for interrupt in listed.interrupts {
        let shown: Shown =
            serde_json::from_value(interrupt).map_err(|cause| Failure::unexpected(&cause))?;
        let needed = shown.data.get("requiredApprovals").and_then(Value::as_u64);
        let votes = match (shown.granted_by.len(), needed.unwrap_or(1)) {
            (0, 1) => String::new(),
            (so_far, needed) => format!(", {so_far} of {needed} approved"),
        };
        terminal.print(&format!(
            "{}  {}  {}{votes}  since {}",
            shown.node_id,
            shown.kind,
            in_words(&shown.data),
            shown.requested_at
        ));
        let answer = match shown.kind.as_str() {
            "approval" => "--accept or --reject",
            _ => "--value JSON",
        };
        terminal.note(&format!(
            "answer: {} run answer {run} {} {answer}",
            context.program(),
            shown.node_id
        ));
    }
    Ok(Exit::Good)
}

/// The title of an approval, the questions of a clarification, or the whole data.
fn in_words(data: &Value) -> String {
    if let Some(title) = data.get("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    let questions = data.get("questions").and_then(Value::as_array);
    let Some(questions) = questions else {
        return data.to_string();
    };
    let text = |question: &Value, name: &str| {
        let text = question.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let asked = questions
        .iter()
        .map(|question| format!("{}: {}", text(question, "id"), text(question, "question")));
    asked.collect::<Vec<_>>().join("; ")
}

pub async fn answer(context: &Context<'_>, arguments: &Answer) -> Result<Exit, Failure> {
    let value = match &arguments.value {
        Some(value) => value.clone(),
        None => decision(arguments),
    };
    let session = context.read().await?;
    let (run, node) = (&arguments.run, &arguments.node);
    let path = format!("/v1/runs/{run}/interrupts/{node}");
    let body = json!({"resumeValue": value});
    let answered: Value = session.client().post(&path, &body).await?;
    let status = answered.get("status").and_then(Value::as_str);
    print_result(context.terminal(), &answered, || {
        format!("{run} {}", status.unwrap_or_default())
    });
    Ok(Exit::Good)
}

fn decision(arguments: &Answer) -> Value {
    let action = if arguments.accept { "accept" } else { "reject" };
    let mut value = json!({"action": action});
    if let Some(members) = value.as_object_mut() {
        if let Some(feedback) = &arguments.feedback {
            members.insert("feedback".to_owned(), json!(feedback));
        }
        if let Some(reason) = &arguments.over {
            members.insert("override".to_owned(), json!({"reason": reason}));
        }
    }
    value
}
