//! Configuration → adapters: the parts of which the services of a host are built.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::app::Error;
use crate::app::cluster;
use crate::app::in_force;
use crate::app::store;
use crate::config::Config;
use crate::services::Parts;
use touchstone_agents::model;
use touchstone_agents::model::cassette::Cassette;
use touchstone_agents::model::command::CommandModel;
use touchstone_agents::model::external_agents::{ExternalAgentSettings, ExternalAgents};
use touchstone_agents::model::{Judges, ModelCatalog, OwnModels, Setup};
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::Models as _;
use touchstone_agents::tools;
use touchstone_agents::tools::ToolCatalog;
use touchstone_console::session::oidc::provider::Provider;
use touchstone_deployments::service::attestations::{Attester, MAX_TASKS};
use touchstone_host::config;
use touchstone_host::http::HttpSettings;
use touchstone_host::http::limits::Rates;
use touchstone_host::objects::ObjectStorage;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::signing_key::SigningKey;
use touchstone_host::service::keys::{Keys, LOCAL_TENANT};
use touchstone_host::service::sessions::Sessions;
use touchstone_host::service::vault::Vault;
use touchstone_host::system::signing_key::{ATTEST_FILE, KeyFile, NoKey};
use touchstone_host::system::{SystemClock, SystemIds, private_files};
use touchstone_kit::ids::TenantId;
use touchstone_kit::keys::SecretKey;
use touchstone_oasis::net::HttpProviders;
use touchstone_packs::http::PackRules;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_runs::rules::run::request::{HostLimits, scored_modes};
use touchstone_runs::service::command::Command;
use touchstone_runs::service::worker::WorkerSettings;
use touchstone_runs::webhook_client::WebhookClient;

/// The parts of a host, and the secrets that its services do not hold.
pub struct Opened {
    pub parts: Parts,
    /// Signs checkpoints of the audit log.
    pub audit_key: SecretKey,
    /// An API key for calls from within this process.
    pub local_key: SecretString,
}

/// Opens the store and makes the parts of a host.
///
/// # Errors
/// The store, a model or a setting is not usable.
pub async fn open(
    config: &Config,
    own: &OwnModels,
    command: Option<Arc<Command>>,
) -> Result<Opened, Error> {
    let host_keys = Arc::new(store::host_keys(config)?);
    let store = store::open_store(config, &host_keys).await?;
    private_files::warn_if_open(&config.data, "run chmod 700 on the data folder");
    store::encrypt_secrets(&store, &host_keys).await?;
    let audit_key = store::audit_key(&store).await.map_err(Error::Store)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    let environment = |name: &str| std::env::var(name).ok();
    let elsewhere = config.ratings.reach.settings(&environment)?;
    let models = models(config, own, elsewhere, &clock)?;
    let tools = live_tools(config, own)?;
    // A cassette has its own judge and its own tools.
    // A command executes its runs itself.
    let cluster = match command {
        None => cluster::join(&config.cluster, &store, &clock, &ids),
        Some(_) => None,
    };
    let majors = config.openwop.offered()?.majors;
    let limits = HostLimits {
        distribution: cluster.as_ref().map(|_| config.cluster.distribution),
        scored_modes: scored_modes(models.judge().is_some(), tools.is_some()),
        ..config.host_limits()
    };
    let mut keys =
        Keys::new(store.clone(), clock.clone(), ids.clone()).with_roles(Arc::new(config.roles()?));
    let local_key = keys.admit_local(&TenantId::from(LOCAL_TENANT));
    let host_url = config.ratings.host_url(&config.listen);
    let host_url = host_url
        .map_err(|fault| config::Error::Unusable(format!("`ratings.public_url` {fault}")))?;
    let oidc = match command {
        None => oidc(config, &host_url, &clock)?,
        Some(_) => None,
    };
    let keys = Arc::new(keys);
    let sessions = config.console.session_limits();
    let sessions = sessions.map_err(config::Error::Unusable)?;
    let sessions = Sessions::new(
        store.clone(),
        clock.clone(),
        ids.clone(),
        keys.clone(),
        sessions,
    )
    .trusting(oidc.as_ref().map(|provider| provider.settings()))
    .opening_locally(config.console.opens_without_key());
    let parts = Parts {
        store,
        keys,
        sessions: Arc::new(sessions),
        console: config.console.clone(),
        oidc,
        in_force: in_force::settings(config).into(),
        vault: Arc::new(Vault::new(host_keys, ids.clone())),
        models: Arc::new(models),
        tools,
        cluster,
        providers: Arc::new(HttpProviders::new(config.oasis.accesses(&environment)?)?),
        evaluator: config.oasis.evaluator.clone(),
        notifier: Arc::new(WebhookClient::new(config.webhooks.targets()?)?.serving(majors)),
        cards: Arc::new(config.agent_cards.cards()?),
        host_url,
        attester: attester(config)?,
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
        content: config.content.retain,
        archive: archive(config)?,
        command,
        fixtures: config.conformance.enabled,
        majors,
        clock,
        ids,
    };
    Ok(Opened {
        parts,
        audit_key,
        local_key,
    })
}

