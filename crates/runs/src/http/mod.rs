//! Routes of runs, their logs and webhooks.

mod comparison;
pub mod documents;
pub mod events;
pub mod extract;
pub mod interrupts;
pub mod judge;
pub mod reviews;
pub mod runs;
pub mod storage;
pub mod summary;
pub mod views;
pub mod webhooks;
pub mod workflows;

use std::sync::Arc;

use axum::http::Method;

use crate::service::annotations::Annotations;
use crate::service::archive::Archive;
use crate::service::bundles::Bundles;
use crate::service::diffs::Diffs;
use crate::service::log_reader::LogReader;
use crate::service::projections::Projections;
use crate::service::reviews::Reviews;
use crate::service::reviews::score_review::ScoreReview;
use crate::service::runs::Runs;
use crate::service::storage::Storage;
use crate::service::webhooks::Webhooks;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::routes::Table;

/// State shared by the routes of runs.
pub struct RunsApi {
    pub host: Arc<HttpHost>,
    pub runs: Arc<Runs>,
    pub annotations: Arc<Annotations>,
    pub bundles: Arc<Bundles>,
    pub diffs: Diffs,
    pub log: LogReader,
    pub projections: Arc<Projections>,
    pub storage: Arc<Storage>,
    /// `None` if the operator configured no archive.
    pub archive: Option<Arc<Archive>>,
    pub webhooks: Arc<Webhooks>,
    pub reviews: Arc<dyn ScoreReview>,
    pub human_reviews: Arc<Reviews>,
}

impl AsRef<Arc<HttpHost>> for RunsApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

impl AsRef<Runs> for RunsApi {
    fn as_ref(&self) -> &Runs {
        &self.runs
    }
}

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let table = table.keyed(
        &Method::GET,
        "/v1/workflows/{workflowId}",
        Scope::ManifestRead,
        workflows::get,
    );
    let table = events::routes(views::routes(runs::routes(table)));
    let table = storage::routes(judge::routes(interrupts::routes(table)));
    webhooks::routes(reviews::routes(table))
}
