//! `/v1/host/touchstone/cluster`: replicas, workers, queues and runs at workers, for the operator of
//! the host.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use touchstone_cluster::ports::bus::BusError;
use touchstone_cluster::service::Cluster;
use touchstone_cluster::service::status::Status;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::PathParameters;
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_runs::service::runs::Runs;

/// The path of the status.
pub const PATH: &str = "/v1/host/touchstone/cluster";

/// The path that drains a worker.
const DRAIN: &str = "/v1/host/touchstone/cluster/workers/{worker}/drain";

/// The path that drains this worker.
pub fn drain_path(worker: &str) -> String {
    DRAIN.replace("{worker}", worker)
}

/// The answer of a host that has asked a worker to drain.
#[derive(Debug, Serialize, Deserialize)]
pub struct Draining {
    pub worker: String,
    /// Whether the worker has said that it takes no further tasks.
    pub confirmed: bool,
}

/// The state of the routes.
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
    table
        .keyed(&Method::GET, PATH, Scope::MetricsRead, status)
        .keyed(&Method::POST, DRAIN, Scope::ClusterManage, drain)
}

async fn drain(
    State(api): State<Arc<ClusterApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let worker = path.get("worker");
    let Some(cluster) = &api.cluster else {
        let text = "this host has no workers: `nats` is not set in its section `[cluster]`";
        return Err(Problem::new(ErrorCode::NotFound, text).into());
    };
    match cluster.membership.drain(worker).await {
        Ok(confirmed) => {
            let key_id = caller.key_id.as_str();
            info!(worker, confirmed, key_id, "a worker was asked to drain");
            let worker = worker.to_owned();
            json(StatusCode::ACCEPTED, &Draining { worker, confirmed })
        }
        Err(BusError::NoResponder) => Err(Problem::new(
            ErrorCode::NotFound,
            "no worker of this name is connected, or it has an earlier version, which only SIGTERM drains; `touchstone cluster status` lists the workers",
        )
        .into()),
        Err(cause @ (BusError::NoAnswer | BusError::Failed(_))) => {
            let key_id = caller.key_id.as_str();
            warn!(worker, key_id, %cause, "a worker could not be asked to drain");
            let text = "NATS does not answer, so the worker may not know that it is to drain: try again, or look for the cause with `touchstone doctor`";
            Err(Problem::new(ErrorCode::Unavailable, text).into())
        }
    }
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
