//! The tools that may be called, and invalid configurations.

use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

#[rstest]
#[case::declared("side-effecting", false)]
#[case::the_server_says_it_destroys("read-only", false)]
#[case::allowed("side-effecting", true)]
#[tokio::test]
async fn a_side_effecting_tool_is_called_only_if_allowed(
    #[case] effects: &str,
    #[case] allowed: bool,
) {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    let mut entry = entry("destroy");
    entry["command"] = json!(["sh", server(), "plain", trace]);
    entry["tools"][0]["effects"] = json!(effects);
    entry["tools"][0]["allow_side_effects"] = json!(allowed);
    let (trial, result) = calls(&["t:destroy"], live(entry)).await;
    // The score depends on how the agent uses the result.
    assert_eq!(decided(&result), &json!("done"));
    let returned = &trial.recorder.payloads(RETURNED)[0];
    let announced = trial.recorder.payloads("touchstone.effect.intended");
    if allowed {
        assert_eq!(returned["outcome"], json!("destroyed"));
        assert_eq!(std::fs::read_to_string(trace).unwrap(), "destroyed\n");
        assert_eq!(announced[0]["tool"], json!("t:destroy"));
    } else {
        assert_eq!(
            (&returned["status"], &returned["error"]["code"]),
            (&json!("error"), &json!("side_effect_refused"))
        );
        assert!(!trace.exists() && announced.is_empty());
    }
}

#[tokio::test]
async fn only_what_agent_and_host_both_list_is_called() {
    let mut both = entry("look");
    both["tools"] = json!([
        {"tool": "t:look", "effects": "read-only"},
        {"tool": "t:document", "effects": "read-only"},
    ]);
    let mut trial = Trial::new(agent(&["t:look", "t:elsewhere"], None));
    trial.live = Some(live(both));
    let asked = json!({"rules": [{"turns": [
        {"toolCalls": [{"tool": "t:document", "arguments": {}}, {"tool": "t:elsewhere", "arguments": {}},
                       {"tool": "t:look", "rawArguments": "[1]"}]},
        {"text": "done"},
    ]}]});
    assert_eq!(decided(&trial.run_script(asked).await), &json!("done"));
    let codes: Vec<Value> = trial
        .recorder
        .payloads(RETURNED)
        .iter()
        .map(|returned| json!([returned["status"], returned["error"]["code"]]))
        .collect();
    assert_eq!(
        codes,
        [
            json!(["forbidden", "forbidden"]),
            json!(["error", "tool_not_offered"]),
            json!(["error", "arguments_not_json"]),
        ]
    );
    let started = &trial.recorder.payloads("agent.invocation.started")[0];
    assert_eq!(started["toolSurfaceCount"], json!(1));
}

#[rstest]
#[case(json!({"name": ""}), "tools.mcp[0].name")]
#[case(json!({"command": []}), "tools.mcp[0].command or `url` is missing")]
#[case(json!({"command": [""]}), "must begin with a program")]
#[case(json!({"url": "http://127.0.0.1:9/"}), "exclude each other")]
#[case(json!({"api_key_env": "CRM_KEY"}), "list it in `env`")]
#[case(json!({"env": ["EMPTY"]}), "tools.mcp[0].env names the environment variable EMPTY, which is not set")]
#[case(json!({"command": [], "url": "http://u:canary-key@127.0.0.1/"}), "tools.mcp[0].url cannot be used")]
#[case(json!({"command": [], "url": "ftp://127.0.0.1/"}), "tools.mcp[0].url cannot be used")]
#[case(json!({"command": [], "url": "http://224.0.0.1/"}), "tools.mcp[0].url cannot be used")]
#[case(json!({"command": [], "url": "http://127.0.0.1/", "api_key_env": "NONE"}), "tools.mcp[0].api_key_env")]
#[case(json!({"timeout_s": 0.0}), "tools.mcp[0].timeout_s")]
#[case(json!({"max_result_bytes": 0}), "tools.mcp[0].max_result_bytes")]
#[case(json!({"max_concurrency": 0}), "tools.mcp[0].max_concurrency")]
#[case(json!({"tools": []}), "tools.mcp[0].tools must name at least one tool")]
#[case(json!({"tools": [{"tool": "bare", "effects": "read-only"}]}), "tools.mcp[0].tools[0].tool must be `<scope>:<tool-id>`")]
#[case(json!({"tools": [{"tool": "t:a"}]}), "missing field `effects`")]
#[case(json!({"tools": [{"tool": "t:a", "effects": "read-only"}, {"tool": "t:a", "effects": "read-only"}]}), "occurs twice")]
fn an_entry_that_cannot_be_used_is_named(#[case] change: Value, #[case] says: &str) {
    let mut entry = entry("look");
    for (name, value) in change.as_object().unwrap() {
        entry[name] = value.clone();
    }
    let refused = build(json!([entry])).unwrap_err();
    assert!(refused.contains(says), "{refused}");
    assert!(!refused.contains("canary"), "{refused}");
}

#[test]
fn without_entries_there_are_no_tools() {
    assert!(build(json!([])).unwrap().is_none());
}
