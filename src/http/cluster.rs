//! `GET /v1/host/touchstone/cluster`: replicas, workers, queues and runs at workers, for the
//! operator of the host.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};

use touchstone_cluster::service::Cluster;
use touchstone_cluster::service::status::Status;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_runs::service::runs::Runs;

/// The path of the status.
pub const PATH: &str = "/v1/host/touchstone/cluster";

/// The state of the route.
pub struct ClusterApi {
    pub host: Arc<HttpHost>,
    pub runs: Arc<Runs>,
    pub cluster: Option<Cluster>,
}

impl AsRef<Arc<HttpHost>> for ClusterApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

/// Workers and replicas serve all tenants, so only the operator sees them.
pub fn routes(table: Table<ClusterApi>) -> Table<ClusterApi> {
    table.keyed(&Method::GET, PATH, Scope::MetricsRead, status)
}

async fn status(
    State(api): State<Arc<ClusterApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let Some(cluster) = &api.cluster else {
        return json(StatusCode::OK, &Status::default());
    };
    let mut status = cluster.status().await;
    let work = api.runs.work(&caller).await?;
    status.set_leases(|run| work.lease_ms(run));
    json(StatusCode::OK, &status)
}
