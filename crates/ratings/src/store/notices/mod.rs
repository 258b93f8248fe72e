//! Notices, webhooks of organizations, and deliveries.
//!
//! A transaction that changes deliveries of a webhook locks the webhook first, so that its `due_at`
//! is never later than theirs.

pub mod record_notice;
pub mod rows;

use std::time::Duration;

use crate::ports::Position;
use crate::ports::notices::{
    Attempted, DeliveryRecord, DeliveryState, DueDelivery, NoticeClaim, NoticeWebhook, Redelivery,
    SealedSecrets,
};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::notice::schedule::{EndpointHealth, NextStep};
use crate::store::notices::rows::{at, claim_of, delivery_of, due_of, record_of};
use crate::store::organizations::active;
use crate::store::{fetch_page, fetch_record, fetch_records};
use jiff::Timestamp;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{column, micros};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;

const COUNT: &str = "SELECT COUNT(*) FROM rating_webhook WHERE organization = $1";
const ADD: &str = "INSERT INTO rating_webhook
        (organization, id, url, events, secret, fingerprint, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
macro_rules! columns {
    () => {
        "organization, id, url, events, secret, fingerprint, previous_secret, previous_until, created_at, failing_since,
            disabled_at, disabled"
    };
}
const ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM rating_webhook WHERE organization = $1 AND id = $2"
);
const LISTED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM rating_webhook WHERE organization = $1 AND (created_at, id) > ($2, $3)
    ORDER BY created_at, id LIMIT $4"
);
const REMOVE: &str = "DELETE FROM rating_webhook WHERE organization = $1 AND id = $2";
const ROTATE: &str = "UPDATE rating_webhook
    SET secret = $4, fingerprint = $5, previous_secret = $6, previous_until = $7
    WHERE organization = $1 AND id = $2 AND secret = $3";
/// Invalidates the current claim: its holder would overwrite the webhook's state.
const ENABLE: &str = "UPDATE rating_webhook
    SET disabled_at = NULL, disabled = NULL, failing_since = NULL, fence = fence + 1, lease_until = 0
    WHERE organization = $1 AND id = $2 RETURNING number";
const SETTLE: &str =
    "UPDATE rating_webhook SET due_at = (SELECT MIN(d.due_at) FROM rating_delivery d
        WHERE d.webhook = rating_webhook.number AND d.due_at IS NOT NULL)
    WHERE number = $1";
macro_rules! deliveries {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, n.id, n.topic, d.state, d.attempts, d.due_at, d.attempted_at, d.outcome, d.created_at
            FROM rating_webhook w JOIN rating_delivery d ON d.webhook = w.number
                JOIN rating_notice n ON n.number = d.notice
            WHERE w.organization = $1 AND w.id = $2 ",
            $rest
        )
    };
}
const DELIVERIES: &str = deliveries!(
    "AND (d.created_at, d.id) > ($3, $4)
    ORDER BY d.created_at, d.id LIMIT $5"
);
const DELIVERY: &str = deliveries!("AND d.id = $3");
const ASK_AGAIN: &str = "UPDATE rating_webhook
    SET due_at = CASE WHEN due_at < $3 THEN due_at ELSE $3 END
    WHERE organization = $1 AND id = $2 RETURNING number, disabled_at IS NOT NULL";
const AGAIN: &str = "UPDATE rating_delivery SET state = 'pending', attempts = 0, due_at = $3
    WHERE webhook = $1 AND id = $2";
const DUE: &str = "SELECT d.id, n.id, n.body, d.attempts
    FROM rating_webhook w JOIN rating_delivery d ON d.webhook = w.number
        JOIN rating_notice n ON n.number = d.notice
    WHERE w.id = $1 AND d.due_at <= $2 ORDER BY d.due_at, d.number LIMIT $3";
const ATTEMPTED: &str = "UPDATE rating_delivery
    SET state = $3, attempts = attempts + 1, due_at = $4, attempted_at = $5, outcome = $6
    WHERE webhook = $1 AND id = $2";
