//! The composition root: configuration → adapters → services → router and worker. No other module
//! names adapters.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::database;
use crate::services::{Parts, Services};
use touchstone_agent_cards::service::rescoring::Rescorer;
use touchstone_agents::model;
use touchstone_agents::model::cassette::Cassette;
use touchstone_agents::model::command::CommandModel;
use touchstone_agents::model::reached::{ReachSettings, ReachedAgents};
use touchstone_agents::model::{ModelCatalog, OwnModels};
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::Models;
use touchstone_agents::tools;
use touchstone_agents::tools::ToolCatalog;
use touchstone_deployments::service::attestations::Attester;
use touchstone_host::audit::checkpoint::INTERVAL_SECONDS;
use touchstone_host::config;
use touchstone_host::http::HttpSettings;
use touchstone_host::http::limits::Rates;
use touchstone_host::net;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::host_keys::HostKeys as _;
use touchstone_host::ports::host_secrets::{AUDIT_CHECKPOINTS, INTERRUPT_TOKENS, Reencrypt};
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::signing_key::{NoSigningKey, SigningKey};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::audit::checkpointer::Checkpointer;
use touchstone_host::service::jobs;
use touchstone_host::service::jobs::{Periodic, Replica};
use touchstone_host::service::keys::{Keys, LOCAL_TENANT};
use touchstone_host::service::vault::Vault;
use touchstone_host::store::database::Database;
use touchstone_host::system::host_key::HostKeyFile;
use touchstone_host::system::private_files;
use touchstone_host::system::signing_key::{ATTEST_FILE, KeyFile, NoKey, SECRETS_FILE};
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::TenantId;
use touchstone_kit::keys::SecretKey;
use touchstone_oasis::net::HttpProviders;
use touchstone_oasis::ports::providers::Providers;
use touchstone_packs::http::PackRules;
use touchstone_packs::service::packs::Packs;
use touchstone_ratings::service::assessor::{Assessor, AssessorSettings};
use touchstone_ratings::service::deliveries::{Deliverer, Means};
use touchstone_ratings::service::housekeeping::Housekeeper;
use touchstone_ratings::service::schedule::Scheduler;
use touchstone_ratings::service::stress_tests::Bench;
use touchstone_runs::ports::webhooks::Notifier;
use touchstone_runs::rules::run::request::{HostLimits, scored_modes};
use touchstone_runs::service::command::Command;
use touchstone_runs::service::webhooks::dispatcher::Dispatcher;
use touchstone_runs::service::worker::{Worker, WorkerSettings};
use touchstone_runs::webhook_client::WebhookClient;

const DATABASE_FILE: &str = "touchstone.db";
/// Idempotency records are kept for a day (OpenWOP idempotency, layer 1); an hourly job deletes
/// expired ones.
const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Polling interval for notices whose wake-up was missed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a replica checks whether a periodic job is due.
const JOBS_EVERY: Duration = Duration::from_secs(60);
/// How often expired records are deleted.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);
/// Half of the advertised interval; the other half is for the work itself.
const CHECKPOINTS_EVERY: Duration = Duration::from_secs(INTERVAL_SECONDS / 2);

