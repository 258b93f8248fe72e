//! The configuration: built-in defaults < file (TOML) < environment (`TOUCHSTONE_…`, `__` between
//! levels) < flags.
//!
//! It never contains secrets: `api_key_env` *names* a model's key, and the store holds API keys as
//! hashes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use touchstone_agent_cards::config::AgentCardSettings;
use touchstone_agents::assert_command::AssertionSettings;
use touchstone_agents::model;
use touchstone_agents::model::config::ModelConfig;
use touchstone_agents::model::worker_command::{self, WorkerCommand};
use touchstone_agents::rules::prices::{self, PriceEntry};
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::tools::config::ToolSettings;
use touchstone_cluster::config::ClusterSettings;
use touchstone_console::config::ConsoleConfig;
use touchstone_deployments::rules::{Channel, ChannelFault};
use touchstone_host::access::Roles;
use touchstone_host::config::{AttestSettings, Error, SecretSettings};
use touchstone_host::objects::settings::ArchiveSettings;
use touchstone_host::rules::telemetry::settings::{self, TelemetrySettings};
use touchstone_kit::money::NanoUsd;
use touchstone_oasis::config::OasisSettings;
use touchstone_openwop::wire::version::{Majors, Offered, client_version};
use touchstone_packs::config::PackSettings;
use touchstone_ratings::config::RatingSettings;
use touchstone_runs::config::WebhookSettings;
use touchstone_runs::rules::run::request::{HostLimits, scored_modes};
use touchstone_runs::storage::{ContentSettings, Quotas, Retention};

/// All settings of an operator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address that `serve` listens on. A non-loopback address needs at least one API key.
    pub listen: String,
    /// Folder of the embedded database.
    pub data: PathBuf,
    /// `postgres://…`, to use PostgreSQL instead of the embedded database.
    pub database_url: Option<String>,
    pub limits: Limits,
    pub packs: PackSettings,
    pub models: Vec<ModelConfig>,
    /// Prices of models without a price of their own.
    pub prices: Vec<PriceEntry>,
    /// The model endpoint that judges rubrics. If unset, the mode `rubric` is not offered.
    #[serde(deserialize_with = "model::judge")]
    pub judge: Option<ModelConfig>,
    /// Further judges beside `judge`, whose decisions count equally.
    #[serde(deserialize_with = "model::judges")]
    pub judges: Vec<ModelConfig>,
    /// The embedding model of the assertion `similar`.
    #[serde(deserialize_with = "model::embeddings")]
    pub embeddings: Option<ModelConfig>,
    /// The command that decides assertions of the type `command`. If unset, suites with such
    /// assertions are refused.
    pub assertions: AssertionSettings,
    /// The model endpoint that plays simulated users. If unset, tasks with one are refused.
    #[serde(deserialize_with = "model::simulated_user")]
    pub simulated_user: Option<ModelConfig>,
    /// Live tools. If empty, the mode `live-shadow` is not offered.
    pub tools: ToolSettings,
    pub worker: WorkerConfig,
    /// Workers in other processes.
    pub cluster: ClusterSettings,
    /// Named sets of scopes that keys may hold.
    pub roles: Vec<RoleConfig>,
    pub webhooks: WebhookSettings,
    pub conformance: Conformance,
    pub openwop: OpenwopSettings,
    pub deployments: DeploymentSettings,
    pub attest: AttestSettings,
    pub secrets: SecretSettings,
    pub metrics: MetricSettings,
    pub ratings: RatingSettings,
    pub agent_cards: AgentCardSettings,
    pub oasis: OasisSettings,
    pub console: ConsoleConfig,
    /// Storage limits per tenant.
    pub quotas: Quotas,
    /// When runs are deleted automatically.
    pub retention: Retention,
    /// How long task content is kept.
    pub content: ContentSettings,
    /// Where runs are archived before they are deleted.
    pub archive: ArchiveSettings,
    /// Export by OTLP. The standard environment variables apply over it.
    pub telemetry: TelemetrySettings,
}

/// Access to metrics.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricSettings {
    /// Serves `/metrics` without a key to connections from loopback addresses. Behind a reverse
    /// proxy on the same machine, every request comes from a loopback address.
    pub allow_loopback: bool,
}

/// Additional features for a host under a conformance suite. Not for production.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conformance {
    /// Installs the fixture workflows and opens the test seams under `/v1/host/sample` to test
    /// keys.
    pub enabled: bool,
}

