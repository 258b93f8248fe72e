//! Routes of deployments, gates and signed verdicts.

pub mod attestation;
pub mod deployments;
pub mod gates;

use std::sync::Arc;

use axum::http::Method;

use crate::service::attestations::Attestations;
use crate::service::deployments::Deployments;
use crate::service::gates::Gates;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::routes::Table;
use touchstone_runs::service::runs::Runs;

/// State that the routes of deployments share.
pub struct DeploymentsApi {
    pub host: Arc<HttpHost>,
    pub deployments: Arc<Deployments>,
    pub gates: Arc<Gates>,
    pub attestations: Attestations,
    pub runs: Arc<Runs>,
}

impl AsRef<Arc<HttpHost>> for DeploymentsApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

impl AsRef<Runs> for DeploymentsApi {
    fn as_ref(&self) -> &Runs {
        &self.runs
    }
}

pub fn routes(table: Table<DeploymentsApi>) -> Table<DeploymentsApi> {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    table
        .keyed(
            get,
            "/v1/host/touchstone/attestation-key",
            Scope::RunsRead,
            attestation::key,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/attestation",
            Scope::RunsRead,
            attestation::get,
        )
        .keyed(
            get,
            "/v1/agents/{agentId}/deployments",
            Scope::ManifestRead,
            deployments::list,
        )
        .authenticated(
            post,
            "/v1/agents/{agentId}/deployments",
            deployments::transition,
        )
        .keyed(
            get,
            "/v1/host/touchstone/gates",
            Scope::ManifestRead,
            gates::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/gates",
            Scope::GatesWrite,
            gates::set,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/gates",
            Scope::GatesWrite,
            gates::remove,
        )
        .keyed(
            post,
            "/v1/host/touchstone/gates/check",
            Scope::RunsRead,
            gates::check,
        )
}
