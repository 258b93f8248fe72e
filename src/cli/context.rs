//! What every command uses: the terminal, the configuration, and a client for the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::agents::model::OwnModels;
use crate::agents::model::config::{ModelConfig, Provider};
use crate::app;
use crate::app::App;
use crate::config::Config;
use crate::host::background::{Spawned, spawn};
use crate::host::cli::client::Client;
use crate::host::cli::client::embedded::Embedded;
use crate::host::cli::client::remote::Remote;
use crate::host::cli::exit::{Failure, with_causes};
use crate::host::cli::options::{Global, address};
use crate::host::cli::terminal::Terminal;
use crate::ratings::config::AaafSettings;
use crate::runs::service::command::Command;

/// The configuration file that is read by default.
const USUAL_FILE: &str = "touchstone.toml";
/// The user of a data folder owns the machine, so the suite size is theirs to choose.
const EMBEDDED_MAX_TASKS: u64 = 100_000;
/// How long running tasks may continue after the command is done, in seconds.
const EMBEDDED_DRAIN_S: u64 = 1;
/// Environment variable with the API key for `--model-url`; the fallback is the provider's usual
/// variable.
const MODEL_KEY: &str = "TOUCHSTONE_MODEL_API_KEY";

const JUDGE_KEY: &str = "TOUCHSTONE_JUDGE_API_KEY";

#[derive(Clone, Debug, Default, Args)]
pub struct ModelEndpoint {
    /// Endpoint that serves all model classes, instead of the configured ones. Its API key comes
    /// from TOUCHSTONE_MODEL_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "model", value_parser = address)]
    pub model_url: Option<Url>,

    /// Model name at --model-url
    #[arg(long, value_name = "NAME", requires = "model_url")]
    pub model: Option<String>,

    /// Protocol of --model-url: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "model_url", value_parser = provider)]
    pub model_provider: Option<Provider>,

    #[command(flatten)]
    pub judge: JudgeEndpoint,
}

#[derive(Clone, Debug, Default, Args)]
pub struct JudgeEndpoint {
    /// Endpoint of the model that judges rubrics, instead of the configured judge. Its API key
    /// comes from TOUCHSTONE_JUDGE_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "judge_model", value_parser = address)]
    pub judge_url: Option<Url>,

    /// Model name at --judge-url
    #[arg(long, value_name = "NAME", requires = "judge_url")]
    pub judge_model: Option<String>,

    /// Protocol of --judge-url: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "judge_url", value_parser = provider)]
    pub judge_provider: Option<Provider>,
}

fn provider(name: &str) -> Result<Provider, String> {
    [Provider::Openai, Provider::Anthropic]
        .into_iter()
        .find(|provider| provider.as_str() == name)
        .ok_or_else(|| "must be openai or anthropic".to_owned())
}

impl ModelEndpoint {
    pub fn config(&self) -> Endpoints {
        let provider = self.model_provider.unwrap_or(Provider::Openai);
        let named = self.model_url.as_ref().zip(self.model.as_ref());
        Endpoints {
            model: named.map(|(url, model)| endpoint(provider, url, model)),
            judge: self.judge.config(),
        }
    }
}

impl JudgeEndpoint {
    pub fn config(&self) -> Option<ModelConfig> {
        let (url, model) = self.judge_url.as_ref().zip(self.judge_model.as_ref())?;
        let provider = self.judge_provider.unwrap_or(Provider::Openai);
        Some(keyed(JUDGE_KEY, provider, url, model))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    /// Serves all model classes.
    pub model: Option<ModelConfig>,
    pub judge: Option<ModelConfig>,
}

impl Endpoints {
    /// The command-line flags that select these endpoints.
    fn flags(&self) -> String {
        let named = |entry: &Option<ModelConfig>, [url, name, provider]: [&str; 3]| {
            let Some(entry) = entry else {
                return String::new();
            };
            let spoken = match entry.provider {
                Provider::Openai => String::new(),
                other => format!(" {provider} {}", other.as_str()),
            };
            match (&entry.base_url, &entry.model) {
                (Some(address), Some(model)) => {
                    format!(" {url} {address} {name} {model}{spoken}")
                }
                _ => String::new(),
            }
        };
        let model = named(&self.model, ["--model-url", "--model", "--model-provider"]);
        let judge = ["--judge-url", "--judge-model", "--judge-provider"];
        model + &named(&self.judge, judge)
    }
}

/// Configuration entry of an endpoint that serves all model classes.
pub fn endpoint(provider: Provider, url: &Url, model: &str) -> ModelConfig {
    keyed(MODEL_KEY, provider, url, model)
}

fn keyed(own: &str, provider: Provider, url: &Url, model: &str) -> ModelConfig {
    let usual = match provider {
        Provider::Anthropic => "ANTHROPIC_API_KEY",
        Provider::A2a | Provider::Openai | Provider::Openwop | Provider::Scripted => {
            "OPENAI_API_KEY"
        }
    };
    let set = |name: &&str| std::env::var_os(name).is_some_and(|key| !key.is_empty());
    ModelConfig {
        api_key_env: [own, usual].into_iter().find(set).map(str::to_owned),
        ..ModelConfig::remote(provider, url.clone(), model)
    }
}

pub struct Context<'a> {
    global: Global,
    terminal: &'a Terminal,
}

