//! Webhook subscriptions and their progress.
//!
//! A subscription follows every unfinished run of its tenant from the current end of the run's log,
//! and every run created later from the start. It stops following a run once it has been served the
//! whole log. An event that was not accepted becomes a [retry](retries), and in the end a
//! [dead letter](dead_letters).

pub mod dead_letters;
pub mod retries;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ports::webhooks::{
    DeadLetter, DeliveryRecord, Followed, NextStep, Retry, WebhookClaim, WebhookRecord, Window,
};
use crate::store::deliveries;
use crate::store::event_row::event_of;
use touchstone_host::ports::run_log::{Fence, StoredEvent};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, column, micros};
use touchstone_host::store::database::Database;
use touchstone_host::store::secrets::Cipher;
use touchstone_host::store::sql::{Sql, Transaction, query};
use touchstone_kit::ids::{RunId, TenantId, WebhookId};
use touchstone_kit::sealing::owner;
use touchstone_kit::webhook::{Circuit, Secret, Secrets};
use touchstone_openwop::wire::Major;

/// One that is being removed is not listed.
const COUNT: &str = "SELECT COUNT(*) FROM webhook WHERE tenant = $1 AND run_number IS NULL
    AND paused_until < 9223372036854775807";
/// `settings` ends with `"contract":2}` for subscriptions of major 2.
const COUNT_OF_V1: &str = "SELECT COUNT(*) FROM webhook
    WHERE run_number IS NULL AND paused_until < 9223372036854775807 AND settings NOT LIKE '%,\"contract\":2_'";
const ADD: &str =
    "INSERT INTO webhook (id, tenant, settings, secret, run_number, created_at, circuit, sealed)
    VALUES ($1, $2, $3, $4, $5, $6, $7, TRUE) RETURNING number";
pub const FOLLOW: &str =
    "INSERT INTO webhook_run (webhook_number, run_number, sequence) VALUES ($1, $2, 0)";
const FOLLOW_UNFINISHED: &str = "INSERT INTO webhook_run (webhook_number, run_number, sequence)
    SELECT $1, number, head FROM run WHERE tenant = $2 AND NOT ended";
const ONE: &str =
    "SELECT id, tenant, settings, secret, previous_secret, previous_until, created_at, circuit, sealed
    FROM webhook WHERE tenant = $1 AND id = $2 AND run_number IS NULL
    AND paused_until < 9223372036854775807";
const OF_TENANT: &str =
    "SELECT id, tenant, settings, secret, previous_secret, previous_until, created_at, circuit, sealed
    FROM webhook WHERE tenant = $1 AND run_number IS NULL AND paused_until < 9223372036854775807
    ORDER BY number";
const CLAIMED: &str =
    "SELECT id, tenant, settings, secret, previous_secret, previous_until, created_at, circuit, sealed
    FROM webhook WHERE id = $1";
const REMOVE: &str = "DELETE FROM webhook WHERE tenant = $1 AND id = $2 AND run_number IS NULL";
/// Ends every claim, and marks the subscription as removed: it is paused for ever. The holder of a claim
/// notices when it records its next attempt.
const STOP: &str = "UPDATE webhook SET following = FALSE, fence = fence + 1,
        paused_until = 9223372036854775807
    WHERE tenant = $1 AND id = $2 AND run_number IS NULL
    RETURNING lease_owner IS NOT NULL AND lease_until > COALESCE($3, {now})";
const IS_SERVED: &str = "SELECT EXISTS (SELECT 1 FROM webhook
    WHERE tenant = $1 AND id = $2 AND lease_owner IS NOT NULL AND lease_until > COALESCE($3, {now}))";
const LEAVE: &str = "UPDATE webhook SET lease_owner = NULL, lease_until = 0
    WHERE id = $1 AND lease_owner = $2 AND NOT following";
/// Completes removals that were interrupted.
const REMOVE_STOPPED: &str = "DELETE FROM webhook WHERE run_number IS NULL
    AND paused_until = 9223372036854775807 AND lease_until <= COALESCE($1, {now})";
const STORED: &str = "SELECT secret, sealed FROM webhook WHERE tenant = $1 AND id = $2";
/// Matches only the row that was read: a concurrent rotation has changed the encrypted text.
const ROTATE: &str =
    "UPDATE webhook SET secret = $4, previous_secret = $5, previous_until = $6, sealed = TRUE
    WHERE tenant = $1 AND id = $2 AND secret = $3";
