//! A whole host in one process: the real router over a real store, with workers and a scripted
//! agent.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use touchstone::database;
use touchstone::services::{Parts, Services};
use touchstone_agent_cards::ports::prober::{ProbeRequest, Probed, Prober};
use touchstone_agent_cards::prober::CardProber;
use touchstone_agent_cards::rules::signature::Keys as CardKeys;
use touchstone_agent_cards::service::Cards;
use touchstone_agent_cards::service::history::CardScores;
use touchstone_agents::model::external_agents::{ExternalAgentSettings, ExternalAgents};
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::{
    Model, ModelBinding, ModelError, ModelInfo, Models, UnusableTransport,
};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::reached_by::ReachedBy;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::rules::{
    Message, ModelReply, ModelRequest, RetryPolicy, TokenUsage, ToolCall,
};
use touchstone_cluster::service::Cluster;
use touchstone_console::config::{ConsoleConfig, Setting};
use touchstone_console::session::oidc::config::OidcConfig;
use touchstone_console::session::oidc::provider::Provider;
use touchstone_deployments::service::attestations::{Attester, MAX_TASKS};
use touchstone_host::access::Roles;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_host::objects::ObjectStorage;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::signing_key::{NoSigningKey, SigningKey};
use touchstone_host::service::audit::checkpointer::Checkpointer;
use touchstone_host::service::jobs;
use touchstone_host::service::keys::{Issue, Keys, LOCAL_TENANT};
use touchstone_host::service::sessions::{SessionLimits, Sessions};
use touchstone_host::service::vault::Vault;
use touchstone_host::store::database::Database;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::{KeyId, RunId, TenantId};
use touchstone_kit::keys::SecretKey;
use touchstone_kit::money::NanoUsd;
use touchstone_kit::network::{Allowed, Endpoint};
use touchstone_oasis::ports::providers::{NoProviders, Providers};
use touchstone_openwop::suite::ModelClass;
use touchstone_packs::http::PackRules;
use touchstone_packs::rules::publication::Publication;
use touchstone_packs::rules::verify::{Trust, TrustMode};
use touchstone_ratings::http::rates::RatingRates;
use touchstone_ratings::rules::badge::host_url::HostUrl;
use touchstone_ratings::service::Ratings;
use touchstone_ratings::service::assessments::assessor::{Assessor, AssessorSettings};
use touchstone_ratings::service::badges::issuer::Issuer;
use touchstone_ratings::service::stress_tests::StressTestRunner;
use touchstone_ratings::service::webhooks::deliveries::{Deliverer, DelivererDeps};
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::rules::run::request::{HostLimits, scored_modes};
use touchstone_runs::service::archive::retention::Retention as RunRetention;
use touchstone_runs::service::executor::Executor;
use touchstone_runs::service::runs::Runs;
use touchstone_runs::service::storage::Storage;
use touchstone_runs::service::webhooks::dispatcher::Dispatcher;
use touchstone_runs::service::worker::{Worker, WorkerSettings};
use touchstone_runs::storage::{ContentRetention, Quotas, Retention};
use touchstone_runs::webhook_client::WebhookClient;
use tower::ServiceExt as _;
use url::Url;

use crate::http::support::clerk;
use crate::http::support::examiner::Examiner;
use crate::store::runs_in;
use crate::support::host_keys;
use crate::support::openapi;

pub const AGENT: &str = "community.bench.echo.default";
pub const SUITE: &str = "community.bench.evals.echo";
/// The secret by which the host is known to its OpenID provider.
pub const OIDC_SECRET: &str = "a secret of 30 characters long";
pub const SIGNING_KEY: [u8; 32] = [9; 32];
/// Key that signs the checkpoints of the audit log.
pub const AUDIT_KEY: [u8; 32] = [10; 32];

/// Answers with `say` after `delayMs`; `sometimes` every other time only.
pub struct Echo {
    info: ModelInfo,
    /// Answers to `sometimes`.
    times: AtomicUsize,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
            info: ModelInfo {
                provider: "bench".to_owned(),
                model: "echo-1".to_owned(),
                price: Some(ModelPrice::configured(1.0, 2.0)),
                max_concurrency: 48,
                timeout: Duration::from_secs(30),
                retry: RetryPolicy::default(),
            },
            times: AtomicUsize::new(0),
        }
    }
}

