//! Tool servers built with the Model Context Protocol's SDK, a different library from the host's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rstest::rstest;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use touchstone_agents::ports::live_tools::{LiveCall, LiveTools as _, ToolAnswer};
use touchstone_agents::rules::Effects;
use touchstone_agents::tools::ToolCatalog;
use touchstone_agents::tools::config::ToolSettings;
use touchstone_kit::ids::TaskId;

use super::python;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/mcp_server.py")
}

fn catalog(place: Value) -> ToolCatalog {
    let mut entry = json!({
        "name": "crm", "timeout_s": 30.0,
        "tools": [
            {"tool": "acme:lookup", "effects": "read-only"},
            {"tool": "acme:close", "effects": "read-only"},
        ],
    });
    entry
        .as_object_mut()
        .unwrap()
        .extend(place.as_object().unwrap().clone());
    let settings: ToolSettings = serde_json::from_value(json!({"mcp": [entry]})).unwrap();
    ToolCatalog::build(&settings, &|_| None).unwrap().unwrap()
}

async fn is_understood(tools: ToolCatalog) {
    let task = TaskId::from("task-1");
    let names = ["acme:lookup", "acme:unknown", "acme:close"].map(str::to_owned);
    let offers = tools.offers(&names, &task).await.unwrap();
    let known: Vec<(&str, Effects)> = offers
        .iter()
        .map(|offer| (offer.tool.as_str(), offer.effects))
        .collect();
    assert_eq!(
        known,
        [
            ("acme:lookup", Effects::None),
            ("acme:close", Effects::Refused)
        ]
    );
    assert_eq!(
        offers[0].description.as_deref(),
        Some("The plan of an account.")
    );
    assert_eq!(offers[0].input_schema["required"], json!(["account"]));

    let ask = async |arguments: Value| {
        let arguments: Map<String, Value> = serde_json::from_value(arguments).unwrap();
        tools
            .call(LiveCall {
                tool: "acme:lookup",
                arguments: &arguments,
                task: &task,
                activity: "activity",
            })
            .await
            .unwrap()
    };
    assert_eq!(
        ask(json!({"account": "ac-1"})).await,
        ToolAnswer::Answered(json!({"account": "ac-1", "plan": "gold"}))
    );
    let ToolAnswer::Failed(said) = ask(json!({"account": "nobody"})).await else {
        panic!("the tool fails");
    };
    assert!(said.as_str().unwrap().contains("lookup"), "{said}");
    let ToolAnswer::Failed(_) = ask(json!({})).await else {
        panic!("the arguments are wrong");
    };
}

#[rstest]
#[case::child(false)]
#[case::http(true)]
#[tokio::test]
async fn tools_of_an_mcp_sdk_server_can_be_called(#[case] http: bool) {
    let Some(python) = python("the exchange with tool servers of another making") else {
        return;
    };
    if !http {
        return is_understood(catalog(json!({"command": [python, "-B", script()]}))).await;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("port");
    let mut server = Command::new(python)
        .arg("-B")
        .args([script(), file.clone()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let port = loop {
        if let Ok(port) = std::fs::read_to_string(&file) {
            break port;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let place = json!({"url": format!("http://127.0.0.1:{port}/mcp")});
    let understood = tokio::spawn(is_understood(catalog(place))).await;
    server.kill().unwrap();
    server.wait().unwrap();
    understood.unwrap();
}
