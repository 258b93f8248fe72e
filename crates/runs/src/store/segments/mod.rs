//! Compressed parts of logs. Segments cover a log from its first event; its other events are rows.

mod codec;

use jiff::Timestamp;

use self::codec::{Damaged, MAX_BYTES, MAX_EVENTS};
use crate::store::event_row::event_of;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::RunId;
use tracing::error;

/// The type of the events of a damaged segment.
pub(super) const UNREADABLE: &str = "unreadable";
/// Most segments that are read at once.
const SEGMENTS: u32 = 4;

const COMPRESSIBLE: &str = "SELECT r.number FROM run r
    WHERE r.ended AND r.masked_to IS NULL AND r.created_at < $1 AND r.number > $2
        AND EXISTS (SELECT 1 FROM event e WHERE e.run_number = r.number)
        AND NOT EXISTS (SELECT 1 FROM webhook_run f WHERE f.run_number = r.number)
        AND NOT EXISTS (SELECT 1 FROM webhook_retry t WHERE t.run_number = r.number)
    ORDER BY r.number LIMIT $3";
/// Locks the row, as masking and a deletion do. Webhooks read rows only.
const LOCK: &str = "UPDATE run SET tenant = tenant
    WHERE number = $1 AND ended AND masked_to IS NULL
        AND NOT EXISTS (SELECT 1 FROM webhook_run f WHERE f.run_number = run.number)
        AND NOT EXISTS (SELECT 1 FROM webhook_retry t WHERE t.run_number = run.number)
    RETURNING number";
const SEALED_TO: &str =
    "SELECT COALESCE(MAX(last_sequence), 0) FROM log_segment WHERE run_number = $1";
const NEXT: &str = "SELECT sequence, kind, body FROM event
    WHERE run_number = $1 AND sequence <= COALESCE((
        SELECT MIN(sequence) FROM (
            SELECT sequence, SUM(OCTET_LENGTH(body)) OVER (ORDER BY sequence) AS total FROM event
            WHERE run_number = $1 ORDER BY sequence LIMIT $2) AS sized
        WHERE total >= $3), 9223372036854775807)
    ORDER BY sequence LIMIT $2";
const ADD: &str = "INSERT INTO log_segment (run_number, first_sequence, last_sequence, octets) VALUES ($1, $2, $3, $4)";
const REMOVE_ROWS: &str = "DELETE FROM event WHERE run_number = $1 AND sequence <= $2";
const RESIZE: &str = "UPDATE run SET bytes = bytes + $2 WHERE number = $1";
const BETWEEN: &str = "SELECT first_sequence, last_sequence, octets FROM log_segment
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND last_sequence >= $2 AND first_sequence <= $3
    ORDER BY last_sequence LIMIT $4";
const REPLACE: &str = "UPDATE log_segment SET octets = $3
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND last_sequence = $2";
pub(super) const FORGET: &str = "DELETE FROM log_segment WHERE run_number = $1";

/// Adds the segments after `$2` of the run `$1` to a query of its events after `$2`, in one statement:
/// a log is compressed either before or after it. With segments, the events are ignored.
macro_rules! with_segments {
    ($events:literal) => {
        concat!(
            "SELECT first_sequence, last_sequence, NULL, NULL, octets FROM (
                SELECT first_sequence, last_sequence, octets FROM log_segment
                WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND last_sequence > $2
                ORDER BY last_sequence LIMIT 4) AS segments
            UNION ALL
            SELECT sequence, sequence, kind, body, NULL FROM (",
            $events,
            ") AS events"
        )
    };
}
pub(super) use with_segments;

/// A row of [`with_segments`].
pub(super) type Row = (i64, i64, Option<String>, Option<String>, Option<Vec<u8>>);

/// What one statement found of a log.
pub(super) enum Found {
    /// The next events are in segments. More may follow.
    Segments(Vec<StoredEvent>),
    /// No segment follows.
    Rows(Vec<StoredEvent>),
}

fn damaged(_: Damaged) -> StoreError {
    column("log_segment", "octets").inconsistent()
}

fn bounds(first: i64, last: i64) -> Result<(u64, u64), StoreError> {
    let sequence = |it: i64| column("log_segment", "first_sequence").number(it);
    Ok((sequence(first)?, sequence(last)?))
}

/// The events of a segment. Those of a damaged one are empty, like single events that cannot be
/// read, so that the rest of the log can be read and masked.
fn decoded(first: i64, last: i64, octets: &[u8]) -> Result<Vec<StoredEvent>, StoreError> {
    let (first, last) = bounds(first, last)?;
    let events = codec::decode(octets, first, last);
    Ok(events.unwrap_or_else(|Damaged| {
        error!(
            first,
            last, "a segment of a log is damaged; its events are lost"
        );
        let count = usize::try_from(MAX_EVENTS).unwrap_or(usize::MAX);
        let unreadable = |sequence| StoredEvent {
            sequence,
            kind: UNREADABLE.into(),
            body: "{}".into(),
        };
        (first..=last).take(count).map(unreadable).collect()
    }))
}

