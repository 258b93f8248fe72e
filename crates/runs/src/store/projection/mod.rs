//! The stored states of runs. They can be deleted at any time.

pub mod results;

use futures_util::TryStreamExt as _;

use crate::ports::storage::ContentKept;
use crate::rules::run::fold::RunState;
use crate::rules::run::fold::stored::{Encoded, FORMAT, MOST_BYTES, Reader, Unusable};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::RunId;

/// One statement, so that all parts are of the same state. A part that is too large is not read.
const LOAD: &str = "SELECT r.content, r.head, p.format, p.sequence, q.part, q.octets
    FROM run r
        LEFT JOIN run_projection p ON p.run_number = r.number AND p.content = r.content
        LEFT JOIN run_projection_part q ON q.run_number = p.run_number AND OCTET_LENGTH(q.octets) <= $2
    WHERE r.run_id = $1 AND r.deleted_at IS NULL AND r.masked_to IS NULL
    ORDER BY q.part";
/// Locks the row first, as a deletion does, so that no state is stored after the run is deleted or
/// masked.
const LOCK: &str = "UPDATE run SET tenant = tenant
    WHERE run_id = $1 AND content = $2 AND head >= $3 AND deleted_at IS NULL AND masked_to IS NULL
    RETURNING number";
const REPLACE: &str = "INSERT INTO run_projection (run_number, format, sequence, content)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (run_number) DO UPDATE
        SET format = excluded.format, sequence = excluded.sequence, content = excluded.content
        WHERE run_projection.format < excluded.format
            OR (run_projection.format = excluded.format AND run_projection.sequence <= excluded.sequence)
            OR run_projection.content <> excluded.content";
const CLEAR: &str = "DELETE FROM run_projection_part WHERE run_number = $1";
const ADVANCE: &str = "UPDATE run_projection SET sequence = $4
    WHERE run_number = $1 AND format = $2 AND sequence = $3";
const PUT: &str = "INSERT INTO run_projection_part (run_number, part, octets) VALUES ($1, $2, $3)
    ON CONFLICT (run_number, part) DO UPDATE SET octets = excluded.octets";
const DISCARD: &str = "DELETE FROM run_projection
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND format = $2 AND sequence = $3";
const NEWEST: &str = "SELECT r.run_id FROM run_projection p JOIN run r ON r.number = p.run_number
    WHERE p.format = $1 AND p.sequence <= $2 ORDER BY p.run_number DESC LIMIT $3";
pub(super) const FORGET: &str = "DELETE FROM run_projection WHERE run_number = $1";
const FORGET_RUN: &str = "DELETE FROM run_projection
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1)";
/// An earlier version that deletes or masks a run does not know this table.
const FORGET_OUTDATED: &str = "DELETE FROM run_projection WHERE run_number IN (
    SELECT p.run_number FROM run_projection p JOIN run r ON r.number = p.run_number
    WHERE r.deleted_at IS NOT NULL OR r.content <> p.content)";

/// What is stored for a run that was not deleted.
#[derive(Debug)]
pub struct Stored {
    /// The task content that the log keeps; its state may be stored with it.
    pub content: ContentKept,
    /// The state, or why it cannot be used; `None` if none is stored.
    pub state: Option<Result<RunState, Refused>>,
}

/// A stored state that cannot be used.
#[derive(Debug)]
pub struct Refused {
    pub reason: Unusable,
    /// Where it ends, as the table says.
    pub sequence: i64,
}

type Row = (
    String,
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<Vec<u8>>,
);

/// The stored state of a run; `None` for a run that is unknown, deleted or being masked.
pub async fn load(database: &Database, run: &RunId) -> Result<Option<Stored>, StoreError> {
    let mut rows = query(LOAD)
        .bind(run.as_str())
        .bind(i64::try_from(MOST_BYTES).unwrap_or(i64::MAX))
        .fetch::<Row>(database.readers())?;
    let Some(first) = rows.try_next().await? else {
        return Ok(None);
    };
    let (content, head, format, sequence, part, octets) = first;
    let content =
        ContentKept::parse(&content).ok_or_else(|| column("run", "content").inconsistent())?;
    let (Some(format), Some(sequence)) = (format, sequence) else {
        return Ok(Some(Stored {
            content,
            state: None,
        }));
    };
    let stored = |state: Result<RunState, Unusable>| {
        let state = state.map_err(|reason| Refused { reason, sequence });
        Ok(Some(Stored {
            content,
            state: Some(state),
        }))
    };
    let reader = match (u64::try_from(sequence), part, octets) {
        (Ok(at), Some(0), Some(octets)) if sequence <= head => {
            Reader::new(run, format, at, &octets)
        }
        _ if format != i64::from(FORMAT) => Err(Unusable::Format(format)),
        _ => Err(Unusable::Damaged("head")),
    };
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(reason) => return stored(Err(reason)),
    };
    while let Some((_, _, _, _, part, octets)) = rows.try_next().await? {
        let number = part.unwrap_or_default().saturating_sub(1);
        if let Err(reason) = reader.add(number, &octets.unwrap_or_default()) {
            return stored(Err(reason));
        }
    }
    stored(reader.finish())
}

