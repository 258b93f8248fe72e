//! A tool server that runs as a child process.
//!
//! It is started without a shell, in its own process group, and gets only the environment variables
//! that any program needs and those that the operator names. It ends when its input is closed,
//! which also happens when this host is killed; a process that does not end is killed.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::tools::config::McpConfig;

/// Environment variables that programs need; none of them is secret.
const USUAL: &[&str] = &[
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
];
/// How long the server may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// A running server, which ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    group: Option<Pid>,
}

/// Starts the server of an entry, with the given variables.
///
/// # Errors
/// The server cannot be started.
pub fn start(
    config: &McpConfig,
    environment: &[(String, String)],
) -> io::Result<(Server, ChildStdout, ChildStdin)> {
    let [program, arguments @ ..] = config.command.as_slice() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let usual = USUAL
        .iter()
        .filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let stderr = match &config.stderr {
        None => Stdio::null(),
        Some(file) => OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(file)?
            .into(),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(usual)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let pipes = child.stdout.take().zip(child.stdin.take());
    let server = Server {
        child: Some(child),
        group,
    };
    let (stdout, stdin) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
    Ok((server, stdout, stdin))
}

impl Drop for Server {
    fn drop(&mut self) {
        let (Some(mut child), Some(group)) = (self.child.take(), self.group) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            let _ = kill_process_group(group, Signal::KILL);
            return;
        };
        runtime.spawn(async move {
            // Its input is closed: a correct server ends by itself.
            if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                let _ = kill_process_group(group, Signal::TERM);
                let _ = tokio::time::timeout(GRACE, child.wait()).await;
            }
            // Processes that the server started end with it.
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait().await;
        });
    }
}
