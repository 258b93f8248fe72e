//! Runs a statement on either engine: the statement, its parameters, and rows as tuples.
//!
//! Both engines use numbered parameters (`$1`). Three placeholders cover syntax that differs:
//!
//! - `{now}`: the database's clock in microseconds UTC, constant within a statement;
//! - `{each $2}`: a query of the strings in a JSON array;
//! - `{skip locked}`: skips rows that another transaction is claiming.
//!
//! A statement that differs in other ways is an [`Sql`] with two texts.

use std::borrow::Cow;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, Executor as _, PgConnection, PgPool, Postgres, Row as _, Sqlite,
    SqliteConnection, SqlitePool,
};

use crate::ports::store::StoreError;
use crate::store::convert::backend;

/// The text of a statement for each engine.
#[derive(Clone, Copy)]
pub struct Sql {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self {
            sqlite: text,
            postgres: text,
        }
    }
}

/// A parameter. `None` keeps its type, which PostgreSQL requires.
pub enum Value<'q> {
    Integer(Option<i64>),
    Real(Option<f64>),
    Boolean(Option<bool>),
    Text(Option<Cow<'q, str>>),
    Bytes(Option<Cow<'q, [u8]>>),
}

macro_rules! value {
    ($($type:ty => $variant:ident($convert:expr);)*) => {$(
        impl<'q> From<$type> for Value<'q> {
            fn from(value: $type) -> Self {
                let convert: fn($type) -> _ = $convert;
                Self::$variant(Some(convert(value)))
            }
        }
        impl<'q> From<Option<$type>> for Value<'q> {
            fn from(value: Option<$type>) -> Self {
                let convert: fn($type) -> _ = $convert;
                Self::$variant(value.map(convert))
            }
        }
    )*};
}

value! {
    i64 => Integer(|it| it);
    i32 => Integer(i64::from);
    u32 => Integer(i64::from);
    f64 => Real(|it| it);
    bool => Boolean(|it| it);
    &'q str => Text(Cow::Borrowed);
    &'q String => Text(|it| Cow::Borrowed(it.as_str()));
    String => Text(Cow::Owned);
    Cow<'q, str> => Text(|it| it);
    &'q [u8] => Bytes(Cow::Borrowed);
    &'q Vec<u8> => Bytes(|it| Cow::Borrowed(it.as_slice()));
    Vec<u8> => Bytes(Cow::Owned);
}

/// Where a statement runs: on a pool or within a transaction.
pub enum Target<'c> {
    SqlitePool(&'c SqlitePool),
    PostgresPool(&'c PgPool),
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

#[derive(Clone, Copy)]
pub enum Pool<'c> {
    Sqlite(&'c SqlitePool),
    Postgres(&'c PgPool),
}

/// A transaction. Rolls back unless it is committed.
pub enum Transaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

impl Transaction {
    pub async fn commit(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await,
            Self::Postgres(transaction) => transaction.commit().await,
        }
        .map_err(backend)
    }

    pub async fn rollback(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(transaction) => transaction.rollback().await,
            Self::Postgres(transaction) => transaction.rollback().await,
        }
        .map_err(backend)
    }
}

impl<'c> From<Pool<'c>> for Target<'c> {
    fn from(pool: Pool<'c>) -> Self {
        match pool {
            Pool::Sqlite(pool) => Self::SqlitePool(pool),
            Pool::Postgres(pool) => Self::PostgresPool(pool),
        }
    }
}

impl<'c> From<&'c mut Transaction> for Target<'c> {
    fn from(transaction: &'c mut Transaction) -> Self {
        match transaction {
            Transaction::Sqlite(transaction) => Self::Sqlite(transaction),
            Transaction::Postgres(transaction) => Self::Postgres(transaction),
        }
    }
}

pub struct Query<'q> {
    sql: Sql,
    values: Vec<Value<'q>>,
}

pub fn query<'q>(sql: impl Into<Sql>) -> Query<'q> {
    Query {
        sql: sql.into(),
        values: Vec::new(),
    }
}