/// Why the host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the data folder {} could not be created", folder.display())]
    DataFolder {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error("the database could not be opened")]
    Store(#[source] StoreError),
    #[error(transparent)]
    Models(#[from] model::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The key that signs verdicts is not usable.
    #[error("`attest.key_file` is not usable")]
    SigningKey(#[source] NoSigningKey),
    /// The key that encrypts secrets is not usable.
    #[error("the host key, `secrets.key_file`, is not usable")]
    HostKey(#[source] NoSigningKey),
    /// The database was encrypted with another key.
    #[error("the secrets in this database are not encrypted with the key in {}", file.display())]
    OtherHostKey {
        file: PathBuf,
        /// What could not be decrypted.
        source: StoreError,
    },
    /// The host key cannot be rotated because it shares a file with the signing key.
    #[error("`secrets.key_file` and `attest.key_file` are the same file, which cannot be rotated")]
    SharedKeyFile,
    /// Other processes still encrypt with the key that is being replaced.
    #[error("other processes still encrypt secrets with the old key; both keys stay usable")]
    OldKeyInUse,
    #[error(transparent)]
    OasisProvider(#[from] touchstone_oasis::net::SetupError),
    /// The client for webhook deliveries cannot be set up.
    #[error(transparent)]
    Net(#[from] net::Error),
}

/// A fully wired host.
pub struct App {
    config: Config,
    command: Option<Arc<Command>>,
    assesses: bool,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    keys: Arc<Keys>,
    worker: Arc<Worker>,
    dispatcher: Arc<Dispatcher>,
    deliverer: Arc<Deliverer>,
    housekeeper: Housekeeper,
    scheduler: Scheduler,
    rescorer: Rescorer,
    checkpointer: Checkpointer,
    services: Services,
    assessor: Arc<Assessor>,
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
        Self::put_together(config, OwnModels::default(), None).await
    }

    /// Like [`start`](Self::start), for a command with its own models, which executes only the runs
    /// it is asked to execute.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_command(config: Config, own: OwnModels) -> Result<Self, Error> {
        let command = Command::new(SystemIds.mint("command"));
        Self::put_together(config, own, Some(Arc::new(command))).await
    }

    async fn put_together(
        config: Config,
        own: OwnModels,
        command: Option<Arc<Command>>,
    ) -> Result<Self, Error> {
        let host_keys = Arc::new(host_keys(&config)?);
        let store = open_store(&config, &host_keys).await?;
        private_files::warn_if_open(&config.data, "run chmod 700 on the data folder");
        encrypt_secrets(&store, &host_keys).await?;
        let audit_key = audit_key(&store).await.map_err(Error::Store)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let environment = |name: &str| std::env::var(name).ok();
        let elsewhere = config.aaaf.reach.settings(&environment)?;
        let models: Arc<dyn Models> = Arc::new(models(&config, &own, elsewhere, &clock)?);
        let tools = live_tools(&config, &own)?;
        let providers: Arc<dyn Providers> =
            Arc::new(HttpProviders::new(config.oasis.accesses(&environment)?)?);
        // A cassette has its own judge and its own tools.
        let limits = HostLimits {
            scored_modes: scored_modes(models.judge().is_some(), tools.is_some()),
            ..config.host_limits()
        };
        let mut keys = Keys::new(store.clone(), clock.clone(), ids.clone())
            .with_roles(Arc::new(config.roles()?));
        let local_key = keys.admit_local(&TenantId::from(LOCAL_TENANT));
        let keys = Arc::new(keys);
        let vault = Arc::new(Vault::new(host_keys, ids.clone()));
        let notifier: Arc<dyn Notifier> = Arc::new(WebhookClient::new(config.webhooks.targets()?)?);
        let place = config.aaaf.place(&config.listen);
        let services = Services::new(Parts {
            store: store.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            keys: keys.clone(),
            vault: vault.clone(),
            models,
            tools,
            providers,
            evaluator: config.oasis.evaluator.clone(),
            notifier: notifier.clone(),
            cards: config.agent_cards.cards()?,
            place: place
                .map_err(|fault| config::Error::Unusable(format!("`aaaf.public_url` {fault}")))?,
            attester: attester(&config)?,
            audit_key: audit_key.public(),
            channels: config.channels()?,
            pack_rules: PackRules {
                trust: config.packs.trust()?,
                policy: config.packs.policy(),
                lockfile: config.packs.read_lockfile()?,
                publication: config.packs.publication()?,
            },
            limits,
            max_concurrency_per_tenant: config.limits.max_concurrency_per_tenant,
            quotas: config.quotas,
            retention: config.retention,
            command: command.clone(),
            fixtures: config.conformance.enabled,
        });
        let worker = Worker::new(
            store.clone(),
            clock.clone(),
            services.executor.clone(),
            ids.mint("replica"),
            worker_settings(&config),
            command.clone(),
        );
        let dispatcher = Dispatcher::new(
            store.clone(),
            clock.clone(),
            notifier.clone(),
            ids.mint("replica"),
        );
        let replica = Replica {
            store: store.clone(),
            clock: clock.clone(),
            owner: ids.mint("replica"),
        };
        let deliverer = Deliverer::new(
            Means {
                store: store.clone(),
                clock: clock.clone(),
                ids: ids.clone(),
                notifier,
                vault,
            },
            ids.mint("replica"),
            LOOK_EVERY,
        );
        let assessor = Assessor::new(
            store.clone(),
            clock.clone(),
            services.issuer.clone(),
            ids.mint("replica"),
            AssessorSettings::default(),
            Bench::new(store.clone(), clock.clone(), services.runs.clone()),
        );
        let streams = CancellationToken::new();
        let router = services.router(http_settings(&config), config.aaaf.rates(), streams.clone());
        let checkpointer =
            Checkpointer::new(store.clone(), clock.clone(), Arc::new(SystemIds), audit_key);
        Ok(Self {
            config,
            assesses: command.is_none(),
            command,
            store,
            clock,
            keys,
            worker,
            dispatcher,
            deliverer,
            housekeeper: Housekeeper::new(replica.clone()),
            scheduler: Scheduler::new(services.aaaf.clone(), ids.mint("replica")),
            rescorer: Rescorer::new(services.cards.clone(), replica),
            checkpointer,
            services,
            assessor,
            router,
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
        &self.keys
    }

    pub fn packs(&self) -> &Arc<Packs> {
        &self.services.packs
    }

    /// The command that runs in this process; `None` for a host.
    pub fn command(&self) -> Option<&Arc<Command>> {
        self.command.as_ref()
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

    /// Executes runs and periodic jobs until `shutdown`, then drains. Open streams end at shutdown.
    pub async fn run_until(&self, shutdown: CancellationToken) {
        let streams = async {
            shutdown.cancelled().await;
            self.streams.cancel();
        };
        let assessments = async {
            if self.assesses {
                jobs::perform(self.assessor.clone(), shutdown.clone()).await;
            }
        };
        let calibrations = async {
            shutdown.cancelled().await;
            self.services.runs.stop_calibrating().await;
        };
        tokio::join!(
            self.worker.clone().work(shutdown.clone()),
            jobs::perform(self.dispatcher.clone(), shutdown.clone()),
            jobs::perform(self.deliverer.clone(), shutdown.clone()),
            assessments,
            self.repeat_jobs(&shutdown),
            streams,
            calibrations
        );
    }

    async fn repeat_jobs(&self, shutdown: &CancellationToken) {
        let after = |every, name| Periodic {
            name,
            first: every,
            every,
        };
        let at_once = |name| Periodic {
            name,
            first: Duration::ZERO,
            every: CLEAN_EVERY,
        };
        let (minute, store) = (JOBS_EVERY, self.store.as_ref());
        let schedule = async {
            // A command only assesses what its arguments name.
            if self.command.is_none() {
                let job = after(minute, "schedule");
                job.run(store, shutdown, || self.scheduler.look(shutdown))
                    .await;
            }
        };
        tokio::join!(
            schedule,
            after(minute, "notices").run(store, shutdown, || self.housekeeper.look(shutdown)),
            after(minute, "deletion").run(store, shutdown, || self.housekeeper.delete(shutdown)),
            after(minute, "agent_cards")
                .run(store, shutdown, || self.rescorer.look_again(shutdown)),
            after(CHECKPOINTS_EVERY, "audit_checkpoints")
                .run(store, shutdown, || self.checkpoint()),
            at_once("retention").run(store, shutdown, || self.services.storage.sweep(shutdown)),
            at_once("idempotency").run(store, shutdown, || self.expire()),
        );
    }

    async fn checkpoint(&self) -> Result<u64, StoreError> {
        match self.store.takes_writes().await {
            true => self.checkpointer.sign_all().await,
            false => Ok(0),
        }
    }

    async fn expire(&self) -> Result<u64, StoreError> {
        match self.clock.now().checked_sub(IDEMPOTENCY_RETENTION) {
            Ok(oldest) => self.store.expire(oldest).await,
            Err(_) => Ok(0),
        }
    }
}

fn http_settings(config: &Config) -> HttpSettings {
    let limits = &config.limits;
    HttpSettings {
        max_body_bytes: limits.max_request_body_bytes,
        // The largest document is a suite; a small task in it takes about four kilobytes.
        max_body_memory: HttpSettings::default()
            .max_body_memory
            .max(limits.max_tasks_per_suite.saturating_mul(5 * 1024)),
        max_subscribers: limits.max_subscribers,
        rates: Rates {
            per_key: limits.requests_per_second_per_key,
            per_tenant: limits.requests_per_second_per_tenant,
            refusals_per_minute: limits.refused_keys_per_minute_per_address,
            in_flight: limits.max_requests_in_flight,
        },
        conformance: config.conformance.enabled,
        metrics_to_loopback: config.metrics.allow_loopback,
        ..HttpSettings::default()
    }
}

/// The key file that the operator configures, else a key in the data folder. Replicas that share a
/// database have no common data folder, so they need a configured key.
fn attester(config: &Config) -> Result<Attester, Error> {
    let key: Arc<dyn SigningKey> = match (&config.attest.key_file, &config.database_url) {
        (Some(file), _) => Arc::new(KeyFile::given(file).map_err(Error::SigningKey)?),
        (None, None) => Arc::new(KeyFile::own(&config.data, ATTEST_FILE)),
        (None, Some(_)) => Arc::new(NoKey),
    };
    Ok(Attester {
        host_id: config.attest.host_id.clone(),
        key,
    })
}

/// The key that signs audit log checkpoints. All replicas share it, and it signs nothing else.
async fn audit_key(store: &Database) -> Result<SecretKey, StoreError> {
    let secret = store
        .host_secret(AUDIT_CHECKPOINTS, SystemIds.secret())
        .await?;
    Ok(SecretKey::from_random(secret))
}

/// The keys that encrypt secrets: a configured key file, else one in the data folder, even if the
/// database is on another host. Replicas on several machines share a configured file.
fn host_keys(config: &Config) -> Result<HostKeyFile, Error> {
    match &config.secrets.key_file {
        Some(file) => HostKeyFile::given(file).map_err(Error::HostKey),
        None => {
            data_folder(config)?;
            Ok(HostKeyFile::own(config.data.join(SECRETS_FILE)))
        }
    }
}

/// Encrypts secrets that earlier versions stored in plaintext.
///
/// # Errors
/// [`Error::OtherHostKey`] if this host's key does not decrypt the database's secrets; nothing is
/// written then.
async fn encrypt_secrets(store: &Database, keys: &HostKeyFile) -> Result<(), Error> {
    let unlock = async {
        let fresh = SystemIds.secret();
        store.host_secret(INTERRUPT_TOKENS, fresh).await?;
        store.reencrypt(Reencrypt::Plaintext).await
    };
    let encrypted = unlock.await.map_err(|source| match source {
        StoreError::Undecryptable { .. } => Error::OtherHostKey {
            file: keys.path().to_owned(),
            source,
        },
        StoreError::HostKey(cause) => Error::HostKey(cause),
        source => Error::Store(source),
    })?;
    if encrypted > 0 {
        tracing::info!(
            encrypted,
            "encrypted secrets that an earlier version stored in plaintext"
        );
    }
    Ok(())
}

/// The result of a host key rotation.
#[derive(Debug)]
pub struct RotatedHostKey {
    pub file: PathBuf,
    pub key_id: String,
    /// Number of rows that were encrypted again.
    pub reencrypted: u64,
}

/// Maximum passes over the database; then the rotation fails because other processes still use the
/// old key.
const ROTATION_PASSES: usize = 20;
/// How long other processes have to write secrets they encrypted with the old key.
const ROTATION_SETTLES: Duration = Duration::from_secs(1);

/// Encrypts all secrets with a new host key. Both keys remain usable until every secret is
/// encrypted with the new one, so an interrupted rotation continues when it is run again.
///
/// # Errors
/// The key file or the database is not usable; [`Error::OldKeyInUse`].
pub async fn rotate_host_key(config: &Config) -> Result<RotatedHostKey, Error> {
    let keys = Arc::new(host_keys(config)?);
    if config.attest.key_file.as_deref() == Some(keys.path()) {
        return Err(Error::SharedKeyFile);
    }
    let _lock = keys.lock().map_err(Error::HostKey)?;
    let store = open_store(config, &keys).await?;
    encrypt_secrets(&store, &keys).await?;
    keys.begin_rotation().map_err(Error::HostKey)?;
    let (mut reencrypted, mut unchanged) = (0, 0);
    for _ in 0..ROTATION_PASSES {
        let changed = store
            .reencrypt(Reencrypt::All)
            .await
            .map_err(Error::Store)?;
        reencrypted += changed;
        unchanged = if changed == 0 { unchanged + 1 } else { 0 };
        if unchanged == 2 {
            keys.finish_rotation().map_err(Error::HostKey)?;
            let ring = keys.ring().map_err(Error::HostKey)?;
            return Ok(RotatedHostKey {
                file: keys.path().to_owned(),
                key_id: ring.id().to_owned(),
                reencrypted,
            });
        }
        tokio::time::sleep(ROTATION_SETTLES).await;
    }
    Err(Error::OldKeyInUse)
}

async fn open_store(config: &Config, keys: &Arc<HostKeyFile>) -> Result<Arc<Database>, Error> {
    let location = match &config.database_url {
        Some(url) => url.clone(),
        None => {
            data_folder(config)?;
            let file = config.data.join(DATABASE_FILE);
            format!("sqlite:{}", file.display())
        }
    };
    database::open(&location, keys.clone())
        .await
        .map_err(Error::Store)
}

fn data_folder(config: &Config) -> Result<(), Error> {
    private_folder(&config.data).map_err(|source| Error::DataFolder {
        folder: config.data.clone(),
        source,
    })
}

/// Creates the folder for its owner only: it holds task contents.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}

fn models(
    config: &Config,
    own: &OwnModels,
    elsewhere: ReachSettings,
    clock: &Arc<dyn Clock>,
) -> Result<ModelCatalog, model::Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let judge = config.judge.as_ref();
    let models = match (&own.cassette, &own.agent_command) {
        // A replay needs no model endpoints or keys.
        (Some(Cassette::Replay(_)), _) => ModelCatalog::default(),
        (_, Some(command)) => {
            let model = CommandModel::new(command);
            let endpoint = model.endpoint();
            ModelCatalog::build(&[], judge, &environment, clock)?
                .answered_by(Arc::new(model), endpoint)
        }
        _ => {
            let elsewhere = ReachedAgents::new(elsewhere, clock.clone());
            ModelCatalog::build(&config.models, judge, &environment, clock)?.reaching(elsewhere)
        }
    };
    Ok(match &own.cassette {
        Some(cassette) => models.on(cassette),
        None => models,
    })
}

/// The configured live tools, or those of the cassette.
fn live_tools(
    config: &Config,
    own: &OwnModels,
) -> Result<Option<Arc<dyn LiveTools>>, tools::Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let configured = || -> Result<Option<Arc<dyn LiveTools>>, tools::Error> {
        let catalog = ToolCatalog::build(&config.tools, &environment)?;
        Ok(catalog.map(|catalog| Arc::new(catalog) as Arc<dyn LiveTools>))
    };
    Ok(match &own.cassette {
        None => configured()?,
        Some(Cassette::Recording(recording)) => {
            configured()?.map(|tools| recording.listen_to_tools(tools))
        }
        // A replay needs no tool servers or keys.
        Some(Cassette::Replay(replay)) => replay.tools(),
    })
}

fn worker_settings(config: &Config) -> WorkerSettings {
    WorkerSettings {
        lease: Duration::from_secs(config.worker.lease_s),
        max_runs: config.worker.max_runs,
        drain: Duration::from_secs(config.worker.drain_s),
        ..WorkerSettings::default()
    }
}
