//! The OpenWOP HTTP API: routes, authentication, responses, streams.
//!
//! A request passes, from outside in: the observer (id, deadline, envelope, headers, log line), the
//! panic guard, the path rewrite for action suffixes, the router, authentication (key, scope), and
//! the handler, which parses its input strictly and calls a use case. `routes` is the only list of
//! endpoints; a test compares it with `openapi.yaml`.

pub mod allowance;
pub mod answer;
pub mod audit;
pub mod audit_log;
pub mod auth;
pub mod encoding;
pub mod etag;
pub mod extract;
pub mod idempotency;
pub mod limits;
pub mod observe;
pub mod ops;
pub mod paths;
pub mod refusals;
pub mod server;
pub mod shares;
pub mod subscribers;
pub mod trace;
pub mod unread;
pub mod v1;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

pub use crate::host::http::limits::Rates;
pub use crate::host::http::server::{Peer, ServerSettings, serve, serve_with};
pub use crate::openapi::{Unreadable as UnreadableContract, read as read_contract};
pub use crate::ratings::http::rates::AaafRates;
pub use crate::ratings::http::routes::operations as aaaf_operations;
pub use crate::routes::{Operation, operations};

use crate::agent_cards::service::gate::CardGate;
use crate::agent_cards::service::history::CardScores;
use crate::deployments::service::attestations::{Attestations, Attester};
use crate::deployments::service::deployments::Deployments;
use crate::deployments::service::gates::Gates;
use crate::deployments::service::gates::condition::Condition;
use crate::host::http::answer::Failure;
use crate::host::http::limits::Limits;
use crate::host::http::subscribers::Subscribers;
use crate::host::ports::clock::Clock;
use crate::host::ports::ids::Ids;
use crate::host::service::audit::Audit;
use crate::host::service::keys::Keys;
use crate::host::service::vault::Vault;
use crate::host::store::database::Database;
use crate::host::telemetry::Metrics;
use crate::oasis::service::gate::OasisGate;
use crate::packs::service::packs::Packs;
use crate::packs::service::publications::Publications;
use crate::ratings::http::rates::Allowances;
use crate::ratings::service::badges::Gallery;
use crate::ratings::service::gate::RatingGate;
use crate::ratings::service::issuer::Issuer;
use crate::ratings::service::{Aaaf, AaafDeps};
use crate::runs::ports::webhooks::Notifier;
use crate::runs::service::annotations::Annotating;
use crate::runs::service::bundles::Bundles;
use crate::runs::service::diffs::Diffs;
use crate::runs::service::log_reader::LogReader;
use crate::runs::service::projections::Projections;
use crate::runs::service::runs::Runs;
use crate::runs::service::storage::Storage;
use crate::runs::service::webhooks::Webhooks;
use crate::seams::{Seams, SeamsDeps};
use touchstone_deployments::rules::Channel;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_openwop::pack::Lockfile;
use touchstone_packs::rules::keys::PublicKey;
use touchstone_packs::rules::publication::Publication;
use touchstone_packs::rules::verify::{Policy, Trust};
use touchstone_runs::rules::run::request::HostLimits;

/// The dependencies of the HTTP API.
pub struct HttpDeps {
    pub runs: Arc<Runs>,
    pub packs: Arc<Packs>,
    /// The rules for uploaded packs.
    pub pack_rules: PackRules,
    pub keys: Arc<Keys>,
    pub cards: Arc<CardScores>,
    pub webhooks: Arc<Webhooks>,
    /// Quotas, deletion of runs, legal holds.
    pub storage: Arc<Storage>,
    /// Folded states of runs.
    pub projections: Arc<Projections>,
    /// The store, for idempotency records and health.
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub metrics: Metrics,
    /// Signs verdicts.
    pub attester: Attester,
    /// Verifies checkpoints of the audit log.
    pub audit_key: PublicKey,
    /// Encrypts secrets.
    pub vault: Arc<Vault>,
    /// Issues badges.
    pub issuer: Arc<Issuer>,
    /// Sends outgoing webhook requests.
    pub notifier: Arc<dyn Notifier>,
    /// Channels that versions are promoted on.
    pub channels: Arc<[Channel]>,
    /// Limits of runs, as shown in discovery.
    pub limits: HostLimits,
    pub settings: HttpSettings,
    /// Ends streams and polls; the same token that [`serve`] gets.
    pub shutdown: CancellationToken,
}