impl<'a> Context<'a> {
    pub fn new(global: Global, terminal: &'a Terminal) -> Self {
        Self { global, terminal }
    }

    pub fn terminal(&self) -> &'a Terminal {
        self.terminal
    }

    /// How to call this program for the same host, for commands to paste.
    pub fn program(&self) -> String {
        let mut words = program();
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                words.push_str(&format!(" {flag} {value}"));
            }
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        add("--server", self.global.server.as_ref().map(Url::to_string));
        add("--data", path(&self.global.data));
        add("--config", path(&self.global.config));
        words
    }

    /// The configuration of a host, from file, environment and flags.
    ///
    /// # Errors
    /// The configuration cannot be read or is invalid.
    pub fn config(&self) -> Result<Config, Failure> {
        self.config_over(&[])
    }

    pub fn is_embedded(&self) -> bool {
        self.global.server.is_none()
    }

    pub fn server(&self) -> Option<&Url> {
        self.global.server.as_ref()
    }

    /// A client for reading; an embedded host executes no runs meanwhile.
    ///
    /// # Errors
    /// No host can be reached or set up.
    pub async fn look(&self) -> Result<Session, Failure> {
        if let Some(remote) = self.remote()? {
            return Ok(remote);
        }
        let app = self.app(Endpoints::default()).await?;
        Session::embedded(app, false)
    }

    /// A client for executing runs; with an embedded host, this process executes them.
    ///
    /// # Errors
    /// No host can be reached or set up; a model endpoint is given for a remote host.
    pub async fn work(&self, endpoints: Endpoints) -> Result<Session, Failure> {
        self.work_with(endpoints, OwnModels::default()).await
    }

    /// A client for assessments and the runs of their stress tests.
    ///
    /// # Errors
    /// As above.
    pub async fn assess(&self) -> Result<Session, Failure> {
        if let Some(remote) = self.remote()? {
            return Ok(remote);
        }
        let config = self.working_config(Endpoints::default())?;
        let app = started(App::start_command(config, OwnModels::default()).await)?;
        Session::embedded(app.assessing(), true)
    }

    /// Like [`work`](Self::work), with this command's own models.
    ///
    /// # Errors
    /// As above.
    pub async fn work_with(
        &self,
        endpoints: Endpoints,
        own: OwnModels,
    ) -> Result<Session, Failure> {
        if let Some(remote) = self.remote()? {
            for (named, flag, setting) in [
                (&endpoints.model, "--model-url", "[[models]]"),
                (&endpoints.judge, "--judge-url", "[judge]"),
            ] {
                if named.is_some() {
                    return Err(Failure::usage(format!(
                        "{flag} works only with the embedded host: the operator of a host configures its models"
                    ))
                    .or_try(format!(
                        "omit --server, or set {setting} in the host's configuration"
                    )));
                }
            }
            return Ok(remote);
        }
        let model_flags = endpoints.flags();
        let config = self.working_config(endpoints)?;
        let app = started(App::start_command(config, own).await)?;
        let mut session = Session::embedded(app, true)?;
        session.model_flags = model_flags;
        Ok(session)
    }

    /// The application over the data folder.
    ///
    /// # Errors
    /// The configuration, the store or a model cannot be used.
    pub async fn app(&self, endpoints: Endpoints) -> Result<App, Failure> {
        start(self.working_config(endpoints)?).await
    }

    /// The application over the data folder, with this lockfile unless one is configured.
    ///
    /// # Errors
    /// As above; the lockfile cannot be read.
    pub async fn app_pinned_by(&self, lockfile: Option<&Path>) -> Result<App, Failure> {
        let mut config = self.working_config(Endpoints::default())?;
        let configured = config.packs.lockfile.take();
        config.packs.lockfile = configured.or_else(|| lockfile.map(Path::to_owned));
        start(config).await
    }

    fn working_config(&self, endpoints: Endpoints) -> Result<Config, Failure> {
        let mut config = self.config_over(&[("limits.max_tasks_per_suite", EMBEDDED_MAX_TASKS)])?;
        if let Some(model) = endpoints.model {
            config.models = vec![model];
        }
        if let Some(judge) = endpoints.judge {
            config.judge = Some(judge);
        }
        // Rate limits protect other tenants; the embedded host has none.
        config.aaaf = AaafSettings {
            requests_per_minute_per_key: 0,
            events_per_minute_per_key: 0,
            assessments_per_hour_per_key: 0,
            ..config.aaaf
        };
        // The command does not wait for other runs that were resumed meanwhile.
        config.worker.drain_s = config.worker.drain_s.min(EMBEDDED_DRAIN_S);
        Ok(config)
    }

    fn remote(&self) -> Result<Option<Session>, Failure> {
        let Some(server) = &self.global.server else {
            return Ok(None);
        };
        Ok(Some(Session {
            client: Client::new(Remote::new(server, self.global.key.as_ref())?),
            model_flags: String::new(),
            work: None,
        }))
    }

    fn config_over(&self, defaults: &[(&str, u64)]) -> Result<Config, Failure> {
        let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|file| file.is_file());
        let file = self.global.config.clone().or_else(usual);
        let unusable = |cause: crate::host::config::Error| {
            Failure::bad_input("configuration", cause.to_string())
                .or_try("correct the setting; docs/configuration.md lists them all")
        };
        let mut config = Config::load_over(file.as_deref(), defaults).map_err(unusable)?;
        if let Some(data) = &self.global.data {
            config.data.clone_from(data);
            config.database_url = None;
        }
        if let Some(url) = &self.global.database_url {
            config.database_url = Some(url.expose_secret().to_owned());
        }
        config.check().map_err(unusable)?;
        Ok(config)
    }
}