const GROWN: &str = "SELECT r.run_id, f.sequence, r.head FROM webhook w
    JOIN webhook_run f ON f.webhook_number = w.number JOIN run r ON r.number = f.run_number
    WHERE w.id = $1 AND r.head > f.sequence AND (w.run_number IS NULL OR r.ended)
    ORDER BY f.run_number LIMIT $2";
/// The fixed width of timestamps makes their order that of their text.
const OLDEST_UNDELIVERED: Sql = Sql {
    sqlite: "SELECT MIN(e.body ->> '$.timestamp') FROM webhook w
        JOIN webhook_run f ON f.webhook_number = w.number JOIN run r ON r.number = f.run_number
        JOIN event e ON e.run_number = r.number AND e.sequence = f.sequence + 1
        WHERE w.following AND w.paused_until <= $1
            AND r.head > f.sequence AND (w.run_number IS NULL OR r.ended)",
    postgres: "SELECT MIN(e.body::json ->> 'timestamp') FROM webhook w
        JOIN webhook_run f ON f.webhook_number = w.number JOIN run r ON r.number = f.run_number
        JOIN event e ON e.run_number = r.number AND e.sequence = f.sequence + 1
        WHERE w.following AND w.paused_until <= $1
            AND r.head > f.sequence AND (w.run_number IS NULL OR r.ended)",
};
const CHECK: &str =
    "UPDATE webhook SET fence = fence WHERE id = $1 AND fence = $2 RETURNING number";
const SERVED: &str = "UPDATE webhook_run SET sequence = $3
    WHERE webhook_number = $1 AND run_number = (SELECT number FROM run WHERE run_id = $2)
        AND sequence < $3";
const DONE: &str = "DELETE FROM webhook_run
    WHERE webhook_number = $1 AND run_number = (SELECT number FROM run WHERE run_id = $2
        AND ended AND head <= webhook_run.sequence)";
/// A run's callback subscription is deleted when nothing is left to deliver.
const GONE: &str = "DELETE FROM webhook WHERE number = $1 AND run_number IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM webhook_run WHERE webhook_number = $1)
    AND NOT EXISTS (SELECT 1 FROM webhook_retry WHERE webhook_number = $1)";
const PAUSE: &str = "UPDATE webhook SET paused_until = $3 WHERE id = $1 AND fence = $2";
const UNFOLLOW: &str = "DELETE FROM webhook_run
    WHERE webhook_number = $1 AND run_number = (SELECT number FROM run WHERE run_id = $2)";
const UNFOLLOW_ALL: &str = "DELETE FROM webhook_run WHERE webhook_number = $1";
/// On PostgreSQL, claims skip subscriptions that another replica is claiming.
const CLAIM_WEBHOOK: Sql = Sql {
    sqlite: "UPDATE webhook SET fence = fence + 1, lease_owner = $1, lease_until = COALESCE($3, {now}) + $2
        WHERE number = (SELECT w.number FROM webhook w
            WHERE w.lease_until <= COALESCE($3, {now}) AND w.following AND w.paused_until <= $4
                AND (w.retry_at <= $4 OR EXISTS (
                    SELECT 1 FROM webhook_run f JOIN run r ON r.number = f.run_number
                    WHERE f.webhook_number = w.number AND r.head > f.sequence AND (w.run_number IS NULL OR r.ended)))
            ORDER BY w.served_at, w.number LIMIT 1)
        RETURNING fence, id",
    postgres: "UPDATE webhook SET fence = fence + 1, lease_owner = $1, lease_until = COALESCE($3, {now}) + $2
        WHERE number = (SELECT w.number FROM webhook w
            WHERE w.lease_until <= COALESCE($3, {now}) AND w.following AND w.paused_until <= $4
                AND (w.retry_at <= $4 OR EXISTS (
                    SELECT 1 FROM webhook_run f JOIN run r ON r.number = f.run_number
                    WHERE f.webhook_number = w.number AND r.head > f.sequence AND (w.run_number IS NULL OR r.ended)))
            ORDER BY w.served_at, w.number LIMIT 1
            FOR NO KEY UPDATE OF w SKIP LOCKED)
        RETURNING fence, id",
};
const EVENTS_OF: &str = "SELECT sequence, kind, body FROM event
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2 AND sequence <= $3
        AND kind IN ({each $4})
    ORDER BY sequence LIMIT $5";