/// How uploaded packs are verified, and which are published. Set by the operator, never by the
/// uploader.
#[derive(Clone, Debug, Default)]
pub struct PackRules {
    /// The keys the operator trusts.
    pub trust: Trust,
    /// Further requirements.
    pub policy: Policy,
    /// The lockfile in force, if any.
    pub lockfile: Option<Lockfile>,
    /// What this host's registry publishes; `None` for no registry.
    pub publication: Option<Publication>,
}

#[derive(Clone, Copy, Debug)]
pub struct HttpSettings {
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Memory for all parsed request bodies together, in bytes.
    pub max_body_memory: usize,
    /// Maximum number of open event streams and long polls.
    pub max_subscribers: usize,
    /// Longest silence on a stream.
    pub keepalive: Duration,
    pub rates: Rates,
    /// Rate limits of the AAAF API per key.
    pub aaaf: AaafRates,
    /// Whether this host is in conformance mode: fixtures exist, and test keys may use the seams.
    pub conformance: bool,
    /// Whether `/metrics` is served without a key to direct connections from this machine.
    pub metrics_to_loopback: bool,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 16 * 1024 * 1024,
            max_body_memory: 64 * 1024 * 1024,
            max_subscribers: 4096,
            // Clients give up after 30 s of silence.
            keepalive: Duration::from_secs(15),
            rates: Rates::default(),
            aaaf: AaafRates::default(),
            conformance: false,
            metrics_to_loopback: false,
        }
    }
}

/// The state that handlers share.
pub struct HttpState {
    pub runs: Arc<Runs>,
    pub annotations: Arc<Annotating>,
    pub attestations: Attestations,
    audit: Audit,
    pub bundles: Bundles,
    pub deployments: Arc<Deployments>,
    pub diffs: Diffs,
    pub gates: Arc<Gates>,
    pub packs: Arc<Packs>,
    pub pack_rules: PackRules,
    pub publications: Option<Publications>,
    pub keys: Arc<Keys>,
    pub webhooks: Arc<Webhooks>,
    pub cards: Arc<CardScores>,
    pub seams: Seams,
    pub storage: Arc<Storage>,
    pub projections: Arc<Projections>,
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    metrics: Metrics,
    pub log: LogReader,
    pub settings: HttpSettings,
    pub subscribers: Subscribers,
    pub limits: Limits,
    pub aaaf: Arc<Aaaf>,
    pub allowances: Allowances,
    pub shutdown: CancellationToken,
    pub discovery: crate::discovery::Document,
    pub openapi: crate::openapi::Document,
}

impl HttpState {
    /// The use cases of ratings, for background jobs.
    pub fn aaaf(&self) -> &Arc<Aaaf> {
        &self.aaaf
    }

