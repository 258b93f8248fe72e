//! Annotations of runs, stored outside the run's log.

use serde_json::json;
use tokio::sync::broadcast;

use crate::ports::annotations::{Annotated, AnnotationLimits, AnnotationRecord};
use touchstone_host::audit::Decision;
use touchstone_host::ports::idempotency::IdempotencyCompletion;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::annotation::Annotation;

/// The caller locks the head of the tenant's audit chain first, so numbers are assigned one at a
/// time.
const ADD: &str = "INSERT INTO annotation (run_number, number, task, document)
    SELECT run.number, COALESCE((SELECT MAX(earlier.number) FROM annotation earlier
        WHERE earlier.run_number = run.number), 0) + 1, $3, $4
    FROM run WHERE run.run_id = $1 AND run.tenant = $2 AND run.deleted_at IS NULL RETURNING number";
const OF_RUN: &str = "SELECT number, task, document FROM annotation
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND number > $2 ORDER BY number";
const OF_TASKS: &str = "SELECT number, task, document FROM annotation
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND task IN ({each $2})
    ORDER BY number";
const TOTAL_BYTES: &str =
    "SELECT CAST(COALESCE(SUM(OCTET_LENGTH(document)), 0) AS BIGINT) FROM annotation
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1)";
const LAST: &str = "SELECT COALESCE(MAX(number), 0) FROM annotation
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1)";

type Row = (i64, Option<String>, String);

fn record_of((number, task, document): Row) -> Result<AnnotationRecord, StoreError> {
    Ok(AnnotationRecord {
        number: column("annotation", "number").number(number)?,
        task: task.map(TaskId::from),
        annotation: column("annotation", "document").document(&document)?,
    })
}

/// Adds an annotation to a run of this tenant, together with the audit entry and the
/// idempotency record, all or nothing. Adds nothing beyond the limits.
pub async fn add(
    database: &Database,
    tenant: &TenantId,
    task: Option<&TaskId>,
    annotation: &Annotation,
    decision: &Decision,
    limits: AnnotationLimits,
    completes: Option<&IdempotencyCompletion>,
) -> Result<Annotated, StoreError> {
    let document = column("annotation", "document").text(annotation)?;
    let mut transaction = database.begin_write().await?;
    record(&mut transaction, tenant, decision).await?;
    let number: Option<i64> = query(ADD)
        .bind(annotation.target.run_id.as_str())
        .bind(tenant.as_str())
        .bind(task.map(TaskId::as_str))
        .bind(document)
        .fetch_optional(&mut transaction)
        .await?;
    let number = number.ok_or_else(|| column("annotation", "run_number").inconsistent())?;
    let bytes: i64 = query(TOTAL_BYTES)
        .bind(annotation.target.run_id.as_str())
        .fetch_one(&mut transaction)
        .await?;
    let exceeded = if number > i64::from(limits.count) {
        Some(Annotated::TooMany)
    } else if bytes > i64::from(limits.bytes) {
        Some(Annotated::TooLong)
    } else {
        None
    };
    if let Some(exceeded) = exceeded {
        transaction.rollback().await?;
        return Ok(exceeded);
    }
    if let Some(completion) = completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await?;
    Ok(Annotated::Recorded)
}

/// The annotations of a run with a number above `after`, in order.
pub async fn list(
    database: &Database,
    run: &RunId,
    after: u64,
) -> Result<Vec<AnnotationRecord>, StoreError> {
    let rows: Vec<Row> = query(OF_RUN)
        .bind(run.as_str())
        .bind(i64::try_from(after).unwrap_or(i64::MAX))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(record_of).collect()
}

/// The annotations of some tasks of a run, in order.
pub async fn of_tasks(
    database: &Database,
    run: &RunId,
    tasks: &[&TaskId],
) -> Result<Vec<AnnotationRecord>, StoreError> {
    let rows: Vec<Row> = query(OF_TASKS)
        .bind(run.as_str())
        .bind(json!(tasks).to_string())
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(record_of).collect()
}

/// The number of the last one, 0 for none.
pub async fn last_number(database: &Database, run: &RunId) -> Result<u64, StoreError> {
    let last: i64 = query(LAST)
        .bind(run.as_str())
        .fetch_one(database.readers())
        .await?;
    column("annotation", "number").number(last)
}

/// Notifies every replica of a new annotation of a run.
pub async fn notify(database: &Database, run: &RunId) {
    database.signal_annotated(run);
}

/// Runs annotated from now on; `None` if signals may have been missed, so that every subscriber
/// checks.
pub fn subscribe(database: &Database) -> broadcast::Receiver<Option<RunId>> {
    database.local_signals().annotated()
}
