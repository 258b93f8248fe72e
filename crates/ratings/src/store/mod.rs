//! Organizations and their ratings (AAAF).

pub mod agents;
pub mod appeals;
pub mod assessments;
pub mod badges;
pub mod events;
pub mod notices;
pub mod organizations;
pub mod own_tasks;
pub mod profiles;
pub mod stress_tests;
pub mod upkeep;

use crate::ports::Position;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::migrations::{HeldWork, Leases, Schema, SecretTable};
use touchstone_host::store::sql::{FromRow, Query};
use touchstone_kit::sealing::owner;

pub const SCHEMA: Schema = Schema {
    feature: "ratings",
    migrations: &[include_str!("schema.sql")],
    leases: &[
        Leases {
            owners: "SELECT lease_owner FROM rating_assessment
                WHERE stage IN ('pending', 'in_progress') AND lease_owner IS NOT NULL",
            release: "UPDATE rating_assessment SET lease_owner = NULL, lease_until = 0
                WHERE stage IN ('pending', 'in_progress') AND lease_owner = $1",
        },
        Leases {
            owners: "SELECT lease_owner FROM rating_webhook WHERE lease_owner IS NOT NULL",
            release: "UPDATE rating_webhook SET lease_owner = NULL, lease_until = 0
                WHERE lease_owner = $1",
        },
    ],
    secrets: &[
        SecretTable {
            name: "rating_webhook",
            select: "SELECT number, id, secret, previous_secret, 1 = 1 FROM rating_webhook
                WHERE number > $1 ORDER BY number LIMIT $2",
            select_plain: None,
            update: "UPDATE rating_webhook SET secret = $2, previous_secret = $3
                WHERE number = $1 AND secret = $4",
            owner: owner::notice_webhook,
        },
        SecretTable {
            name: "rating_issuer_key",
            select: "SELECT k.number, o.id, k.sealed, CAST(NULL AS TEXT), 1 = 1
                FROM rating_issuer_key k JOIN rating_organization o ON o.number = k.organization
                WHERE k.number > $1 ORDER BY k.number LIMIT $2",
            select_plain: None,
            update: "UPDATE rating_issuer_key SET sealed = $2
                WHERE number = $1 AND CAST($3 AS TEXT) IS NULL AND sealed = $4",
            owner: owner::issuer,
        },
    ],
    // No clock reaches this end of a lease.
    held: &[HeldWork {
        name: "rating webhooks",
        hold: "UPDATE rating_webhook SET fence = fence + 1, lease_owner = NULL,
                lease_until = 9223372036854775807",
        count: "SELECT COUNT(*) FROM rating_webhook
            WHERE lease_owner IS NULL AND lease_until = 9223372036854775807",
        release: "UPDATE rating_webhook SET lease_until = 0
            WHERE lease_owner IS NULL AND lease_until = 9223372036854775807",
    }],
};

/// Time and id after which a page starts; before all rows without a position.
fn page_start(after: Option<&Position>) -> (i64, &str) {
    after.map_or((i64::MIN, ""), |it| {
        (it.created_at.as_microsecond(), it.id.as_str())
    })
}

/// Loads the records after a position. The query lacks its last three parameters: the time and id
/// of the position, and the limit.
async fn fetch_page<'q, R: FromRow, T>(
    database: &Database,
    query: Query<'q>,
    after: Option<&'q Position>,
    limit: u32,
    record_of: impl Fn(R) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let (created_at, id) = page_start(after);
    let query = query.bind(created_at).bind(id).bind(limit);
    fetch_records(database, query, record_of).await
}

async fn fetch_records<R: FromRow, T>(
    database: &Database,
    query: Query<'_>,
    record_of: impl Fn(R) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let rows = query.fetch_all(database.readers()).await?;
    rows.into_iter().map(record_of).collect()
}

async fn fetch_record<R: FromRow, T>(
    database: &Database,
    query: Query<'_>,
    record_of: impl Fn(R) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let row = query.fetch_optional(database.readers()).await?;
    row.map(record_of).transpose()
}

/// Turns a violated unique constraint into [`StoreError::Exists`].
fn map_unique_violation(cause: StoreError, what: &'static str) -> StoreError {
    let refusal = match &cause {
        StoreError::Backend(cause) => cause.downcast_ref::<sqlx::Error>(),
        _ => None,
    };
    let refusal = refusal.and_then(sqlx::Error::as_database_error);
    match refusal.is_some_and(|refusal| refusal.is_unique_violation()) {
        true => StoreError::Exists(what),
        false => cause,
    }
}
