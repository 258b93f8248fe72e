//! The list of runs, and their tags.

use serde::Serialize;

use crate::rules::run::listing::{RunListing, RunPosition, RunQuery, TagRequest};
use crate::rules::run::request::{MAX_TAG_CHARS, MAX_TAGS};
use crate::service::run_results;
use crate::service::runs::Runs;
use crate::store;
use crate::store::profiles::ProfiledRun;
use crate::store::run_list::TagChange;
use touchstone_host::ports::host_secrets::RUN_LIST_CURSORS;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};

/// Maximum number of runs of a page.
pub const MAX_RUNS: u64 = 200;
/// Maximum number of results that one list stores: those of processes that ended before they could.
const MAX_RESULTS: u32 = 1000;
/// Maximum number of pairs of a suite and an agent version.
const MAX_CELLS: u32 = 600;

/// A page of the list of runs.
#[derive(Debug, Serialize)]
pub struct RunPage {
    pub runs: Vec<RunListing>,
    /// Where the next page starts; `None` on the last page.
    #[serde(skip)]
    pub next: Option<RunPosition>,
}

impl Runs {
    /// The tenant's runs with a profile, newest first, from before a run; each with its row of the
    /// list, and the position to continue from.
    ///
    /// # Errors
    /// The store failed.
    pub async fn profiled(
        &self,
        tenant: &TenantId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<(ProfiledRun, Option<RunListing>)>, Problem> {
        let found = store::profiles::newest(&self.store, tenant, before, limit).await;
        let found = found.map_err(|cause| internal(&cause))?;
        let mut rows = Vec::with_capacity(found.len());
        for profiled in found {
            let asked = RunQuery {
                id_prefix: Some(profiled.run.to_string()),
                limit: 1,
                ..RunQuery::default()
            };
            let row = self.list(tenant, &asked).await?.runs.pop();
            rows.push((profiled, row));
        }
        Ok(rows)
    }

    /// The tenant's runs that meet the query, newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, tenant: &TenantId, asked: &RunQuery) -> Result<RunPage, Problem> {
        self.store_missing_results(tenant).await?;
        self.decide_missing_verdicts(tenant).await?;
        let one_more = RunQuery {
            limit: asked.limit.saturating_add(1),
            ..asked.clone()
        };
        let found = store::run_list::list(&self.store, tenant, &one_more).await;
        let mut runs = found.map_err(|cause| internal(&cause))?;
        let more = runs.len() > asked.limit;
        runs.truncate(asked.limit);
        let next = runs.last().filter(|_| more).map(RunListing::position);
        Ok(RunPage { runs, next })
    }

    /// The newest judged run of each suite and agent version, newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn newest_of_versions(
        &self,
        tenant: &TenantId,
        agent: Option<&str>,
    ) -> Result<Vec<RunListing>, Problem> {
        self.store_missing_results(tenant).await?;
        self.decide_missing_verdicts(tenant).await?;
        let found = store::run_list::newest_of_versions(&self.store, tenant, agent, MAX_CELLS);
        found.await.map_err(|cause| internal(&cause))
    }

    /// The secret that authenticates cursors.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cursor_secret(&self) -> Result<[u8; 32], Problem> {
        self.store
            .host_secret(RUN_LIST_CURSORS, self.ids.secret())
            .await
            .map_err(|cause| internal(&cause))
    }

    async fn store_missing_results(&self, tenant: &TenantId) -> Result<(), Problem> {
        let missing = store::run_list::without_result(&self.store, tenant, MAX_RESULTS).await;
        for run in missing.map_err(|cause| internal(&cause))? {
            // It may have been deleted meanwhile.
            let record = self.projections.record(tenant, &run).await;
            let Some(record) = record.map_err(|cause| internal(&cause))? else {
                continue;
            };
            run_results::store(&self.store, &self.library, &self.projections, &record).await;
        }
        Ok(())
    }

    /// Changes the tags of a run; returns the tags it has afterwards.
    ///
    /// # Errors
    /// `not_found`; `validation_error` for an invalid tag and for too many.
    pub async fn change_tags(
        &self,
        tenant: &TenantId,
        run: &RunId,
        change: &TagRequest,
    ) -> Result<Vec<String>, Problem> {
        for (field, tags) in [("add", &change.add), ("remove", &change.remove)] {
            if tags.len() > MAX_TAGS {
                return Err(Problem::validation(
                    field,
                    format!(
                        "`{field}` must have at most {MAX_TAGS} tags, got {}",
                        tags.len()
                    ),
                ));
            }
            let valid = |tag: &String| {
                !tag.contains('\0') && (1..=MAX_TAG_CHARS).contains(&tag.chars().count())
            };
            if !tags.iter().all(valid) {
                return Err(Problem::validation(
                    field,
                    format!("`{field}` must contain tags of 1 to {MAX_TAG_CHARS} characters"),
                ));
            }
        }
        let changed = store::run_list::change_tags(&self.store, tenant, run, change, MAX_TAGS);
        match changed.await.map_err(|cause| internal(&cause))? {
            TagChange::Changed(tags) => Ok(tags),
            TagChange::NoSuchRun => Err(Problem::new(ErrorCode::NotFound, "no such run")),
            TagChange::TooMany(count) => Err(Problem::validation(
                "add",
                format!(
                    "a run may have at most {MAX_TAGS} tags, and this one would have {count}: \
                     remove some"
                ),
            )),
        }
    }
}