/// Runs statements without parameters, separated by semicolons.
pub async fn execute_script(
    script: String,
    transaction: &mut Transaction,
) -> Result<(), StoreError> {
    let script = AssertSqlSafe(script);
    match transaction {
        Transaction::Sqlite(it) => it.execute(script).await.map(drop),
        Transaction::Postgres(it) => it.execute(script).await.map(drop),
    }
    .map_err(backend)
}

/// The replacements for the placeholders.
struct Dialect {
    now: &'static str,
    skip_locked: &'static str,
    each: [&'static str; 2],
}

const SQLITE: Dialect = Dialect {
    now: "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)",
    // SQLite allows only one writer anyway.
    skip_locked: "",
    each: ["SELECT value FROM json_each(", ")"],
};
const POSTGRES: Dialect = Dialect {
    now: "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT)",
    skip_locked: "FOR UPDATE SKIP LOCKED",
    each: ["SELECT jsonb_array_elements_text(", "::text::jsonb)"],
};

type SqliteQuery<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;
type PostgresQuery<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

impl Dialect {
    /// The statement with placeholders replaced. The same constant always gives the same text, so
    /// it is prepared once.
    fn text(&self, sql: &'static str) -> AssertSqlSafe<Cow<'static, str>> {
        AssertSqlSafe(match sql.contains('{') {
            true => Cow::Owned(
                sql.replace("{now}", self.now)
                    .replace("{skip locked}", self.skip_locked)
                    .replace("{each ", self.each[0])
                    .replace('}', self.each[1]),
            ),
            false => Cow::Borrowed(sql),
        })
    }
}

macro_rules! bound {
    ($arguments:ident, $values:expr) => {{
        let mut arguments = $arguments::default();
        for value in $values {
            match value {
                Value::Integer(value) => arguments.add(value),
                Value::Real(value) => arguments.add(value),
                Value::Boolean(value) => arguments.add(value),
                Value::Text(value) => arguments.add(value.as_deref()),
                Value::Bytes(value) => arguments.add(value.as_deref()),
            }
            .map_err(|cause| backend(sqlx::Error::Encode(cause)))?;
        }
        arguments
    }};
}

impl<'q> Query<'q> {
    pub fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.values.push(value.into());
        self
    }

    fn sqlite(self) -> Result<SqliteQuery<'static>, StoreError> {
        let arguments = bound!(SqliteArguments, self.values);
        Ok(sqlx::query_with(SQLITE.text(self.sql.sqlite), arguments))
    }