#[async_trait]
impl Model for Echo {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let text = request.messages.iter().find_map(|message| match message {
            Message::User(text) => Some(text.to_string()),
            _ => None,
        });
        if let Some(reply) = clerk::answer(request) {
            return Ok(reply);
        }
        let input: Value = serde_json::from_str(&text.unwrap()).unwrap();
        let called = request
            .messages
            .iter()
            .any(|message| matches!(message, Message::Tool { .. }));
        if let (Some(tool), false) = (input["attemptTool"].as_str(), called) {
            return Ok(ModelReply {
                tool_calls: vec![ToolCall {
                    id: "call-1".to_owned(),
                    tool: tool.to_owned(),
                    arguments: Ok(json!({})),
                }],
                ..ModelReply::default()
            });
        }
        tokio::time::sleep(Duration::from_millis(
            input["delayMs"].as_u64().unwrap_or(0),
        ))
        .await;
        if input["say"] == "unavailable" {
            return Err(ModelError::unavailable("connect", false));
        }
        let fault = input["say"]
            .as_str()
            .and_then(|say| say.strip_prefix("fault:"));
        if let Some(reason) = fault {
            return Err(ModelError::unavailable(reason, false));
        }
        let mut text = input["say"].as_str().unwrap().to_owned();
        if text == "sometimes" && self.times.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
            "not this time".clone_into(&mut text);
        }
        Ok(ModelReply {
            text: Some(text),
            usage: Some(TokenUsage {
                input: 10,
                output: 5,
                cached_input: None,
            }),
            ..ModelReply::default()
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

/// The wall clock, which tests can move or stop.
#[derive(Default)]
pub struct TestClock {
    ahead_s: AtomicI64,
    stopped: Mutex<Option<Timestamp>>,
}

impl TestClock {
    /// Moves the clock this many days ahead.
    pub fn ahead(&self, days: i64) {
        self.ahead_s.store(days * 86_400, Ordering::SeqCst);
    }

    /// Moves the clock ahead by this time.
    pub fn pass(&self, time: SignedDuration) {
        self.ahead_s.fetch_add(time.as_secs(), Ordering::SeqCst);
    }

    /// Stops the clock at this moment.
    pub fn stop_at(&self, moment: Timestamp) {
        *self.stopped.lock().unwrap() = Some(moment);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let stopped = *self.stopped.lock().unwrap();
        let ahead = SignedDuration::from_secs(self.ahead_s.load(Ordering::SeqCst));
        stopped.unwrap_or_else(|| SystemClock.now() + ahead)
    }

    fn uptime(&self) -> std::time::Duration {
        SystemClock.uptime()
    }
}

/// Signs verdicts with a fixed key.
struct Signs;

impl SigningKey for Signs {
    fn key(&self) -> Result<Arc<SecretKey>, NoSigningKey> {
        Ok(Arc::new(SecretKey::from_random(SIGNING_KEY)))
    }
}

/// Addresses that agent cards may lead to: the public internet, and addresses that tests allow.
#[derive(Default)]
pub struct Outside(Mutex<Vec<Endpoint>>);

impl Outside {
    pub fn open(&self, place: &str) {
        self.0.lock().unwrap().push(place.parse().unwrap());
    }

    fn prober(&self) -> CardProber {
        CardProber::new(Allowed::of(self.0.lock().unwrap().clone()))
    }
}

#[async_trait]
impl Prober for Outside {
    fn forbids(&self, url: &Url) -> bool {
        self.prober().forbids(url)
    }

    async fn ask(&self, request: ProbeRequest) -> Probed {
        self.prober().ask(request).await
    }
}

struct Endpoints {
    model: ModelBinding,
    judge: ModelBinding,
    further_judges: Vec<ModelBinding>,
    elsewhere: ExternalAgents,
}

impl Models for Endpoints {
    fn resolve(&self, _: ModelClass) -> Option<ModelBinding> {
        Some(self.model.clone())
    }

    fn judge(&self) -> Option<ModelBinding> {
        Some(self.judge.clone())
    }

    fn further_judges(&self) -> Vec<ModelBinding> {
        self.further_judges.clone()
    }

    fn reach(&self, tenant: &TenantId, way: &ReachedBy) -> Result<ModelBinding, UnusableTransport> {
        self.elsewhere.reach(tenant, way)
    }
}

/// The agents' model and the environment providers.
pub struct Lab {
    pub agent: Option<Arc<dyn Model>>,
    /// The tools of runs in the mode `live-shadow`.
    pub tools: Option<Arc<dyn LiveTools>>,
    /// Whether a second judge decides beside the first.
    pub two_judges: bool,
    pub providers: Arc<dyn Providers>,
    pub quotas: Quotas,
    pub retention: Retention,
    pub content: ContentRetention,
    /// Where runs are archived.
    pub archive: Option<ObjectStorage>,
    /// Trusted publishers of uploaded packs; open by default.
    pub trust: Trust,
    pub publication: Option<Publication>,
    /// Settings for agents outside this host.
    pub elsewhere: ExternalAgentSettings,
    /// Rate limits of the rating API.
    pub rates: RatingRates,
    /// The OpenID provider of the console; its client secret is [`OIDC_SECRET`].
    pub oidc: Option<OidcConfig>,
    /// Workers and other replicas.
    pub cluster: Option<Cluster>,
    /// Maximum number of tasks of an attestation.
    pub attested_tasks: usize,
}

impl Lab {
    /// The usual parts, with these rate limits of the rating API.
    pub fn limited(rates: RatingRates) -> Self {
        Self {
            rates,
            ..Self::default()
        }
    }
}

/// No rate limits of the rating API.
pub const UNLIMITED: RatingRates = RatingRates {
    requests_per_minute: 0,
    events_per_minute: 0,
    assessments_per_hour: 0,
};

/// The public address of a host, unless a test names one.
pub fn public_place() -> HostUrl {
    HostUrl::public("https://assess.example.org").unwrap()
}

impl Default for Lab {
    fn default() -> Self {
        Self {
            agent: None,
            tools: None,
            two_judges: false,
            providers: Arc::new(NoProviders),
            quotas: Quotas::default(),
            retention: Retention::default(),
            content: ContentRetention::default(),
            archive: None,
            trust: Trust {
                mode: TrustMode::Open,
                ..Trust::default()
            },
            publication: None,
            elsewhere: ExternalAgentSettings::default(),
            rates: RatingRates::default(),
            oidc: None,
            cluster: None,
            attested_tasks: MAX_TASKS,
        }
    }
}

pub struct TestHost {
    dir: Option<TempDir>,
    pub store: Arc<Database>,
    pub keys: Arc<Keys>,
    pub sessions: Arc<Sessions>,
    pub runs: Arc<Runs>,
    pub router: Router,
    pub shutdown: CancellationToken,
    pub executor: Arc<Executor>,
    pub notifier: Arc<WebhookClient>,
    pub outside: Arc<Outside>,
    pub cards: Arc<CardScores>,
    pub issuer: Arc<Issuer>,
    pub ratings: Arc<Ratings>,
    pub clock: Arc<TestClock>,
    pub vault: Arc<Vault>,
    pub examiner: Arc<Examiner>,
    pub storage: Arc<Storage>,
    pub retention: RunRetention,
    /// Key of tenant `acme` with every scope.
    pub key: String,
    /// Key of tenant `globex` with every scope.
    pub other_key: String,
}

impl TestHost {
    /// A host without workers: runs stay pending until [`work`](Self::work).
    pub async fn idle() -> Self {
        Self::with(HttpSettings::default()).await
    }

    pub async fn with(settings: HttpSettings) -> Self {
        Self::with_lab(settings, Lab::default()).await
    }

    pub async fn with_lab(settings: HttpSettings, lab: Lab) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = database::open(
            dir.path().join("host.db").to_str().unwrap(),
            host_keys::usual(),
        )
        .await
        .unwrap();
        let mut host = Self::lab(store, settings, public_place(), lab).await;
        host.dir = Some(dir);
        host
    }

    /// A host on an existing store.
    pub async fn over(store: Arc<Database>, settings: HttpSettings) -> Self {
        Self::at(store, settings, public_place()).await
    }

    /// The same, at the public address under which verifiers of its badges reach it.
    pub async fn at(store: Arc<Database>, settings: HttpSettings, host_url: HostUrl) -> Self {
        Self::lab(store, settings, host_url, Lab::default()).await
    }

    /// The same, with another agent and environment providers.
    pub async fn lab(
        store: Arc<Database>,
        settings: HttpSettings,
        host_url: HostUrl,
        lab: Lab,
    ) -> Self {
        let (clock, ids) = (Arc::new(TestClock::default()), Arc::new(SystemIds));
        let release_manager = ["deploy:promote".to_owned(), "runs:read".to_owned()];
        let roles = Roles::new([("release-manager", release_manager.as_slice())]).unwrap();
        let keys = Keys::new(store.clone(), clock.clone(), ids.clone());
        let mut keys = keys.with_roles(Arc::new(roles));
        keys.admit_local(&TenantId::from(LOCAL_TENANT));
        let keys = Arc::new(keys);
        let examiner = Examiner::new();
        let models = Arc::new(Endpoints {
            model: ModelBinding {
                model: lab.agent.unwrap_or_else(|| Arc::new(Echo::default())),
                permits: Arc::new(touchstone_agents::model::EndpointPermits::new(48)),
                endpoint: None,
                worker_labels: WorkerLabels::default(),
            },
            judge: examiner.binding(),
            further_judges: match lab.two_judges {
                true => vec![examiner.binding()],
                false => Vec::new(),
            },
            elsewhere: ExternalAgents::new(lab.elsewhere, clock.clone()),
        });
        let limits = HostLimits {
            distribution: None,
            worker_labels: Vec::new(),
            max_tasks_per_suite: 10_000,
            max_cost_per_suite: NanoUsd::from_usd(25.0),
            is_max_cost_set: false,
            max_run_duration_ms: 3_600_000,
            max_node_executions: 100,
            default_concurrency: 8,
            max_concurrency: 64,
            advisory_budgets: false,
            scored_modes: scored_modes(true, lab.tools.is_some()),
        };
        let notifier: Arc<WebhookClient> =
            Arc::new(WebhookClient::new(vec!["127.0.0.1:1024-65535".parse().unwrap()]).unwrap());
        let vault = Arc::new(Vault::new(host_keys::usual(), ids.clone()));
        let outside = Arc::new(Outside::default());
        let sessions = Sessions::new(
            store.clone(),
            clock.clone(),
            ids.clone(),
            keys.clone(),
            SessionLimits::default(),
        );
        let oidc = lab.oidc.map(|config| {
            let environment = |_: &str| Some(OIDC_SECRET.to_owned());
            let (roles, home) = (keys.roles(), host_url.base_url());
            let provider = Provider::new(&config, roles, &environment, home, clock.clone());
            Arc::new(provider.unwrap())
        });
        let sessions = sessions
            .trusting(oidc.as_ref().map(|it| it.settings()))
            .opening_locally(oidc.is_none());
        let sessions = Arc::new(sessions);
        let services = Services::new(Parts {
            store: store.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            keys: keys.clone(),
            sessions: sessions.clone(),
            console: ConsoleConfig::default(),
            oidc,
            in_force: Arc::new([Setting {
                name: "limits.max_body_bytes".to_owned(),
                value: "4194304".to_owned(),
            }]),
            vault: vault.clone(),
            models,
            tools: lab.tools,
            cluster: lab.cluster,
            providers: lab.providers,
            evaluator: None,
            notifier: notifier.clone(),
            cards: Arc::new(Cards::new(
                outside.clone(),
                clock.clone(),
                ids,
                CardKeys::default(),
            )),
            host_url,
            attester: Attester {
                host_id: Some("https://evals.example".to_owned()),
                key: Arc::new(Signs),
                max_tasks: lab.attested_tasks,
            },
            audit_key: SecretKey::from_random(AUDIT_KEY).public(),
            channels: ["stable", "canary"]
                .map(|name| name.parse().unwrap())
                .into(),
            pack_rules: PackRules {
                trust: lab.trust,
                publication: lab.publication,
                ..PackRules::default()
            },
            limits,
            max_concurrency_per_tenant: 64,
            quotas: lab.quotas,
            retention: lab.retention,
            content: lab.content,
            archive: lab.archive,
            command: None,
            fixtures: true,
            majors: settings.protocol.majors,
        });
        let shutdown = CancellationToken::new();
        let retention = services.retention();
        let router = services.router(settings, lab.rates, shutdown.clone());
        let key = make_key(&keys, "acme", Scope::ALL).await;
        let other_key = make_key(&keys, "globex", Scope::ALL).await;
        Self {
            dir: None,
            store,
            keys,
            sessions,
            runs: services.runs,
            router,
            shutdown,
            executor: services.executor,
            notifier,
            outside,
            cards: services.cards,
            issuer: services.issuer,
            ratings: services.ratings,
            clock,
            vault,
            examiner,
            storage: services.storage,
            retention,
            key,
            other_key,
        }
    }

    /// Signs new entries of the audit logs and returns the number of checkpoints.
    pub async fn sign_audit(&self) -> u64 {
        let checkpointer = Checkpointer::new(
            self.store.clone(),
            self.clock.clone(),
            Arc::new(SystemIds),
            SecretKey::from_random(AUDIT_KEY),
        );
        checkpointer.sign_all().await.unwrap()
    }

    /// Starts a worker that executes waiting runs, until the host or the returned token is
    /// cancelled.
    pub fn work(&self) -> CancellationToken {
        let settings = WorkerSettings {
            poll: Duration::from_millis(50),
            ..WorkerSettings::default()
        };
        let worker = Worker::new(
            self.store.clone(),
            Arc::new(SystemClock),
            self.executor.clone(),
            "test".to_owned(),
            settings,
            None,
        );
        let shutdown = self.shutdown.child_token();
        tokio::spawn(worker.work(shutdown.clone()));
        shutdown
    }

    /// Starts an assessor that computes requested assessments, until the host or the returned token
    /// is cancelled.
    pub fn assess(&self) -> CancellationToken {
        let settings = AssessorSettings {
            poll: Duration::from_millis(50),
            ..AssessorSettings::default()
        };
        let clock = self.clock.clone();
        let bench = StressTestRunner::new(self.store.clone(), clock.clone(), self.runs.clone());
        let assessor = Assessor::new(
            self.store.clone(),
            clock,
            self.issuer.clone(),
            "test".to_owned(),
            settings,
            bench,
        );
        let shutdown = self.shutdown.child_token();
        tokio::spawn(jobs::perform(assessor, shutdown.clone()));
        shutdown
    }

    /// Starts to deliver the events of organizations, by this clock.
    pub fn tell(&self, clock: Arc<dyn Clock>) {
        let deps = DelivererDeps {
            store: self.store.clone(),
            clock,
            ids: Arc::new(SystemIds),
            notifier: self.notifier.clone(),
            vault: self.vault.clone(),
        };
        let deliverer = Deliverer::new(deps, "test".to_owned(), Duration::from_millis(20));
        tokio::spawn(jobs::perform(deliverer, self.shutdown.clone()));
    }

    /// Starts a dispatcher that delivers to all subscribers.
    pub fn dispatch(&self) {
        let dispatcher = Dispatcher::new(
            self.store.clone(),
            self.clock.clone(),
            self.notifier.clone(),
            "test".to_owned(),
        );
        tokio::spawn(jobs::perform(dispatcher, self.shutdown.clone()));
    }

    /// A host with workers, the agent, and one imported suite of the first tenant.
    pub async fn working(tasks: &[Value]) -> Self {
        let host = Self::idle().await;
        host.equip(tasks).await;
        host.work();
        host
    }

    /// Installs the agent and imports a suite of these inputs; a task passes unless its input says
    /// `wrong`.
    pub async fn equip(&self, inputs: &[Value]) {
        let pack = json!({"tarball": STANDARD.encode(echo_pack())});
        let installed = self.post("/v1/host/touchstone/packs", &pack).await;
        assert_eq!(installed.status, StatusCode::CREATED, "{installed:?}");
        let imported = self
            .post("/v1/host/touchstone/suites", &suite(inputs))
            .await;
        assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    }

    /// Installs another version of the agent.
    pub async fn install(&self, version: &str) {
        self.install_pack(&echo_pack_of(version)).await;
    }

    pub async fn install_pack(&self, archive: &[u8]) {
        let pack = json!({"tarball": STANDARD.encode(archive)});
        let installed = self.post("/v1/host/touchstone/packs", &pack).await;
        assert_eq!(installed.status, StatusCode::CREATED, "{installed:?}");
    }

    /// The keys of a tenant.
    pub async fn keys_of(&self, tenant: &str) -> Vec<touchstone_host::ports::keys::KeyRecord> {
        let tenant = TenantId::from(tenant);
        self.keys.list(Some(&tenant)).await.unwrap()
    }

    pub async fn key_with(&self, scopes: &[Scope]) -> String {
        make_key(&self.keys, "acme", scopes).await
    }

    /// A key of the first tenant without scopes, changed by `change`.
    pub async fn issue(&self, change: impl FnOnce(&mut Issue)) -> String {
        let mut issue = Issue {
            tenant: TenantId::from("acme"),
            scopes: Vec::new(),
            roles: Vec::new(),
            principal: None,
            test: false,
            expires_at: None,
        };
        change(&mut issue);
        let key = self.keys.issue(issue).await.unwrap();
        key.text.expose_secret().to_owned()
    }

    pub fn request(&self, method: Method, path: &str) -> Call<'_> {
        Call {
            host: self,
            key: Some(self.key.clone()),
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
            faulty: false,
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path).send().await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.request(Method::POST, path).json(body).send().await
    }

    /// The recorded runs of `acme`, newest first. Only for a host with a separate store.
    pub async fn recorded(&self) -> Vec<RunRecord> {
        let file = self.dir.as_ref().unwrap().path().join("host.db");
        runs_in(&format!("sqlite:{}", file.display()), "acme").await
    }

    /// Creates a run of the imported suite.
    pub async fn create(&self) -> RunId {
        let created = self.post("/v1/runs", &create_body()).await;
        assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
        created.json()["runId"].as_str().unwrap().into()
    }

    /// Waits until a run has ended, whatever the numbers of its events.
    pub async fn ended_of(&self, run: &RunId) {
        let mut after = 0;
        loop {
            let path = format!("/v1/runs/{run}/events/poll?lastSequence={after}&timeout=30");
            let page = self.get(&path).await.json();
            if page["isComplete"] == true {
                return;
            }
            let last = page["events"].as_array().unwrap().last();
            after = last.map_or(after, |event| event["sequence"].as_u64().unwrap());
        }
    }

    /// Waits until a run has ended and returns its log.
    pub async fn ended(&self, run: &RunId) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let after = events.len();
            let path = format!("/v1/runs/{run}/events/poll?lastSequence={after}&timeout=30");
            let page = self.get(&path).await.json();
            events.extend(page["events"].as_array().unwrap().iter().cloned());
            if page["isComplete"] == true {
                return events;
            }
        }
    }

    /// Serves the router on loopback.
    pub async fn listen(&self) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        self.listen_on(listener);
        address
    }

    /// Serves the router there.
    pub fn listen_on(&self, listener: tokio::net::TcpListener) {
        let (router, shutdown) = (self.router.clone(), self.shutdown.clone());
        tokio::spawn(async move {
            touchstone_host::http::server::serve(listener, router, shutdown)
                .await
                .unwrap();
        });
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn make_key(keys: &Keys, tenant: &str, scopes: &[Scope]) -> String {
    let key = keys
        .create(&TenantId::from(tenant), scopes, None)
        .await
        .unwrap();
    key.text.expose_secret().to_owned()
}

/// The id in a key's text.
pub fn id_of(key: &str) -> KeyId {
    let key = key.strip_prefix("hk_test_").unwrap_or(&key[4..]);
    key.split('_').next().unwrap().into()
}

pub fn create_body() -> Value {
    json!({"mode": "eval", "evalSuiteRef": format!("{SUITE}@1.0.0"), "agentId": AGENT})
}

pub fn suite(inputs: &[Value]) -> Value {
    let tasks: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(n, input)| {
            let value = if input["say"] == "wrong" {
                json!("something else")
            } else {
                input["say"].clone()
            };
            json!({"taskId": format!("task-{n}"), "input": input,
                   "expected": {"kind": "golden", "match": {"strategy": "exact", "value": value}}})
        })
        .collect();
    json!({"suiteId": SUITE, "version": "1.0.0", "modes": ["golden"], "tasks": tasks})
}

