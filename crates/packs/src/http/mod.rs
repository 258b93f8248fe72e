//! Routes of packs, suites, agents and the pack registry.

pub mod agents;
pub mod packs;
pub mod registry;
pub mod suites;

use std::sync::Arc;

use axum::http::Method;

use crate::rules::publication::Publication;
use crate::rules::verify::{Policy, Trust};
use crate::service::packs::Packs;
use crate::service::publications::Publications;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::routes::Table;
use touchstone_openwop::pack::Lockfile;

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

/// The state that the routes of packs share.
pub struct PacksApi {
    pub host: Arc<HttpHost>,
    pub packs: Arc<Packs>,
    pub pack_rules: PackRules,
    pub publications: Option<Publications>,
}

impl AsRef<Arc<HttpHost>> for PacksApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

pub fn routes(table: Table<PacksApi>) -> Table<PacksApi> {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    table
        .open(get, "/.well-known/openwop-registry", registry::discovery)
        .open(get, "/keys/{keyId}.pub", registry::key)
        .open(get, "/v1/packs", registry::list)
        .open(get, "/v1/packs/-/search", registry::search)
        .open(get, "/v1/packs/{name}", registry::catalogue)
        .open(get, "/v1/packs/{name}/index.json", registry::catalogue)
        .open(get, "/v1/packs/{name}/-/keychain", registry::keychain)
        .open(get, "/v1/packs/{name}/-/{version}.json", registry::manifest)
        .open(get, "/v1/packs/{name}/-/{version}.tgz", registry::archive)
        .open(get, "/v1/packs/{name}/-/{version}.sig", registry::signature)
        .keyed(
            get,
            "/v1/host/touchstone/packs",
            Scope::ManifestRead,
            packs::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/packs",
            Scope::PacksInstall,
            packs::install,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/packs/{name}/{version}",
            Scope::PacksInstall,
            packs::remove,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites",
            Scope::ManifestRead,
            suites::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/suites",
            Scope::SuitesWrite,
            suites::import,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites/{suiteId}/{version}",
            Scope::ManifestRead,
            suites::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites/{suiteId}/{version}/document",
            Scope::RunsContent,
            suites::document,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/suites/{suiteId}/{version}",
            Scope::SuitesWrite,
            suites::remove,
        )
        .keyed(get, "/v1/agents", Scope::ManifestRead, agents::list)
        .keyed(
            get,
            "/v1/agents/{agentId}",
            Scope::ManifestRead,
            agents::get,
        )
}
