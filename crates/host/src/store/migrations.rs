//! Creates and updates the tables, feature by feature.
//!
//! A migration is one SQL text for both engines; [`PLACEHOLDERS`] are the parts that differ.
//! Pending migrations run in one transaction while other processes that start wait. Applied ones
//! are recorded in the table `schema_migration`.
//!
//! A migration that only adds lets versions from before it share the database, so that replicas
//! are upgraded one after the other (ADR 62).

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::ports::store::StoreError;
use crate::store::convert::backend;
use crate::store::sql::{Pool, Sql, Transaction, execute_script, query};
use touchstone_kit::hex::hex;

/// The tables of a feature.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    pub feature: &'static str,
    /// The first migration has version 1. Do not change a released text; append another one, which
    /// should only add (ADR 62).
    pub migrations: &'static [&'static str],
    /// Where its leases are, so that those of a killed process are released at once.
    pub leases: &'static [Leases],
    /// Where its secrets are, so that they are re-encrypted when the host's key changes.
    pub secrets: &'static [SecretTable],
    /// Work that a copy of the database must not repeat while the original does it.
    pub held: &'static [HeldWork],
}

/// Work that is held in a copy of a database, as statements for both engines.
#[derive(Clone, Copy, Debug)]
pub struct HeldWork {
    /// Plural name, such as `webhooks`.
    pub name: &'static str,
    /// Makes hosts leave the work alone.
    pub hold: &'static str,
    /// Counts what is held.
    pub count: &'static str,
    /// Lets hosts continue what is held.
    pub release: &'static str,
}

/// The leases of a table. SQLite alone uses them: on PostgreSQL, leases expire.
#[derive(Clone, Copy, Debug)]
pub struct Leases {
    /// Selects the owners of all leases.
    pub owners: &'static str,
    /// Releases the leases of the owner `$1`.
    pub release: &'static str,
}

/// A table whose rows have a number, an owner, and one or two secrets.
#[derive(Clone, Copy, Debug)]
pub struct SecretTable {
    pub name: &'static str,
    /// Columns: number, owner id, secret, previous secret, and whether both are encrypted. `$1` is
    /// the number after which to start, `$2` the limit.
    pub select: &'static str,
    /// Selects rows that are still in plaintext; `None` if the table cannot have any.
    pub select_plain: Option<&'static str>,
    /// Parameters: number, secret, previous secret, and the secret before the change.
    pub update: &'static str,
    pub owner: fn(&str) -> String,
}

/// The tables of this feature, on which those of the others depend.
pub const SCHEMA: Schema = Schema {
    feature: "host",
    migrations: &[include_str!("schema.sql")],
    leases: &[
        Leases {
            owners: "SELECT owner FROM idempotency WHERE status IS NULL",
            release: "DELETE FROM idempotency WHERE status IS NULL AND owner = $1",
        },
        Leases {
            owners: "SELECT lease_owner FROM job WHERE lease_owner IS NOT NULL",
            release: "UPDATE job SET lease_owner = NULL, lease_until = 0 WHERE lease_owner = $1",
        },
    ],
    secrets: &[],
    held: &[],
};

/// The tables of all features, those that others depend on first.
pub(super) fn all(schemas: &[Schema]) -> impl Iterator<Item = &Schema> {
    std::iter::once(&SCHEMA).chain(schemas)
}

/// Placeholders, and their texts for SQLite and for PostgreSQL.
const PLACEHOLDERS: [(&str, &str, &str); 7] = [
    (
        "{serial}",
        "INTEGER PRIMARY KEY",
        "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    ),
    // The only integer type of a primary key that is SQLite's row id.
    ("{rowid}", "INTEGER", "BIGINT"),
    ("{bytes}", "BLOB", "BYTEA"),
    // Strings are compared byte by byte, so that lists have the same order on both engines.
    ("{bytewise}", "", "COLLATE \"C\""),
    ("{without rowid}", "WITHOUT ROWID", ""),
    // Lines for one engine are comments for the other.
    ("-- sqlite: ", "", "-- sqlite: "),
    ("-- postgres: ", "-- postgres: ", ""),
];

const APPLIED: &str = "SELECT feature, version, checksum, additive FROM schema_migration";
const CREATE: &str = "CREATE TABLE IF NOT EXISTS schema_migration (
    feature    TEXT    NOT NULL,
    version    BIGINT  NOT NULL,
    checksum   TEXT    NOT NULL,
    applied_at BIGINT  NOT NULL,
    additive   BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (feature, version)
)";
const RECORD: &str =
    "INSERT INTO schema_migration (feature, version, checksum, applied_at, additive)
    VALUES ($1, $2, $3, {now}, $4)";
