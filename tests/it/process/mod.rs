//! Real processes, set up and run as by an operator: through the command line and over HTTP.

pub mod api;
pub mod endpoint;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::postgres::TestDatabase;
use api::Api;

/// Upper limit for every wait; a test that waits this long has failed.
pub const TOO_LONG: Duration = Duration::from_secs(60);

/// The agent installed at every site.
pub const AGENT: &str = "private.touchstone.probe.default";

/// A data folder, a configuration and, on request, a separate PostgreSQL database.
pub struct Site {
    folder: TempDir,
    database: Option<TestDatabase>,
}

impl Site {
    /// On the embedded database.
    pub fn embedded() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            database: None,
        }
    }

    /// On PostgreSQL; `None`, with a printed note, if there is no server.
    pub async fn on_postgres() -> Option<Self> {
        Some(Self {
            folder: TempDir::new().unwrap(),
            database: Some(TestDatabase::create().await?),
        })
    }

    /// URL of its PostgreSQL database, if it has one.
    pub fn database_url(&self) -> Option<String> {
        self.database.as_ref().map(TestDatabase::url)
    }

    /// Folder of all files of this site.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the site's folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary with this site's data and the named configuration.
    pub fn touchstone(&self, config: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
        command
            .current_dir(self.folder())
            .args(arguments)
            .stdin(Stdio::null());
        command.arg("--data").arg(self.folder().join("data"));
        command.arg("--config").arg(self.folder().join(config));
        if let Some(database) = &self.database {
            command.args(["--database-url", &database.url()]);
        }
        command
    }

    /// Runs a command on the site's data, which must succeed; returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        succeed(self.touchstone("touchstone.toml", arguments))
    }

    /// Runs a command that only reads files, which must succeed; returns its output.
    pub fn run_on_files(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
        command
            .current_dir(self.folder())
            .args(arguments)
            .stdin(Stdio::null());
        succeed(command)
    }

    /// Runs a command against a host, which must succeed; returns its output.
    pub fn run_at(&self, api: &Api, arguments: &[&str]) -> String {
        succeed(self.touchstone_at(api, arguments))
    }

    /// The binary as a client of a host.
    pub fn touchstone_at(&self, api: &Api, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
        command
            .current_dir(self.folder())
            .args(arguments)
            .stdin(Stdio::null());
        command.args(["--server", api.base_url(), "--key", api.key()]);
        // A local pack is first checked with the rules of the configuration.
        if arguments.starts_with(&["pack", "install"]) {
            command.args(["--config", "touchstone.toml"]);
        }
        command
    }

    /// A new key of a tenant, which may evaluate but not deploy.
    pub fn key(&self, tenant: &str) -> String {
        self.run(&["key", "create", "--tenant", tenant])
            .trim()
            .to_owned()
    }

    /// A new key with these scopes.
    pub fn key_of(&self, tenant: &str, scopes: &[&str]) -> String {
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        let words: Vec<&str> = ["key", "create", "--tenant", tenant]
            .into_iter()
            .chain(scopes)
            .collect();
        self.run(&words).trim().to_owned()
    }

    /// Writes a configuration that trusts this site's signing key, creating the key the first time.
    pub fn configure(&self, name: &str, text: &str) {
        if !self.folder().join("signing.pem").exists() {
            self.write("touchstone.toml", "");
            self.run_on_files(&[
                "pack",
                "keygen",
                "--out",
                "signing.pem",
                "--key-id",
                "site-key",
            ]);
        }
        let public = std::fs::read_to_string(self.folder().join("signing.pub")).unwrap();
        let trust = format!(
            "\n[[packs.keys]]\nkey_id = \"site-key\"\nnamespaces = [\"private.touchstone.probe\", \"private.touchstone.front-desk\"]\n\
             public_key = \"\"\"\n{public}\"\"\"\n"
        );
        self.write(name, &format!("{text}{trust}"));
    }

    /// Builds and signs the pack of [`AGENT`] and installs it on a host. `extra` is added to its
    /// manifest.
    pub fn install_agent(&self, api: &Api, prompt: &str, extra: &Value) {
        let mut agent = json!({
            "agentId": AGENT, "persona": "Probe", "modelClass": "general", "systemPromptRef": "prompts/probe.md"
        });
        agent
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let manifest = json!({
            "name": "private.touchstone.probe", "version": "1.0.0", "license": "Apache-2.0",
            "engines": {"openwop": ">=1.0.0 <2.0.0"}, "runtime": {"language": "remote", "entry": "pack.json"},
            "agents": [agent]
        });
        self.write("probe/pack.json", &manifest.to_string());
        self.write("probe/prompts/probe.md", prompt);
        self.run_on_files(&["pack", "build", "probe", "--out", "probe.tgz"]);
        self.run_on_files(&[
            "pack",
            "sign",
            "probe.tgz",
            "--key",
            "signing.pem",
            "--key-id",
            "site-key",
        ]);
        self.run_at(api, &["pack", "install", "probe.tgz"]);
    }

    /// Imports a suite on a host.
    pub fn import_suite(&self, api: &Api, suite: &Value) {
        let name = format!("{}.json", suite["suiteId"].as_str().unwrap());
        self.write(&name, &suite.to_string());
        self.run_at(api, &["suite", "import", &name]);
    }

    /// Starts a host and waits until it is ready.
    pub fn serve(&self, config: &str) -> Host {
        self.serve_with(config, &[])
    }

    /// The same with environment variables.
    pub fn serve_with(&self, config: &str, environment: &[(&str, &str)]) -> Host {
        let mut host = self.start(config, environment);
        host.wait_ready();
        host
    }

    /// Starts a host that supports [`Host::limit_files`], and waits until it is ready.
    #[cfg(target_os = "linux")]
    pub fn serve_limitable(&self, config: &str) -> Host {
        let program = self.touchstone(config, &["serve", "--listen", "127.0.0.1:0"]);
        // Without this, the first write beyond the limit would end the process.
        let mut command = Command::new("sh");
        command.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]);
        command.arg(program.get_program()).args(program.get_args());
        command.current_dir(self.folder()).stdin(Stdio::null());
        let mut host = self.start_as(command, config);
        host.wait_ready();
        host
    }

    /// Starts a host without waiting. Its log is appended to `<config>.log`.
    pub fn start(&self, config: &str, environment: &[(&str, &str)]) -> Host {
        let mut command = self.touchstone(config, &["serve", "--listen", "127.0.0.1:0"]);
        command.envs(environment.iter().copied());
        self.start_as(command, config)
    }

    fn start_as(&self, mut command: Command, config: &str) -> Host {
        let log = self.folder().join(format!("{config}.log"));
        let sink = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = command.stdout(Stdio::piped()).stderr(sink).spawn().unwrap();
        Host {
            child,
            base_url: None,
            log,
        }
    }
}

