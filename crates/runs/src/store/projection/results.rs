//! The results of ended runs, and single tasks of their stored states. They are read under the same
//! conditions as the states ([`load`](super::load)).

use serde_json::json;

use crate::rules::eval::statistics::ended::FORMAT;
use crate::rules::run::fold::stored::MOST_BYTES;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::RunId;

/// The head of the state in the same statement, so that both have the same end.
const LOAD: &str = "SELECT p.format, p.sequence, q.octets, t.octets
    FROM run r
        JOIN run_projection p ON p.run_number = r.number AND p.content = r.content
        JOIN run_projection_part q ON q.run_number = p.run_number AND q.part = 0
        JOIN run_task_results t ON t.run_number = p.run_number AND t.sequence = p.sequence
    WHERE r.run_id = $1 AND t.format = $2 AND r.deleted_at IS NULL AND r.masked_to IS NULL
        AND p.sequence <= r.head AND OCTET_LENGTH(q.octets) <= $3 AND OCTET_LENGTH(t.octets) <= $3";
const ENDED_AT: &str = "SELECT p.sequence
    FROM run r
        JOIN run_projection p ON p.run_number = r.number AND p.content = r.content
        JOIN run_task_results t ON t.run_number = p.run_number AND t.sequence = p.sequence
    WHERE r.run_id = $1 AND t.format = $2 AND r.deleted_at IS NULL AND r.masked_to IS NULL
        AND p.sequence <= r.head";
const CHUNKS: &str = "SELECT p.format, p.sequence, q.part, q.octets
    FROM run r
        JOIN run_projection p ON p.run_number = r.number AND p.content = r.content
        JOIN run_projection_part q ON q.run_number = p.run_number
    WHERE r.run_id = $1 AND q.part IN (
            SELECT CAST(it AS BIGINT) FROM (
                SELECT CAST(NULL AS TEXT) AS it WHERE FALSE UNION ALL {each $2}) AS numbers)
        AND r.deleted_at IS NULL AND r.masked_to IS NULL AND p.sequence <= r.head
        AND OCTET_LENGTH(q.octets) <= $3
    ORDER BY q.part";
const STORE: &str = "INSERT INTO run_task_results (run_number, format, sequence, octets)
    SELECT p.run_number, $2, p.sequence, $4
    FROM run r JOIN run_projection p ON p.run_number = r.number AND p.content = r.content
    WHERE r.run_id = $1 AND p.sequence = $3 AND r.deleted_at IS NULL AND r.masked_to IS NULL
    ON CONFLICT (run_number) DO UPDATE
        SET format = excluded.format, sequence = excluded.sequence, octets = excluded.octets
        WHERE run_task_results.format <= excluded.format";

/// What is stored for an ended run.
#[derive(Debug)]
pub struct StoredResults {
    /// The format of the state.
    pub format: i64,
    /// The last event of the run.
    pub sequence: u64,
    /// The head of its state.
    pub head: Vec<u8>,
    pub results: Vec<u8>,
}

/// A part of a stored state: 0 is its head, others are chunks by their number plus 1.
#[derive(Debug)]
pub struct StoredPart {
    pub format: i64,
    pub sequence: u64,
    pub part: i64,
    pub octets: Vec<u8>,
}

fn most_bytes() -> i64 {
    i64::try_from(MOST_BYTES).unwrap_or(i64::MAX)
}

fn sequence(number: i64) -> Result<u64, StoreError> {
    column("run_projection", "sequence").number(number)
}

/// The results of an ended run; `None` if none are stored.
pub async fn load(database: &Database, run: &RunId) -> Result<Option<StoredResults>, StoreError> {
    let found: Option<(i64, i64, Vec<u8>, Vec<u8>)> = query(LOAD)
        .bind(run.as_str())
        .bind(i64::from(FORMAT))
        .bind(most_bytes())
        .fetch_optional(database.readers())
        .await?;
    let Some((format, at, head, results)) = found else {
        return Ok(None);
    };
    Ok(Some(StoredResults {
        format,
        sequence: sequence(at)?,
        head,
        results,
    }))
}

/// The sequence of the last event of a run whose results are stored.
pub async fn ended_at(database: &Database, run: &RunId) -> Result<Option<u64>, StoreError> {
    let found: Option<i64> = query(ENDED_AT)
        .bind(run.as_str())
        .bind(i64::from(FORMAT))
        .fetch_optional(database.readers())
        .await?;
    found.map(sequence).transpose()
}

/// The head and some chunks of a stored state, by their numbers, in order. They are of one state.
pub async fn chunks(
    database: &Database,
    run: &RunId,
    chunks: &[u32],
) -> Result<Vec<StoredPart>, StoreError> {
    let parts = chunks.iter().map(|chunk| i64::from(*chunk) + 1);
    let parts = std::iter::once(0).chain(parts);
    let parts: Vec<String> = parts.map(|part| part.to_string()).collect();
    let rows: Vec<(i64, i64, i64, Vec<u8>)> = query(CHUNKS)
        .bind(run.as_str())
        .bind(json!(parts).to_string())
        .bind(most_bytes())
        .fetch_all(database.readers())
        .await?;
    let parts = rows.into_iter().map(|(format, at, part, octets)| {
        Ok(StoredPart {
            format,
            sequence: sequence(at)?,
            part,
            octets,
        })
    });
    parts.collect()
}

/// Stores the results of a run that ended with the event `at`, if its state is stored; returns whether
/// they are stored.
pub async fn store(
    database: &Database,
    run: &RunId,
    at: u64,
    octets: &[u8],
) -> Result<bool, StoreError> {
    let stored = query(STORE)
        .bind(run.as_str())
        .bind(i64::from(FORMAT))
        .bind(column("run_projection", "sequence").number::<_, i64>(at)?)
        .bind(octets)
        .execute(database.writer()?)
        .await?;
    Ok(stored > 0)
}
