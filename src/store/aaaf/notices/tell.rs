//! Telling an organization, within the transaction that gives cause.

use uuid::Uuid;

use super::rows::topics;
use crate::domain::aaaf::notice::Topic;
use crate::ports::StoreError;

pub(in crate::store) const TELL: &str =
    "INSERT INTO aaaf_notice (organization, id, topic, body, told_at)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING RETURNING number";
pub(in crate::store) const LISTENING: &str = "SELECT number, id, events FROM aaaf_webhook
    WHERE organization = $1 AND disabled_at IS NULL ORDER BY number";
pub(in crate::store) const WAKE: &str = "UPDATE aaaf_webhook
    SET due_at = CASE WHEN due_at < $2 THEN due_at ELSE $2 END
    WHERE number = $1 AND disabled_at IS NULL";
pub(in crate::store) const SEND: &str =
    "INSERT INTO aaaf_delivery (webhook, notice, id, state, due_at, created_at)
    VALUES ($1, $2, $3, 'pending', $4, $4)";

/// The id of a notice's delivery to a webhook.
pub(in crate::store) fn delivery_id(notice: &Uuid, webhook: &str) -> String {
    Uuid::new_v5(notice, webhook.as_bytes()).to_string()
}

/// Whether a list of topics, as it is kept, has this one.
pub(in crate::store) fn wants(events: &str, topic: Topic) -> Result<bool, StoreError> {
    Ok(topics(events)?.contains(&topic))
}

/// Tells an organization within a transaction: `tell!(transaction, organization, &notice)?`, which says whether it was
/// news: what it was told before, it is not told again.
macro_rules! tell {
    ($transaction:expr, $organization:expr, $notice:expr) => {
        async {
            use $crate::store::aaaf::notices::tell;

            let organization: $crate::ports::aaaf::OrganizationNumber = $organization;
            let notice: &$crate::domain::aaaf::notice::Notice = $notice;
            let (id, at) = (notice.id(), notice.at.as_microsecond());
            let backend = $crate::store::convert::backend;
            let number: Option<i64> = sqlx::query_scalar(tell::TELL)
                .bind(organization.0)
                .bind(id.to_string())
                .bind(notice.topic.as_str())
                .bind(notice.body())
                .bind(at)
                .fetch_optional(&mut *$transaction)
                .await
                .map_err(backend)?;
            let Some(number) = number else {
                return Ok::<bool, $crate::ports::StoreError>(false);
            };
            let listening: Vec<(i64, String, String)> = sqlx::query_as(tell::LISTENING)
                .bind(organization.0)
                .fetch_all(&mut *$transaction)
                .await
                .map_err(backend)?;
            for (webhook, name, events) in listening {
                if !tell::wants(&events, notice.topic)? {
                    continue;
                }
                let woken = sqlx::query(tell::WAKE)
                    .bind(webhook)
                    .bind(at)
                    .execute(&mut *$transaction)
                    .await
                    .map_err(backend)?;
                // One that was removed or disabled just now is told nothing.
                if woken.rows_affected() == 0 {
                    continue;
                }
                sqlx::query(tell::SEND)
                    .bind(webhook)
                    .bind(number)
                    .bind(tell::delivery_id(&id, &name))
                    .bind(at)
                    .execute(&mut *$transaction)
                    .await
                    .map_err(backend)?;
            }
            Ok(true)
        }
        .await
    };
}
pub(in crate::store) use tell;