/// The protocol.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenwopSettings {
    pub preferred_version: PreferredVersion,
    /// The oldest client of major 2 that is answered (`MAJOR.MINOR`).
    pub min_client_version: Option<String>,
}

/// Which version discovery prefers, and so which majors are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PreferredVersion {
    /// Both majors.
    #[default]
    #[serde(rename = "1.0")]
    V1,
    /// Major 2 alone.
    #[serde(rename = "2.0")]
    V2,
}

impl PreferredVersion {
    const fn majors(self) -> Majors {
        match self {
            Self::V1 => Majors::Both,
            Self::V2 => Majors::V2,
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.majors().preferred().version()
    }
}

impl OpenwopSettings {
    /// The majors of the protocol that the host serves, and their clients.
    ///
    /// # Errors
    /// [`Error`] naming the field.
    pub fn offered(&self) -> Result<Offered, Error> {
        let min_client = self.min_client_version.as_deref().map(|text| {
            client_version(text).ok_or_else(|| {
                Error::Unusable(format!(
                    "`openwop.min_client_version` must be MAJOR.MINOR, such as \"2.40\", got {text:?}"
                ))
            })
        });
        Ok(Offered {
            majors: self.preferred_version.majors(),
            min_client: min_client.transpose()?,
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeploymentSettings {
    /// Channels that versions are promoted to; `latest` always exists.
    pub channels: Vec<String>,
}

impl Default for DeploymentSettings {
    fn default() -> Self {
        Self {
            channels: vec!["stable".to_owned(), "canary".to_owned()],
        }
    }
}

/// A role: a named set of scopes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleConfig {
    pub name: String,
    /// Wire names of the scopes it grants.
    pub scopes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum tasks in one suite.
    pub max_tasks_per_suite: usize,
    /// Maximum cost of one run in USD; no further task starts above it. If it is not set, the usual
    /// maximum applies to runs with known prices.
    pub max_cost_usd_per_suite: Option<f64>,
    /// Maximum duration of a run in seconds.
    pub max_run_duration_s: u64,
    /// Maximum nodes that one workflow run may start.
    pub max_node_executions: u64,
    /// Maximum size of a request body in bytes.
    pub max_request_body_bytes: usize,
    /// Tasks of one run in flight if the caller sets no number.
    pub default_concurrency: u32,
    /// Maximum tasks of one run in flight.
    pub max_concurrency: u32,
    /// Maximum tasks of one tenant in flight, over all its runs.
    pub max_concurrency_per_tenant: usize,
    /// Whether callers' budgets are advisory: events are recorded, but no run is stopped.
    pub advisory_budgets: bool,
    /// Maximum open event streams.
    pub max_subscribers: usize,
    /// Maximum open connections.
    pub max_connections: usize,
    /// Maximum open connections per address; further ones are closed.
    pub max_connections_per_address: usize,
    /// Maximum requests in flight, not counting event streams; one tenant may have half of them. 0:
    /// no limit.
    pub max_requests_in_flight: usize,
    /// Maximum requests per key and second; 0: no limit.
    pub requests_per_second_per_key: u32,
    /// Maximum requests per tenant and second; 0: no limit.
    pub requests_per_second_per_tenant: u32,
    /// Maximum refused credentials per address and minute; 0: no limit.
    pub refused_keys_per_minute_per_address: u32,
}

/// The maximum cost of a run in USD, unless the operator sets one.
/// How long a lease lasts without a heartbeat, in seconds.
const LEASE_S: u64 = 15;
/// The same for replicas of a cluster, where others can continue at once.
const CLUSTER_LEASE_S: u64 = 5;
/// Shortest lease: it is renewed three times in its length.
const MIN_LEASE_S: u64 = 3;
const USUAL_MAX_COST_USD: f64 = 25.0;

impl Limits {
    fn max_cost_usd(&self) -> f64 {
        self.max_cost_usd_per_suite.unwrap_or(USUAL_MAX_COST_USD)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tasks_per_suite: 200,
            max_cost_usd_per_suite: None,
            max_run_duration_s: 3600,
            max_node_executions: 100,
            max_request_body_bytes: 16 * 1024 * 1024,
            default_concurrency: 16,
            max_concurrency: 256,
            max_concurrency_per_tenant: 512,
            advisory_budgets: false,
            max_subscribers: 4096,
            max_connections: 8192,
            max_connections_per_address: 4096,
            max_requests_in_flight: 2048,
            requests_per_second_per_key: 2000,
            requests_per_second_per_tenant: 5000,
            refused_keys_per_minute_per_address: 600,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerConfig {
    /// Seconds that a lease lasts without a heartbeat; if unset, 15, or 5 in a cluster.
    pub lease_s: Option<u64>,
    /// Maximum runs that one replica executes concurrently; at most half of them for one tenant.
    pub max_runs: usize,
    /// Seconds that running tasks may continue after a shutdown request.
    pub drain_s: u64,
    /// The labels of a `touchstone worker`.
    pub labels: WorkerLabels,
    /// Its commands, which runs name.
    pub commands: Vec<WorkerCommand>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            lease_s: None,
            max_runs: 64,
            drain_s: 10,
            labels: WorkerLabels::default(),
            commands: Vec::new(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7800".to_owned(),
            data: PathBuf::from(".touchstone"),
            database_url: None,
            limits: Limits::default(),
            packs: PackSettings::default(),
            models: Vec::new(),
            prices: Vec::new(),
            judge: None,
            judges: Vec::new(),
            embeddings: None,
            assertions: AssertionSettings::default(),
            simulated_user: None,
            tools: ToolSettings::default(),
            worker: WorkerConfig::default(),
            cluster: ClusterSettings::default(),
            roles: Vec::new(),
            webhooks: WebhookSettings::default(),
            conformance: Conformance::default(),
            openwop: OpenwopSettings::default(),
            deployments: DeploymentSettings::default(),
            attest: AttestSettings::default(),
            secrets: SecretSettings::default(),
            metrics: MetricSettings::default(),
            ratings: RatingSettings::default(),
            agent_cards: AgentCardSettings::default(),
            oasis: OasisSettings::default(),
            console: ConsoleConfig::default(),
            quotas: Quotas::default(),
            retention: Retention::default(),
            content: ContentSettings::default(),
            archive: ArchiveSettings::default(),
            telemetry: TelemetrySettings::default(),
        }
    }
}

impl Config {
    /// Reads file and environment over the defaults. Paths in the file are relative to the file.
    ///
    /// # Errors
    /// [`Error`] naming the source and the field.
    pub fn load(file: Option<&Path>) -> Result<Self, Error> {
        Self::load_over(file, &[])
    }

    /// Like [`Self::load`], with other defaults for some settings, given by dotted names.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_over(file: Option<&Path>, defaults: &[(&str, u64)]) -> Result<Self, Error> {
        let unusable = |cause: config::ConfigError| Error::Unusable(in_one_line(&cause));
        let mut builder = config::Config::builder();
        for (name, value) in defaults {
            builder = builder.set_default(*name, *value).map_err(unusable)?;
        }
        if let Some(file) = file {
            builder = builder.add_source(config::File::from(file).format(config::FileFormat::Toml));
        }
        let environment = config::Environment::with_prefix("TOUCHSTONE")
            .prefix_separator("_")
            .separator("__")
            .try_parsing(true)
            .source(Some(nested_only(std::env::vars())));
        let mut config: Self = builder
            .add_source(environment)
            .build()
            .map_err(unusable)?
            .try_deserialize()
            .map_err(unusable)?;
        if let Some(folder) = file.and_then(Path::parent) {
            if let Some(lockfile) = &mut config.packs.lockfile {
                *lockfile = folder.join(&*lockfile);
            }
            if let Some(key) = &mut config.attest.key_file {
                *key = folder.join(&*key);
            }
            for key in &mut config.attest.trusted_keys {
                *key = folder.join(&*key);
            }
            if let Some(key) = &mut config.secrets.key_file {
                *key = folder.join(&*key);
            }
            if let Some(keys) = &mut config.agent_cards.trusted_keys {
                *keys = folder.join(&*keys);
            }
            let cluster = &mut config.cluster;
            let files = [
                &mut cluster.credentials_file,
                &mut cluster.nkey_file,
                &mut cluster.ca_file,
            ];
            for file in files.into_iter().flatten() {
                *file = folder.join(&*file);
            }
            for stderr in config
                .tools
                .mcp
                .iter_mut()
                .filter_map(|it| it.stderr.as_mut())
            {
                *stderr = folder.join(&stderr);
            }
            for script in config
                .models
                .iter_mut()
                .chain(&mut config.judge)
                .chain(&mut config.judges)
                .chain(&mut config.embeddings)
                .chain(&mut config.simulated_user)
                .filter_map(|model| model.file.as_mut())
            {
                *script = folder.join(&script);
            }
        }
        config.check()?;
        Ok(config)
    }

    /// Checks rules that the types do not express.
    ///
    /// # Errors
    /// [`Error`] naming the field.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |field: &str, rule: &str| Err(Error::Unusable(format!("`{field}` {rule}")));
        if self.judge.is_none() && !self.judges.is_empty() {
            return bad(
                "judges",
                "are judges beside `[judge]`, which is missing; add it",
            );
        }
        if NanoUsd::from_usd(self.limits.max_cost_usd()).is_none() {
            return bad(
                "limits.max_cost_usd_per_suite",
                "must be an amount in USD of at least 0",
            );
        }
        if let Some(url) = &self.database_url
            && !["postgres://", "postgresql://", "sqlite:"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        {
            return bad("database_url", "must begin with `postgres://` or `sqlite:`");
        }
        if self.limits.max_tasks_per_suite == 0 {
            return bad("limits.max_tasks_per_suite", "must be at least 1");
        }
        if self.limits.default_concurrency == 0 || self.limits.max_concurrency == 0 {
            return bad(
                "limits.default_concurrency, limits.max_concurrency",
                "must be at least 1",
            );
        }
        if self.limits.max_concurrency_per_tenant == 0 {
            return bad("limits.max_concurrency_per_tenant", "must be at least 1");
        }
        if self.limits.max_connections == 0 {
            return bad("limits.max_connections", "must be at least 1");
        }
        if self.limits.max_connections_per_address == 0 {
            return bad("limits.max_connections_per_address", "must be at least 1");
        }
        if self.limits.max_node_executions == 0 {
            return bad("limits.max_node_executions", "must be at least 1");
        }
        if self.limits.max_run_duration_s == 0 {
            return bad("limits.max_run_duration_s", "must be at least 1");
        }
        self.openwop.offered()?;
        settings::exports(&self.telemetry, &|_| None).map_err(Error::Unusable)?;
        if self.attest.host_id.as_deref() == Some("") {
            return bad("attest.host_id", "must not be empty; leave it out");
        }
        if let Err(fault) = self.ratings.host_url(&self.listen) {
            return bad("ratings.public_url", &fault.to_string());
        }
        if let Err(fault) = prices::check(&self.prices) {
            return Err(Error::Unusable(fault.to_string()));
        }
        if let Err((field, problem)) = self.assertions.check() {
            return bad(&format!("assertions.{field}"), problem);
        }
        let archive = self.archive.location().map_err(Error::Unusable)?;
        if archive.is_some() && self.database_url.is_some() && self.attest.key_file.is_none() {
            return bad(
                "attest.key_file",
                "is missing: it signs archives of runs if `database_url` is set; create a key with `touchstone pack keygen`",
            );
        }
        self.oasis.check()?;
        let roles = self.roles()?;
        if let Some(oidc) = &self.console.oidc {
            oidc.checked(&roles).map_err(Error::Unusable)?;
        }
        self.channels()?;
        if let Err((field, problem)) = self.cluster.check() {
            return bad(&format!("cluster.{field}"), &problem);
        }
        if let Err(problem) = worker_command::check(&self.worker.commands) {
            return bad("[[worker.commands]]", &problem);
        }
        if self.lease_s() < MIN_LEASE_S {
            return bad(
                "worker.lease_s",
                &format!("must be at least {MIN_LEASE_S}, got {}", self.lease_s()),
            );
        }
        Ok(())
    }

    /// Seconds that a lease lasts without a heartbeat. Replicas of a cluster take over the runs of a
    /// dead one sooner.
    pub fn lease_s(&self) -> u64 {
        let default = match self.cluster.nats {
            Some(_) => CLUSTER_LEASE_S,
            None => LEASE_S,
        };
        self.worker.lease_s.unwrap_or(default)
    }

    /// The roles of this host.
    ///
    /// # Errors
    /// [`Error`] naming the invalid role or scope.
    pub fn roles(&self) -> Result<Roles, Error> {
        let roles = self
            .roles
            .iter()
            .map(|role| (role.name.as_str(), role.scopes.as_slice()));
        Roles::new(roles).map_err(|fault| Error::Unusable(format!("`[[roles]]`: {fault}")))
    }

    /// The channels of this host.
    ///
    /// # Errors
    /// [`Error`] if a name is invalid, duplicate or reserved.
    pub fn channels(&self) -> Result<Arc<[Channel]>, Error> {
        let unusable = |fault: String| Error::Unusable(format!("`deployments.channels`: {fault}"));
        let mut channels: Vec<Channel> = Vec::new();
        for name in &self.deployments.channels {
            let channel: Channel = name
                .parse()
                .map_err(|fault: ChannelFault| unusable(fault.to_string()))?;
            if channel.is_latest() {
                return Err(unusable("`latest` always exists; leave it out".to_owned()));
            }
            if channels.contains(&channel) {
                return Err(unusable(format!("`{channel}` is named twice")));
            }
            channels.push(channel);
        }
        Ok(channels.into())
    }

    /// The limits that a run request is checked against.
    pub fn host_limits(&self) -> HostLimits {
        HostLimits {
            advisory_budgets: self.limits.advisory_budgets,
            scored_modes: scored_modes(self.judge.is_some(), !self.tools.mcp.is_empty()),
            max_tasks_per_suite: self.limits.max_tasks_per_suite,
            max_cost_per_suite: NanoUsd::from_usd(self.limits.max_cost_usd()),
            is_max_cost_set: self.limits.max_cost_usd_per_suite.is_some(),
            max_run_duration_ms: self.limits.max_run_duration_s.saturating_mul(1000),
            max_node_executions: self.limits.max_node_executions,
            default_concurrency: self.limits.default_concurrency,
            worker_labels: self.cluster.labels.as_slice().to_vec(),
            distribution: self
                .cluster
                .nats
                .as_ref()
                .map(|_| self.cluster.distribution),
            // One run of a tenant never has more tasks in flight than all its runs together.
            max_concurrency: u32::try_from(self.limits.max_concurrency_per_tenant)
                .map_or(self.limits.max_concurrency, |all| {
                    all.min(self.limits.max_concurrency)
                }),
        }
    }
}

/// The library's message spans several lines: the first gives the location in the file, the last
/// the cause.
fn in_one_line(error: &config::ConfigError) -> String {
    let config::ConfigError::FileParse { uri, cause } = error else {
        return error.to_string();
    };
    let text = cause.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let place = lines.next().unwrap_or("it is not valid TOML");
    let fault = lines.next_back().map(|fault| format!(": {fault}"));
    let file = uri.as_deref().unwrap_or("the file");
    format!("{file}: {place}{}", fault.unwrap_or_default())
}

/// Settings without a section that the environment can set.
const TOP: &[&str] = &["LISTEN", "DATA", "DATABASE_URL"];
/// Sections whose settings the environment can set.
const NESTED: &[&str] = &[
    "ARCHIVE__",
    "RATINGS__",
    "ATTEST__",
    "CLUSTER__",
    "CONFORMANCE__",
    "CONSOLE__",
    "LIMITS__",
    "METRICS__",
    "PACKS__",
    "QUOTAS__",
    "RETENTION__",
    "SECRETS__",
    "TELEMETRY__",
    "WORKER__",
];

/// Settings from the environment: the first level is part of the name (`TOUCHSTONE_LISTEN`,
/// `TOUCHSTONE_LIMITS__MAX_TASKS_PER_SUITE`). Variables for the command line or the tests are not
/// settings.
fn nested_only(
    variables: impl Iterator<Item = (String, String)>,
) -> std::collections::HashMap<String, String> {
    variables
        .filter(|(name, _)| {
            name.strip_prefix("TOUCHSTONE_").is_some_and(|rest| {
                TOP.contains(&rest) || NESTED.iter().any(|prefix| rest.starts_with(prefix))
            })
        })
        .collect()
}

/// The variables that are named like a setting of a section but set nothing.
pub fn ignored_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let names = variables.filter_map(|(name, _)| name.into_string().ok());
    let ignored = names.filter(|name| {
        name.strip_prefix("TOUCHSTONE_").is_some_and(|rest| {
            rest.contains("__") && !NESTED.iter().any(|prefix| rest.starts_with(prefix))
        })
    });
    ignored.collect()
}