fn succeed(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A running `touchstone serve`; killed when dropped.
pub struct Host {
    child: Child,
    base_url: Option<String>,
    log: PathBuf,
}

impl Host {
    fn wait_ready(&mut self) {
        let stdout = self.child.stdout.take().unwrap();
        // A thread reads to the end, so that the host never writes to a closed pipe.
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((_, url)) = line.split_once("listening on ") {
                    let _ = tell.send(url.trim().to_owned());
                }
            }
        });
        let url = told.recv_timeout(TOO_LONG);
        self.base_url =
            Some(url.unwrap_or_else(|_| panic!("the host is not ready: {}", self.log())));
    }

    /// A client with this key.
    pub fn api(&self, key: &str) -> Api {
        Api::new(self.base_url.as_deref().expect("the host is ready"), key)
    }

    /// Limits the size of all files, as on a full disk; `None` removes the limit.
    #[cfg(target_os = "linux")]
    pub fn limit_files(&self, bytes: Option<u64>) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};

        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(pid, Resource::Fsize, limit).unwrap();
    }

    /// The log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Kills it as a power cut would, without signal handlers.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Terminates it and waits; returns whether it exited successfully.
    pub fn terminate(mut self) -> bool {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            assert!(
                asked.elapsed() < TOO_LONG,
                "the host does not end: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
