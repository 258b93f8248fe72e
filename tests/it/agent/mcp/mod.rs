//! Live tools through servers on the Model Context Protocol: child processes, and over HTTP.

mod child;
mod http;
mod policy;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use touchstone_agents::ports::agent::*;
use touchstone_agents::ports::live_tools::*;
use touchstone_agents::tools::ToolCatalog;
use touchstone_agents::tools::config::ToolSettings;

use super::support::*;

pub const CALLED: &str = "agent.toolCalled";
pub const RETURNED: &str = "agent.toolReturned";

/// The server as a shell script.
pub fn server() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/agent/mcp/server.sh")
}

pub fn environment(name: &str) -> Option<String> {
    match name {
        "CRM_KEY" => Some("canary-key".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

pub fn build(servers: Value) -> Result<Option<ToolCatalog>, String> {
    let settings: ToolSettings =
        serde_json::from_value(json!({"mcp": servers})).map_err(|e| e.to_string())?;
    ToolCatalog::build(&settings, &environment).map_err(|e| format!("{e} {e:?}"))
}

/// A configuration entry for the shell server, with one of its tools.
pub fn entry(tool: &str) -> Value {
    json!({
        "name": "crm", "command": ["sh", server(), "plain"], "timeout_s": 60.0,
        "tools": [{"tool": format!("t:{tool}"), "effects": "read-only"}],
    })
}

pub fn live(entry: Value) -> Arc<dyn LiveTools> {
    Arc::new(build(json!([entry])).unwrap().unwrap())
}

/// A task that calls the tools in order and then says `done`.
pub async fn calls(tools: &[&str], live: Arc<dyn LiveTools>) -> (Trial, InvocationResult) {
    let mut trial = Trial::new(agent(tools, None)).with_fixtures(json!({
        "toolResponses": tools.iter().map(|tool| json!({"tool": tool, "response": "canned"})).collect::<Vec<_>>(),
        "memorySeed": [{"note": "canned"}],
    }));
    trial.live = Some(live);
    let mut turns: Vec<Value> = tools
        .iter()
        .map(|tool| json!({"toolCalls": [{"tool": tool, "arguments": {"q": "x"}}]}))
        .collect();
    turns.push(json!({"text": "done"}));
    let result = trial.run_script(json!({"rules": [{"turns": turns}]})).await;
    (trial, result)
}

/// Calls one tool. Returns how the task ended and what the transcript records of the call.
pub async fn call(tool: &str, live: Arc<dyn LiveTools>) -> (InvocationResult, Value) {
    let name = format!("t:{tool}");
    let (trial, result) = calls(&[&name], live).await;
    let returned = trial.recorder.payloads(RETURNED).pop();
    (result, returned.unwrap_or(Value::Null))
}
