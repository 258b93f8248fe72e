//! Documents of suites: a blob, or chunks of tasks if the suite was imported as a stream.

use bytes::Bytes;
use jiff::Timestamp;

use crate::ports::inventory::SuiteRecord;
use crate::rules::suite_stream::chunk::{self, Chunk};
use crate::rules::suite_stream::{SuiteFrame, SuiteHasher};
use crate::store::blobs;
use crate::store::inventory::insert_suite;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Sql, Transaction, query};
use touchstone_kit::ids::TenantId;

/// Maximum length of a document that is built from chunks: that of a suite in one body. Parsed, it takes
/// up to eight times as much.
pub const MAX_WHOLE_BYTES: u64 = 16 * 1024 * 1024;
/// How many unfinished uploads are deleted at once.
const SWEPT: u32 = 100;
/// How often a document is built again because its suite was imported again meanwhile.
const ATTEMPTS: u32 = 3;

const BEGIN: &str =
    "INSERT INTO suite_upload (upload, tenant, started_at, bytes) VALUES ($1, $2, $3, 0)";
/// Locks the row, so that a sweep decides before or after this chunk.
const GROW: &str = "UPDATE suite_upload SET bytes = bytes + $2 WHERE upload = $1";
const ADD_CHUNK: &str = "INSERT INTO suite_chunk (upload, chunk, octets) VALUES ($1, $2, $3)";
/// The update locks a row that exists, so that a removal decides before or after this import.
const ADD_STREAM: &str =
    "INSERT INTO suite_stream (digest, upload, header, task_count, text_bytes, bytes)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (digest) DO UPDATE SET header = suite_stream.header
    RETURNING upload";
const STREAM: &str =
    "SELECT upload, header, task_count, text_bytes, bytes FROM suite_stream WHERE digest = $1";
const CHUNK: &str = "SELECT octets FROM suite_chunk WHERE upload = $1 AND chunk = $2";
const END: &str = "DELETE FROM suite_upload WHERE upload = $1";
const DROP_CHUNKS: &str = "DELETE FROM suite_chunk WHERE upload = $1";
const UNFINISHED: &str = "SELECT upload FROM suite_upload WHERE started_at < $1 LIMIT $2";
const LOCK_STREAM: Sql = Sql {
    sqlite: "SELECT upload FROM suite_stream WHERE digest = $1",
    postgres: "SELECT upload FROM suite_stream WHERE digest = $1 FOR UPDATE",
};
const DROP_STREAM: &str = "DELETE FROM suite_stream WHERE digest = $1
    AND NOT EXISTS (SELECT 1 FROM suite WHERE digest = $1)
    AND NOT EXISTS (SELECT 1 FROM run_record WHERE record LIKE '%' || $1 || '%')";

/// A suite that was imported as a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteStream {
    /// `sha256-<base64>` of the whole document.
    pub digest: String,
    /// Names its chunks.
    pub upload: String,
    /// The document without its tasks.
    pub header: String,
    pub task_count: u64,
    /// Length of the whole document.
    pub text_bytes: u64,
    /// Size of its chunks.
    pub bytes: u64,
}

/// The document of a suite, or the reason why there is none.
#[derive(Clone, Debug)]
pub enum WholeSuite {
    /// The document that was stored, whose digest the caller compares, or one that was built from
    /// chunks and has this digest.
    Document(Bytes),
    Missing,
    /// Longer than [`MAX_WHOLE_BYTES`].
    TooLarge,
}

/// Begins an upload. It is deleted by [`sweep`] unless it ends.
pub async fn begin(
    database: &Database,
    upload: &str,
    tenant: &TenantId,
    now: Timestamp,
) -> Result<(), StoreError> {
    query(BEGIN)
        .bind(upload)
        .bind(tenant.as_str())
        .bind(now.as_microsecond())
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// Adds the chunk with this number to an upload. [`StoreError::Stale`] if the upload was deleted.
pub async fn add_chunk(
    database: &Database,
    upload: &str,
    number: i64,
    chunk: &Chunk,
) -> Result<(), StoreError> {
    let bytes = i64::try_from(chunk.octets.len()).unwrap_or(i64::MAX);
    let mut transaction = database.begin_write().await?;
    let grown = query(GROW)
        .bind(upload)
        .bind(bytes)
        .execute(&mut transaction)
        .await?;
    if grown == 0 {
        return Err(StoreError::Stale);
    }
    query(ADD_CHUNK)
        .bind(upload)
        .bind(number)
        .bind(&chunk.octets[..])
        .execute(&mut transaction)
        .await?;
    transaction.commit().await
}

/// Makes an uploaded suite visible in one step. [`StoreError::Exists`] as in
/// [`add_suite`](crate::store::inventory::add_suite); then the upload remains.
/// [`StoreError::Stale`] if the upload was deleted.
pub async fn finish(
    database: &Database,
    stream: &SuiteStream,
    record: &SuiteRecord,
) -> Result<(), StoreError> {
    let count = |name: &'static str, number: u64| -> Result<i64, StoreError> {
        column("suite_stream", name).number(number)
    };
    let mut transaction = database.begin_inventory(&record.tenant).await?;
    // First, so that a sweep that deletes the same upload has ended, or waits until this has.
    let ended = query(END)
        .bind(&stream.upload)
        .execute(&mut transaction)
        .await?;
    if ended == 0 {
        return Err(StoreError::Stale);
    }
    insert_suite(&mut transaction, record).await?;
    let kept: String = query(ADD_STREAM)
        .bind(&stream.digest)
        .bind(&stream.upload)
        .bind(&stream.header)
        .bind(count("task_count", stream.task_count)?)
        .bind(count("text_bytes", stream.text_bytes)?)
        .bind(count("bytes", stream.bytes)?)
        .fetch_one(&mut transaction)
        .await?;
    // The same document was uploaded before.
    if kept != stream.upload {
        drop_chunks(&mut transaction, &stream.upload).await?;
    }
    transaction.commit().await
}