/// Stores a state whose events are durable, unless a later one is stored, or the run was deleted or
/// keeps other content. `after` is the sequence of the state that has the other chunks; without it,
/// all chunks are given. Returns whether it is stored.
pub async fn store(
    database: &Database,
    run: &RunId,
    content: ContentKept,
    encoded: &Encoded,
    after: Option<u64>,
) -> Result<bool, StoreError> {
    let sequence: i64 = column("run_projection", "sequence").number(encoded.sequence)?;
    let mut transaction = database.begin_write().await?;
    let number: Option<i64> = query(LOCK)
        .bind(run.as_str())
        .bind(content.as_str())
        .bind(sequence)
        .fetch_optional(&mut transaction)
        .await?;
    let is_newer = match number {
        Some(number) => begin(&mut transaction, number, content, sequence, after).await?,
        None => false,
    };
    let Some(number) = number.filter(|_| is_newer) else {
        transaction.rollback().await?;
        return Ok(false);
    };
    put(&mut transaction, number, 0, &encoded.head).await?;
    for (chunk, octets) in &encoded.chunks {
        put(&mut transaction, number, i64::from(*chunk) + 1, octets).await?;
    }
    transaction.commit().await?;
    Ok(true)
}

/// Sets the sequence of the state; `false` if the state is not to be replaced.
async fn begin(
    transaction: &mut Transaction,
    number: i64,
    content: ContentKept,
    sequence: i64,
    after: Option<u64>,
) -> Result<bool, StoreError> {
    let Some(after) = after else {
        let replaced = query(REPLACE)
            .bind(number)
            .bind(i64::from(FORMAT))
            .bind(sequence)
            .bind(content.as_str())
            .execute(&mut *transaction)
            .await?;
        query(CLEAR).bind(number).execute(transaction).await?;
        return Ok(replaced > 0);
    };
    let advanced = query(ADVANCE)
        .bind(number)
        .bind(i64::from(FORMAT))
        .bind(column("run_projection", "sequence").number::<_, i64>(after)?)
        .bind(sequence)
        .execute(transaction)
        .await?;
    Ok(advanced > 0)
}

async fn put(
    transaction: &mut Transaction,
    number: i64,
    part: i64,
    octets: &[u8],
) -> Result<(), StoreError> {
    query(PUT)
        .bind(number)
        .bind(part)
        .bind(octets)
        .execute(transaction)
        .await?;
    Ok(())
}

/// Up to `limit` runs with a stored state of at most `events` events, newest first.
pub async fn newest(
    database: &Database,
    events: u32,
    limit: u32,
) -> Result<Vec<RunId>, StoreError> {
    let runs: Vec<String> = query(NEWEST)
        .bind(i64::from(FORMAT))
        .bind(i64::from(events))
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    Ok(runs.into_iter().map(RunId::from).collect())
}

/// Deletes a stored state that cannot be used. One that another process has stored since is kept.
pub async fn discard(
    database: &Database,
    run: &RunId,
    refused: &Refused,
) -> Result<(), StoreError> {
    query(DISCARD)
        .bind(run.as_str())
        .bind(i64::from(FORMAT))
        .bind(refused.sequence)
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// Deletes the stored state of a run whose content is to be deleted.
pub(super) async fn forget(transaction: &mut Transaction, run: &RunId) -> Result<(), StoreError> {
    query(FORGET_RUN)
        .bind(run.as_str())
        .execute(transaction)
        .await?;
    Ok(())
}

/// Deletes the stored states of runs whose content was deleted by an earlier version.
pub async fn forget_outdated(database: &Database) -> Result<(), StoreError> {
    query(FORGET_OUTDATED).execute(database.writer()?).await?;
    Ok(())
}