const GIVE_UP: &str = "UPDATE rating_delivery
    SET state = 'failed', due_at = NULL, outcome = COALESCE(outcome, 'disabled')
    WHERE webhook = $1 AND due_at IS NOT NULL";
const OLDEST_UNDELIVERED: &str =
    "SELECT MIN(created_at) FROM rating_delivery WHERE due_at IS NOT NULL";
const RELEASE: &str = "UPDATE rating_webhook SET lease_owner = NULL, lease_until = 0
    WHERE id = $1 AND fence = $2";
const FORGET_DELIVERIES: &str = "DELETE FROM rating_delivery WHERE number IN (
        SELECT number FROM rating_delivery WHERE due_at IS NULL AND created_at < $1
        ORDER BY created_at LIMIT $2)";
/// Notices triggered by the clock are kept: they are the only record that the notice was sent.
const FORGET_NOTICES: &str = "DELETE FROM rating_notice WHERE number IN (
        SELECT n.number FROM rating_notice n
        WHERE n.told_at < $1
            AND n.topic NOT IN ('badge.expiring', 'badge.expired', 'evidence.threshold_reached', 'reassessment.failed')
            AND NOT EXISTS (SELECT 1 FROM rating_delivery d WHERE d.notice = n.number)
        ORDER BY n.told_at, n.number LIMIT $2)";