/// Reads the rows of [`with_segments`].
pub(super) fn found(rows: Vec<Row>, after: u64) -> Result<Found, StoreError> {
    let (mut segments, mut events) = (Vec::new(), Vec::new());
    for (first, last, kind, body, octets) in rows {
        match (octets, kind, body) {
            (Some(octets), ..) => segments.push((first, last, octets)),
            (None, Some(kind), Some(body)) => events.push(event_of((last, kind, body))?),
            _ => return Err(column("event", "body").inconsistent()),
        }
    }
    if segments.is_empty() {
        // The parts of a union have no order of their own.
        events.sort_by_key(|event| event.sequence);
        return Ok(Found::Rows(events));
    }
    segments.sort_by_key(|(first, ..)| *first);
    let mut events = Vec::new();
    for (first, last, octets) in segments {
        let decoded = decoded(first, last, &octets)?;
        events.extend(decoded.into_iter().filter(|it| it.sequence > after));
    }
    Ok(Found::Segments(events))
}

/// Up to `limit` ended runs, by number, that follow the run numbered `after`, were created before
/// `before`, and whose log has events that are not compressed.
pub async fn compressible(
    database: &Database,
    before: Timestamp,
    after: i64,
    limit: u32,
) -> Result<Vec<i64>, StoreError> {
    query(COMPRESSIBLE)
        .bind(before.as_microsecond())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await
}

/// Compresses the next events of an ended run into one segment; `false` if nothing is left, or the
/// run must not be compressed now.
pub async fn compress_next(database: &Database, number: i64) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let locked: Option<i64> = query(LOCK)
        .bind(number)
        .fetch_optional(&mut transaction)
        .await?;
    let events = match locked {
        Some(_) => next_events(&mut transaction, number).await?,
        None => Vec::new(),
    };
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        transaction.rollback().await?;
        return Ok(false);
    };
    let sequence = |event: &StoredEvent| column("event", "sequence").number(event.sequence);
    let (first, last): (i64, i64) = (sequence(first)?, sequence(last)?);
    let sealed: i64 = query(SEALED_TO)
        .bind(number)
        .fetch_one(&mut transaction)
        .await?;
    let octets = codec::encode(&events).map_err(damaged)?;
    // Rows are removed only if the segment reads as they do.
    let (from, to) = bounds(first, last)?;
    let read = codec::decode(&octets, from, to).map_err(damaged)?;
    if sealed.checked_add(1) != Some(first) || read != events {
        return Err(column("event", "sequence").inconsistent());
    }
    let before: usize = events.iter().map(|event| event.body.len()).sum();
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    query(ADD)
        .bind(number)
        .bind(first)
        .bind(last)
        .bind(octets.as_slice())
        .execute(&mut transaction)
        .await?;
    query(REMOVE_ROWS)
        .bind(number)
        .bind(last)
        .execute(&mut transaction)
        .await?;
    query(RESIZE)
        .bind(number)
        .bind(size(octets.len()).saturating_sub(size(before)))
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(true)
}

async fn next_events(
    transaction: &mut Transaction,
    number: i64,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows: Vec<(i64, String, String)> = query(NEXT)
        .bind(number)
        .bind(i64::from(MAX_EVENTS))
        .bind(i64::try_from(MAX_BYTES).unwrap_or(i64::MAX))
        .fetch_all(transaction)
        .await?;
    rows.into_iter().map(event_of).collect()
}

/// Replaces events in segments. Returns the sequence of the last event that segments have.
pub(super) async fn replace(
    transaction: &mut Transaction,
    run: &RunId,
    events: &[StoredEvent],
) -> Result<u64, StoreError> {
    let mut replaced = 0;
    let mut left = events;
    while let (Some(first), Some(last)) = (left.first(), left.last()) {
        let sequence = |event: &StoredEvent| column("event", "sequence").number(event.sequence);
        let (from, to): (i64, i64) = (sequence(first)?, sequence(last)?);
        let segment: Option<(i64, i64, Vec<u8>)> = query(BETWEEN)
            .bind(run.as_str())
            .bind(from)
            .bind(to)
            .bind(1_i64)
            .fetch_optional(&mut *transaction)
            .await?;
        let Some((first, last, octets)) = segment else {
            break;
        };
        let mut old = decoded(first, last, &octets)?;
        replaced = column("log_segment", "last_sequence").number(last)?;
        let (within, after) = left.split_at(left.partition_point(|it| it.sequence <= replaced));
        left = after;
        for event in &mut old {
            if let Some(new) = within.iter().find(|it| it.sequence == event.sequence) {
                event.body = new.body.clone();
            }
        }
        query(REPLACE)
            .bind(run.as_str())
            .bind(last)
            .bind(codec::encode(&old).map_err(damaged)?.as_slice())
            .execute(&mut *transaction)
            .await?;
    }
    Ok(replaced)
}

/// The segments of a run that end after `after`, oldest first, a few at a time.
pub(super) async fn after(
    database: &Database,
    run: &RunId,
    after: u64,
) -> Result<Vec<StoredEvent>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let rows: Vec<(i64, i64, Vec<u8>)> = query(BETWEEN)
        .bind(run.as_str())
        .bind(after.saturating_add(1))
        .bind(i64::MAX)
        .bind(i64::from(SEGMENTS))
        .fetch_all(database.readers())
        .await?;
    let mut events = Vec::new();
    for (first, last, octets) in rows {
        events.extend(decoded(first, last, &octets)?);
    }
    Ok(events)
}
