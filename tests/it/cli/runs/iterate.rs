//! Working on an agent: answers from the cache, and runs that start when files change.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::cli::home::{Done, Home};

const CASES: &str =
    "id,input,expected\nrefund,I was charged twice,billing\nlogin,Error 500,technical\n";

/// A home with a prompt and cases, and an endpoint that always answers `billing`.
struct Desk {
    home: Home,
    runtime: Runtime,
    server: MockServer,
}

impl Desk {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(async {
            let server = MockServer::start().await;
            let answer = json!({
                "choices": [{"index": 0, "finish_reason": "stop",
                             "message": {"role": "assistant", "content": "billing"}}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
            });
            Mock::given(method("POST"))
                .and(path("/v1/chat/completions"))
                .respond_with(ResponseTemplate::new(200).set_body_json(answer))
                .mount(&server)
                .await;
            server
        });
        let home = Home::empty();
        let config = format!(
            "[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\n\
             input_usd_per_mtok = 1000\noutput_usd_per_mtok = 1000\n",
            server.uri()
        );
        std::fs::write(home.config(), config).unwrap();
        std::fs::write(home.path("prompt.md"), "Answer with a label.").unwrap();
        std::fs::write(home.path("cases.csv"), CASES).unwrap();
        Self {
            home,
            runtime,
            server,
        }
    }

    fn calls(&self) -> usize {
        let requests = self.runtime.block_on(self.server.received_requests());
        requests.unwrap().len()
    }

    fn run(&self, more: &[&str]) -> Done {
        let command = [
            "--json",
            "eval",
            "--prompt",
            "prompt.md",
            "--cases",
            "cases.csv",
        ];
        self.home.run(&[&command[..], more].concat())
    }

    /// The report of a run, and the number of calls it made.
    fn eval(&self, more: &[&str]) -> (Value, usize) {
        let before = self.calls();
        let done = self.run(more);
        assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
        (done.document(), self.calls() - before)
    }
}

#[test]
fn an_unchanged_agent_costs_nothing_the_second_time() {
    let desk = Desk::new();
    let (first, calls) = desk.eval(&[]);
    assert_eq!(calls, 2);
    assert_eq!(
        first["answerCache"],
        json!({"cached": 0, "cachedOfAgent": 0, "answers": 2, "costSavedUsd": 0.0})
    );
    assert_eq!(first["summary"]["totalCostUsd"], json!(0.024));

    let (second, calls) = desk.eval(&[]);
    assert_eq!(calls, 0);
    assert_eq!(
        second["answerCache"],
        json!({"cached": 2, "cachedOfAgent": 2, "answers": 2, "costSavedUsd": 0.024})
    );
    assert_eq!(second["summary"]["totalCostUsd"], json!(0.0));
    assert_eq!(
        second["summary"]["passedCount"],
        first["summary"]["passedCount"]
    );
    let notes = second["notes"].to_string();
    assert!(
        notes.contains("2 of 2 model answers came from the cache"),
        "{notes}"
    );
    let events = desk
        .home
        .run(&["--json", "run", "events", &desk.home.run_of(&second)]);
    assert_eq!(
        events.stdout.matches("touchstone.answer.cached").count(),
        2,
        "{}",
        events.stdout
    );

    let (fresh, calls) = desk.eval(&["--no-cache"]);
    assert_eq!(calls, 2);
    assert_eq!(fresh.get("answerCache"), None);
}

#[test]
fn only_what_a_change_affects_calls_the_model() {
    let desk = Desk::new();
    desk.eval(&[]);
    std::fs::write(
        desk.home.path("cases.csv"),
        format!("{CASES}tone,Please hurry,billing\n"),
    )
    .unwrap();
    assert_eq!(desk.eval(&[]).1, 1);
    std::fs::write(desk.home.path("prompt.md"), "Answer with one label.").unwrap();
    assert_eq!(desk.eval(&[]).1, 3);
}

#[test]
fn trials_never_share_an_answer() {
    let desk = Desk::new();
    desk.run(&["--trials", "3"]);
    assert_eq!(desk.calls(), 6);
    desk.run(&["--trials", "3"]);
    assert_eq!(desk.calls(), 6);
}

