//! The OpenWOP HTTP API: routes, authentication, responses, streams.
//!
//! A request passes, from outside in: the observer (id, deadline, envelope, headers, log line), the
//! panic guard, the path rewrite for action suffixes, the router, authentication (key, scope), and
//! the handler, which parses its input strictly and calls a use case. `routes` is the only list of
//! endpoints; a test compares it with `openapi.yaml`.

mod aaaf;
mod allowance;
mod answer;
mod auth;
pub mod discovery;
mod encoding;
mod etag;
mod extract;
mod idempotency;
mod limits;
mod observe;
mod ops;
mod paths;
mod refusals;
mod routes;
mod server;
mod shares;
mod stream;
mod subscribers;
mod trace;
mod unread;
mod v1;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

pub use aaaf::{AaafRates, aaaf_operations};
pub use limits::Rates;
pub use routes::{Operation, operations};
pub use server::{Peer, ServerSettings, serve, serve_with};
pub use v1::openapi::{Unreadable as UnreadableContract, read as read_contract};

use self::aaaf::Allowances;
use self::answer::Failure;
use self::limits::Limits;
use self::subscribers::Subscribers;
use crate::domain::deployment::Channel;
use crate::domain::pack::keys::PublicKey;
use crate::domain::pack::publication::Publication;
use crate::domain::pack::verify::{Policy, Trust};
use crate::domain::run::request::HostLimits;
use crate::ports::{Clock, Ids, Notifier};
use crate::protocol::error::{ErrorCode, Problem};
use crate::protocol::openwop::pack::Lockfile;
use crate::service::aaaf::badges::Gallery;
use crate::service::aaaf::issuer::Issuer;
use crate::service::aaaf::{Aaaf, AaafDeps, RatingGate};
use crate::service::annotations::Annotating;
use crate::service::attestations::{Attestations, Attester};
use crate::service::audit::Audit;
use crate::service::bundles::Bundles;
use crate::service::cards::{CardGate, CardScores};
use crate::service::deployments::Deployments;
use crate::service::diffs::Diffs;
use crate::service::gates::{Condition, Gates};
use crate::service::keys::Keys;
use crate::service::log_reader::LogReader;
use crate::service::packs::Packs;
use crate::service::projections::Projections;
use crate::service::publications::Publications;
use crate::service::runs::{OasisGate, Runs};
use crate::service::seams::{Seams, SeamsDeps};
use crate::service::storage::Storage;
use crate::service::vault::Vault;
use crate::service::webhooks::Webhooks;
use crate::store::Database;
use crate::telemetry::Metrics;

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
    runs: Arc<Runs>,
    annotations: Arc<Annotating>,
    attestations: Attestations,
    audit: Audit,
    bundles: Bundles,
    deployments: Arc<Deployments>,
    diffs: Diffs,
    gates: Arc<Gates>,
    packs: Arc<Packs>,
    pack_rules: PackRules,
    publications: Option<Publications>,
    keys: Arc<Keys>,
    webhooks: Arc<Webhooks>,
    cards: Arc<CardScores>,
    seams: Seams,
    storage: Arc<Storage>,
    projections: Arc<Projections>,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    metrics: Metrics,
    log: LogReader,
    settings: HttpSettings,
    subscribers: Subscribers,
    limits: Limits,
    aaaf: Arc<Aaaf>,
    allowances: Allowances,
    shutdown: CancellationToken,
    discovery: discovery::Document,
    openapi: v1::openapi::Document,
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
    pub fn new(deps: HttpDeps) -> Result<Arc<Self>, v1::openapi::Unreadable> {
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
            discovery: discovery::Document::new(
                &deps.limits,
                &deps.settings,
                &deps.channels,
                deps.keys.roles(),
                &deps.audit_key,
            ),
            openapi: v1::openapi::Document::load()?,
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
    let routed = routes::table(&state)
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
