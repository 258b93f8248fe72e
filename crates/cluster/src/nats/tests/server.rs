//! A NATS server with a configuration, on a free port.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::config::ClusterSettings;
use crate::nats::keys;
use crate::rules::access::permissions::{Permissions, ServerUser};

/// How long a server may take to start.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    address: String,
    folder: TempDir,
}

/// The program: Debian installs it outside the path of users.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join("nats-server"))
        .find(|file| file.is_file())
}

impl Server {
    /// `None`, with a printed note, if the program is not installed.
    pub async fn start(configuration: &str) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("NOT RUN: no NATS server (package nats-server)");
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(
                !ci,
                "CI must run these tests: install the package nats-server"
            );
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nats.conf");
        std::fs::write(&file, configuration).unwrap();
        let child = Command::new(program)
            .args(["-js", "-a", "127.0.0.1", "-p", "-1", "-sd"])
            .arg(folder.path().join("store"))
            .arg("--ports_file_dir")
            .arg(folder.path())
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut server = Self {
            child,
            address: String::new(),
            folder,
        };
        let ready = tokio::time::timeout(READY_WITHIN, server.port()).await;
        server.address = ready.unwrap_or_else(|_| panic!("not ready: {}", server.log()));
        Some(server)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    /// The address that the server has written, once it is ready.
    async fn port(&self) -> String {
        let name = format!("nats-server_{}.ports", self.child.id());
        let file = self.path().join(name);
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if let Ok(ports) = serde_json::from_str::<Value>(&text) {
                let url = ports["nats"][0].as_str().unwrap().to_owned();
                return url.split_once("://").unwrap().1.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Settings that name this server, without credentials.
    pub fn settings(&self, scheme: &str) -> ClusterSettings {
        ClusterSettings {
            nats: Some(format!("{scheme}://{}", self.address)),
            ..ClusterSettings::default()
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A user of a server, with a new key.
pub struct User {
    pub seed_file: PathBuf,
    /// The user in the configuration of a server.
    pub block: String,
}

impl User {
    pub fn new(folder: &Path, name: &str, permissions: &Permissions) -> Self {
        let seed_file = folder.join(format!("{name}.nk"));
        let key = keys::create(&seed_file).unwrap();
        let user = ServerUser {
            key: &key,
            permissions,
        };
        Self {
            block: user.to_string(),
            seed_file,
        }
    }
}

/// The configuration of a server with these users.
pub fn with_users(users: &[&User]) -> String {
    let blocks: Vec<&str> = users.iter().map(|user| user.block.as_str()).collect();
    format!("authorization {{ users: [\n{}\n] }}\n", blocks.join("\n"))
}
