//! The files of `deploy/ci`, `action.yml`, `templates` and the hooks of pre-commit, run in the
//! environment that each system sets, with the real program and a scripted model.

mod baseline;
mod files;
mod github;
mod gitlab;
mod hooks;
mod install;
mod sarif;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use touchstone::demo::pack::{AGENT, SUITE};

use crate::cli::home::{Done, Home, but, right_answers};
use crate::client::python;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PROGRAM: &str = env!("CARGO_BIN_EXE_touchstone");

/// A checkout in which the script evaluates the demo's suite.
struct Pipeline {
    home: Home,
    python: PathBuf,
    variables: Vec<(String, String)>,
}

impl Pipeline {
    /// `None`, with a printed note, if there is no Python.
    fn new(what: &str) -> Option<Self> {
        let python = python(what)?;
        let home = Home::with_pack();
        home.model(&json!(right_answers()));
        let mut pipeline = Self {
            home,
            python,
            variables: Vec::new(),
        };
        pipeline.set("TOUCHSTONE_CI_PROGRAM", PROGRAM);
        pipeline.set("TOUCHSTONE_CI_TARGET", SUITE);
        pipeline.set("TOUCHSTONE_CI_ARGUMENTS", &format!("--agent={AGENT}\n"));
        Some(pipeline)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    fn run(&self) -> Done {
        self.script("evaluate", &[])
    }

    /// The step that signs, the only one with the key.
    fn attest(&mut self, keys: &Keys) -> Done {
        self.set("TOUCHSTONE_CI_SIGNING_KEY", &keys.private());
        let done = self.script("evaluate", &["--attest"]);
        self.set("TOUCHSTONE_CI_SIGNING_KEY", "");
        done
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Done {
        let mut command = Command::new(&self.python);
        command
            .arg("-B")
            .arg(Path::new(ROOT).join("deploy/ci").join(name))
            .args(arguments)
            .current_dir(self.home.path(""))
            // What the machine of the test sets must not decide.
            .env_clear()
            .env("PATH", path_with(&self.home.path("bin")))
            .env("XDG_CACHE_HOME", self.home.path(".cache"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap();
        Done {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn read(&self, name: &str) -> String {
        let file = self.home.path(name);
        std::fs::read_to_string(&file).unwrap_or_else(|cause| panic!("{}: {cause}", file.display()))
    }

    /// `result.json` of the script.
    fn result(&self) -> Value {
        serde_json::from_str(&self.read(".touchstone-results/result.json")).unwrap()
    }

    /// Number of runs that were started.
    fn runs(&self) -> usize {
        let listed = self.home.run(&["--json", "run", "list"]).document();
        listed["runs"].as_array().unwrap().len()
    }
}

fn path_with(first: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", first.display())
}

/// Answers that fail the first tasks.
fn wrong_answers(tasks: usize) -> Value {
    let mut rules = right_answers();
    for rule in rules.iter_mut().take(tasks) {
        let task = rule["when"]["taskId"].as_str().unwrap().to_owned();
        *rule = but(&task, json!({"output": {"queue": "nowhere"}}));
    }
    json!(rules)
}

/// The keys of the pipelines: the private one as text, and the file of the public one.
struct Keys {
    folder: tempfile::TempDir,
}

impl Keys {
    fn new() -> Self {
        let keys = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let made = Command::new(PROGRAM)
            .args(["pack", "keygen", "--out", "ci.pem", "--key-id", "ci"])
            .current_dir(keys.folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        keys
    }

    fn private(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("ci.pem")).unwrap()
    }

    fn public(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("ci.pub")).unwrap()
    }
}

/// The baseline that a run of the main branch keeps, in a checkout of its own.
fn kept_baseline(keys: &Keys) -> Option<Vec<u8>> {
    let mut main = Pipeline::new("the baseline of a pipeline")?;
    for done in [main.run(), main.attest(keys)] {
        assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    }
    Some(std::fs::read(main.home.path(".touchstone-results/baseline.intoto.jsonl")).unwrap())
}
