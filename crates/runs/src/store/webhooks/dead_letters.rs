//! Deliveries that were given up. They expire.

use jiff::Timestamp;

use crate::ports::webhooks::DeadLetter;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::{TenantId, WebhookId};

/// The caller has locked the webhook's row, so numbers are assigned one at a time.
const ADD: &str =
    "INSERT INTO webhook_dead_letter (webhook_number, number, delivery_id, expires_at, document)
    SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4 FROM webhook_dead_letter
        WHERE webhook_number = $1
    ON CONFLICT (webhook_number, delivery_id) DO NOTHING";
const LIST: &str =
    "SELECT d.document FROM webhook_dead_letter d JOIN webhook w ON w.number = d.webhook_number
    WHERE w.tenant = $1 AND w.id = $2 AND w.run_number IS NULL AND d.expires_at > $3 AND d.number < $4
    ORDER BY d.number DESC LIMIT $5";
const NUMBER: &str =
    "SELECT d.number FROM webhook_dead_letter d JOIN webhook w ON w.number = d.webhook_number
    WHERE w.tenant = $1 AND w.id = $2 AND w.run_number IS NULL AND d.delivery_id = $3";
/// Dead letters that are kept of a subscription.
const KEPT: i64 = 10_000;
const SHORTEN: &str = "DELETE FROM webhook_dead_letter WHERE webhook_number = $1 AND number <= (
    SELECT MAX(number) FROM webhook_dead_letter WHERE webhook_number = $1) - $2";
const EXPIRE: &str = "DELETE FROM webhook_dead_letter WHERE expires_at <= $1";

pub(super) async fn add(
    transaction: &mut Transaction,
    webhook: i64,
    letter: &DeadLetter,
) -> Result<(), StoreError> {
    query(ADD)
        .bind(webhook)
        .bind(&letter.delivery_id)
        .bind(letter.expires_at.as_microsecond())
        .bind(column("webhook_dead_letter", "document").text(letter)?)
        .execute(&mut *transaction)
        .await?;
    query(SHORTEN)
        .bind(webhook)
        .bind(KEPT)
        .execute(transaction)
        .await?;
    Ok(())
}

/// The number of a dead letter of a subscription; `None` if it has no such letter.
pub async fn number(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
    delivery: &str,
) -> Result<Option<i64>, StoreError> {
    query(NUMBER)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .bind(delivery)
        .fetch_optional(database.readers())
        .await
}

/// Dead letters with a number below `before` that have not expired, newest first.
pub async fn list(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
    now: Timestamp,
    before: i64,
    limit: usize,
) -> Result<Vec<DeadLetter>, StoreError> {
    let rows: Vec<String> = query(LIST)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .bind(now.as_microsecond())
        .bind(before)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(database.readers())
        .await?;
    let place = column("webhook_dead_letter", "document");
    rows.iter().map(|text| place.document(text)).collect()
}

/// Deletes expired dead letters of all subscriptions.
pub async fn expire(database: &Database, now: Timestamp) -> Result<u64, StoreError> {
    query(EXPIRE)
        .bind(now.as_microsecond())
        .execute(database.writer()?)
        .await
}
