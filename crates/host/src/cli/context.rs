//! What every command uses: the terminal, the settings, and a client for the host.

use std::any::type_name;
use std::path::PathBuf;

use async_trait::async_trait;
use axum::http::Extensions;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::background::{Spawned, spawn};
use crate::cli::client::Client;
use crate::cli::client::remote::Remote;
use crate::cli::exit::Failure;
use crate::cli::options::Global;
use crate::cli::shell::{database_url, quoted};
use crate::cli::terminal::Terminal;

/// The host that a command has in its own process, over the data folder. The composition root
/// implements it.
#[async_trait]
pub trait EmbeddedHost: Send + Sync {
    /// The settings of features, by type.
    ///
    /// # Errors
    /// The configuration cannot be read or is invalid.
    fn settings(&self, global: &Global) -> Result<Extensions, Failure>;

    /// Starts the host.
    ///
    /// # Errors
    /// The configuration, the store or a model cannot be used; an override is not known.
    async fn open(&self, global: &Global, start: Start) -> Result<Session, Failure>;
}

/// The purpose for which a command starts the embedded host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read and change records; the host executes no runs meanwhile.
    Records,
    /// The same, without creating a store.
    Existing,
    /// To execute the runs that the command names.
    Runs,
    /// To execute assessments and the runs of their stress tests.
    Assessments,
}

/// How to start the embedded host.
#[derive(Clone, Debug)]
pub struct Start {
    pub purpose: Purpose,
    /// By type: settings that replace configured ones, and objects of this process.
    pub overrides: Extensions,
}

impl Start {
    pub fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            overrides: Extensions::new(),
        }
    }

    /// Adds an override. The embedded host does not start with one that it does not know or that
    /// has no effect for the purpose.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.overrides.insert(value);
        self
    }
}

pub struct Context<'a> {
    global: Global,
    terminal: &'a Terminal,
    host: &'a dyn EmbeddedHost,
}

impl<'a> Context<'a> {
    pub fn new(global: Global, terminal: &'a Terminal, host: &'a dyn EmbeddedHost) -> Self {
        Self {
            global,
            terminal,
            host,
        }
    }

    pub fn global(&self) -> &Global {
        &self.global
    }

    pub fn terminal(&self) -> &'a Terminal {
        self.terminal
    }

    /// How to call this program for the same host, for commands to paste.
    pub fn program(&self) -> String {
        let mut words = quoted(&program()).into_owned();
        let global = &self.global;
        let path = |path: &PathBuf| quoted(&path.display().to_string()).into_owned();
        let server = |url: &Url| quoted(url.as_str()).into_owned();
        let database = |url: &SecretString| database_url(url.expose_secret()).into_owned();
        let options = [
            ("--server", global.server.as_ref().map(server)),
            ("--data", global.data.as_ref().map(path)),
            ("--database-url", global.database_url.as_ref().map(database)),
            ("--config", global.config.as_ref().map(path)),
        ];
        for (flag, word) in options {
            if let Some(word) = word {
                words.push_str(&format!(" {flag} {word}"));
            }
        }
        words
    }

    /// The settings of one feature, from file, environment and flags.
    ///
    /// # Errors
    /// The configuration cannot be read or is invalid, or has no settings of this type.
    pub fn settings<T: Clone + Send + Sync + 'static>(&self) -> Result<T, Failure> {
        let mut settings = self.host.settings(&self.global)?;
        settings.remove().ok_or_else(|| {
            let text = format!("the configuration has no {}", type_name::<T>());
            Failure::not_done("internal_error", text)
        })
    }

    pub fn is_embedded(&self) -> bool {
        self.global.server.is_none()
    }

    pub fn server(&self) -> Option<&Url> {
        self.global.server.as_ref()
    }

    /// A client for commands that create records; an embedded host executes no runs meanwhile.
    ///
    /// # Errors
    /// No host can be reached or set up.
    pub async fn write(&self) -> Result<Session, Failure> {
        self.open(Start::new(Purpose::Records)).await
    }

    /// As [`write`](Self::write), for commands that read or change only what exists: if there is no
    /// store, they find an empty one, and none is created.
    ///
    /// # Errors
    /// As above.
    pub async fn read(&self) -> Result<Session, Failure> {
        self.open(Start::new(Purpose::Existing)).await
    }

    /// A client for executing runs; with an embedded host, this process executes them.
    ///
    /// # Errors
    /// No host can be reached or set up.
    pub async fn work(&self) -> Result<Session, Failure> {
        self.open(Start::new(Purpose::Runs)).await
    }

    /// A client for assessments and the runs of their stress tests.
    ///
    /// # Errors
    /// As above.
    pub async fn assess(&self) -> Result<Session, Failure> {
        self.open(Start::new(Purpose::Assessments)).await
    }

    /// A client for the remote host, else for an embedded host that is started like this.
    ///
    /// # Errors
    /// As above.
    pub async fn open(&self, start: Start) -> Result<Session, Failure> {
        match &self.global.server {
            Some(server) => {
                let remote = Remote::new(server, self.global.key.as_ref())?;
                Ok(Session::new(Client::new(remote)))
            }
            None => self.host.open(&self.global, start).await,
        }
    }
}

/// The path this program was called by, or its name.
pub fn program() -> String {
    std::env::args()
        .next()
        .filter(|name| name.contains(std::path::MAIN_SEPARATOR))
        .unwrap_or_else(|| "touchstone".to_owned())
}

pub struct Session {
    client: Client,
    /// Flags that select the model again, for commands to paste.
    model_flags: String,
    /// Services of the embedded host, by type.
    services: Extensions,
    work: Option<Work>,
}

struct Work {
    shutdown: CancellationToken,
    done: Spawned<()>,
}

impl Session {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            model_flags: String::new(),
            services: Extensions::new(),
            work: None,
        }
    }

    #[must_use]
    pub fn with_model_flags(mut self, flags: String) -> Self {
        self.model_flags = flags;
        self
    }

    /// Adds a service of the embedded host.
    #[must_use]
    pub fn with_service<T: Clone + Send + Sync + 'static>(mut self, service: T) -> Self {
        self.services.insert(service);
        self
    }

    /// Lets the embedded host execute runs until the session is closed.
    #[must_use]
    pub fn working<F>(mut self, run_until: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = CancellationToken::new();
        let done = spawn("host", run_until(shutdown.clone()));
        self.work = Some(Work { shutdown, done });
        self
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn model_flags(&self) -> &str {
        &self.model_flags
    }

    /// A service of the embedded host; `None` for a remote host.
    pub fn service<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.services.get()
    }

    /// Stops working and releases unfinished runs for another process to resume.
    pub async fn close(self) {
        if let Some(work) = self.work {
            work.shutdown.cancel();
            // The worker logs its own failures.
            let _ = work.done.await;
        }
    }
}
