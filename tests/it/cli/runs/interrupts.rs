//! `run interrupts`, `run answer`, `run pause` and `run resume`, against a host with interrupts.

use secrecy::SecretString;
use serde_json::{Value, json};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::remote::Remote;
use url::Url;

use crate::cli::home::{Done, Home};
use crate::cli::serve::Server;

/// A host under test with a key for it.
struct Asking {
    home: Home,
    server: Server,
    key: String,
}

impl Asking {
    fn start() -> Self {
        let home = Home::empty();
        let key = home
            .run(&["key", "create", "--tenant", "default", "--scope", "all"])
            .stdout;
        let server = Server::start_with(&home, &["--conformance"]);
        let key = key.trim_end().to_owned();
        Self { home, server, key }
    }

    /// Starts a workflow and waits for this event.
    fn workflow(&self, body: &Value, event: &str) -> String {
        let url = Url::parse(&self.server.url).unwrap();
        let key = SecretString::from(self.key.clone());
        let client = Client::new(Remote::new(&url, Some(&key)).unwrap());
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let created: Value = client.post("/v1/runs", body).await.unwrap();
            let run = created["runId"].as_str().unwrap().to_owned();
            let mut after = 0;
            loop {
                let path = format!("/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20");
                let page: Value = client.get(&path).await.unwrap();
                let events = page["events"].as_array().unwrap();
                if events.iter().any(|found| found["type"] == event) {
                    return run;
                }
                assert_eq!(page["isComplete"], false, "no {event}: {page}");
                after += events.len();
            }
        })
    }

    fn run(&self, arguments: &[&str]) -> Done {
        let start = ["--server", &self.server.url, "--key", &self.key];
        self.home.run(&[&start[..], arguments].concat())
    }

    /// The last event of a run that is about to end.
    fn last(&self, run: &str) -> String {
        let followed = self.run(&["--json", "run", "events", run, "--follow"]);
        let last: Value = serde_json::from_str(followed.stdout.lines().last().unwrap()).unwrap();
        last["type"].as_str().unwrap().to_owned()
    }
}

#[test]
fn interrupts_are_shown_and_answered() {
    let host = Asking::start();
    let run = host.workflow(
        &json!({"workflowId": "conformance-approval"}),
        "approval.requested",
    );
    let shown = host.run(&["run", "interrupts", &run]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(
        shown
            .stdout
            .starts_with("gate  approval  Conformance approval  since "),
        "{}",
        shown.stdout
    );
    assert!(
        shown
            .stderr
            .contains(&format!("run answer {run} gate --accept"))
    );
    let listed = host.run(&["--json", "run", "interrupts", &run]).document();
    assert_eq!(listed["interrupts"][0]["nodeId"], "gate");

    let wrong = host.run(&["--json", "run", "answer", &run, "gate", "--value", "7"]);
    assert_eq!(
        (wrong.code, &wrong.document()["error"]["code"]),
        (2, &json!("validation_error"))
    );
    let none = host.run(&["run", "answer", &run, "gate"]);
    assert_eq!(none.code, 2, "an answer must not be empty");
    let answered = host.run(&[
        "run",
        "answer",
        &run,
        "gate",
        "--reject",
        "--feedback",
        "no",
    ]);
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    assert_eq!(host.last(&run), "run.failed");
    let late = host.run(&["--json", "run", "answer", &run, "gate", "--accept"]);
    assert_eq!(
        (late.code, &late.document()["error"]["code"]),
        (2, &json!("interrupt_already_resolved"))
    );
    let nobody = host.run(&["run", "interrupts", &run]);
    assert_eq!((nobody.code, nobody.stdout.as_str()), (0, ""));

    let run = host.workflow(
        &json!({"workflowId": "conformance-clarification"}),
        "clarification.requested",
    );
    let shown = host.run(&["run", "interrupts", &run]);
    assert!(
        shown.stdout.starts_with("ask  clarification  q1: "),
        "{}",
        shown.stdout
    );
    let value = r#"{"answers":{"q1":"blue"}}"#;
    let answered = host.run(&["run", "answer", &run, "ask", "--value", value]);
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    assert_eq!(host.last(&run), "run.completed");
}

#[test]
fn a_run_is_paused_and_resumed() {
    let host = Asking::start();
    // Long enough for two commands; the time counts from the start of the node.
    let body = json!({"workflowId": "conformance-delay", "inputs": {"delayMs": 15_000}});
    let run = host.workflow(&body, "node.started");
    let early = host.run(&["run", "resume", &run]);
    assert_eq!(early.code, 2, "{}", early.stdout);
    let paused = host.run(&["run", "pause", &run, "--now", "--reason", "lunch"]);
    assert_eq!(
        (paused.code, paused.stdout),
        (0, format!("{run} paused\n")),
        "{}",
        paused.stderr
    );
    let again = host.run(&["--json", "run", "pause", &run]);
    assert_eq!(
        (again.code, &again.document()["error"]["code"]),
        (2, &json!("conflict"))
    );
    let resumed = host.run(&["run", "resume", &run]);
    assert_eq!(
        (resumed.code, resumed.stdout),
        (0, format!("{run} running\n"))
    );
    assert_eq!(host.last(&run), "run.completed");
}
