//! The endpoints of a worker for its operator: liveness, readiness, metrics. They need no key: a
//! worker has no keys, and the metrics name no tenant and no task.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::app::cluster::WorkerProcess;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::ops;
use touchstone_host::telemetry::Metrics;

struct WorkerApi {
    process: Arc<WorkerProcess>,
    metrics: Metrics,
    stop: CancellationToken,
}

/// `stop` is cancelled when the worker drains.
pub fn router(process: Arc<WorkerProcess>, stop: CancellationToken) -> Router {
    let api = WorkerApi {
        process,
        metrics: Metrics::install(),
        stop,
    };
    Router::new()
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(api))
}

/// `GET /readyz`: the worker is connected to NATS and takes tasks.
async fn readyz(State(api): State<Arc<WorkerApi>>) -> Answer {
    let (status, state) = match (api.stop.is_cancelled(), api.process.is_connected()) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "not connected to NATS"),
        (false, true) => (StatusCode::OK, "ready"),
    };
    json(status, &json!({"status": state}))
}

async fn metrics(State(api): State<Arc<WorkerApi>>) -> Response {
    let headers = [(CONTENT_TYPE, ops::METRICS_FORMAT)];
    (headers, api.metrics.render()).into_response()
}
