//! Events whose delivery failed and that are sent again.

use jiff::Timestamp;

use crate::ports::webhooks::Retry;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::{RunId, WebhookId};

const ADD: &str = "INSERT INTO webhook_retry
        (webhook_number, run_number, sequence, kind, event_id, attempts, due_at, last_status)
    SELECT $1, number, $3, $4, $5, $6, $7, $8 FROM run WHERE run_id = $2
    ON CONFLICT (webhook_number, run_number, sequence) DO UPDATE SET
        attempts = excluded.attempts, due_at = excluded.due_at, last_status = excluded.last_status";
const REMOVE: &str = "DELETE FROM webhook_retry
    WHERE webhook_number = $1 AND sequence = $3
        AND run_number = (SELECT number FROM run WHERE run_id = $2)";
const REMOVE_ALL: &str = "DELETE FROM webhook_retry WHERE webhook_number = $1";
const DUE: &str =
    "SELECT r.run_id, t.sequence, t.kind, t.event_id, t.attempts, t.due_at, t.last_status
    FROM webhook w JOIN webhook_retry t ON t.webhook_number = w.number
        JOIN run r ON r.number = t.run_number
    WHERE w.id = $1 AND t.due_at <= $2
    ORDER BY t.due_at, t.run_number, t.sequence LIMIT $3";
const PENDING: &str = "SELECT COUNT(*), MIN(t.due_at) FROM webhook w
    JOIN webhook_retry t ON t.webhook_number = w.number WHERE w.id = $1";
/// Claims look at the webhook only.
const NOTE_DUE: &str = "UPDATE webhook SET retry_at = (
        SELECT MIN(due_at) FROM webhook_retry WHERE webhook_number = webhook.number)
    WHERE number = $1";

type Row = (String, i64, String, String, i64, i64, Option<i64>);

fn retry_of(row: Row) -> Result<Retry, StoreError> {
    let (run, sequence, kind, event_id, attempts, due_at, status) = row;
    let status = status.map(|it| column("webhook_retry", "last_status").number(it));
    Ok(Retry {
        run: run.into(),
        sequence: column("webhook_retry", "sequence").number(sequence)?,
        kind,
        event_id,
        attempts: column("webhook_retry", "attempts").number(attempts)?,
        due_at: column("webhook_retry", "due_at").time(due_at)?,
        last_status: status.transpose()?,
    })
}

/// The retries of a subscription that are due by `now`, the longest due first.
pub async fn due(
    database: &Database,
    id: &WebhookId,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Retry>, StoreError> {
    let rows: Vec<Row> = query(DUE)
        .bind(id.as_str())
        .bind(now.as_microsecond())
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(retry_of).collect()
}

/// How many events of a subscription wait to be sent again, and when the first of them is due.
pub async fn pending(
    database: &Database,
    id: &WebhookId,
) -> Result<(u64, Option<Timestamp>), StoreError> {
    let (count, first): (i64, Option<i64>) = query(PENDING)
        .bind(id.as_str())
        .fetch_one(database.readers())
        .await?;
    let first = first.map(|it| column("webhook_retry", "due_at").time(it));
    let count = column("webhook_retry", "webhook_number").number(count)?;
    Ok((count, first.transpose()?))
}

/// Adds a retry, or replaces the one of the same event. One of a deleted run is left out.
pub(super) async fn add(
    transaction: &mut Transaction,
    webhook: i64,
    retry: &Retry,
) -> Result<(), StoreError> {
    query(ADD)
        .bind(webhook)
        .bind(retry.run.as_str())
        .bind(super::bound(retry.sequence))
        .bind(&retry.kind)
        .bind(&retry.event_id)
        .bind(retry.attempts)
        .bind(retry.due_at.as_microsecond())
        .bind(retry.last_status.map(i32::from))
        .execute(transaction)
        .await?;
    Ok(())
}

pub(super) async fn remove(
    transaction: &mut Transaction,
    webhook: i64,
    run: &RunId,
    sequence: u64,
) -> Result<(), StoreError> {
    query(REMOVE)
        .bind(webhook)
        .bind(run.as_str())
        .bind(super::bound(sequence))
        .execute(transaction)
        .await?;
    Ok(())
}

/// Removes all retries of a subscription, and returns them.
pub(super) async fn take_all(
    transaction: &mut Transaction,
    webhook: i64,
    id: &WebhookId,
) -> Result<Vec<Retry>, StoreError> {
    let rows: Vec<Row> = query(DUE)
        .bind(id.as_str())
        .bind(i64::MAX)
        .bind(i64::MAX)
        .fetch_all(&mut *transaction)
        .await?;
    query(REMOVE_ALL).bind(webhook).execute(transaction).await?;
    rows.into_iter().map(retry_of).collect()
}

/// Records when the next retry of a subscription is due.
pub(super) async fn note_due(
    transaction: &mut Transaction,
    webhook: i64,
) -> Result<(), StoreError> {
    query(NOTE_DUE).bind(webhook).execute(transaction).await?;
    Ok(())
}