/// The path this program was called by, or its name.
pub fn program() -> String {
    std::env::args()
        .next()
        .filter(|name| name.contains(std::path::MAIN_SEPARATOR))
        .unwrap_or_else(|| "touchstone".to_owned())
}

/// Starts the application.
///
/// # Errors
/// The store or a model cannot be used.
pub async fn start(config: Config) -> Result<App, Failure> {
    started(App::start(config).await)
}

pub fn started<T>(started: Result<T, app::Error>) -> Result<T, Failure> {
    started.map_err(|cause| {
        let text = with_causes(&cause);
        match cause {
            app::Error::DataFolder { .. } => {
                Failure::not_done("start_failed", text).or_try("choose another folder with --data")
            }
            app::Error::Store(_) => Failure::not_done("start_failed", text)
                .or_try("check --data or --database-url, and that the database can be reached"),
            app::Error::Models(_)
            | app::Error::OasisProvider(_)
            | app::Error::Tools(_)
            | app::Error::Config(_)
            | app::Error::SigningKey(_) => Failure::bad_input("configuration", text).or_try(
                "correct --model-url, or the setting; docs/configuration.md lists them all",
            ),
            app::Error::HostKey(_) => Failure::bad_input("configuration", text).or_try(
                "set secrets.key_file to a PEM private key that this user can read; if another process is rotating it, try again later",
            ),
            app::Error::SharedKeyFile => Failure::bad_input("configuration", text).or_try(
                "copy the file, set attest.key_file to the copy, then run the command again",
            ),
            app::Error::OtherHostKey { .. } => Failure::bad_input("host_key", text).or_try(
                "set secrets.key_file to the key file that encrypted this database; all replicas use the same key file",
            ),
            app::Error::OldKeyInUse => Failure::not_done("old_key_in_use", text)
                .or_try("stop the hosts that use other copies of the key file, then run the command again"),
            app::Error::Net(_) | app::Error::Contract(_) => Failure::not_done("start_failed", text),
        }
    })
}

pub struct Session {
    client: Client,
    /// Flags that select the model again, for commands to paste.
    model_flags: String,
    work: Option<Work>,
}

struct Work {
    command: Option<Arc<Command>>,
    shutdown: CancellationToken,
    done: Spawned<()>,
}

impl Session {
    /// A session with an application in this process; with `working`, it executes runs.
    ///
    /// # Errors
    /// None in practice: the application creates its own key.
    pub fn embedded(app: App, working: bool) -> Result<Self, Failure> {
        let client = Client::new(Embedded::new(app.router(), &app.local_caller_key())?);
        let work = working.then(|| {
            let shutdown = CancellationToken::new();
            let until = shutdown.clone();
            let command = app.command().cloned();
            let done = spawn("host", async move { app.run_until(until).await });
            Work {
                command,
                shutdown,
                done,
            }
        });
        Ok(Self {
            client,
            model_flags: String::new(),
            work,
        })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn model_flags(&self) -> &str {
        &self.model_flags
    }

    /// Makes this process execute a run that it did not create. A remote host decides that itself.
    pub fn take_on(&self, run: &str) {
        let command = self.work.as_ref().and_then(|work| work.command.as_ref());
        if let Some(command) = command {
            command.take_on(run.into());
        }
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
