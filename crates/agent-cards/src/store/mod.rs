//! Scored agent cards and the list of watched cards.

use jiff::Timestamp;

use crate::ports::watches::{CardWatch, DueCard, WatchNotice};
use crate::rules::history::CardScoring;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::migrations::{HeldWork, Schema};
use touchstone_host::store::sql::query;
use touchstone_kit::ids::TenantId;
use touchstone_ratings::store::notices::record_notice::record_notice;

pub const SCHEMA: Schema = Schema {
    feature: "agent_cards",
    migrations: &[include_str!("schema.sql")],
    leases: &[],
    secrets: &[],
    // The year 9999.
    held: &[HeldWork {
        name: "agent card watches",
        hold: "UPDATE card_watch SET due_at = 253370764800000000",
        count: "SELECT COUNT(*) FROM card_watch WHERE due_at = 253370764800000000",
        release: "UPDATE card_watch SET due_at = 0 WHERE due_at = 253370764800000000",
    }],
};

/// Records kept per card.
const OF_A_CARD: i64 = 100;
/// Records kept per tenant.
const OF_A_TENANT: i64 = 10_000;

const KEEP: &str = "INSERT INTO card_look (tenant, url, id, looked_at, scored, asked, document)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
/// The newest record, the newest with scores, and the newest that was requested.
const EARLIER: &str = "SELECT document FROM card_look WHERE number IN (
        (SELECT MAX(number) FROM card_look WHERE tenant = $1 AND url = $2),
        (SELECT MAX(number) FROM card_look WHERE tenant = $1 AND url = $2 AND scored),
        (SELECT MAX(number) FROM card_look WHERE tenant = $1 AND url = $2 AND asked))
    ORDER BY number DESC";
const FORGET_OF_CARD: &str = "DELETE FROM card_look WHERE tenant = $1 AND url = $2 AND number <=
        (SELECT number FROM card_look WHERE tenant = $1 AND url = $2 ORDER BY number DESC LIMIT 1 OFFSET $3)
    AND number <> (SELECT COALESCE(MAX(number), 0) FROM card_look WHERE tenant = $1 AND url = $2 AND scored)
    AND number <> (SELECT COALESCE(MAX(number), 0) FROM card_look WHERE tenant = $1 AND url = $2 AND asked)";
const FORGET_OF_TENANT: &str = "DELETE FROM card_look WHERE tenant = $1 AND number <=
    (SELECT number FROM card_look WHERE tenant = $1 ORDER BY number DESC LIMIT 1 OFFSET $2)";
const LOOKS: &str = "SELECT document FROM card_look WHERE tenant = $1 AND url = $2
    ORDER BY number DESC LIMIT $3";
const OTHERS: &str = "SELECT COUNT(*) FROM card_watch WHERE tenant = $1 AND url <> $2";
const WATCH: &str = "INSERT INTO card_watch (tenant, url, document, due_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, url) DO UPDATE SET document = excluded.document, due_at = excluded.due_at";
const UNWATCH: &str = "DELETE FROM card_watch WHERE tenant = $1 AND url = $2";
const WATCHES: &str = "SELECT document, due_at FROM card_watch WHERE tenant = $1 ORDER BY url";
const DUE: &str = "SELECT tenant, document FROM card_watch WHERE due_at <= $1
    ORDER BY due_at, tenant, url LIMIT $2";
const AGAIN: &str = "UPDATE card_watch SET due_at = $3 WHERE tenant = $1 AND url = $2
    AND (CAST($4 AS BIGINT) IS NULL OR due_at = $4)";

const LOOK: Column = column("card_look", "document");
const WATCHED: Column = column("card_watch", "document");
const DUE_AT: Column = column("card_watch", "due_at");

