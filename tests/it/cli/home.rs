//! A folder for the binary, with the demo's pack installed and a scripted model.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Stdio};

use assert_cmd::Command;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use touchstone::app::App;
use touchstone::config::Config;
use touchstone::demo::pack::{AGENT, Release, SUITE};
use touchstone::kinds::KINDS;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::embedded::Embedded;
use touchstone_kit::keys::SecretKey;
use touchstone_packs::rules::build::{Files, sign};
use touchstone_packs::rules::verify::SigningMethod;
use touchstone_runs::rules::eval::suite_rules::read_suite;

/// The binary, in a clean environment.
pub fn touchstone() -> Command {
    let mut command = Command::cargo_bin("touchstone").unwrap();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("TOUCHSTONE_")
            || [
                "NO_COLOR",
                "CLICOLOR_FORCE",
                "OPENAI_API_KEY",
                "ANTHROPIC_API_KEY",
                "RUST_LOG",
                "GITHUB_STEP_SUMMARY",
            ]
            .contains(&&*name)
        {
            command.env_remove(&*name);
        }
    }
    command
}

/// Output and exit code of a finished command.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// stdout as one JSON document.
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|_| panic!("no JSON: {}{}", self.stdout, self.stderr))
    }
}

pub struct Home(TempDir);

impl Home {
    pub fn empty() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        home.model(&json!([]));
        home
    }

    /// With the folder of a new pack, `my-agent`.
    pub fn with_folder() -> Self {
        let home = Self::empty();
        let made = home.run(&["pack", "init", "my-agent", "--name", "vendor.acme.my-agent"]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        home
    }

    /// With the demo's pack.
    pub fn with_pack() -> Self {
        Self::with_signed(&Release::Present.files())
    }

    /// With a signed pack of these files.
    pub fn with_signed(files: &Files) -> Self {
        let home = Self::empty();
        let key = SecretKey::from_random([7; 32]);
        let settings = format!(
            "[[packs.keys]]\nkey_id = \"test-1\"\nnamespaces = [\"vendor.touchstone-demo.*\"]\npublic_key = \"\"\"\n{}\"\"\"\n{}",
            key.public().to_pem(),
            std::fs::read_to_string(home.config()).unwrap()
        );
        std::fs::write(home.config(), settings).unwrap();
        let pack = sign(files, SigningMethod::Ed25519, &key, "test-1").unwrap();
        let config = Config {
            data: home.data(),
            ..Config::load(Some(&home.config())).unwrap()
        };
        let body = json!({
            "tarball": STANDARD.encode(&pack.tgz),
            "served": STANDARD.encode(&pack.served),
            "signature": STANDARD.encode(pack.signature),
        });
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let app = App::start(config).await.unwrap();
            let client = Client::new(Embedded::new(app.router(), &app.local_caller_key()).unwrap());
            let _: Value = client
                .post("/v1/host/touchstone/packs", &body)
                .await
                .unwrap();
        });
        home
    }

    /// The binary, with this folder as its home.
    pub fn touchstone(&self) -> Command {
        let mut command = touchstone();
        command.current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", self.path(".cache"));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        Done::of(self.touchstone().args(arguments))
    }

    /// Runs an eval of the demo's suite.
    pub fn eval(&self, more: &[&str]) -> Done {
        let arguments = [&["eval", SUITE, "--agent", AGENT], more].concat();
        self.run(&arguments)
    }

    /// Starts an eval of the demo's suite: the process, the rest of its stderr, which must be kept
    /// while it runs, and the run.
    pub fn start_eval(&self) -> (Child, BufReader<ChildStderr>, String) {
        let mut child = std::process::Command::new(self.touchstone().get_program())
            .current_dir(self.0.path())
            .args(["eval", SUITE, "--agent", AGENT])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let run = line.trim_end().strip_prefix("run ").unwrap().to_owned();
        (child, stderr, run)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path(".touchstone")
    }

    pub fn config(&self) -> PathBuf {
        self.path("touchstone.toml")
    }

    /// Sets the maximum response time. Unlike the script, a run does not pin it.
    pub fn timeout(&self, seconds: f64) {
        let settings = std::fs::read_to_string(self.config()).unwrap();
        let kept = settings
            .lines()
            .filter(|line| !line.starts_with("timeout_s"));
        let kept: String = kept.map(|line| format!("{line}\n")).collect();
        std::fs::write(self.config(), format!("{kept}timeout_s = {seconds}\n")).unwrap();
    }

    /// Sets the rules of the scripted model.
    pub fn model(&self, rules: &Value) {
        std::fs::write(
            self.path("answers.json"),
            json!({"rules": rules}).to_string(),
        )
        .unwrap();
        if !self.config().exists() {
            let settings = "[[models]]\nclass = \"*\"\nprovider = \"scripted\"\nfile = \"answers.json\"\n\
                            max_attempts = 1\ninput_usd_per_mtok = 1.0\noutput_usd_per_mtok = 1.0\n";
            std::fs::write(self.config(), settings).unwrap();
        }
    }
}

/// Rules that answer every task as the suite expects.
pub fn right_answers() -> Vec<Value> {
    right_answers_to("evals/support-triage.json")
}

/// The same for another suite of the pack.
pub fn right_answers_to(file: &str) -> Vec<Value> {
    let files = Release::Present.files();
    let suite = read_suite(KINDS, &files[file]).unwrap().suite;
    let rule = |task: &touchstone_openwop::suite::Task| {
        json!({
            "when": {"taskId": task.task_id},
            "turns": [{"output": task.expected.matching.as_ref().unwrap().value}],
        })
    };
    suite.tasks.iter().map(rule).collect()
}

/// Every task's input with the output its suite expects.
pub fn right_outputs() -> Vec<Value> {
    let files = Release::Present.files();
    let suite = read_suite(KINDS, &files["evals/support-triage.json"])
        .unwrap()
        .suite;
    let answer = |task: &touchstone_openwop::suite::Task| {
        json!({
            "input": task.input,
            "output": task.expected.matching.as_ref().unwrap().value,
        })
    };
    suite.tasks.iter().map(answer).collect()
}

/// Rules that answer every task as the suite expects, one of them late.
pub fn right_but_late(task: &str, delay_ms: u64) -> Vec<Value> {
    let mut rules = right_answers();
    for rule in &mut rules {
        if rule["when"]["taskId"] == task {
            rule["turns"][0]["delayMs"] = json!(delay_ms);
        }
    }
    rules
}

/// Puts a rule before the others.
pub fn but(task: &str, turn: Value) -> Value {
    json!({"when": {"taskId": task}, "turns": [turn]})
}
