//! A NATS server with JetStream, on a free port.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;

use crate::process::TOO_LONG;

/// A running server; killed when dropped.
pub struct NatsServer {
    child: Child,
    url: String,
    _folder: TempDir,
}

/// The program: Debian installs it outside the path of users.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join("nats-server"))
        .find(|file| file.is_file())
}

impl NatsServer {
    /// `None`, with a printed note, if the program is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with("jetstream: {}")
    }

    /// The same with these lines of its configuration.
    pub fn start_with(settings: &str) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("NOT RUN: no NATS server (package nats-server)");
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(
                !ci,
                "CI must run these tests: install the package nats-server"
            );
            return None;
        };
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("nats.conf");
        std::fs::write(&file, settings).unwrap();
        let child = Command::new(program)
            .arg("-c")
            .arg(file)
            .args(["-a", "127.0.0.1", "-p", "-1", "-sd"])
            .arg(folder.path().join("store"))
            .arg("--ports_file_dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let url = port_of(child.id(), folder.path());
        Some(Self {
            child,
            url,
            _folder: folder,
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The answer to a request with an empty message.
    pub async fn ask(&self, subject: &str) -> Value {
        let mut inbox = self.subscribe("inbox").await;
        let words = format!("PUB {subject} inbox 0\r\n\r\n");
        let connection = inbox.0.get_mut();
        connection
            .get_mut()
            .write_all(words.as_bytes())
            .await
            .unwrap();
        inbox.message().await;
        let answer = inbox.0.next_line().await.unwrap().unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Listens to a subject from now on.
    pub async fn subscribe(&self, subject: &str) -> Subscription {
        let (_, address) = self.url.split_once("://").unwrap();
        let mut connection = TcpStream::connect(address).await.unwrap();
        let words = format!("CONNECT {{\"verbose\":false}}\r\nSUB {subject} 1\r\nPING\r\n");
        connection.write_all(words.as_bytes()).await.unwrap();
        let mut subscription = Subscription(BufReader::new(connection).lines());
        subscription.line("PONG").await;
        subscription
    }

    /// As a server that hangs and keeps its connections.
    pub fn stop(&self) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, Signal::STOP).unwrap();
        // A server that still runs answers the next request.
        let state = format!("/proc/{}/stat", self.child.id());
        while !std::fs::read_to_string(&state).unwrap().contains(") T ") {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A connection that listens to one subject.
pub struct Subscription(Lines<BufReader<TcpStream>>);

impl Subscription {
    /// Waits for a message.
    pub async fn message(&mut self) {
        self.line("MSG ").await;
    }

    async fn line(&mut self, start: &str) {
        let heard = async {
            while let Some(line) = self.0.next_line().await.unwrap() {
                if line.starts_with(start) {
                    return;
                }
            }
            panic!("the server closed the connection");
        };
        tokio::time::timeout(TOO_LONG, heard).await.unwrap();
    }
}

/// The address that the server has written, once it is ready.
fn port_of(id: u32, folder: &Path) -> String {
    let file = folder.join(format!("nats-server_{id}.ports"));
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if let Ok(ports) = serde_json::from_str::<Value>(&text) {
            return ports["nats"][0].as_str().unwrap().to_owned();
        }
        assert!(begun.elapsed() < TOO_LONG, "the NATS server is not ready");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