pub fn says(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| json!({"say": text})).collect()
}

/// A request under construction.
pub struct Call<'a> {
    host: &'a TestHost,
    key: Option<String>,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Bytes>,
    faulty: bool,
}

impl Call<'_> {
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub fn anonymous(mut self) -> Self {
        self.key = None;
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }

    pub fn raw(mut self, kind: &str, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", kind)
    }

    /// Expects a server error, which otherwise fails the test.
    pub fn at_fault(mut self) -> Self {
        self.faulty = true;
        self
    }

    fn build(&self) -> Request<Body> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
            .body(self.body.clone().map_or_else(Body::empty, Body::from))
            .unwrap()
    }

    /// Sends the request and reads the whole response, which must conform to `openapi.yaml`.
    pub async fn send(self) -> Reply {
        let (method, path) = (self.method.clone(), self.path.clone());
        let response = self.answer().await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let reply = Reply {
            status: parts.status,
            headers: parts.headers,
            body,
        };
        let answered = (reply.status, &reply.headers, reply.body.as_ref());
        openapi::check(&method, &path, answered);
        reply
    }

    /// Sends the request without reading the body; status and headers must conform to
    /// `openapi.yaml`.
    pub async fn open(self) -> axum::response::Response {
        let (method, path) = (self.method.clone(), self.path.clone());
        let response = self.answer().await;
        openapi::check_head(&method, &path, response.status(), response.headers());
        response
    }

    async fn answer(self) -> axum::response::Response {
        let router = self.host.router.clone();
        let answered = router.oneshot(self.build()).await.unwrap();
        let failed = answered.status() == StatusCode::INTERNAL_SERVER_ERROR;
        assert!(!failed || self.faulty, "{} {}", self.method, self.path);
        answered
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|cause| panic!("{cause}: {:?}", self.body))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The code of the error envelope.
    pub fn code(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// An unsigned archive with one agent.
pub fn echo_pack() -> Vec<u8> {
    echo_pack_of("1.0.0")
}

/// The same, of another version.
pub fn echo_pack_of(version: &str) -> Vec<u8> {
    echo_pack_that(version, "Says it back.")
}

/// The same with other content.
pub fn echo_pack_that(version: &str, description: &str) -> Vec<u8> {
    let manifest = json!({
        "name": "community.bench.echo", "version": version, "description": description, "author": "Bench",
        "license": "0BSD", "engines": {"openwop": ">=1.0.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{"agentId": AGENT, "persona": "Echo", "modelClass": "general", "systemPrompt": "canary-prompt",
                    "toolAllowlist": []}],
    });
    archive_of(&manifest)
}

/// An unsigned archive with one agent that may call these tools.
pub fn agent_pack(name: &str, tools: &[&str]) -> Vec<u8> {
    archive_of(&json!({
        "name": name, "version": "1.0.0", "description": "An agent.", "author": "Bench",
        "license": "0BSD", "engines": {"openwop": ">=1.0.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{"agentId": format!("{name}.default"), "persona": "Agent", "modelClass": "general",
                    "systemPrompt": "Work.", "toolAllowlist": tools}],
    }))
}

/// An unsigned archive with this manifest only.
pub fn archive_of(manifest: &Value) -> Vec<u8> {
    let body = manifest.to_string();
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::default(),
    ));
    let mut header = tar::Header::new_ustar();
    header.set_size(body.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append_data(&mut header, "pack.json", body.as_bytes())
        .unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}
