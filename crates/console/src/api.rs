//! The state that all pages share.

use std::sync::Arc;

use crate::config::{ConsoleConfig, Setting};
use crate::live::hub::LiveRuns;
use crate::session::oidc::provider::Provider;
use touchstone_agent_cards::http::CardsApi;
use touchstone_cluster::service::Cluster;
use touchstone_deployments::http::DeploymentsApi;
use touchstone_host::http::{HostApi, HttpHost};
use touchstone_host::service::sessions::Sessions;
use touchstone_oasis::http::OasisApi;
use touchstone_packs::http::PacksApi;
use touchstone_ratings::http::RatingsApi;
use touchstone_runs::http::RunsApi;

pub struct ConsoleApi {
    pub host: Arc<HttpHost>,
    pub health: Arc<HostApi>,
    pub runs: Arc<RunsApi>,
    pub packs: Arc<PacksApi>,
    pub deployments: Arc<DeploymentsApi>,
    pub ratings: Arc<RatingsApi>,
    pub oasis: Arc<OasisApi>,
    pub cards: Arc<CardsApi>,
    /// The workers and other replicas, if this host has any.
    pub cluster: Option<Cluster>,
    pub sessions: Arc<Sessions>,
    /// The OpenID provider at which people sign in.
    pub oidc: Option<Arc<Provider>>,
    pub live: LiveRuns,
    pub settings: ConsoleConfig,
    /// The configuration of the host.
    pub in_force: Arc<[Setting]>,
    /// Whether people reach the host over TLS, so that cookies are sent over TLS alone.
    pub secure: bool,
}

impl AsRef<Arc<HttpHost>> for ConsoleApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}
