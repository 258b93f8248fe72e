//! Agents of frameworks: the examples evaluate theirs against a model endpoint on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::node;
use crate::client::not_run;

const FRAMEWORKS: &str = "TOUCHSTONE_TEST_FRAMEWORKS_PYTHON";
const CREWAI: &str = "TOUCHSTONE_TEST_CREWAI_PYTHON";
const MOST_LINES: usize = 15;
const CITIES: [(&str, &str); 3] = [("France", "Paris"), ("Italy", "Rome"), ("Norway", "Oslo")];

/// Calls the tool `capital` if it is offered, and answers with what the tool returned.
struct Geographer;

impl Respond for Geographer {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let asked: Value = request.body_json().unwrap();
        let text = asked["messages"].to_string();
        let (country, city) = CITIES
            .into_iter()
            .find(|(country, _)| text.contains(&format!("Capital of {country}?")))
            .unwrap_or_else(|| panic!("{text}"));
        let last = asked["messages"].as_array().unwrap().last().unwrap();
        let (message, reason) = if asked["tools"].is_array() && last["role"] != "tool" {
            let arguments = json!({"country": country}).to_string();
            let call = json!({"id": "call_1", "type": "function", "function": {"name": "capital", "arguments": arguments}});
            (
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                "tool_calls",
            )
        } else {
            if asked["tools"].is_array() {
                assert!(last.to_string().contains(city), "{last}");
            }
            (json!({"role": "assistant", "content": city}), "stop")
        };
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "mock",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        }))
    }
}

/// Runs an example, whose agent must answer each of three questions with `requests` requests.
async fn evaluates(example: &str, command: &mut Command, requests: usize) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(example);
    let source = fs::read_to_string(source).unwrap();
    let adapter = source.split("\n\n").find(|part| {
        let part = part.trim_start();
        ["def agent(", "async def agent(", "async function agent("]
            .iter()
            .any(|start| part.starts_with(start))
    });
    let lines = adapter.unwrap().trim().lines().count();
    assert!(lines <= MOST_LINES, "the adapter has {lines} lines");
    let endpoint = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .respond_with(Geographer)
        .mount(&endpoint)
        .await;
    let place = TempDir::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = std::env::join_paths([
        root.join("clients/python/src"),
        root.join("tests/python/loopback"),
    ]);
    command
        .current_dir(place.path())
        .env("TOUCHSTONE_BIN", env!("CARGO_BIN_EXE_touchstone"))
        .env("OPENAI_BASE_URL", format!("{}/v1", endpoint.uri()))
        .env("OPENAI_API_KEY", "none")
        .env("HOME", place.path())
        .env("PYTHONPATH", found.unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LANGSMITH_TRACING", "false")
        .env("OPENAI_AGENTS_DISABLE_TRACING", "1")
        .env("CREWAI_DISABLE_TELEMETRY", "true")
        .env("CREWAI_DISABLE_TRACKING", "true")
        .env("CREWAI_DISABLE_VERSION_CHECK", "true")
        .env("CREWAI_TRACING_ENABLED", "false")
        .env("OTEL_SDK_DISABLED", "true")
        .env_remove("TOUCHSTONE_SERVER")
        .env_remove("TOUCHSTONE_DATA");
    let done = command.output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    let all = format!("{printed}\n{errors}");
    assert!(done.status.success(), "{all}");
    assert!(
        printed.contains("score 1.00") && printed.contains(", 3 passed\n"),
        "{all}"
    );
    assert!(!errors.contains("REFUSED"), "{all}");
    let received = endpoint.received_requests().await.unwrap();
    assert_eq!(received.len(), 3 * requests, "{all}");
}

fn python(example: &str, variable: &str) -> Option<Command> {
    let interpreter = std::env::var_os(variable);
    if interpreter.is_none() {
        not_run(example, variable);
    }
    let mut command = Command::new(interpreter.map(PathBuf::from)?);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(example));
    Some(command)
}

async fn python_evaluates(example: &str, variable: &str) {
    if let Some(mut command) = python(example, variable) {
        evaluates(example, &mut command, 2).await;
    }
}

#[tokio::test]
async fn an_agent_of_langchain() {
    python_evaluates("examples/python/langchain_agent.py", FRAMEWORKS).await;
}

#[tokio::test]
async fn a_graph_of_langgraph() {
    python_evaluates("examples/python/langgraph_agent.py", FRAMEWORKS).await;
}

#[tokio::test]
async fn an_agent_of_the_openai_agents_sdk() {
    python_evaluates("examples/python/openai_agents_agent.py", FRAMEWORKS).await;
}

#[tokio::test]
async fn an_agent_of_pydantic_ai() {
    python_evaluates("examples/python/pydantic_ai_agent.py", FRAMEWORKS).await;
}

#[tokio::test]
async fn an_agent_of_crewai() {
    python_evaluates("examples/python/crewai_agent.py", CREWAI).await;
}

/// The page shows the adapter of this example.
#[test]
fn the_page_shows_what_is_run() {
    let read =
        |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let page = read("docs/python.md");
    let (_, shown) = page.split_once("```python langchain\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert!(read("examples/python/langchain_agent.py").contains(shown));
}

async fn node_evaluates(name: &str, requests: usize) {
    let example = format!("examples/typescript/{name}.ts");
    if let Some(folder) = node::compiled(&example) {
        let mut command = Command::new("node");
        command.arg(folder.join(format!("out/examples/{name}.js")));
        evaluates(&example, &mut command, requests).await;
    }
}

#[tokio::test]
async fn an_agent_of_the_vercel_ai_sdk() {
    node_evaluates("vercel-ai", 2).await;
}

#[tokio::test]
async fn a_chain_of_langchain_js() {
    node_evaluates("langchain", 1).await;
}