#[test]
fn installed_suites_do_not_use_the_cache() {
    let desk = Desk::new();
    let (local, _) = desk.eval(&["--save", "my-agent"]);
    let packed = desk
        .home
        .run(&["pack", "build", "my-agent", "--out", "my.tgz"]);
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    let suite = format!(
        "{}@{}",
        local["suite"]["suiteId"].as_str().unwrap(),
        local["suite"]["version"].as_str().unwrap()
    );
    let agent = format!(
        "{}@{}",
        local["agent"]["agentId"].as_str().unwrap(),
        local["agent"]["version"].as_str().unwrap()
    );
    let before = desk.calls();
    let done = desk
        .home
        .run(&["--json", "eval", &suite, "--agent", &agent]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert_eq!(desk.calls() - before, 2);
    assert_eq!(done.document().get("answerCache"), None);
}

#[test]
fn a_change_starts_a_run_that_shows_what_it_fixed() {
    let desk = Desk::new();
    let mut child = Command::new(desk.home.touchstone().get_program())
        .current_dir(desk.home.path("."))
        .env("XDG_CACHE_HOME", desk.home.path(".cache"))
        .args([
            "eval",
            "--prompt",
            "prompt.md",
            "--cases",
            "cases.csv",
            "--watch",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut notes = BufReader::new(stderr).lines().map(Result::unwrap);
    notes
        .find(|line| line.contains("waiting for changes"))
        .unwrap();
    let corrected = CASES.replace("technical", "billing");
    std::fs::write(desk.home.path("cases.csv"), corrected).unwrap();
    notes
        .find(|line| line.contains("waiting for changes"))
        .unwrap();
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let shown: Vec<String> = BufReader::new(stdout).lines().map(Result::unwrap).collect();
    let shown = shown.join("\n");
    assert!(
        shown.contains("since the previous run: score 0.500 → 1.000"),
        "{shown}"
    );
    assert!(shown.contains("fixed (1): login"), "{shown}");
    child.wait().unwrap();
    // Only the expected answer was changed, so no request is new.
    assert_eq!(desk.calls(), 2);
}

/// A program that keeps the questions it was asked.
const PROGRAM: &str = "import json, sys
for line in sys.stdin:
    question = json.loads(line)
    print(question['input'], file=open('.asked', 'a'), flush=True)
    print(json.dumps({'id': question['id'], 'output': 'billing'}), flush=True)
";

#[test]
fn a_watched_program_answers_only_new_questions_until_it_changes() {
    let home = Home::empty();
    std::fs::write(home.path("cases.csv"), CASES).unwrap();
    std::fs::write(home.path("agent.py"), PROGRAM).unwrap();
    let command = [
        "eval",
        "--agent-command",
        "python3 agent.py",
        "--cases",
        "cases.csv",
        "--markdown",
        "result.md",
        "--watch",
    ];
    let mut child = Command::new(home.touchstone().get_program())
        .current_dir(home.path("."))
        .env("XDG_CACHE_HOME", home.path(".cache"))
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = child.stderr.take().unwrap();
    let mut notes = BufReader::new(stderr).lines().map(Result::unwrap);
    let mut asked = || {
        notes
            .find(|line| line.contains("waiting for changes"))
            .unwrap();
        let asked = std::fs::read_to_string(home.path(".asked")).unwrap();
        std::fs::write(home.path(".asked"), "").unwrap();
        let mut asked: Vec<String> = asked.lines().map(str::to_owned).collect();
        asked.sort_unstable();
        asked
    };
    let both = ["Error 500", "I was charged twice"];
    assert_eq!(asked(), both);
    // An expected answer, an input, and the program.
    let corrected = CASES.replace("technical", "billing");
    std::fs::write(home.path("cases.csv"), &corrected).unwrap();
    assert_eq!(asked(), [""; 0]);
    std::fs::write(home.path("cases.csv"), corrected.replace("500", "502")).unwrap();
    assert_eq!(asked(), ["Error 502"]);
    std::fs::write(home.path("agent.py"), format!("{PROGRAM}# 2\n")).unwrap();
    assert_eq!(asked(), ["Error 502", "I was charged twice"]);
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    child.wait().unwrap();
}

#[test]
fn an_installed_suite_cannot_be_watched() {
    let home = Home::with_pack();
    let done = home.run(&[
        "eval",
        "vendor.acme.evals.x@1.0.0",
        "--agent",
        "a.b",
        "--watch",
    ]);
    assert_eq!(done.code, 2);
    assert!(
        done.stderr.contains("--watch needs files"),
        "{}",
        done.stderr
    );
}

#[test]
fn several_models_and_prompts_are_compared_in_one_table() {
    let desk = Desk::new();
    std::fs::write(
        desk.home.path("long.md"),
        "Answer with a label. Be careful.",
    )
    .unwrap();
    let url = format!("{}/v1", desk.server.uri());
    let own = format!("large={url}");
    let command = [
        "matrix",
        "--prompt",
        "prompt.md",
        "--prompt",
        "long.md",
        "--cases",
        "cases.csv",
        "--model-url",
        &url,
        "--model",
        "small",
        "--model",
        &own,
        "--markdown",
        "matrix.md",
    ];
    let done = desk.home.run(&[&["--json"], &command[..]].concat());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let found = done.document();
    let names: Vec<&str> = found["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "prompt.md, small",
            "prompt.md, large",
            "long.md, small",
            "long.md, large"
        ]
    );
    assert_eq!(found["variants"][0]["score"], json!(0.5));
    assert_eq!(found["pairs"].as_array().unwrap().len(), 6);
    assert_eq!(found["pairs"][0]["beyondChance"], json!(false));
    assert_eq!(desk.calls(), 8);
    let written = std::fs::read_to_string(desk.home.path("matrix.md")).unwrap();
    assert!(
        written.contains("| prompt.md, small | 0.500 |"),
        "{written}"
    );

    let again = desk.home.run(&command);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(
        again.stdout.contains("no difference is beyond chance"),
        "{}",
        again.stdout
    );
    assert_eq!(desk.calls(), 8);
}

#[test]
fn a_matrix_needs_several_variants() {
    let desk = Desk::new();
    let done = desk
        .home
        .run(&["matrix", "--prompt", "prompt.md", "--cases", "cases.csv"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("repeat --model"), "{}", done.stderr);
}