const END: &str = "UPDATE webhook SET following = FALSE WHERE number = $1";

/// The immutable, non-secret fields of a subscription.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    url: String,
    events: Vec<String>,
    tags: Vec<String>,
    standard: bool,
    created_by: String,
    /// The major of the contract, unless it is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contract: Option<u8>,
}

/// What `contract` says for subscriptions of major 2.
const SECOND: u8 = 2;

fn settings_of(webhook: &WebhookRecord) -> Result<String, StoreError> {
    let settings = Settings {
        url: webhook.url.to_string(),
        events: webhook.events.clone(),
        tags: webhook.tags.clone(),
        standard: webhook.standard,
        created_by: webhook.created_by.clone(),
        contract: match webhook.contract {
            Major::V1 => None,
            Major::V2 => Some(SECOND),
        },
    };
    column("webhook", "settings").text(&settings)
}

type Row = (
    String,
    String,
    String,
    String,
    Option<String>,
    Option<i64>,
    i64,
    String,
    bool,
);

/// Decrypts a stored secret. It is in plaintext only until the host that upgraded the database has
/// encrypted it.
fn secret_of(cipher: &Cipher, id: &str, text: String, sealed: bool) -> Result<Secret, StoreError> {
    if !sealed {
        return Ok(Secret::kept(text));
    }
    let secret = cipher.open("webhook", &owner::webhook(id), &text)?;
    let place = column("webhook", "secret");
    let secret = String::from_utf8(secret).map_err(|_| place.inconsistent())?;
    Ok(Secret::kept(secret))
}

fn record_of(cipher: &Cipher, row: Row) -> Result<WebhookRecord, StoreError> {
    let (id, tenant, settings, secret, previous, until, created_at, circuit, sealed) = row;
    let settings: Settings = column("webhook", "settings").document(&settings)?;
    let previous = match (previous, until) {
        (Some(secret), Some(until)) => Some((
            secret_of(cipher, &id, secret, sealed)?,
            column("webhook", "previous_until").time(until)?,
        )),
        _ => None,
    };
    let current = secret_of(cipher, &id, secret, sealed)?;
    let contract = match settings.contract {
        None | Some(1) => Major::V1,
        Some(SECOND) => Major::V2,
        Some(_) => return Err(column("webhook", "settings").inconsistent()),
    };
    Ok(WebhookRecord {
        id: id.into(),
        tenant: tenant.into(),
        url: settings
            .url
            .parse()
            .map_err(|_| column("webhook", "settings").inconsistent())?,
        events: settings.events,
        tags: settings.tags,
        standard: settings.standard,
        contract,
        secrets: Secrets { current, previous },
        created_by: settings.created_by,
        created_at: column("webhook", "created_at").time(created_at)?,
        circuit: column("webhook", "circuit").document(&circuit)?,
    })
}

fn followed_from_row((run, after, head): (String, i64, i64)) -> Result<Followed, StoreError> {
    Ok(Followed {
        run: run.into(),
        after: column("webhook_run", "sequence").number(after)?,
        head: column("run", "head").number(head)?,
    })
}

fn bound(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

/// Run before a claim, which takes a lock: usually there is nothing to claim.
const DUE: &str = "SELECT EXISTS (SELECT 1 FROM webhook w
        WHERE w.lease_until <= COALESCE($1, {now}) AND w.following AND w.paused_until <= $2
            AND (w.retry_at <= $2 OR EXISTS (
                SELECT 1 FROM webhook_run f JOIN run r ON r.number = f.run_number
                WHERE f.webhook_number = w.number AND r.head > f.sequence
                    AND (w.run_number IS NULL OR r.ended))))";
const HOLD: &str =
    "UPDATE webhook SET circuit = $3, lease_until = COALESCE($5, {now}) + $4, paused_until = $6
    WHERE id = $1 AND fence = $2 RETURNING number";
/// Retries of runs that were deleted meanwhile are not due any more.
const RELEASE_WEBHOOK: &str =
    "UPDATE webhook SET lease_owner = NULL, lease_until = 0, served_at = {now},
        retry_at = (SELECT MIN(due_at) FROM webhook_retry WHERE webhook_number = webhook.number)
    WHERE id = $1 AND fence = $2 RETURNING CASE WHEN run_number IS NULL THEN number END";

