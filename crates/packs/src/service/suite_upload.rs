//! Imports a suite line by line.
//!
//! Chunks are stored while the suite arrives, under the name of the upload. The suite becomes visible
//! in one step at the end, so an upload that is refused or interrupted leaves nothing behind: it
//! is discarded, or swept later. Chunks count as their tenant's as soon as they are stored.

use bytes::Bytes;
use tokio::runtime::Handle;
use tracing::warn;

use crate::ports::host::Addition;
use crate::ports::inventory::SuiteRecord;
use crate::rules::suite_stream::chunk::Chunk;
use crate::rules::suite_stream::reader::{LineFaults, ReadSuite, SuiteReader};
use crate::service::packs::{Actor, Packs};
use crate::store;
use crate::store::suites::SuiteStream;
use touchstone_host::background;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::{chain, internal};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

/// Lines from this many bytes are read apart from the async threads.
const LARGE_LINE: usize = 256 * 1024;

/// Why a suite was not imported.
#[derive(Debug)]
pub enum UploadError {
    /// A line is not valid.
    Line(LineFaults),
    /// The lines are valid, but the suite cannot be added.
    Problem(Problem),
}

impl From<Problem> for UploadError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// A suite that is being imported. Dropping it discards what was stored.
pub struct SuiteUpload {
    by: Actor,
    reader: SuiteReader,
    /// Whether the quota of suites was checked.
    is_checked: bool,
    stored: StoredChunks,
}

/// The chunks that are stored so far.
struct StoredChunks {
    packs: Packs,
    tenant: TenantId,
    /// The name of the upload.
    upload: String,
    count: i64,
    bytes: u64,
    /// Whether it became a suite or was discarded.
    has_ended: bool,
}

impl SuiteUpload {
    /// # Errors
    /// An internal error.
    pub async fn begin(packs: &Packs, by: &Actor) -> Result<Self, Problem> {
        let tenant = &by.tenant;
        let upload = packs.ids.mint("suite");
        let begun = store::suites::begin(&packs.store, &upload, tenant, packs.clock.now());
        begun.await.map_err(|cause| internal(&cause))?;
        Ok(Self {
            by: by.clone(),
            reader: SuiteReader::new(packs.format().read_streamed),
            is_checked: false,
            stored: StoredChunks {
                packs: packs.clone(),
                tenant: tenant.clone(),
                upload,
                count: 0,
                bytes: 0,
                has_ended: false,
            },
        })
    }

    /// Takes the next line. After an error, the caller [discards](Self::discard) the upload.
    ///
    /// # Errors
    /// Everything that is wrong with the line; `quota_exceeded` if the tenant has no room for the
    /// suite or its tasks.
    pub async fn line(&mut self, line: &Bytes) -> Result<(), UploadError> {
        let read = match line.len() < LARGE_LINE {
            true => self.reader.line(line),
            false => self.read_apart(line.clone()).await?,
        };
        let chunk = read.map_err(UploadError::Line)?;
        self.check_quota().await?;
        self.stored.add(chunk).await
    }

    /// Reads a large line, which takes a while; keeps the async thread free.
    async fn read_apart(
        &mut self,
        line: Bytes,
    ) -> Result<Result<Option<Chunk>, LineFaults>, Problem> {
        let next = SuiteReader::new(self.stored.packs.format().read_streamed);
        let mut reader = std::mem::replace(&mut self.reader, next);
        let reading = tokio::task::spawn_blocking(move || {
            let read = reader.line(&line);
            (reader, read)
        });
        let (reader, read) = reading.await.map_err(|cause| internal(&cause))?;
        self.reader = reader;
        Ok(read)
    }

    /// Checks once whether the tenant may have another suite, unless it has this version already.
    async fn check_quota(&mut self) -> Result<(), Problem> {
        let Some(header) = self.reader.header().filter(|_| !self.is_checked) else {
            return Ok(());
        };
        self.is_checked = true;
        let packs = &self.stored.packs;
        let (tenant, id, version) = (&self.by.tenant, &header.suite_id, &header.version);
        let known = store::inventory::suite(&packs.store, tenant, id, version).await;
        match known.map_err(|cause| internal(&cause))? {
            Some(_) => Ok(()),
            None => packs.storage.check(tenant, ONE_SUITE).await,
        }
    }

