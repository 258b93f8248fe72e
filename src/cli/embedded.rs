//! The host that commands have in their own process.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Extensions;
use secrecy::ExposeSecret;
use tempfile::TempDir;

use crate::app;
use crate::app::App;
use crate::config::Config;
use touchstone_agents::cli::prices::ConfiguredPrices;
use touchstone_agents::cli::{ConfiguredModels, Endpoints};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::embedded::Embedded;
use touchstone_host::cli::context::{EmbeddedHost, Purpose, Session, Start};
use touchstone_host::cli::exit::{Failure, with_causes};
use touchstone_host::cli::options::Global;
use touchstone_host::config::{DataSettings, Error};
use touchstone_packs::config::PackSettings;
use touchstone_ratings::config::RatingSettings;

/// The configuration file that is read by default.
const USUAL_FILE: &str = "touchstone.toml";
/// The user of a data folder owns the machine, so the suite size is theirs to choose.
const EMBEDDED_MAX_TASKS: u64 = 1_000_000;
/// How long running tasks may continue after the command is done, in seconds.
const EMBEDDED_DRAIN_S: u64 = 1;

/// An [`App`] in this process.
pub struct AppHost;

#[async_trait]
impl EmbeddedHost for AppHost {
    fn settings(&self, global: &Global) -> Result<Extensions, Failure> {
        let config = config(global)?;
        let mut settings = Extensions::new();
        settings.insert(DataSettings {
            data: config.data,
            database_url: config.database_url,
        });
        settings.insert(config.attest);
        settings.insert(ConfiguredPrices {
            prices: config.prices,
            models: config.models.clone(),
            judge: config.judge.clone(),
        });
        settings.insert(ConfiguredModels {
            models: config.models,
            judge: config.judge,
            further_judges: config.judges,
            user: config.simulated_user,
        });
        settings.insert(config.archive);
        settings.insert(config.packs);
        settings.insert(config.agent_cards);
        Ok(settings)
    }

    async fn open(&self, global: &Global, start: Start) -> Result<Session, Failure> {
        let Start {
            purpose,
            mut overrides,
        } = start;
        let own: Option<OwnModels> = match purpose {
            Purpose::Records | Purpose::Existing => None,
            Purpose::Runs | Purpose::Assessments => overrides.remove(),
        };
        let own = own.unwrap_or_default();
        let mut config = working_config(global, overrides)?;
        let empty = match purpose == Purpose::Existing && !app::has_store(&config) {
            true => Some(on_empty_store(&mut config)?),
            false => None,
        };
        let app = match purpose {
            Purpose::Records | Purpose::Existing => App::start_for_records(config).await,
            Purpose::Runs => App::start_command(config, own).await,
            Purpose::Assessments => App::start_command(config, own).await.map(App::assessing),
        };
        let app = started(app)?;
        let client = Client::new(Embedded::new(app.router(), &app.local_caller_key())?);
        let mut session = Session::new(client).with_service(app.packs().clone());
        if let Some(folder) = empty {
            session = session.with_service(Arc::new(folder));
        }
        if let Some(command) = app.command() {
            session = session.with_service(command.clone());
        }
        Ok(match purpose {
            Purpose::Records | Purpose::Existing => session,
            Purpose::Runs | Purpose::Assessments => {
                session.working(|shutdown| async move { app.run_until(shutdown).await })
            }
        })
    }
}

/// Replaces the store by an empty one, which is deleted with the folder.
fn on_empty_store(config: &mut Config) -> Result<TempDir, Failure> {
    let folder = tempfile::Builder::new().prefix("touchstone-").tempdir();
    let folder = folder.map_err(|cause| {
        Failure::not_done(
            "no_temporary_folder",
            format!("could not create a temporary folder: {cause}"),
        )
        .or_try("set TMPDIR to a folder that this user can write to")
    })?;
    config.data = folder.path().to_owned();
    config.database_url = None;
    config.secrets.key_file = None;
    Ok(folder)
}

/// The configuration of a host, from file, environment and flags.
///
/// # Errors
/// The configuration cannot be read or is invalid.
pub fn config(global: &Global) -> Result<Config, Failure> {
    config_over(global, &[])
}

/// The application over the data folder, for records only.
///
/// # Errors
/// The configuration, the store or a model cannot be used.
pub async fn app(global: &Global) -> Result<App, Failure> {
    started(App::start_for_records(working_config(global, Extensions::new())?).await)
}