/// Deletes an upload that does not end.
pub async fn discard(database: &Database, upload: &str) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    // Only an upload that has not ended has this row, and its chunks belong to no suite.
    let unfinished = query(END).bind(upload).execute(&mut transaction).await?;
    if unfinished > 0 {
        drop_chunks(&mut transaction, upload).await?;
    }
    transaction.commit().await
}

/// Deletes uploads that began before a time and have not ended, because their process ended. Returns
/// how many it found; further ones may be left until it finds none.
pub async fn sweep(database: &Database, before: Timestamp) -> Result<usize, StoreError> {
    let unfinished: Vec<String> = query(UNFINISHED)
        .bind(before.as_microsecond())
        .bind(i64::from(SWEPT))
        .fetch_all(database.readers())
        .await?;
    for upload in &unfinished {
        discard(database, upload).await?;
    }
    Ok(unfinished.len())
}

/// Deletes a streamed suite unless a suite of a tenant or a run refers to it.
pub async fn release(database: &Database, digest: &str) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let upload: Option<String> = query(LOCK_STREAM)
        .bind(digest)
        .fetch_optional(&mut transaction)
        .await?;
    if let Some(upload) = upload {
        let dropped = query(DROP_STREAM)
            .bind(digest)
            .execute(&mut transaction)
            .await?;
        if dropped > 0 {
            drop_chunks(&mut transaction, &upload).await?;
        }
    }
    transaction.commit().await
}

async fn drop_chunks(transaction: &mut Transaction, upload: &str) -> Result<(), StoreError> {
    query(DROP_CHUNKS).bind(upload).execute(transaction).await?;
    Ok(())
}

/// The streamed suite with this digest.
pub async fn stream(database: &Database, digest: &str) -> Result<Option<SuiteStream>, StoreError> {
    let row: Option<(String, String, i64, i64, i64)> = query(STREAM)
        .bind(digest)
        .fetch_optional(database.readers())
        .await?;
    let Some((upload, header, task_count, text_bytes, bytes)) = row else {
        return Ok(None);
    };
    let count = |name: &'static str, number: i64| -> Result<u64, StoreError> {
        column("suite_stream", name).number(number)
    };
    Ok(Some(SuiteStream {
        digest: digest.to_owned(),
        upload,
        header,
        task_count: count("task_count", task_count)?,
        text_bytes: count("text_bytes", text_bytes)?,
        bytes: count("bytes", bytes)?,
    }))
}

/// A chunk of an upload, compressed; `None` after the last one.
pub async fn chunk_of(
    database: &Database,
    upload: &str,
    number: i64,
) -> Result<Option<Vec<u8>>, StoreError> {
    query(CHUNK)
        .bind(upload)
        .bind(number)
        .fetch_optional(database.readers())
        .await
}

/// The whole document of a suite. [`StoreError::Inconsistent`] if chunks were changed.
pub async fn whole(database: &Database, digest: &str) -> Result<WholeSuite, StoreError> {
    for _ in 0..ATTEMPTS {
        if let Some(blob) = blobs::get(database, digest).await? {
            return Ok(WholeSuite::Document(blob));
        }
        let Some(suite) = stream(database, digest).await? else {
            return Ok(WholeSuite::Missing);
        };
        if suite.text_bytes > MAX_WHOLE_BYTES {
            return Ok(WholeSuite::TooLarge);
        }
        if let Some(document) = build(database, &suite).await? {
            return Ok(WholeSuite::Document(document));
        }
        if stream(database, digest).await? == Some(suite) {
            break;
        }
        // It was removed, and perhaps imported again, while it was read.
    }
    Err(column("suite_chunk", "octets").inconsistent())
}

/// The document of a streamed suite; `None` if its chunks are not those that were imported.
async fn build(database: &Database, suite: &SuiteStream) -> Result<Option<Bytes>, StoreError> {
    let Ok(header) = serde_json::from_str(&suite.header) else {
        return Ok(None);
    };
    let frame = SuiteFrame::of(&header);
    let mut hasher = SuiteHasher::new(&frame);
    let mut text = frame.head().to_owned();
    let mut number = 0;
    while let Some(octets) = chunk_of(database, &suite.upload, number).await? {
        let Ok((lines, _)) = chunk::unpack(&octets) else {
            return Ok(None);
        };
        for line in lines.lines() {
            hasher.task(line);
            text.push_str(line);
            text.push(',');
        }
        number += 1;
    }
    if number > 0 {
        text.pop();
    }
    text.push_str(frame.tail());
    let (found, _) = hasher.finish(&frame);
    Ok((found == suite.digest).then(|| Bytes::from(text)))
}
