//! The whole HTTP API: the routes of all features as one service.

pub mod cluster;
pub mod discovery;
pub mod errors;
pub mod openapi;
pub mod seams;
pub mod worker;

use std::sync::Arc;

use axum::Router;
use axum::http::Method;

use crate::conformance::http::{self as conformance, ConformanceApi};
use crate::http::cluster::ClusterApi;
use touchstone_agent_cards::http::{self as agent_cards, CardsApi};
use touchstone_console::api::ConsoleApi;
use touchstone_deployments::http::{self as deployments, DeploymentsApi};
use touchstone_host::access::Scope;
use touchstone_host::http::routes::{Operation, Table};
use touchstone_host::http::{self as host, HostApi, HttpHost};
use touchstone_oasis::http::{self as oasis, OasisApi};
use touchstone_openwop::wire::{Major, operation};
use touchstone_packs::http::{self as packs, PacksApi};
use touchstone_ratings::http::{self as ratings, RatingsApi};
use touchstone_runs::http::{self as runs, RunsApi};

/// The state that the routes of the documents share.
pub struct DocumentsApi {
    pub host: Arc<HttpHost>,
    pub discovery: discovery::Document,
}

impl AsRef<Arc<HttpHost>> for DocumentsApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

fn documents(table: Table<DocumentsApi>) -> Table<DocumentsApi> {
    let get = &Method::GET;
    table
        .open(get, "/.well-known/openwop", discovery::get)
        .open(get, "/v1/openapi.json", openapi::get)
        .open(get, "/v1/host/touchstone/errors/{code}", errors::get)
        .keyed(
            get,
            "/v1/host/effect-seams",
            Scope::ManifestRead,
            seams::get,
        )
}

/// The state of the routes of each feature.
pub struct Apis {
    pub host: Arc<HostApi>,
    pub documents: DocumentsApi,
    pub runs: Arc<RunsApi>,
    pub packs: Arc<PacksApi>,
    pub deployments: Arc<DeploymentsApi>,
    pub oasis: Arc<OasisApi>,
    pub cards: Arc<CardsApi>,
    pub ratings: Arc<RatingsApi>,
    pub conformance: ConformanceApi,
    pub cluster: ClusterApi,
    /// `None` on a host that does not serve the console.
    pub console: Option<Arc<ConsoleApi>>,
}

/// All routes as one service.
pub fn router(apis: Apis) -> Router {
    let host = apis.host.host.clone();
    let mut routes = host::routes(Table::new(Some(apis.host)))
        .router()
        .merge(documents(Table::new(Some(Arc::new(apis.documents)))).router())
        .merge(runs::routes(Table::new(Some(apis.runs))).router())
        .merge(packs::routes(Table::new(Some(apis.packs))).router())
        .merge(deployments::routes(Table::new(Some(apis.deployments))).router())
        .merge(oasis::routes(Table::new(Some(apis.oasis))).router())
        .merge(agent_cards::routes(Table::new(Some(apis.cards))).router())
        .merge(ratings::routes::routes(Table::new(Some(apis.ratings))).router())
        .merge(conformance::routes(Table::new(Some(Arc::new(apis.conformance)))).router())
        .merge(cluster::routes(Table::new(Some(Arc::new(apis.cluster)))).router());
    if let Some(console) = apis.console {
        routes = routes.merge(touchstone_console::router(console));
    }
    host::layered(routes, host)
}

/// The operations that a major has. Routes that are not of the protocol are among those of major 1.
pub fn operations_of(major: Major) -> Vec<Operation> {
    let mut operations = operations();
    operations.retain(|it| operation::has(major, it.method, it.path));
    operations
}

/// Every route of the OpenWOP API, by its path in major 1.
pub fn operations() -> Vec<Operation> {
    [
        host::routes(Table::new(None)).operations(),
        documents(Table::new(None)).operations(),
        runs::routes(Table::new(None)).operations(),
        packs::routes(Table::new(None)).operations(),
        deployments::routes(Table::new(None)).operations(),
        oasis::routes(Table::new(None)).operations(),
        agent_cards::routes(Table::new(None)).operations(),
        ratings::routes::public(Table::new(None)).operations(),
        conformance::routes(Table::new(None)).operations(),
        cluster::routes(Table::new(None)).operations(),
    ]
    .concat()
}

/// Every operation of the rating API (AAAF S14).
pub fn rating_operations() -> Vec<Operation> {
    ratings::routes::api(Table::new(None)).operations()
}