fn working_config(global: &Global, mut overrides: Extensions) -> Result<Config, Failure> {
    let mut config = config_over(
        global,
        &[("limits.max_tasks_per_suite", EMBEDDED_MAX_TASKS)],
    )?;
    let endpoints: Endpoints = overrides.remove().unwrap_or_default();
    if let Some(model) = endpoints.model {
        config.models = vec![model];
    }
    if let Some(judge) = endpoints.judge {
        config.judge = Some(judge);
        config.judges = endpoints.further_judges;
    }
    if let Some(embeddings) = endpoints.embeddings {
        config.embeddings = Some(embeddings);
    }
    if let Some(user) = endpoints.user {
        config.simulated_user = Some(user);
    }
    if let Some(packs) = overrides.remove::<PackSettings>() {
        config.packs = packs;
    }
    // A command that loses its override would silently do something else.
    if !overrides.is_empty() {
        return Err(Failure::not_done(
            "internal_error",
            "the embedded host does not know an override of this command",
        ));
    }
    // Rate limits protect other tenants; the embedded host has none.
    config.ratings = RatingSettings {
        requests_per_minute_per_key: 0,
        events_per_minute_per_key: 0,
        assessments_per_hour_per_key: 0,
        ..config.ratings
    };
    // The command does not wait for other runs that were resumed meanwhile.
    config.worker.drain_s = config.worker.drain_s.min(EMBEDDED_DRAIN_S);
    Ok(config)
}

/// The configuration file; `None` if none is named and the usual one does not exist.
pub fn config_file(global: &Global) -> Option<PathBuf> {
    let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|file| file.is_file());
    global.config.clone().or_else(usual)
}

fn config_over(global: &Global, defaults: &[(&str, u64)]) -> Result<Config, Failure> {
    let file = config_file(global);
    let unusable = |cause: Error| {
        Failure::bad_input("configuration", cause.to_string())
            .or_try("correct the setting; docs/configuration.md lists them all")
    };
    let mut config = Config::load_over(file.as_deref(), defaults).map_err(unusable)?;
    if let Some(data) = &global.data {
        config.data.clone_from(data);
        config.database_url = None;
    }
    if let Some(url) = &global.database_url {
        config.database_url = Some(url.expose_secret().to_owned());
    }
    config.check().map_err(unusable)?;
    Ok(config)
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
            app::Error::Models(_) => Failure::bad_input("configuration", text).or_try(
                "correct --model-url, or the setting; docs/configuration.md lists them all",
            ),
            app::Error::OasisProvider(_) | app::Error::Tools(_) | app::Error::Config(_) => {
                Failure::bad_input("configuration", text)
                    .or_try("correct the setting; docs/configuration.md lists them all")
            }
            app::Error::Telemetry(_) => Failure::bad_input("configuration", text)
                .or_try("correct the variable or setting; docs/telemetry.md lists them all"),
            app::Error::SigningKey(_) => Failure::bad_input("configuration", text).or_try(
                "set attest.key_file to a PEM private key that this user can read; `touchstone pack keygen --out attest.pem --key-id host-1` creates one",
            ),
            app::Error::HostKey(_) => Failure::bad_input("configuration", text).or_try(
                "set secrets.key_file to a PEM private key that this user can read; if another process is rotating it, try again later",
            ),
            app::Error::SharedKeyFile => Failure::bad_input("configuration", text).or_try(
                "copy the file, set attest.key_file to the copy, then run the command again",
            ),
            app::Error::HostKeyMissing { file } => Failure::bad_input("host_key", text).or_try(
                format!(
                    "copy the key file of the host to {}, or name it in secrets.key_file; a new key would decrypt nothing",
                    file.display()
                ),
            ),
            app::Error::OtherHostKey { .. } => Failure::bad_input("host_key", text).or_try(
                "set secrets.key_file to the key file that encrypted this database; all replicas use the same key file",
            ),
            app::Error::OldKeyInUse => Failure::not_done("old_key_in_use", text)
                .or_try("stop the hosts that use other copies of the key file, then run the command again"),
            app::Error::SubscriptionsOfV1(_) => Failure::bad_input("configuration", text).or_try(
                "remove them with `touchstone webhook remove`, or set preferred_version to \"1.0\" until their owners have registered new ones (docs/openwop-v2.md)",
            ),
            app::Error::Net(_) => Failure::not_done("start_failed", text),
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn global(data: &std::path::Path) -> Global {
        Global {
            json: false,
            no_color: false,
            server: None,
            key: None,
            data: Some(data.to_owned()),
            config: None,
            database_url: None,
        }
    }

    #[rstest]
    #[case::unknown(Start::new(Purpose::Runs).with(7_u8))]
    #[case::models_of_a_host_without_runs(
        Start::new(Purpose::Records).with(OwnModels::default())
    )]
    #[tokio::test]
    async fn an_override_without_effect_is_refused(#[case] start: Start) {
        let data = tempfile::tempdir().unwrap();
        let opened = AppHost.open(&global(data.path()), start).await;
        assert!(opened.is_err());
    }
}
