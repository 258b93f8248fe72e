//! `--mode live-shadow`: tools of a configured server instead of fixtures.

use std::path::Path;

use serde_json::{Value, json};
use touchstone::demo::pack::AGENT;

use crate::cli::home::{Done, Home};

const TOOL: &str = "parcelport:account.lookup";
const SUITE: &str = "vendor.acme.evals.live@1.0.0";

/// A suite of one task whose agent looks the account up, and a model that does so.
fn home() -> Home {
    let home = Home::with_pack();
    let suite = json!({
        "suiteId": "vendor.acme.evals.live", "version": "1.0.0", "modes": ["golden", "live-shadow"],
        "thresholds": {"passScore": 0.01},
        "tasks": [{
            "taskId": "two-warehouses",
            "input": {"subject": "Return labels", "body": "For two warehouses?", "accountId": "ac-1042"},
            "expected": {"kind": "golden", "match": {"strategy": "json-match",
                         "value": {"queue": "success", "priority": "normal"}}},
            "fixtures": {"toolResponses": [{"tool": TOOL, "response": "canned"}]},
        }],
    });
    std::fs::write(home.path("live.json"), suite.to_string()).unwrap();
    let imported = home.run(&["suite", "import", "live.json"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    home.model(&json!([{"turns": [
        {"toolCalls": [{"tool": TOOL, "arguments": {"accountId": "ac-1042"}}]},
        {"output": {"queue": "success", "priority": "normal"}},
    ]}]));
    home
}

fn configure(home: &Home) {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/agent/mcp/server.sh");
    let before = std::fs::read_to_string(home.config()).unwrap();
    let entry = format!(
        "[[tools.mcp]]\nname = \"crm\"\ncommand = [\"sh\", {server:?}, \"plain\"]\n\
         [[tools.mcp.tools]]\ntool = \"{TOOL}\"\nname = \"look\"\neffects = \"read-only\"\n"
    );
    std::fs::write(home.config(), format!("{before}{entry}")).unwrap();
}

fn eval(home: &Home, more: &[&str]) -> Done {
    home.run(&[&["eval", SUITE, "--agent", AGENT, "--json"], more].concat())
}

/// The tool's answers in a run.
fn answers(home: &Home, done: &Done) -> Vec<Value> {
    let run = home.run_of(&done.document());
    let log = home.run(&["run", "events", &run, "--json"]);
    log.stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] == json!("agent.toolReturned"))
        .map(|event| event["payload"]["outcome"].clone())
        .collect()
}

#[test]
fn a_live_run_calls_the_server_and_a_golden_one_does_not() {
    let home = home();
    let refused = eval(&home, &["--mode", "live-shadow"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stdout.contains("[[tools.mcp]]"),
        "{}",
        refused.stdout
    );

    configure(&home);
    let live = eval(&home, &["--mode", "live-shadow", "--record", "tape.jsonl"]);
    assert_eq!(
        live.document()["summary"]["passedCount"],
        json!(1),
        "{}",
        live.stderr
    );
    assert_eq!(answers(&home, &live), [json!("seen")]);
    let golden = eval(&home, &["--mode", "golden"]);
    assert_eq!(
        golden.document()["summary"]["passedCount"],
        json!(1),
        "{}",
        golden.stderr
    );
    assert_eq!(answers(&home, &golden), [json!("canned")]);

    let mixed = eval(&home, &["--mode", "live-shadow", "--mode", "golden"]);
    assert_eq!(mixed.code, 2, "{}", mixed.stderr);
    assert!(mixed.stdout.contains("cannot be mixed"), "{}", mixed.stdout);

    // One trial of a changing environment is not significant.
    let run = home.run_of(&live.document());
    let statistics = home.run(&["run", "statistics", &run, "--json"]).document();
    let reasons = statistics["gate"]["reasons"].to_string();
    assert!(reasons.contains("live tools need 3 trials"), "{statistics}");

    // The cassette needs neither the model nor the server.
    home.model(&json!([]));
    let config = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(
        home.config(),
        config.replace("\"sh\"", "\"/does/not/exist\""),
    )
    .unwrap();
    let replayed = eval(&home, &["--mode", "live-shadow", "--replay", "tape.jsonl"]);
    assert_eq!(replayed.code, live.code, "{}", replayed.stderr);
    assert_eq!(answers(&home, &replayed), [json!("seen")]);

    // Without its server, no task passes, and the run still ends.
    let dead = eval(&home, &["--mode", "live-shadow"]);
    let report = dead.document();
    assert_eq!(
        report["summary"]["passedCount"],
        json!(0),
        "{}",
        dead.stderr
    );
    assert_eq!(
        report["tasks"][0]["reason"],
        json!("tool_not_started"),
        "{report}"
    );
}