async fn is_due(database: &Database, now: Timestamp) -> Result<bool, StoreError> {
    query(DUE)
        .bind(database.lease_clock())
        .bind(now.as_microsecond())
        .fetch_one(database.readers())
        .await
}

/// Number of subscriptions of all tenants whose deliveries have the form of major 1.
pub async fn count_of_v1(database: &Database) -> Result<i64, StoreError> {
    query(COUNT_OF_V1).fetch_one(database.readers()).await
}

/// Adds a subscription; `false` if the tenant already has `most`.
pub async fn create(
    database: &Database,
    webhook: &WebhookRecord,
    most: u32,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_registration().await?;
    let present: i64 = query(COUNT)
        .bind(webhook.tenant.as_str())
        .fetch_one(&mut transaction)
        .await?;
    if present >= i64::from(most) {
        return Ok(false);
    }
    let number = insert(database.cipher(), &mut transaction, webhook, None).await?;
    query(FOLLOW_UNFINISHED)
        .bind(number)
        .bind(webhook.tenant.as_str())
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(true)
}

pub async fn find(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
) -> Result<Option<WebhookRecord>, StoreError> {
    let row = query(ONE)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .fetch_optional(database.readers())
        .await?;
    row.map(|row| record_of(database.cipher(), row)).transpose()
}

/// All subscriptions of a tenant, oldest first.
pub async fn list(
    database: &Database,
    tenant: &TenantId,
) -> Result<Vec<WebhookRecord>, StoreError> {
    let rows = query(OF_TENANT)
        .bind(tenant.as_str())
        .fetch_all(database.readers())
        .await?;
    let record = |row| record_of(database.cipher(), row);
    rows.into_iter().map(record).collect()
}

/// Ends the deliveries of a subscription that is to be removed, and says whether a replica is still
/// serving it; `None` if it does not exist.
pub async fn stop(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
) -> Result<Option<bool>, StoreError> {
    let stopped: Vec<bool> = query(STOP)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .bind(database.lease_clock())
        .fetch_all(database.writer()?)
        .await?;
    Ok(stopped.first().copied())
}

/// Whether a replica is serving a subscription.
pub async fn is_served(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
) -> Result<bool, StoreError> {
    query(IS_SERVED)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .bind(database.lease_clock())
        .fetch_one(database.readers())
        .await
}