/// Stores a result together with its notices, or neither; returns whether there were notices.
/// Old results are deleted, except the newest one with scores and the newest live one.
pub async fn keep_card_look(
    database: &Database,
    tenant: &TenantId,
    scoring: &CardScoring,
    notice: Option<WatchNotice<'_>>,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_scope(tenant, &scoring.url).await?;
    let mut told = false;
    if let Some(WatchNotice {
        organization,
        notices,
    }) = notice
    {
        let earlier: Vec<String> = query(EARLIER)
            .bind(tenant.as_str())
            .bind(&scoring.url)
            .fetch_all(&mut transaction)
            .await?;
        let earlier: Vec<CardScoring> = earlier
            .iter()
            .map(|it| LOOK.document(it))
            .collect::<Result<_, _>>()?;
        for notice in notices(&earlier) {
            told |= record_notice(&mut transaction, organization, &notice).await?;
        }
    }
    let scores = scoring.scores.as_ref();
    query(KEEP)
        .bind(tenant.as_str())
        .bind(&scoring.url)
        .bind(&scoring.id)
        .bind(scoring.scored_at.as_microsecond())
        .bind(scores.is_some())
        .bind(scores.is_some_and(|it| it.availability.is_some()))
        .bind(LOOK.text(scoring)?)
        .execute(&mut transaction)
        .await?;
    query(FORGET_OF_CARD)
        .bind(tenant.as_str())
        .bind(&scoring.url)
        .bind(OF_A_CARD)
        .execute(&mut transaction)
        .await?;
    query(FORGET_OF_TENANT)
        .bind(tenant.as_str())
        .bind(OF_A_TENANT)
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(told)
}

/// The results of a card, newest first.
pub async fn card_looks(
    database: &Database,
    tenant: &TenantId,
    url: &str,
    most: u32,
) -> Result<Vec<CardScoring>, StoreError> {
    let documents: Vec<String> = query(LOOKS)
        .bind(tenant.as_str())
        .bind(url)
        .bind(i64::from(most))
        .fetch_all(database.readers())
        .await?;
    documents.iter().map(|it| LOOK.document(it)).collect()
}

/// Watches a card from `due` on, replacing an earlier watch of it; `false` if the tenant
/// already watches `most` other cards.
pub async fn watch_card(
    database: &Database,
    tenant: &TenantId,
    watch: &CardWatch,
    due: Timestamp,
    most: u32,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let others: i64 = query(OTHERS)
        .bind(tenant.as_str())
        .bind(&watch.url)
        .fetch_one(&mut transaction)
        .await?;
    if others >= i64::from(most) {
        return Ok(false);
    }
    query(WATCH)
        .bind(tenant.as_str())
        .bind(&watch.url)
        .bind(WATCHED.text(watch)?)
        .bind(due.as_microsecond())
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(true)
}

/// Stops watching a card; returns whether it was watched.
pub async fn unwatch_card(
    database: &Database,
    tenant: &TenantId,
    url: &str,
) -> Result<bool, StoreError> {
    let removed = query(UNWATCH)
        .bind(tenant.as_str())
        .bind(url)
        .execute(database.writer()?)
        .await?;
    Ok(removed > 0)
}

/// The watched cards of a tenant, by URL, and when each is due.
pub async fn card_watches(
    database: &Database,
    tenant: &TenantId,
) -> Result<Vec<(CardWatch, Timestamp)>, StoreError> {
    let rows: Vec<(String, i64)> = query(WATCHES)
        .bind(tenant.as_str())
        .fetch_all(database.readers())
        .await?;
    rows.iter()
        .map(|(document, due)| Ok((WATCHED.document(document)?, DUE_AT.time(*due)?)))
        .collect()
}

/// Cards that are due, of all tenants, longest overdue first.
pub async fn due_cards(
    database: &Database,
    now: Timestamp,
    most: u32,
) -> Result<Vec<DueCard>, StoreError> {
    let rows: Vec<(String, String)> = query(DUE)
        .bind(now.as_microsecond())
        .bind(i64::from(most))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter()
        .map(|(tenant, document)| {
            Ok(DueCard {
                tenant: TenantId::from(tenant),
                watch: WATCHED.document(&document)?,
            })
        })
        .collect()
}

/// Sets when a card is due next, if it is still watched, and still due at `instead_of` if that
/// is given.
pub async fn card_due(
    database: &Database,
    tenant: &TenantId,
    url: &str,
    due: Timestamp,
    instead_of: Option<Timestamp>,
) -> Result<(), StoreError> {
    query(AGAIN)
        .bind(tenant.as_str())
        .bind(url)
        .bind(due.as_microsecond())
        .bind(instead_of.map(Timestamp::as_microsecond))
        .execute(database.writer()?)
        .await?;
    Ok(())
}
