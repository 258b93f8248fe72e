//! The composition root: configuration → adapters → services → router and background work. No other
//! module names adapters.

mod background;
pub mod cluster;
mod error;
mod in_force;
mod parts;
mod store;

use std::sync::Arc;

use axum::Router;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

pub use crate::app::error::Error;
pub(crate) use crate::app::in_force::shown;
pub(crate) use crate::app::store::{
    database_file, host_key_path, location, open_store, private_folder, signing_key_path,
};
pub use crate::app::store::{has_store, rotate_host_key};

use crate::app::background::Background;
use crate::app::parts::Opened;
use crate::config::Config;
use crate::services::Services;
use touchstone_agents::model::OwnModels;
use touchstone_host::otlp;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::ports::store::StoreError;
use touchstone_host::rules::telemetry::settings;
use touchstone_host::service::keys::Keys;
use touchstone_host::store::copies::held::HeldCount;
use touchstone_host::system::SystemIds;
use touchstone_openwop::wire::Major;
use touchstone_packs::service::packs::Packs;
use touchstone_runs::service::command::Command;
use touchstone_runs::store::webhooks::count_of_v1;

/// A fully wired host.
pub struct App {
    config: Config,
    assesses: bool,
    services: Services,
    background: Background,
    router: Router,
    local_key: SecretString,
    streams: CancellationToken,
}

impl App {
    /// Opens the store and wires the host. No work runs until [`run_until`](Self::run_until).
    ///
    /// # Errors
    /// The store, a model or a setting is not usable.
    pub async fn start(config: Config) -> Result<Self, Error> {
        start_telemetry(&config)?;
        let app = Self::build(config, OwnModels::default(), None).await?;
        app.check_subscriptions().await?;
        Ok(app)
    }

    /// A host without major 1 serves no subscriptions of it.
    async fn check_subscriptions(&self) -> Result<(), Error> {
        if self.config.openwop.offered()?.majors.has(Major::V1) {
            return Ok(());
        }
        let store = &self.services.parts().store;
        match count_of_v1(store).await.map_err(Error::Store)? {
            0 => Ok(()),
            count => Err(Error::SubscriptionsOfV1(count)),
        }
    }

    /// Like [`start`](Self::start), for a command that executes nothing, and so exports no
    /// telemetry.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_for_records(config: Config) -> Result<Self, Error> {
        Self::build(config, OwnModels::default(), None).await
    }

    /// Like [`start`](Self::start), for a command with its own models, which executes only the runs
    /// it is asked to execute.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_command(config: Config, own: OwnModels) -> Result<Self, Error> {
        start_telemetry(&config)?;
        let command = Command::new(SystemIds.mint("command"));
        Self::build(config, own, Some(Arc::new(command))).await
    }

    async fn build(
        config: Config,
        own: OwnModels,
        command: Option<Arc<Command>>,
    ) -> Result<Self, Error> {
        let assesses = command.is_none();
        let Opened {
            parts,
            audit_key,
            local_key,
        } = parts::open(&config, &own, command).await?;
        let services = Services::new(parts);
        let streams = CancellationToken::new();
        let settings = parts::http_settings(&config)?;
        Ok(Self {
            router: services.router(settings, config.ratings.rates(), streams.clone()),
            background: Background::new(&config, &services, audit_key),
            config,
            assesses,
            services,
            local_key,
            streams,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The HTTP surface.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// An API key for calls from within this process, with every scope, in [`LOCAL_TENANT`].
    pub fn local_caller_key(&self) -> SecretString {
        self.local_key.clone()
    }

    pub fn keys(&self) -> &Arc<Keys> {
        &self.services.parts().keys
    }

    pub fn packs(&self) -> &Arc<Packs> {
        &self.services.packs
    }

    /// The command that runs in this process; `None` for a host.
    pub fn command(&self) -> Option<&Arc<Command>> {
        self.services.parts().command.as_ref()
    }

    /// The same host for a command that works on assessments: their stress tests run on the
    /// command's models.
    #[must_use]
    pub fn assessing(self) -> Self {
        Self {
            assesses: true,
            ..self
        }
    }

    /// The work that this host leaves alone because its database is a copy.
    ///
    /// # Errors
    /// The database failed.
    pub async fn held(&self) -> Result<Vec<HeldCount>, StoreError> {
        self.services.parts().store.held().await
    }

    /// Executes runs and periodic jobs until `shutdown`, then drains. Open streams end at shutdown.
    pub async fn run_until(&self, shutdown: CancellationToken) {
        let streams = async {
            shutdown.cancelled().await;
            self.streams.cancel();
        };
        tokio::join!(self.background.run_until(&shutdown, self.assesses), streams);
    }
}

/// Starts the export of telemetry, if it is configured and does not run already.
fn start_telemetry(config: &Config) -> Result<(), Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let exports = settings::exports(&config.telemetry, &environment).map_err(Error::Telemetry)?;
    let Some(exports) = exports else {
        return Ok(());
    };
    for warning in &exports.warnings {
        // An error, because the default of most commands shows nothing else.
        tracing::error!("{warning}");
    }
    otlp::start(exports).map_err(Error::Telemetry)
}
