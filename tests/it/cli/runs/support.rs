//! Shared parts of the tests of runs.

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use touchstone::demo::pack::Release;
use wiremock::{Mock, MockServer};

use crate::cli::home::{Done, Home, right_answers};
use crate::support::{asyncapi, openapi};

/// A task of the demo's suite.
pub const TASK: &str = "charged-twice";

/// The demo's pack with these assertions for [`TASK`], signed and installed.
pub fn home_with(assertions: &Value) -> Home {
    let document = json!({
        "scoringVersion": 1, "suiteId": "vendor.touchstone-demo.evals.support-triage",
        "tasks": {TASK: {"assertions": assertions}},
    });
    let mut files = Release::Present.files();
    files.insert(
        "evals/support-triage.scoring.json".to_owned(),
        document.to_string().into_bytes(),
    );
    let home = Home::with_signed(&files);
    home.model(&json!(right_answers()));
    home
}

/// Evaluates [`TASK`] alone.
pub fn eval(home: &Home, more: &[&str]) -> Done {
    let options = ["--json", "--task", TASK, "--lenient"];
    home.eval(&[&options, more].concat())
}

/// The command that an output names, on a line of its own or after `try: `, without the program.
pub fn printed_command(text: &str, start: &str) -> Vec<String> {
    let at = text
        .find(start)
        .unwrap_or_else(|| panic!("no {start}: {text}"));
    let line = text[at..].lines().next().unwrap();
    let line = line.split([',', ';']).next().unwrap();
    let mut words = line.split_whitespace();
    words.next();
    words.map(str::to_owned).collect()
}

/// A task of a report.
pub fn task<'a>(report: &'a Value, id: &str) -> &'a Value {
    let tasks = report["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["taskId"] == id).unwrap()
}

/// The details of a task and the events of its run, as lines, checked against the API documents.
pub fn described(home: &Home, run: &str, task: &str) -> (Value, String) {
    let details = home.run(&["--json", "run", "show", run, "--task", task]);
    let details = details.document();
    openapi::check_component("TaskDetails", &details);
    let events = home.run(&["--json", "run", "events", run]).stdout;
    for line in events.lines() {
        asyncapi::check_event(&serde_json::from_str(line).unwrap());
    }
    (details, events)
}

/// A model endpoint for the command line, which runs outside of an async runtime.
pub struct ModelServer {
    runtime: Runtime,
    server: MockServer,
}

impl ModelServer {
    /// Answers as mocked.
    pub fn new(mock: Mock) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(async {
            let server = MockServer::start().await;
            mock.mount(&server).await;
            server
        });
        Self { runtime, server }
    }

    /// Also answers as mocked here.
    pub fn also(&self, mock: Mock) {
        self.runtime.block_on(mock.mount(&self.server));
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.server.address().to_string()
    }

    /// Base URL of the API.
    pub fn url(&self) -> String {
        format!("{}/v1", self.server.uri())
    }

    /// Number of requests so far.
    pub fn calls(&self) -> usize {
        let requests = self.runtime.block_on(self.server.received_requests());
        requests.unwrap().len()
    }
}