    /// Builds the state.
    ///
    /// # Errors
    /// The API description built into this binary cannot be read.
    pub fn new(deps: HttpDeps) -> Result<Arc<Self>, crate::openapi::Unreadable> {
        let aaaf = Arc::new(Aaaf::new(AaafDeps {
            store: deps.store.clone(),
            clock: deps.clock.clone(),
            ids: deps.ids.clone(),
            keys: deps.keys.clone(),
            vault: deps.vault,
            gallery: Gallery::new(deps.issuer),
            notifier: deps.notifier,
            runs: deps.runs.clone(),
        }));
        let gates = Arc::new(Gates::new(
            deps.store.clone(),
            deps.clock.clone(),
            deps.runs.clone(),
            conditions(
                aaaf.clone(),
                deps.cards.clone(),
                deps.store.clone(),
                deps.runs.clone(),
            ),
            deps.keys.roles().clone(),
            deps.channels.clone(),
        ));
        let deployments = Arc::new(Deployments::new(
            deps.store.clone(),
            deps.clock.clone(),
            deps.ids.clone(),
            gates.clone(),
            deps.channels.clone(),
        ));
        let seams = Seams::new(SeamsDeps {
            runs: deps.runs.clone(),
            packs: deps.packs.clone(),
            deployments: deployments.clone(),
            keys: deps.keys.clone(),
            webhooks: deps.webhooks.clone(),
            store: deps.store.clone(),
            clock: deps.clock.clone(),
            ids: deps.ids.clone(),
        });
        let publication = deps.pack_rules.publication.clone();
        let publications = publication.map(|publication| {
            Publications::new(deps.store.clone(), deps.clock.clone(), publication)
        });
        Ok(Arc::new(Self {
            publications,
            attestations: Attestations::new(
                deps.runs.clone(),
                gates.clone(),
                deps.clock.clone(),
                deps.attester,
            ),
            audit: Audit::new(deps.store.clone(), deps.audit_key.clone()),
            deployments,
            gates,
            seams,
            log: LogReader::new(deps.store.clone()),
            subscribers: Subscribers::new(deps.settings.max_subscribers),
            limits: Limits::new(
                deps.settings.rates,
                deps.settings.max_body_bytes,
                deps.settings.max_body_memory,
            ),
            aaaf: aaaf.clone(),
            allowances: Allowances::new(deps.settings.aaaf),
            discovery: crate::discovery::Document::new(
                &deps.limits,
                &deps.settings,
                &deps.channels,
                deps.keys.roles(),
                &deps.audit_key,
            ),
            openapi: crate::openapi::Document::load()?,
            annotations: Arc::new(Annotating::new(
                deps.runs.clone(),
                aaaf.clone(),
                deps.store.clone(),
                deps.clock.clone(),
                deps.ids.clone(),
            )),
            bundles: Bundles::new(
                deps.runs.clone(),
                deps.store.clone(),
                deps.projections.clone(),
                deps.clock.clone(),
            ),
            diffs: Diffs::new(
                deps.runs.clone(),
                deps.store.clone(),
                deps.projections.clone(),
            ),
            runs: deps.runs,
            packs: deps.packs,
            pack_rules: deps.pack_rules,
            keys: deps.keys,
            webhooks: deps.webhooks,
            cards: deps.cards,
            storage: deps.storage,
            projections: deps.projections,
            store: deps.store,
            clock: deps.clock,
            ids: deps.ids,
            metrics: deps.metrics,
            settings: deps.settings,
            shutdown: deps.shutdown,
        }))
    }
}

/// The conditions that features add to promotion policies, in the order in which they are shown.
pub fn conditions(
    ratings: Arc<Aaaf>,
    cards: Arc<CardScores>,
    store: Arc<Database>,
    runs: Arc<Runs>,
) -> Vec<Arc<dyn Condition>> {
    vec![
        Arc::new(RatingGate::new(ratings)),
        Arc::new(CardGate::new(cards)),
        Arc::new(OasisGate::new(store, runs)),
    ]
}

/// All routes as one service.
pub fn router(state: Arc<HttpState>) -> Router {
    let routed = crate::routes::table(&state)
        .route_layer(middleware::from_fn(observe::note_route))
        .with_state(state.clone());
    // Routing happens inside, after the rewrite.
    let rewritten = routed.map_request(|request: Request| paths::rewrite(request));
    Router::new()
        .fallback_service(rewritten)
        .layer(middleware::from_fn(limits::head))
        .layer(encoding::layer())
        .layer(middleware::map_request(encoding::take_plain))
        .layer(middleware::map_response(encoding::retag))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(state, observe::observe))
        .layer(middleware::from_fn(unread::read_the_rest))
}

fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    // The panic hook has logged the location. The panic's message may hold content, so it is not
    // logged.
    tracing::error!("a handler panicked");
    Failure(Problem::new(
        ErrorCode::InternalError,
        "internal error; try again, and contact the operator if it persists",
    ))
    .into_response()
}
