//! The last attempts to deliver events to each webhook.

use crate::ports::webhooks::DeliveryRecord;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Sql, Transaction, query};
use touchstone_kit::ids::{TenantId, WebhookId};

/// Attempts that are kept per webhook.
pub const KEPT: usize = 200;

/// Locks the webhook, so that numbers are assigned one at a time.
const LOCK: &str = "UPDATE webhook SET fence = fence
    WHERE tenant = $1 AND id = $2 AND run_number IS NULL RETURNING number";
const LAST: &str =
    "SELECT COALESCE(MAX(number), 0) FROM webhook_delivery WHERE webhook_number = $1";
const ADD: Sql = Sql {
    sqlite: "INSERT INTO webhook_delivery (webhook_number, number, document)
        SELECT $1, value ->> 'number', value FROM json_each($2)",
    postgres: "INSERT INTO webhook_delivery (webhook_number, number, document)
        SELECT $1, (made ->> 'number')::bigint, made::text
        FROM json_array_elements($2::text::json) made",
};
const TRIM: &str = "DELETE FROM webhook_delivery WHERE webhook_number = $1 AND number <= $2";
const LIST: &str =
    "SELECT d.document FROM webhook_delivery d JOIN webhook w ON w.number = d.webhook_number
    WHERE w.tenant = $1 AND w.id = $2 AND w.run_number IS NULL AND d.number < $3
    ORDER BY d.number DESC LIMIT $4";

/// Adds attempts in their order, assigns their numbers, and deletes those beyond [`KEPT`]. The
/// caller has locked the webhook's row.
pub async fn add(
    transaction: &mut Transaction,
    webhook: i64,
    made: &mut [DeliveryRecord],
) -> Result<(), StoreError> {
    if made.is_empty() {
        return Ok(());
    }
    let last: i64 = query(LAST)
        .bind(webhook)
        .fetch_one(&mut *transaction)
        .await?;
    let mut last: u64 = column("webhook_delivery", "number").number(last)?;
    for record in &mut *made {
        last += 1;
        record.number = last;
    }
    query(ADD)
        .bind(webhook)
        .bind(column("webhook_delivery", "document").text(&made)?)
        .execute(&mut *transaction)
        .await?;
    let oldest = last.saturating_sub(u64::try_from(KEPT).unwrap_or(u64::MAX));
    query(TRIM)
        .bind(webhook)
        .bind(i64::try_from(oldest).unwrap_or(i64::MAX))
        .execute(transaction)
        .await?;
    Ok(())
}

/// Adds one attempt; `false` if the webhook does not exist.
pub async fn add_one(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
    made: &mut DeliveryRecord,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let number: Option<i64> = query(LOCK)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .fetch_optional(&mut transaction)
        .await?;
    let Some(number) = number else {
        return Ok(false);
    };
    add(&mut transaction, number, std::slice::from_mut(made)).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Attempts with a number below `before`, newest first.
pub async fn list(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
    before: u64,
    limit: usize,
) -> Result<Vec<DeliveryRecord>, StoreError> {
    let rows: Vec<String> = query(LIST)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .bind(i64::try_from(before).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(database.readers())
        .await?;
    let place = column("webhook_delivery", "document");
    rows.iter().map(|text| place.document(text)).collect()
}
