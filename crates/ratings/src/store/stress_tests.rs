use jiff::Timestamp;

use crate::ports::organizations::OrganizationNumber;
use crate::ports::stress_tests::{StressOutcome, StressResult};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::RunId;

const ADD: &str = "INSERT INTO rating_stress_test_result
        (organization, assessment, test, task, run, outcome, score, recorded_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (organization, assessment, test, task) DO NOTHING";
const ALL: &str = "SELECT test, task, run, outcome, score FROM rating_stress_test_result
    WHERE organization = $1 AND assessment = $2 ORDER BY test, task";
const FORGET: &str = "DELETE FROM rating_stress_test_result
    WHERE (organization, assessment, test, task) IN (
        SELECT organization, assessment, test, task FROM rating_stress_test_result
        WHERE recorded_at < $1 ORDER BY recorded_at LIMIT $2)";

type Row = (String, String, String, String, f64);

/// Records results. An existing result of the same task is kept.
pub async fn record_stress_results(
    database: &Database,
    organization: OrganizationNumber,
    assessment: &str,
    results: &[StressResult],
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    for result in results {
        query(ADD)
            .bind(organization.0)
            .bind(assessment)
            .bind(&result.test)
            .bind(&result.task)
            .bind(result.run_id.as_str())
            .bind(result.outcome.as_str())
            .bind(result.score)
            .bind(now.as_microsecond())
            .execute(&mut transaction)
            .await?;
    }
    transaction.commit().await
}

/// The results of an assessment, by test and task.
pub async fn stress_results(
    database: &Database,
    organization: OrganizationNumber,
    assessment: &str,
) -> Result<Vec<StressResult>, StoreError> {
    let rows: Vec<Row> = query(ALL)
        .bind(organization.0)
        .bind(assessment)
        .fetch_all(database.readers())
        .await?;
    let result = |(test, task, run, outcome, score): Row| {
        let outcome = StressOutcome::parse(&outcome)
            .ok_or_else(|| column("rating_stress_test_result", "outcome").inconsistent())?;
        Ok(StressResult {
            test,
            task,
            run_id: RunId::from(run),
            outcome,
            score,
        })
    };
    rows.into_iter().map(result).collect()
}

/// Deletes the oldest results recorded before `before`, at most `limit`. Returns how many were
/// deleted.
pub async fn forget_stress_results(
    database: &Database,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let forgotten = query(FORGET)
        .bind(before.as_microsecond())
        .bind(i64::from(limit))
        .execute(database.writer()?)
        .await?;
    Ok(forgotten)
}