/// Says that `owner` does not serve a subscription any more, although it lost its claim.
pub async fn leave(database: &Database, id: &WebhookId, owner: &str) -> Result<(), StoreError> {
    query(LEAVE)
        .bind(id.as_str())
        .bind(database.holder(owner))
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// Removes a subscription with its progress; `false` if it does not exist.
pub async fn remove(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
) -> Result<bool, StoreError> {
    let removed = query(REMOVE)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .execute(database.writer()?)
        .await?;
    Ok(removed > 0)
}

/// Completes removals that a restart or a failure of the store interrupted.
pub async fn remove_stopped(database: &Database) -> Result<u64, StoreError> {
    query(REMOVE_STOPPED)
        .bind(database.lease_clock())
        .execute(database.writer()?)
        .await
}

/// Replaces the secrets, if they still are `known`; `false` if not, or if the subscription does
/// not exist.
pub async fn replace_secrets(
    database: &Database,
    tenant: &TenantId,
    id: &WebhookId,
    known: &Secrets,
    new: &Secrets,
) -> Result<bool, StoreError> {
    let cipher = database.cipher();
    let stored: Option<(String, bool)> = query(STORED)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .fetch_optional(database.readers())
        .await?;
    let Some((stored, sealed)) = stored else {
        return Ok(false);
    };
    if secret_of(cipher, id.as_str(), stored.clone(), sealed)? != known.current {
        return Ok(false);
    }
    let seal =
        |secret: &Secret| cipher.seal(&owner::webhook(id.as_str()), secret.expose().as_bytes());
    let previous = new.previous.as_ref();
    let rotated = query(ROTATE)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .bind(&stored)
        .bind(seal(&new.current)?)
        .bind(previous.map(|(secret, _)| seal(secret)).transpose()?)
        .bind(previous.map(|(_, until)| until.as_microsecond()))
        .execute(database.writer()?)
        .await?;
    Ok(rotated > 0)
}

/// Claims the subscription that has waited longest among those with events that are due at `now`
/// and a lease that is free or expired. Increases its fence. Leases use the store's own clock.
pub async fn claim(
    database: &Database,
    owner: &str,
    ttl: Duration,
    now: Timestamp,
) -> Result<Option<WebhookClaim>, StoreError> {
    let due = is_due(database, now).await?
        || (database.release_dead().await? && is_due(database, now).await?);
    if !due {
        return Ok(None);
    }
    let mut transaction = database.begin_write().await?;
    let claimed: Option<(i64, String)> = query(CLAIM_WEBHOOK)
        .bind(database.holder(owner))
        .bind(micros(ttl))
        .bind(database.lease_clock())
        .bind(now.as_microsecond())
        .fetch_optional(&mut transaction)
        .await?;
    let Some((fence, id)) = claimed else {
        return Ok(None);
    };
    let row = query(CLAIMED).bind(&id).fetch_one(&mut transaction).await?;
    transaction.commit().await?;
    Ok(Some(WebhookClaim {
        webhook: record_of(database.cipher(), row)?,
        fence: Fence(fence),
    }))
}

/// When the oldest event was recorded that a subscription has not been served yet, except those
/// whose deliveries wait at `now` because their endpoint fails.
pub async fn oldest_undelivered(
    database: &Database,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    const RECORDED: Column = column("event", "body");
    let oldest: Option<String> = query(OLDEST_UNDELIVERED)
        .bind(now.as_microsecond())
        .fetch_one(database.readers())
        .await?;
    let at = oldest.map(|text| text.parse().map_err(|_| RECORDED.inconsistent()));
    at.transpose()
}

/// Runs whose logs have grown since the subscription was last served, oldest first.
pub async fn grown_runs(
    database: &Database,
    id: &WebhookId,
    limit: u32,
) -> Result<Vec<Followed>, StoreError> {
    let rows = query(GROWN)
        .bind(id.as_str())
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(followed_from_row).collect()
}

/// Events of these types within a range of a log, in order.
pub async fn events_of(
    database: &Database,
    run: &RunId,
    window: Window,
    kinds: &[String],
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows = query(EVENTS_OF)
        .bind(run.as_str())
        .bind(bound(window.after))
        .bind(bound(window.upto))
        .bind(column("event", "kind").text(&kinds)?)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(event_of).collect()
}

/// Records that a run has been served up to `upto`, and the state of deliveries; renews the
/// lease for `ttl` from now. [`StoreError::Fenced`] if the claim is no longer the newest, or
/// the subscription is gone.
pub async fn record_progress(
    database: &Database,
    claim: &WebhookClaim,
    run: &RunId,
    upto: u64,
    circuit: &Circuit,
    ttl: Duration,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let number = hold(database, &mut transaction, claim, circuit, ttl).await?;
    serve(&mut transaction, number, run, upto).await?;
    transaction.commit().await
}

/// Records what becomes of an event after an attempt to deliver it, as [`record_progress`].
/// `is_retry` says that it was a retry.
pub async fn record_attempt(
    database: &Database,
    claim: &WebhookClaim,
    (run, sequence): (&RunId, u64),
    is_retry: bool,
    next: &NextStep,
    circuit: &Circuit,
    ttl: Duration,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let number = hold(database, &mut transaction, claim, circuit, ttl).await?;
    match next {
        NextStep::Done => {}
        NextStep::Retry(retry) => retries::add(&mut transaction, number, retry).await?,
        NextStep::GiveUp(letter) => dead_letters::add(&mut transaction, number, letter).await?,
    }
    if is_retry && !matches!(next, NextStep::Retry(_)) {
        retries::remove(&mut transaction, number, run, sequence).await?;
    }
    if is_retry || matches!(next, NextStep::Retry(_)) {
        retries::note_due(&mut transaction, number).await?;
    }
    serve(&mut transaction, number, run, sequence).await?;
    transaction.commit().await
}

/// Locks a claimed subscription, extends the lease and returns its number.
async fn hold(
    database: &Database,
    transaction: &mut Transaction,
    claim: &WebhookClaim,
    circuit: &Circuit,
    ttl: Duration,
) -> Result<i64, StoreError> {
    let number: Option<i64> = query(HOLD)
        .bind(claim.webhook.id.as_str())
        .bind(claim.fence.0)
        .bind(column("webhook", "circuit").text(circuit)?)
        .bind(micros(ttl))
        .bind(database.lease_clock())
        .bind(circuit.waits_until().map_or(0, |it| it.as_microsecond()))
        .fetch_optional(transaction)
        .await?;
    number.ok_or(StoreError::Fenced)
}

async fn serve(
    transaction: &mut Transaction,
    number: i64,
    run: &RunId,
    upto: u64,
) -> Result<(), StoreError> {
    query(SERVED)
        .bind(number)
        .bind(run.as_str())
        .bind(bound(upto))
        .execute(&mut *transaction)
        .await?;
    query(DONE)
        .bind(number)
        .bind(run.as_str())
        .execute(&mut *transaction)
        .await?;
    query(GONE).bind(number).execute(transaction).await?;
    Ok(())
}

/// Lets the deliveries of a subscription wait. [`StoreError::Fenced`] as in [`record_progress`].
pub async fn pause(
    database: &Database,
    claim: &WebhookClaim,
    until: Timestamp,
) -> Result<(), StoreError> {
    let paused = query(PAUSE)
        .bind(claim.webhook.id.as_str())
        .bind(claim.fence.0)
        .bind(until.as_microsecond())
        .execute(database.writer()?)
        .await?;
    match paused {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}

/// Ends a subscription that has failed. What waits to be sent again becomes dead letters, as do
/// `unsent` events.
pub async fn end(
    database: &Database,
    claim: &WebhookClaim,
    unsent: Vec<Retry>,
    given_up: impl Fn(Retry) -> DeadLetter + Send,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let number = held(&mut transaction, claim).await?;
    let waiting = retries::take_all(&mut transaction, number, &claim.webhook.id).await?;
    let letters: Vec<DeadLetter> = waiting.into_iter().chain(unsent).map(given_up).collect();
    for letter in letters {
        dead_letters::add(&mut transaction, number, &letter).await?;
    }
    retries::note_due(&mut transaction, number).await?;
    for statement in [END, UNFOLLOW_ALL, GONE] {
        query(statement)
            .bind(number)
            .execute(&mut transaction)
            .await?;
    }
    transaction.commit().await
}

/// Stops following a run.
pub async fn unfollow(
    database: &Database,
    claim: &WebhookClaim,
    run: &RunId,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let number = held(&mut transaction, claim).await?;
    query(UNFOLLOW)
        .bind(number)
        .bind(run.as_str())
        .execute(&mut transaction)
        .await?;
    transaction.commit().await
}

/// Gives the subscription back, after all others that wait, and records the attempts made under
/// the claim. The callback of a run keeps no record: it is deleted with the last delivery. `false`
/// if the claim was lost or the subscription is gone.
pub async fn release(
    database: &Database,
    claim: &WebhookClaim,
    made: &mut [DeliveryRecord],
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let listed: Option<Option<i64>> = query(RELEASE_WEBHOOK)
        .bind(claim.webhook.id.as_str())
        .bind(claim.fence.0)
        .fetch_optional(&mut transaction)
        .await?;
    if let Some(number) = listed.flatten() {
        deliveries::add(&mut transaction, number, made).await?;
    }
    transaction.commit().await?;
    Ok(listed.is_some())
}

/// Adds a subscription to a run or (`None`) to its tenant; returns its number.
pub async fn insert(
    cipher: &Cipher,
    transaction: &mut Transaction,
    webhook: &WebhookRecord,
    run: Option<i64>,
) -> Result<i64, StoreError> {
    let owner = owner::webhook(webhook.id.as_str());
    let secret = webhook.secrets.current.expose().as_bytes();
    let secret = cipher.seal(&owner, secret)?;
    query(ADD)
        .bind(webhook.id.as_str())
        .bind(webhook.tenant.as_str())
        .bind(settings_of(webhook)?)
        .bind(&secret)
        .bind(run)
        .bind(webhook.created_at.as_microsecond())
        .bind(column("webhook", "circuit").text(&webhook.circuit)?)
        .fetch_one(transaction)
        .await
}

/// Locks a claimed subscription and returns its number, if the claim is still the newest.
async fn held(transaction: &mut Transaction, claim: &WebhookClaim) -> Result<i64, StoreError> {
    let number: Option<i64> = query(CHECK)
        .bind(claim.webhook.id.as_str())
        .bind(claim.fence.0)
        .fetch_optional(transaction)
        .await?;
    number.ok_or(StoreError::Fenced)
}