    /// Makes the suite visible. Returns it as runs use it: the pack's, if a pack contains the same
    /// document.
    ///
    /// # Errors
    /// The suite has no tasks; `conflict` if its version exists with different content. Then nothing
    /// remains.
    pub async fn finish(self) -> Result<SuiteRecord, UploadError> {
        let Self {
            by,
            reader,
            mut stored,
            ..
        } = self;
        let imported = match reader.finish() {
            Ok(read) => stored.finish(&by, read).await,
            Err(faults) => Err(UploadError::Line(faults)),
        };
        stored.end().await;
        imported
    }

    /// Deletes what was stored. An upload that cannot be deleted now is swept later.
    pub async fn discard(mut self) {
        self.stored.end().await;
    }
}

/// A further suite; its bytes are counted by chunks.
const ONE_SUITE: Addition = Addition {
    packs: 0,
    suites: 1,
    bytes: 0,
};

impl StoredChunks {
    async fn add(&mut self, chunk: Option<Chunk>) -> Result<(), UploadError> {
        let Some(chunk) = chunk else {
            return Ok(());
        };
        let packs = &self.packs;
        let bytes = chunk.octets.len() as u64;
        let adding = Addition {
            bytes,
            ..Addition::default()
        };
        packs.storage.reserve(&self.tenant, adding).await?;
        let added = store::suites::add_chunk(&packs.store, &self.upload, self.count, &chunk);
        added.await.map_err(|cause| not_stored(&cause))?;
        self.count += 1;
        self.bytes += bytes;
        Ok(())
    }

    async fn finish(&mut self, by: &Actor, read: ReadSuite) -> Result<SuiteRecord, UploadError> {
        self.add(read.last).await?;
        let packs = &self.packs;
        let record = SuiteRecord {
            tenant: by.tenant.clone(),
            suite_id: read.header.suite_id,
            version: read.header.version,
            digest: read.digest.clone(),
            scoring: None,
            task_count: u32::try_from(read.task_count).unwrap_or(u32::MAX),
            pack: None,
            signed: false,
            added_at: packs.clock.now(),
            bytes: Some(self.bytes),
        };
        if packs.is_imported(&record).await? {
            // What is stored stays, so that the tenant does not have the tasks twice.
            return Ok(packs.imported(by, record, Ok(())).await?);
        }
        let stream = SuiteStream {
            digest: read.digest,
            upload: self.upload.clone(),
            header: read.text,
            task_count: read.task_count,
            text_bytes: read.bytes,
            bytes: self.bytes,
        };
        let key = (
            record.suite_id.as_str(),
            record.version.as_str(),
            record.digest.as_str(),
        );
        packs.reserve_suite(&by.tenant, key, 0).await?;
        let added = store::suites::finish(&packs.store, &stream, &record).await;
        if let Err(cause @ StoreError::Stale) = &added {
            return Err(not_stored(cause).into());
        }
        self.has_ended = added.is_ok();
        Ok(packs.imported(by, record, added).await?)
    }

    /// Deletes the upload unless it became a suite. A failure is only logged: the sweep repeats it.
    async fn end(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            discard(&self.packs, &self.tenant, &self.upload).await;
        }
    }
}

impl Drop for StoredChunks {
    /// The request was dropped: its client disconnected, or its time was over.
    fn drop(&mut self) {
        // Without a runtime the process ends, and the sweep deletes the upload.
        if self.has_ended || Handle::try_current().is_err() {
            return;
        }
        let (packs, tenant) = (self.packs.clone(), self.tenant.clone());
        let upload = std::mem::take(&mut self.upload);
        let discarding = async move { discard(&packs, &tenant, &upload).await };
        drop(background::spawn("suite upload", discarding));
    }
}

async fn discard(packs: &Packs, tenant: &TenantId, upload: &str) {
    let discarded = store::suites::discard(&packs.store, upload).await;
    // What was reserved is not stored.
    let released = packs.storage.release(tenant, &[]).await;
    if let Err(cause) = discarded.and(released) {
        warn!(
            cause = chain(&cause),
            "could not delete an upload of a suite"
        );
    }
}

/// Why a chunk or the suite was not stored.
fn not_stored(cause: &StoreError) -> Problem {
    match cause {
        StoreError::Stale => Problem::new(
            ErrorCode::Unavailable,
            "the import took too long and was deleted; send all lines again",
        ),
        cause => internal(cause),
    }
}
