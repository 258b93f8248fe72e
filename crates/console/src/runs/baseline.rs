//! The baseline that a run's page compares the run with.

use std::sync::Arc;

use crate::api::ConsoleApi;
use touchstone_host::http::extract::{Query, is_run_id};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_runs::render::report_page::rows::Change;
use touchstone_runs::rules::eval::comparison::RunComparison;
use touchstone_runs::rules::eval::report::RunTotals;
use touchstone_runs::rules::run::listing::{RunKind, RunQuery};
use touchstone_runs::rules::run::record::RunRecord;

/// The comparison of a run with its baseline.
#[derive(Default)]
pub struct Baseline {
    /// The id in the field of the form.
    pub chosen: String,
    /// Why this run is the baseline.
    pub reason: &'static str,
    pub change: Option<Change>,
    /// Why there is no comparison with the chosen run.
    pub problem: String,
    /// The run of this suite and agent before this one, as a suggestion.
    pub previous: Option<RunId>,
}

impl Baseline {
    /// Compares a run that has ended with the run that the query names, or with its own baseline.
    ///
    /// # Errors
    /// The store failed.
    pub async fn of(
        api: &ConsoleApi,
        tenant: &TenantId,
        record: &RunRecord,
        report: &RunTotals,
        query: &Query,
    ) -> Result<Self, Problem> {
        let declared = record.spec.eval().and_then(|eval| eval.baseline.as_ref());
        let named = query.get("baseline").map(str::trim);
        let (chosen, reason) = match (named, declared) {
            (Some(named), _) => (named.to_owned(), "you chose this run"),
            (None, Some(declared)) => {
                let reason = "the run was started with this baseline";
                (declared.run_id.to_string(), reason)
            }
            (None, None) => {
                let previous = previous(api, tenant, record, report).await?;
                return Ok(Self {
                    previous,
                    ..Self::default()
                });
            }
        };
        let mut found = Self {
            reason,
            ..Self::default()
        };
        match compared(api, tenant, &record.run_id, &chosen).await {
            Ok(change) => found.change = Some(change),
            Err(problem) if problem.code.status() < 500 => found.problem = problem.message,
            Err(problem) => return Err(problem),
        }
        found.chosen = chosen;
        Ok(found)
    }
}

/// The comparison for a document of the run: with the run that the query names, or with the run's
/// own baseline. `None` without one, and if the own baseline cannot be compared.
///
/// # Errors
/// The named run cannot be compared, or the store failed.
pub async fn comparison(
    api: &ConsoleApi,
    tenant: &TenantId,
    run: &RunId,
    query: &Query,
) -> Result<Option<Arc<RunComparison>>, Problem> {
    let runs = &api.runs.runs;
    if query.get("baseline").is_some() {
        let named = query.run("baseline")?;
        return runs.shared_comparison(tenant, run, &named).await.map(Some);
    }
    let record = runs.record(tenant, run).await?;
    let declared = record.spec.eval().and_then(|eval| eval.baseline.as_ref());
    let Some(declared) = declared else {
        return Ok(None);
    };
    let found = runs.shared_comparison(tenant, run, &declared.run_id);
    match found.await {
        Ok(found) => Ok(Some(found)),
        Err(problem) if problem.code.status() < 500 => Ok(None),
        Err(problem) => Err(problem),
    }
}

async fn compared(
    api: &ConsoleApi,
    tenant: &TenantId,
    run: &RunId,
    baseline: &str,
) -> Result<Change, Problem> {
    if !is_run_id(baseline) {
        return Err(Problem::new(ErrorCode::NotFound, "there is no such run"));
    }
    let baseline = RunId::from(baseline);
    let found = api.runs.runs.shared_comparison(tenant, run, &baseline);
    let found = found.await?;
    Ok(Change::of(&found.short()))
}

async fn previous(
    api: &ConsoleApi,
    tenant: &TenantId,
    record: &RunRecord,
    report: &RunTotals,
) -> Result<Option<RunId>, Problem> {
    let query = RunQuery {
        kind: Some(RunKind::Eval),
        suite_id: Some(report.suite.suite_id.clone()),
        agent_id: Some(report.agent.agent_id.to_string()),
        until: Some(record.created_at),
        limit: 1,
        ..RunQuery::default()
    };
    let page = api.runs.runs.list(tenant, &query).await?;
    Ok(page.runs.into_iter().next().map(|run| run.run_id))
}
