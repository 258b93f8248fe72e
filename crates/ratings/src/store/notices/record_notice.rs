//! Records notices within the transaction that causes them.

use uuid::Uuid;

use crate::ports::organizations::OrganizationNumber;
use crate::rules::notice::Notice;
use crate::store::notices::rows::topics;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::sql::{Transaction, query};

const TELL: &str = "INSERT INTO rating_notice (organization, id, topic, body, told_at)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING RETURNING number";
const LISTENING: &str = "SELECT number, id, events FROM rating_webhook
    WHERE organization = $1 AND disabled_at IS NULL ORDER BY number";
const WAKE: &str = "UPDATE rating_webhook
    SET due_at = CASE WHEN due_at < $2 THEN due_at ELSE $2 END
    WHERE number = $1 AND disabled_at IS NULL";
const SEND: &str = "INSERT INTO rating_delivery (webhook, notice, id, state, due_at, created_at)
    VALUES ($1, $2, $3, 'pending', $4, $4)";

fn delivery_id(notice: &Uuid, webhook: &str) -> String {
    Uuid::new_v5(notice, webhook.as_bytes()).to_string()
}

/// Records a notice and its deliveries within a transaction; `false` if the notice exists already.
pub async fn record_notice(
    transaction: &mut Transaction,
    organization: OrganizationNumber,
    notice: &Notice,
) -> Result<bool, StoreError> {
    let (id, at) = (notice.id(), notice.at.as_microsecond());
    let number: Option<i64> = query(TELL)
        .bind(organization.0)
        .bind(id.to_string())
        .bind(notice.topic.as_str())
        .bind(notice.body())
        .bind(at)
        .fetch_optional(&mut *transaction)
        .await?;
    let Some(number) = number else {
        return Ok(false);
    };
    let listening: Vec<(i64, String, String)> = query(LISTENING)
        .bind(organization.0)
        .fetch_all(&mut *transaction)
        .await?;
    for (webhook, name, events) in listening {
        if !topics(&events)?.contains(&notice.topic) {
            continue;
        }
        let woken = query(WAKE)
            .bind(webhook)
            .bind(at)
            .execute(&mut *transaction)
            .await?;
        // The webhook was removed or disabled in the meantime.
        if woken == 0 {
            continue;
        }
        query(SEND)
            .bind(webhook)
            .bind(number)
            .bind(delivery_id(&id, &name))
            .bind(at)
            .execute(&mut *transaction)
            .await?;
    }
    Ok(true)
}