/// The OpenID provider of the console. A command serves no console and needs no client secret.
fn oidc(
    config: &Config,
    home: &HostUrl,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Provider>>, Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let (roles, home) = (config.roles()?, home.base_url());
    let provider = config.console.oidc.as_ref().map(|settings| {
        Provider::new(settings, &roles, &environment, home, clock.clone()).map(Arc::new)
    });
    let provider = provider.transpose();
    provider.map_err(|fault| config::Error::Unusable(fault).into())
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
        max_tasks: MAX_TASKS,
    })
}

/// The storage of archives. Its access key is read from the environment.
fn archive(config: &Config) -> Result<Option<ObjectStorage>, Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let opened = ObjectStorage::open(&config.archive, &environment);
    opened.map_err(|fault| config::Error::Unusable(fault).into())
}

fn models(
    config: &Config,
    own: &OwnModels,
    elsewhere: ExternalAgentSettings,
    clock: &Arc<dyn Clock>,
) -> Result<ModelCatalog, model::Error> {
    let environment = |name: &str| std::env::var(name).ok();
    let judges = Judges {
        judge: config.judge.as_ref(),
        further: &config.judges,
    };
    let setup = Setup {
        environment: &environment,
        clock,
        prices: &config.prices,
        embeddings: config.embeddings.as_ref(),
        user: config.simulated_user.as_ref(),
    };
    let models = match (&own.cassette, &own.agent_command) {
        // A replay needs no model endpoints or keys.
        (Some(Cassette::Replay(_)), _) => ModelCatalog::default(),
        (_, Some(command)) => {
            let model = CommandModel::new(command).priced(own.agent_price.clone());
            let endpoint = model.endpoint();
            ModelCatalog::build(&[], judges, setup)?.answered_by(Arc::new(model), endpoint)
        }
        _ => {
            let elsewhere = ExternalAgents::new(elsewhere, clock.clone());
            ModelCatalog::build(&config.models, judges, setup)?.reaching(elsewhere)
        }
    };
    let models = match (&own.cassette, &own.answers) {
        (Some(cassette), _) => models.on(cassette),
        (None, Some(answers)) => models.caching(answers),
        (None, None) => models,
    };
    let assertions = own.assertions.as_ref().unwrap_or(&config.assertions);
    Ok(models.asserting(assertions.program()))
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

/// The largest suite that is expected in one body. Larger ones are sent as lines.
const MOST_IN_ONE_BODY: usize = 100_000;

/// # Errors
/// An invalid setting.
pub fn http_settings(config: &Config) -> Result<HttpSettings, config::Error> {
    let limits = &config.limits;
    Ok(HttpSettings {
        max_body_bytes: limits.max_request_body_bytes,
        // The largest document is a suite; a small task in it takes about four kilobytes.
        max_body_memory: HttpSettings::default()
            .max_body_memory
            .max(limits.max_tasks_per_suite.min(MOST_IN_ONE_BODY) * 5 * 1024),
        max_subscribers: limits.max_subscribers,
        rates: Rates {
            per_key: limits.requests_per_second_per_key,
            per_tenant: limits.requests_per_second_per_tenant,
            refusals_per_minute: limits.refused_keys_per_minute_per_address,
            in_flight: limits.max_requests_in_flight,
        },
        conformance: config.conformance.enabled,
        metrics_to_loopback: config.metrics.allow_loopback,
        protocol: config.openwop.offered()?,
        ..HttpSettings::default()
    })
}

pub fn worker_settings(config: &Config) -> WorkerSettings {
    WorkerSettings {
        lease: Duration::from_secs(config.lease_s()),
        max_runs: config.worker.max_runs,
        drain: Duration::from_secs(config.worker.drain_s),
        ..WorkerSettings::default()
    }
}
