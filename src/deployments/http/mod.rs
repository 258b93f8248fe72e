//! Routes of deployments, gates and signed verdicts.

pub mod attestation;
pub mod deployments;
pub mod gates;

use std::sync::Arc;

use axum::http::Method;

use crate::deployments::service::attestations::Attestations;
use crate::deployments::service::deployments::Deployments;
use crate::deployments::service::gates::Gates;
use crate::host::access::Scope;
use crate::host::http::HttpHost;
use crate::host::http::routes::Table;
use crate::runs::service::runs::Runs;

/// What the routes of deployments share.
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