/// The column is younger than the table.
const RECORDS: Sql = Sql {
    sqlite: "SELECT EXISTS (SELECT 1 FROM pragma_table_info('schema_migration') WHERE name = 'additive')",
    postgres: "SELECT EXISTS (SELECT 1 FROM pg_attribute
        WHERE attrelid = to_regclass('schema_migration') AND attname = 'additive')",
};
const TABLE_EXISTS: Sql = Sql {
    sqlite: "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1)",
    postgres: "SELECT to_regclass($1) IS NOT NULL",
};
/// Until the end of the transaction. The seed keeps this lock distinct from those of tenants.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('schema_migration', 2))";

/// Why the tables of a database cannot be used.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(
        "the database was created by a build from before the first release, whose data cannot be opened: export what you need with that build, or start with a new data folder or database"
    )]
    PreRelease,
    #[error(
        "the database was changed by a newer version of Touchstone in a way that this version cannot use (migration {version} of `{feature}`): use the newer version"
    )]
    Newer { feature: String, version: i64 },
    #[error(
        "the database was created by a different build of Touchstone (its migration {version} of `{feature}` differs): use that build"
    )]
    Changed { feature: &'static str, version: i64 },
}

struct Migration {
    feature: &'static str,
    version: i64,
    sql: String,
    checksum: String,
    additive: bool,
}

/// What `schema_migration` says about an applied migration.
struct Applied {
    checksum: String,
    /// Whether versions that do not know this migration can use the database.
    additive: bool,
}

/// Applies the pending migrations: all of them, or none if one fails.
///
/// # Errors
/// [`StoreError::Backend`] if the database was created by a pre-release, newer or different build,
/// or a table already exists. Nothing is written then.
pub(super) async fn run(pool: Pool<'_>, schemas: &[Schema]) -> Result<(), StoreError> {
    // Usually nothing is pending, and a start need not wait for processes that write.
    let mut reader = begin(pool, "BEGIN").await?;
    let complete = pending(&mut reader, schemas).await?.is_empty();
    reader.rollback().await?;
    if complete {
        return Ok(());
    }

    let mut writer = begin(pool, "BEGIN IMMEDIATE").await?;
    if matches!(writer, Transaction::Postgres(_)) {
        query(LOCK).execute(&mut writer).await?;
    }
    // Another process may have applied them in the meantime.
    let migrations = pending(&mut writer, schemas).await?;
    query(CREATE).execute(&mut writer).await?;
    for migration in migrations {
        execute_script(migration.sql, &mut writer).await?;
        query(RECORD)
            .bind(migration.feature)
            .bind(migration.version)
            .bind(migration.checksum)
            .bind(migration.additive)
            .execute(&mut writer)
            .await?;
    }
    writer.commit().await
}

/// The number of migrations that [`run`] would apply.
///
/// # Errors
/// As [`run`], and if the database cannot be read.
pub(super) async fn count_pending(pool: Pool<'_>, schemas: &[Schema]) -> Result<usize, StoreError> {
    let mut reader = begin(pool, "BEGIN").await?;
    let pending = pending(&mut reader, schemas).await?.len();
    reader.rollback().await?;
    Ok(pending)
}

async fn begin(pool: Pool<'_>, on_sqlite: &'static str) -> Result<Transaction, StoreError> {
    match pool {
        Pool::Sqlite(pool) => pool.begin_with(on_sqlite).await.map(Transaction::Sqlite),
        Pool::Postgres(pool) => pool.begin().await.map(Transaction::Postgres),
    }
    .map_err(backend)
}

async fn pending(
    transaction: &mut Transaction,
    schemas: &[Schema],
) -> Result<Vec<Migration>, StoreError> {
    let postgres = matches!(transaction, Transaction::Postgres(_));
    let mut applied = applied(transaction).await?;
    let mut pending = Vec::new();
    for migration in migrations(schemas, postgres) {
        let (feature, version) = (migration.feature, migration.version);
        match applied.remove(&(feature.to_owned(), version)) {
            None => pending.push(migration),
            Some(known) if known.checksum == migration.checksum => {}
            Some(_) => return Err(backend(Refusal::Changed { feature, version })),
        }
    }
    applied.retain(|_, unknown| !unknown.additive);
    match applied.pop_last() {
        Some(((feature, version), _)) => Err(backend(Refusal::Newer { feature, version })),
        None => Ok(pending),
    }
}