/// Run before a claim, which takes a lock: usually there is nothing to claim.
const NOTICES_DUE: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM rating_webhook
    WHERE due_at <= $1 AND disabled_at IS NULL AND lease_until <= ",
    "COALESCE($2, {now})",
    " AND ",
    active!("rating_webhook.organization"),
    ")"
);
const CLAIM_NOTICES: &str = concat!(
    "UPDATE rating_webhook SET fence = fence + 1, lease_owner = $1, lease_until = ",
    "COALESCE($4, {now})",
    " + $2
    WHERE number = (SELECT number FROM rating_webhook
        WHERE due_at <= $3 AND disabled_at IS NULL AND lease_until <= ",
    "COALESCE($4, {now})",
    " AND ",
    active!("rating_webhook.organization"),
    " ORDER BY due_at, number LIMIT 1 {skip locked}) RETURNING ",
    columns!(),
    ", fence"
);
const HOLD_NOTICES: &str = "UPDATE rating_webhook SET failing_since = $3, disabled_at = $4, disabled = $5, lease_until = COALESCE($7, {now}) + $6 WHERE id = $1 AND fence = $2 RETURNING number";

async fn notices_due(database: &Database, now: Timestamp) -> Result<bool, StoreError> {
    query(NOTICES_DUE)
        .bind(now.as_microsecond())
        .bind(database.lease_clock())
        .fetch_one(database.readers())
        .await
}

/// Adds a webhook; `false` if the organization already has `most` of them.
pub async fn add_notice_webhook(
    database: &Database,
    webhook: &NoticeWebhook,
    most: u32,
) -> Result<bool, StoreError> {
    let names: Vec<&str> = webhook.events.iter().map(|it| it.as_str()).collect();
    let mut transaction = database.begin_registration().await?;
    let present: i64 = query(COUNT)
        .bind(webhook.organization.0)
        .fetch_one(&mut transaction)
        .await?;
    if present >= i64::from(most) {
        return Ok(false);
    }
    query(ADD)
        .bind(webhook.organization.0)
        .bind(&webhook.id)
        .bind(webhook.url.as_str())
        .bind(at("events").text(&names)?)
        .bind(&webhook.secrets.current)
        .bind(&webhook.secrets.fingerprint)
        .bind(webhook.created_at.as_microsecond())
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(true)
}

pub async fn notice_webhook(
    database: &Database,
    organization: OrganizationNumber,
    id: &str,
) -> Result<Option<NoticeWebhook>, StoreError> {
    let found = query(ONE).bind(organization.0).bind(id);
    fetch_record(database, found, record_of).await
}

/// Webhooks after a position, in the order of creation.
pub async fn notice_webhooks(
    database: &Database,
    organization: OrganizationNumber,
    position: Option<&Position>,
    limit: u32,
) -> Result<Vec<NoticeWebhook>, StoreError> {
    let listed = query(LISTED).bind(organization.0);
    fetch_page(database, listed, position, limit, record_of).await
}

/// Deletes a webhook with its deliveries; `false` if it does not exist.
pub async fn remove_notice_webhook(
    database: &Database,
    organization: OrganizationNumber,
    id: &str,
) -> Result<bool, StoreError> {
    let removed = query(REMOVE)
        .bind(organization.0)
        .bind(id)
        .execute(database.writer()?)
        .await?;
    Ok(removed > 0)
}

/// Replaces the secrets of a webhook; [`StoreError::Stale`] if they have changed since they
/// were read, or the webhook was deleted.
pub async fn rotate_notice_webhook(
    database: &Database,
    webhook: &NoticeWebhook,
    secrets: &SealedSecrets,
) -> Result<(), StoreError> {
    let previous = secrets.previous.as_ref();
    let rotated = query(ROTATE)
        .bind(webhook.organization.0)
        .bind(&webhook.id)
        .bind(&webhook.secrets.current)
        .bind(&secrets.current)
        .bind(&secrets.fingerprint)
        .bind(previous.map(|(secret, _)| secret))
        .bind(previous.map(|(_, until)| until.as_microsecond()))
        .execute(database.writer()?)
        .await?;
    match rotated {
        0 => Err(StoreError::Stale),
        _ => Ok(()),
    }
}

/// Enables a disabled webhook; `false` if it does not exist.
pub async fn enable_notice_webhook(
    database: &Database,
    organization: OrganizationNumber,
    id: &str,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let number: Option<i64> = query(ENABLE)
        .bind(organization.0)
        .bind(id)
        .fetch_optional(&mut transaction)
        .await?;
    let Some(number) = number else {
        return Ok(false);
    };
    query(SETTLE).bind(number).execute(&mut transaction).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Deliveries to a webhook after a position, in the order of their messages.
pub async fn deliveries(
    database: &Database,
    organization: OrganizationNumber,
    webhook: &str,
    position: Option<&Position>,
    limit: u32,
) -> Result<Vec<DeliveryRecord>, StoreError> {
    let listed = query(DELIVERIES).bind(organization.0).bind(webhook);
    fetch_page(database, listed, position, limit, delivery_of).await
}

/// Makes a delivery due again now, whatever its state.
pub async fn redeliver(
    database: &Database,
    organization: OrganizationNumber,
    webhook: &str,
    id: &str,
    now: Timestamp,
) -> Result<Redelivery, StoreError> {
    let mut transaction = database.begin_write().await?;
    let found: Option<(i64, bool)> = query(ASK_AGAIN)
        .bind(organization.0)
        .bind(webhook)
        .bind(now.as_microsecond())
        .fetch_optional(&mut transaction)
        .await?;
    let Some((number, disabled)) = found else {
        return Ok(Redelivery::Unknown);
    };
    let again = query(AGAIN)
        .bind(number)
        .bind(id)
        .bind(now.as_microsecond())
        .execute(&mut transaction)
        .await?;
    // Returning without a commit rolls the transaction back.
    if again == 0 {
        return Ok(Redelivery::Unknown);
    }
    if disabled {
        return Ok(Redelivery::Disabled);
    }
    let row = query(DELIVERY)
        .bind(organization.0)
        .bind(webhook)
        .bind(id)
        .fetch_one(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(Redelivery::Due(delivery_of(row)?))
}

/// Claims the webhook with the oldest due delivery whose lease has expired by the store's
/// clock.
pub async fn claim_notice_webhook(
    database: &Database,
    owner: &str,
    ttl: Duration,
    now: Timestamp,
) -> Result<Option<NoticeClaim>, StoreError> {
    let due = notices_due(database, now).await?
        || (database.release_dead().await? && notices_due(database, now).await?);
    if !due {
        return Ok(None);
    }
    let row = query(CLAIM_NOTICES)
        .bind(database.holder(owner))
        .bind(micros(ttl))
        .bind(now.as_microsecond())
        .bind(database.lease_clock())
        .fetch_all(database.writer()?)
        .await?
        .pop();
    row.map(claim_of).transpose()
}

/// When the oldest delivery was created that is not made yet.
pub async fn oldest_undelivered(database: &Database) -> Result<Option<Timestamp>, StoreError> {
    let oldest: Option<i64> = query(OLDEST_UNDELIVERED)
        .fetch_one(database.readers())
        .await?;
    let created = |micros| column("rating_delivery", "created_at").time(micros);
    oldest.map(created).transpose()
}

/// Due deliveries to a claimed webhook, oldest first.
pub async fn due_deliveries(
    database: &Database,
    claim: &NoticeClaim,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<DueDelivery>, StoreError> {
    let listed = query(DUE)
        .bind(&claim.webhook.id)
        .bind(now.as_microsecond())
        .bind(i64::from(limit));
    fetch_records(database, listed, due_of).await
}

/// Records attempts and the resulting health of the webhook, and extends the lease to `ttl`
/// from now. Pending deliveries of a disabled webhook become failed. [`StoreError::Fenced`] if
/// there is a newer claim, or the webhook was deleted.
pub async fn attempted(
    database: &Database,
    claim: &NoticeClaim,
    attempts: &[Attempted],
    health: &EndpointHealth,
    ttl: Duration,
) -> Result<(), StoreError> {
    let micros_of = |time: Timestamp| time.as_microsecond();
    let mut transaction = database.begin_write().await?;
    let number: Option<i64> = query(HOLD_NOTICES)
        .bind(&claim.webhook.id)
        .bind(claim.fence.0)
        .bind(health.failing_since.map(micros_of))
        .bind(health.disabled.map(|(_, since)| since.as_microsecond()))
        .bind(health.disabled.map(|(why, _)| why.as_str()))
        .bind(micros(ttl))
        .bind(database.lease_clock())
        .fetch_optional(&mut transaction)
        .await?;
    let number = number.ok_or(StoreError::Fenced)?;
    for attempt in attempts {
        let (state, due_at) = match attempt.next {
            NextStep::Delivered => (DeliveryState::Delivered, None),
            NextStep::RetryAt(then) => (DeliveryState::Pending, Some(then)),
            NextStep::GiveUp => (DeliveryState::Failed, None),
        };
        query(ATTEMPTED)
            .bind(number)
            .bind(&attempt.id)
            .bind(state.as_str())
            .bind(due_at.map(micros_of))
            .bind(attempt.at.as_microsecond())
            .bind(&attempt.outcome)
            .execute(&mut transaction)
            .await?;
    }
    if health.disabled.is_some() {
        query(GIVE_UP)
            .bind(number)
            .execute(&mut transaction)
            .await?;
    }
    query(SETTLE).bind(number).execute(&mut transaction).await?;
    transaction.commit().await
}

/// Releases the claim on a webhook.
pub async fn release_notice_webhook(
    database: &Database,
    claim: &NoticeClaim,
) -> Result<(), StoreError> {
    query(RELEASE)
        .bind(&claim.webhook.id)
        .bind(claim.fence.0)
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// Deletes finished deliveries older than `before` and notices without deliveries, at most
/// `limit` of each. Returns how many were deleted.
pub async fn forget_deliveries(
    database: &Database,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let mut forgotten = 0;
    for statement in [FORGET_DELIVERIES, FORGET_NOTICES] {
        let deleted = query(statement)
            .bind(before.as_microsecond())
            .bind(i64::from(limit))
            .execute(database.writer()?)
            .await?;
        forgotten += deleted;
    }
    Ok(forgotten)
}