    fn postgres(self) -> Result<PostgresQuery<'static>, StoreError> {
        let arguments = bound!(PgArguments, self.values);
        Ok(sqlx::query_with(
            POSTGRES.text(self.sql.postgres),
            arguments,
        ))
    }

    /// Runs the statement; returns the number of affected rows.
    pub async fn execute(self, on: impl Into<Target<'_>>) -> Result<u64, StoreError> {
        match on.into() {
            Target::SqlitePool(pool) => pool
                .execute(self.sqlite()?)
                .await
                .map(|it| it.rows_affected()),
            Target::Sqlite(it) => it
                .execute(self.sqlite()?)
                .await
                .map(|it| it.rows_affected()),
            Target::PostgresPool(pool) => pool
                .execute(self.postgres()?)
                .await
                .map(|it| it.rows_affected()),
            Target::Postgres(it) => it
                .execute(self.postgres()?)
                .await
                .map(|it| it.rows_affected()),
        }
        .map_err(backend)
    }

    pub async fn fetch_all<R: FromRow>(
        self,
        on: impl Into<Target<'_>>,
    ) -> Result<Vec<R>, StoreError> {
        let sqlite = |rows: Vec<SqliteRow>| {
            rows.iter()
                .map(|row| R::from_row(&Row::Sqlite(row)))
                .collect()
        };
        let postgres = |rows: Vec<PgRow>| {
            rows.iter()
                .map(|row| R::from_row(&Row::Postgres(row)))
                .collect()
        };
        match on.into() {
            Target::SqlitePool(pool) => pool.fetch_all(self.sqlite()?).await.and_then(sqlite),
            Target::Sqlite(it) => it.fetch_all(self.sqlite()?).await.and_then(sqlite),
            Target::PostgresPool(pool) => pool.fetch_all(self.postgres()?).await.and_then(postgres),
            Target::Postgres(it) => it.fetch_all(self.postgres()?).await.and_then(postgres),
        }
        .map_err(backend)
    }

    pub async fn fetch_optional<R: FromRow>(
        self,
        on: impl Into<Target<'_>>,
    ) -> Result<Option<R>, StoreError> {
        let sqlite =
            |row: Option<SqliteRow>| row.map(|row| R::from_row(&Row::Sqlite(&row))).transpose();
        let postgres =
            |row: Option<PgRow>| row.map(|row| R::from_row(&Row::Postgres(&row))).transpose();
        match on.into() {
            Target::SqlitePool(pool) => pool.fetch_optional(self.sqlite()?).await.and_then(sqlite),
            Target::Sqlite(it) => it.fetch_optional(self.sqlite()?).await.and_then(sqlite),
            Target::PostgresPool(pool) => pool
                .fetch_optional(self.postgres()?)
                .await
                .and_then(postgres),
            Target::Postgres(it) => it.fetch_optional(self.postgres()?).await.and_then(postgres),
        }
        .map_err(backend)
    }

    /// The first row.
    ///
    /// # Errors
    /// [`StoreError::Backend`] if the result is empty.
    pub async fn fetch_one<R: FromRow>(self, on: impl Into<Target<'_>>) -> Result<R, StoreError> {
        self.fetch_optional(on)
            .await?
            .ok_or_else(|| backend(sqlx::Error::RowNotFound))
    }

    /// Streams the rows.
    pub fn fetch<'c, R: FromRow + Send + 'static>(
        self,
        on: Pool<'c>,
    ) -> Result<BoxStream<'c, Result<R, StoreError>>, StoreError> {
        Ok(match on {
            Pool::Sqlite(pool) => pool
                .fetch(self.sqlite()?)
                .and_then(async |row| R::from_row(&Row::Sqlite(&row)))
                .map_err(backend)
                .boxed(),
            Pool::Postgres(pool) => pool
                .fetch(self.postgres()?)
                .and_then(async |row| R::from_row(&Row::Postgres(&row)))
                .map_err(backend)
                .boxed(),
        })
    }
}

pub enum Row<'r> {
    Sqlite(&'r SqliteRow),
    Postgres(&'r PgRow),
}

pub trait FromColumn: Sized {
    fn from_column(row: &Row<'_>, index: usize) -> Result<Self, sqlx::Error>;
}

/// A tuple of columns, or a single column.
pub trait FromRow: Sized {
    fn from_row(row: &Row<'_>) -> Result<Self, sqlx::Error>;
}

macro_rules! column {
    ($($type:ty),*) => {$(
        impl FromColumn for $type {
            fn from_column(row: &Row<'_>, index: usize) -> Result<Self, sqlx::Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(index),
                    Row::Postgres(row) => row.try_get(index),
                }
            }
        }
        impl FromRow for $type {
            fn from_row(row: &Row<'_>) -> Result<Self, sqlx::Error> {
                Self::from_column(row, 0)
            }
        }
    )*};
}

column!(i64, f64, bool, String, Vec<u8>);
column!(
    Option<i64>,
    Option<f64>,
    Option<bool>,
    Option<String>,
    Option<Vec<u8>>
);

macro_rules! tuple {
    ($($column:ident $index:tt),*) => {
        impl<$($column: FromColumn),*> FromRow for ($($column,)*) {
            fn from_row(row: &Row<'_>) -> Result<Self, sqlx::Error> {
                Ok(($($column::from_column(row, $index)?,)*))
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);
