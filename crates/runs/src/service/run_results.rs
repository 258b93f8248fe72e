//! The results of runs in the list of runs.

use tracing::warn;

use crate::rules::run::listing::RunResult;
use crate::rules::run::record::RunRecord;
use crate::service::library::Library;
use crate::service::projections::Projections;
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;

/// Stores the result of a run that has ended. If it cannot be stored now, the next list stores it.
pub async fn store(
    database: &Database,
    library: &Library,
    projections: &Projections,
    run: &RunRecord,
) {
    if let Err(cause) = try_store(database, library, projections, run).await {
        let cause = anyhow::Error::new(cause);
        warn!(run_id = %run.run_id, cause = format!("{cause:#}"), "could not store the run's result for the list of runs");
    }
}

async fn try_store(
    database: &Database,
    library: &Library,
    projections: &Projections,
    run: &RunRecord,
) -> Result<(), StoreError> {
    let eval = run.spec.eval();
    let thresholds = match eval {
        // A damaged suite must not keep other runs out of the list.
        Some(eval) => library.suite_index(&eval.suite_digest).await.ok().flatten(),
        None => None,
    };
    let thresholds = thresholds.map(|suite| suite.thresholds());
    let (status, result) = projections
        .with_state(&run.run_id, |state| {
            let result = match eval.zip(thresholds.as_ref()) {
                Some((eval, thresholds)) => {
                    RunResult::of_eval(library.kinds, run, eval, thresholds, state)
                }
                None => RunResult::of(state),
            };
            (state.status, result)
        })
        .await?;
    store::run_list::set_result(database, &run.run_id, status, &result).await
}
