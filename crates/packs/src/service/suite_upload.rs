//! Imports a suite line by line.
//!
//! Chunks are stored while the suite arrives, under the name of the upload. The suite becomes visible
//! in one step at the end, so an upload that is refused or interrupted leaves nothing behind: it
//! is discarded, or swept later.

use crate::ports::inventory::SuiteRecord;
use crate::rules::suite_stream::chunk::Chunk;
use crate::rules::suite_stream::reader::{LineFaults, ReadSuite, SuiteReader};
use crate::service::packs::{Actor, Packs};
use crate::store;
use crate::store::suites::SuiteStream;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;

/// Why a suite was not imported.
#[derive(Debug)]
pub enum UploadError {
    /// A line is not valid.
    Line(LineFaults),
    /// The lines are valid, but the suite cannot be added.
    Problem(Problem),
}

/// A suite that is being imported.
pub struct SuiteUpload {
    packs: Packs,
    by: Actor,
    reader: SuiteReader,
    stored: StoredChunks,
}

/// The chunks that are stored so far.
struct StoredChunks {
    /// The name of the upload.
    upload: String,
    count: i64,
    bytes: u64,
}

impl SuiteUpload {
    /// # Errors
    /// An internal error.
    pub async fn begin(packs: &Packs, by: &Actor) -> Result<Self, Problem> {
        let upload = packs.ids.mint("suite");
        let begun = store::suites::begin(&packs.store, &upload, packs.clock.now());
        begun.await.map_err(|cause| internal(&cause))?;
        Ok(Self {
            packs: packs.clone(),
            by: by.clone(),
            reader: SuiteReader::new(packs.format().read_streamed),
            stored: StoredChunks {
                upload,
                count: 0,
                bytes: 0,
            },
        })
    }

    /// Takes the next line. After an error, the caller [discards](Self::discard) the upload.
    ///
    /// # Errors
    /// Everything that is wrong with the line.
    pub async fn line(&mut self, line: &[u8]) -> Result<(), UploadError> {
        let chunk = self.reader.line(line).map_err(UploadError::Line)?;
        self.stored.add(&self.packs, chunk).await
    }

    /// Makes the suite visible. Returns it as runs use it: the pack's, if a pack contains the same
    /// document.
    ///
    /// # Errors
    /// The suite has no tasks; `conflict` if its version exists with different content. Then nothing
    /// remains.
    pub async fn finish(self) -> Result<SuiteRecord, UploadError> {
        let Self {
            packs,
            by,
            reader,
            mut stored,
        } = self;
        let imported = match reader.finish() {
            Ok(read) => stored.finish(&packs, &by, read).await,
            Err(faults) => Err(UploadError::Line(faults)),
        };
        if imported.is_err() {
            let discarded = store::suites::discard(&packs.store, &stored.upload).await;
            discarded.map_err(|cause| UploadError::Problem(internal(&cause)))?;
        }
        imported
    }

    /// Deletes what was stored. An upload that cannot be deleted now is swept later.
    ///
    /// # Errors
    /// The store failed.
    pub async fn discard(self) -> Result<(), StoreError> {
        store::suites::discard(&self.packs.store, &self.stored.upload).await
    }
}

impl StoredChunks {
    async fn add(&mut self, packs: &Packs, chunk: Option<Chunk>) -> Result<(), UploadError> {
        let Some(chunk) = chunk else {
            return Ok(());
        };
        let added = store::suites::add_chunk(&packs.store, &self.upload, self.count, &chunk);
        let added = added.await;
        added.map_err(|cause| UploadError::Problem(internal(&cause)))?;
        self.count += 1;
        self.bytes += chunk.octets.len() as u64;
        Ok(())
    }

    async fn finish(
        &mut self,
        packs: &Packs,
        by: &Actor,
        read: ReadSuite,
    ) -> Result<SuiteRecord, UploadError> {
        self.add(packs, read.last).await?;
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
        };
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
        let reserved = packs.reserve_suite(&by.tenant, key, self.bytes).await;
        reserved.map_err(UploadError::Problem)?;
        let added = store::suites::finish(&packs.store, &stream, &record).await;
        let imported = packs.imported(by, record, added).await;
        imported.map_err(UploadError::Problem)
    }
}