/// Applied migrations by feature and version.
async fn applied(
    transaction: &mut Transaction,
) -> Result<BTreeMap<(String, i64), Applied>, StoreError> {
    if !query(RECORDS).fetch_one(&mut *transaction).await? {
        for earlier in ["_sqlx_migrations", "schema_migration"] {
            if has_table(transaction, earlier).await? {
                return Err(backend(Refusal::PreRelease));
            }
        }
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(String, i64, String, bool)> = query(APPLIED).fetch_all(transaction).await?;
    let by_version = |(feature, version, checksum, additive)| {
        ((feature, version), Applied { checksum, additive })
    };
    Ok(rows.into_iter().map(by_version).collect())
}

async fn has_table(transaction: &mut Transaction, name: &str) -> Result<bool, StoreError> {
    query(TABLE_EXISTS).bind(name).fetch_one(transaction).await
}

fn migrations(schemas: &[Schema], postgres: bool) -> impl Iterator<Item = Migration> {
    all(schemas).flat_map(move |schema| {
        (1..).zip(schema.migrations).map(move |(version, text)| {
            let sql = rendered(text, postgres);
            Migration {
                feature: schema.feature,
                version,
                checksum: hex(&Sha256::digest(&sql)),
                // Versions that do not know a feature do not use its tables.
                additive: version == 1 || only_adds(&sql),
                sql,
            }
        })
    })
}

fn rendered(text: &str, postgres: bool) -> String {
    let mut sql = text.to_owned();
    for (placeholder, on_sqlite, on_postgres) in PLACEHOLDERS {
        sql = sql.replace(placeholder, if postgres { on_postgres } else { on_sqlite });
    }
    sql
}

/// Whether versions that do not know a migration can use the tables after it: it adds only tables,
/// indexes that refuse nothing, and columns that may be left out.
fn only_adds(sql: &str) -> bool {
    let without_comments: Vec<&str> = sql
        .lines()
        .map(|line| {
            line.split_once("--")
                .map_or(line, |(statement, _)| statement)
        })
        .collect();
    without_comments
        .join(" ")
        .split(';')
        .map(|statement| {
            let words: Vec<&str> = statement.split_whitespace().collect();
            words.join(" ").to_ascii_uppercase()
        })
        .filter(|statement| !statement.is_empty())
        .all(|statement| {
            let adds_column = statement.starts_with("ALTER TABLE ")
                && statement.contains(" ADD COLUMN ")
                && (!statement.contains(" NOT NULL") || statement.contains(" DEFAULT "));
            statement.starts_with("CREATE TABLE ")
                || statement.starts_with("CREATE INDEX ")
                || adds_column
        })
}

#[cfg(test)]
mod tests {
    use super::only_adds;

    #[test]
    fn what_older_versions_can_ignore_is_additive() {
        for sql in [
            "CREATE TABLE note (id TEXT PRIMARY KEY);",
            "-- DROP TABLE run;\ncreate index run_note\n    ON run (note);",
            "ALTER TABLE run ADD COLUMN note TEXT;\nALTER TABLE run ADD COLUMN rank BIGINT NOT NULL DEFAULT 0",
        ] {
            assert!(only_adds(sql), "{sql}");
        }
    }

    #[test]
    fn what_older_versions_would_stumble_over_is_not() {
        for sql in [
            "CREATE TABLE note (id TEXT PRIMARY KEY); DROP TABLE run;",
            "CREATE UNIQUE INDEX run_note ON run (note);",
            "ALTER TABLE run DROP COLUMN note;",
            "ALTER TABLE run RENAME COLUMN note TO remark;",
            "ALTER TABLE run ADD COLUMN note TEXT NOT NULL;",
            "UPDATE run SET note = '';",
            "CREATE TRIGGER a AFTER INSERT ON run BEGIN SELECT 1; END;",
        ] {
            assert!(!only_adds(sql), "{sql}");
        }
    }
}
