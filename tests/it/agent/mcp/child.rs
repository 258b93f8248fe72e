//! Servers that run as child processes.

use std::time::{Duration, Instant};

use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

#[tokio::test]
async fn a_live_call_is_recorded_with_its_outcome_and_ignores_fixtures() {
    let (trial, result) = calls(&["t:look"], live(entry("look"))).await;
    assert_eq!(decided(&result), &json!("done"));
    let started = &trial.recorder.payloads("agent.invocation.started")[0];
    assert_eq!(
        (&started["toolSurfaceCount"], &started["memoryBound"]),
        (&json!(1), &json!(false))
    );
    let called = &trial.recorder.payloads(CALLED)[0];
    assert_eq!(
        (&called["toolName"], &called["transport"], &called["inputs"]),
        (&json!("t:look"), &json!("mcp"), &json!({"q": "x"}))
    );
    let returned = &trial.recorder.payloads(RETURNED)[0];
    assert_eq!(
        (
            &returned["status"],
            &returned["outcome"],
            &returned["callId"]
        ),
        (&json!("ok"), &json!("seen"), &called["callId"])
    );
    assert!(returned["durationMs"].is_u64());
}

#[rstest]
#[case::a_document("document", "ok", json!({"plan": "gold"}))]
#[case::another_kind("picture", "ok", json!([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]))]
#[case::its_own_failure("fail", "error", json!("no such customer"))]
#[case::arguments_it_does_not_like("params", "error", json!("q is missing"))]
#[case::noise_on_its_output("noise", "ok", json!("seen"))]
#[tokio::test]
async fn tool_errors_are_passed_to_the_agent(
    #[case] tool: &str,
    #[case] status: &str,
    #[case] outcome: Value,
) {
    let (result, returned) = call(tool, live(entry(tool))).await;
    assert_eq!(decided(&result), &json!("done"));
    assert_eq!(
        (&returned["status"], &returned["outcome"]),
        (&json!(status), &outcome)
    );
}

#[rstest]
#[case::crash("crash", "tool_closed")]
#[case::stall("stall", "tool_timeout")]
#[case::huge("huge", "tool_too_large")]
#[case::no_result("odd", "tool_malformed")]
#[case::a_fault_of_its_own("error", "tool_error")]
#[tokio::test]
async fn a_fault_of_the_machinery_leaves_the_task_unjudged(
    #[case] tool: &str,
    #[case] reason: &str,
) {
    let mut entry = entry(tool);
    if reason == "tool_timeout" {
        // The server must still start within this time.
        entry["timeout_s"] = json!(5.0);
    }
    let (result, returned) = call(tool, live(entry)).await;
    assert_eq!(unjudged(&result), reason);
    assert_eq!(
        (&returned["status"], &returned["error"]["code"]),
        (&json!("error"), &json!("tool_unavailable"))
    );
    assert!(!returned.to_string().contains("canary"), "{returned}");
}

#[rstest]
#[case::not_there(json!(["/does/not/exist"]), "tool_not_started")]
#[case::ends_at_once(json!(["sh", server(), "gone"]), "tool_closed")]
#[case::says_nothing(json!(["sh", server(), "mute"]), "tool_timeout")]
#[tokio::test]
async fn tasks_are_unjudged_if_the_server_of_their_tool_cannot_start(
    #[case] command: Value,
    #[case] reason: &str,
) {
    let mut entry = entry("look");
    entry["command"] = command;
    entry["timeout_s"] = json!(10.0);
    let live = live(entry);
    let (trial, result) = calls(&["t:look"], live.clone()).await;
    assert_eq!(unjudged(&result), reason);
    assert_eq!(
        trial.recorder.kinds(),
        [
            "agent.invocation.started",
            "agent.decided",
            "agent.invocation.completed"
        ],
        "no tool is called"
    );
    // The next task gets this error at once.
    let asked = Instant::now();
    assert_eq!(unjudged(&calls(&["t:look"], live).await.1), reason);
    assert!(asked.elapsed() < Duration::from_secs(9));
}

#[tokio::test]
async fn a_tool_the_server_does_not_have_leaves_the_task_unjudged() {
    let (result, returned) = call("absent", live(entry("absent"))).await;
    assert_eq!(unjudged(&result), "tool_not_listed");
    assert_eq!(returned, Value::Null);
}

#[tokio::test]
async fn a_dead_server_is_restarted_for_the_next_task() {
    let mut both = entry("crash");
    both["tools"] = json!([
        {"tool": "t:crash", "effects": "read-only"},
        {"tool": "t:look", "effects": "read-only"},
    ]);
    let live = live(both);
    assert_eq!(
        unjudged(&calls(&["t:crash"], live.clone()).await.1),
        "tool_closed"
    );
    assert_eq!(decided(&calls(&["t:look"], live).await.1), &json!("done"));
}

#[tokio::test]
async fn a_child_process_gets_only_the_configured_environment_variables() {
    let mut entry = entry("environment");
    entry["env"] = json!(["CRM_KEY"]);
    let (_, returned) = call("environment", live(entry)).await;
    let known: Vec<&str> = returned["outcome"].as_str().unwrap().split(' ').collect();
    assert!(
        known.contains(&"CRM_KEY") && known.contains(&"PATH"),
        "{known:?}"
    );
    // cargo sets many environment variables for the tests.
    assert!(
        std::env::vars().any(|(name, _)| name.starts_with("CARGO"))
            && !known.iter().any(|name| name.starts_with("CARGO")),
        "{known:?}"
    );
}

#[tokio::test]
async fn a_child_process_ends_with_its_parent() {
    let mut both = entry("process");
    both["timeout_s"] = json!(5.0);
    both["tools"] = json!([
        {"tool": "t:process", "effects": "read-only"},
        {"tool": "t:stall", "effects": "read-only"},
    ]);
    let live = live(both);
    let (trial, result) = calls(&["t:process", "t:stall"], live.clone()).await;
    assert_eq!(unjudged(&result), "tool_timeout");
    let said = &trial.recorder.payloads(RETURNED)[0]["outcome"];
    let process = Path::new("/proc").join(said.as_str().unwrap());
    drop((trial, live));
    // The child is in a call that takes a minute, and is terminated.
    let begun = Instant::now();
    while process.exists() {
        assert!(begun.elapsed() < Duration::from_secs(40), "{process:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn standard_error_of_a_child_goes_to_its_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("crm.log");
    let mut entry = entry("look");
    entry["command"] = json!([
        "sh",
        "-c",
        "echo beside >&2; exec sh \"$0\" plain",
        server()
    ]);
    entry["stderr"] = json!(file);
    let (result, _) = call("look", live(entry)).await;
    assert_eq!(decided(&result), &json!("done"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "beside\n");
}
