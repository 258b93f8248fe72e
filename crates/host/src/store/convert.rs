//! Conversions between domain types and columns: times as microseconds UTC, numbers as BIGINT,
//! documents as JSON text.

use std::error::Error;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::error::DatabaseError as _;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

use crate::ports::run_log::{Head, StoredEvent};
use crate::ports::store::{Outage, StoreError, Unstorable};

/// A database error. Its message contains names of tables and constraints, never values.
pub fn backend(cause: impl Error + Send + Sync + 'static) -> StoreError {
    let cause: Box<dyn Error + Send + Sync> = Box::new(cause);
    if cause.downcast_ref().is_some_and(will_pass) {
        StoreError::Unavailable(Outage(cause))
    } else if cause.downcast_ref().is_some_and(is_unstorable) {
        StoreError::Backend(Box::new(Unstorable))
    } else {
        StoreError::Backend(cause)
    }
}

/// Whether the error is about a string that PostgreSQL cannot store: one that contains U+0000.
fn is_unstorable(cause: &sqlx::Error) -> bool {
    const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
    let refusal = match cause {
        sqlx::Error::Database(refusal) => refusal.try_downcast_ref::<PgDatabaseError>(),
        _ => None,
    };
    refusal.is_some_and(|refusal| refusal.code() == CHARACTER_NOT_IN_REPERTOIRE)
}

/// Whether the error is temporary, so that the same statement may succeed later.
fn will_pass(cause: &sqlx::Error) -> bool {
    match cause {
        // A proxy whose server restarts responds with various protocol errors.
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(refusal) => {
            if let Some(refusal) = refusal.try_downcast_ref::<PgDatabaseError>() {
                passes_on_postgres(refusal.code())
            } else {
                let refusal = refusal.try_downcast_ref::<SqliteError>();
                refusal.is_some_and(|refusal| passes_on_sqlite(refusal.code().as_deref()))
            }
        }
        _ => false,
    }
}

fn passes_on_postgres(code: &str) -> bool {
    /// Reported after a failover turned the server into a standby, and while the operator protects
    /// a nearly full disk.
    const READ_ONLY_SQL_TRANSACTION: &str = "25006";
    // Connection exceptions, conflicting transactions, insufficient resources (including a full
    // disk), server shutdown and startup, and disk errors.
    let classes = ["08", "40", "53", "57P", "58"];
    code == READ_ONLY_SQL_TRANSACTION || classes.iter().any(|class| code.starts_with(class))
}

fn passes_on_sqlite(code: Option<&str>) -> bool {
    const BUSY: u32 = 5;
    const LOCKED: u32 = 6;
    const NO_MEMORY: u32 = 7;
    const READ_ONLY: u32 = 8;
    const IO_ERROR: u32 = 10;
    const FULL: u32 = 13;
    const CANNOT_OPEN: u32 = 14;
    const LOCK_PROTOCOL: u32 = 15;

    let code = code.and_then(|code| code.parse::<u32>().ok());
    // The low byte is the error code, the other bytes the extended code.
    matches!(
        code.map(|code| code & 0xff),
        Some(BUSY | LOCKED | NO_MEMORY | READ_ONLY | IO_ERROR | FULL | CANNOT_OPEN | LOCK_PROTOCOL)
    )
}

/// A column, for errors.
#[derive(Clone, Copy)]
pub struct Column {
    table: &'static str,
    column: &'static str,
}

pub const fn column(table: &'static str, column: &'static str) -> Column {
    Column { table, column }
}

impl Column {
    /// The error for a value that this program cannot have written.
    pub fn inconsistent(self) -> StoreError {
        StoreError::Inconsistent {
            table: self.table,
            column: self.column,
        }
    }

    pub fn number<F, T: TryFrom<F>>(self, value: F) -> Result<T, StoreError> {
        T::try_from(value).map_err(|_| self.inconsistent())
    }

    pub fn time(self, micros: i64) -> Result<Timestamp, StoreError> {
        Timestamp::from_microsecond(micros).map_err(|_| self.inconsistent())
    }

    pub fn document<T: DeserializeOwned>(self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|_| self.inconsistent())
    }

    pub fn text<T: Serialize>(self, document: &T) -> Result<String, StoreError> {
        serde_json::to_string(document).map_err(|_| self.inconsistent())
    }
}

/// A duration in microseconds. A duration that does not fit becomes a practically infinite one.
pub fn micros(span: Duration) -> i64 {
    // Half the range, so that adding it to a real time cannot overflow.
    i64::try_from(span.as_micros())
        .unwrap_or(i64::MAX)
        .min(i64::MAX / 2)
}

/// `lease_until` of a run that no worker may claim: no clock reaches this value.
pub const NEVER: i64 = i64::MAX;

/// Reads the columns `head` and `ended`.
pub fn head_of((sequence, ended): (i64, bool)) -> Result<Head, StoreError> {
    let sequence = column("run", "head").number(sequence)?;
    Ok(Head { sequence, ended })
}

/// A validated batch: consecutive events whose bodies are UTF-8.
pub struct Batch<'a> {
    /// The head that the log must have before the append.
    pub before: i64,
    /// The head of the log after the append.
    pub head: i64,
    /// Total size of the bodies in bytes.
    pub(super) bytes: i64,
    /// Kind and body of each event.
    pub rows: Vec<(&'a str, &'a str)>,
}

impl<'a> Batch<'a> {
    /// `None` if there are no events.
    pub fn check(events: &'a [StoredEvent]) -> Result<Option<Self>, StoreError> {
        const SEQUENCE: Column = column("event", "sequence");
        const BODY: Column = column("event", "body");

        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Ok(None);
        };
        let consecutive = (first.sequence..).zip(events).all(|(n, e)| n == e.sequence);
        if first.sequence == 0 || !consecutive {
            return Err(SEQUENCE.inconsistent());
        }
        let rows = events.iter().map(|event| {
            let body = std::str::from_utf8(&event.body).map_err(|_| BODY.inconsistent())?;
            Ok((&*event.kind, body))
        });
        Ok(Some(Self {
            before: SEQUENCE.number(first.sequence - 1)?,
            head: SEQUENCE.number(last.sequence)?,
            bytes: BODY.number(events.iter().map(|event| event.body.len()).sum::<usize>())?,
            rows: rows.collect::<Result<_, StoreError>>()?,
        }))
    }
}
