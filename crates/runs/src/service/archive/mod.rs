//! Writes archives of runs to the storage that the operator configured.

pub mod retention;

use std::sync::Arc;

use crate::rules::archive::writer::{End, Unarchivable, Writer};
use crate::rules::archive::{ArchivingHost, Contents, object_name};
use crate::rules::run::record::RunRecord;
use crate::service::runs::Runs;
use crate::service::storage::Storage;
use crate::store;
use metrics::Counter;
use serde::Serialize;
use touchstone_host::audit::Decision;
use touchstone_host::objects::{ObjectError, ObjectStorage, Upload};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::ports::signing_key::{NoSigningKey, SigningKey};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::{chain, internal};
use touchstone_host::store::audit::record_alone;
use touchstone_host::telemetry::{counter, names};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::hex::hex;
use touchstone_kit::ids::RunId;

/// Events read at a time.
const PAGE: u32 = 1024;
/// Bytes of an archive that are passed on at a time.
const PART: usize = 1 << 20;

/// Why a run was not archived.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive cannot be written; so no other run can be archived either.
    #[error("the archive could not be written")]
    Storage(#[from] ObjectError),
    /// The host has no usable signing key.
    #[error(transparent)]
    Key(#[from] NoSigningKey),
    /// This run cannot be archived.
    #[error("the run cannot be archived: {0}")]
    Run(#[from] Unarchivable),
    /// The run is not there in full: it was deleted, or its content is being deleted.
    #[error("the run changed while it was archived")]
    Changed,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its suite or its annotations could not be read; the cause is in the log.
    #[error("a document of the run could not be read")]
    Document(Problem),
}

impl ArchiveError {
    /// Whether the other runs would fail too.
    pub const fn is_of_all_runs(&self) -> bool {
        matches!(self, Self::Storage(_) | Self::Key(_) | Self::Store(_))
    }
}

/// An archive that was written and read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Archived {
    /// The name of the object below the archive's place.
    pub object: String,
    pub bytes: u64,
    /// SHA-256 of the object, hexadecimal.
    pub sha256: String,
    /// Number of events.
    pub events: u64,
}

/// The parts of an archive service.
pub struct ArchiveParts {
    pub clock: Arc<dyn Clock>,
    pub runs: Arc<Runs>,
    pub storage: Arc<Storage>,
    pub objects: ObjectStorage,
    /// Signs archives.
    pub key: Arc<dyn SigningKey>,
    /// The name the operator gave the host; `None` to use the fingerprint of its key.
    pub host_id: Option<String>,
}

pub struct Archive {
    parts: ArchiveParts,
    written: Counter,
    failed: Counter,
}

/// The number of attempts with an outcome.
fn attempts(outcome: &'static str) -> Counter {
    counter(names::RUNS_ARCHIVED, &[("outcome", outcome)])
}

impl Archive {
    pub fn new(parts: ArchiveParts) -> Self {
        Self {
            parts,
            written: attempts("written"),
            failed: attempts("failed"),
        }
    }

    /// Archives a run that has ended, for a caller.
    ///
    /// # Errors
    /// `not_found`; `conflict` before the run has ended; `unavailable` if the archive cannot be
    /// written.
    pub async fn archive(&self, caller: &Caller, run: &RunId) -> Result<Archived, Problem> {
        let record = self.parts.runs.record(&caller.tenant, run).await?;
        let ended = |state: &crate::rules::run::fold::RunState| state.status.is_terminal();
        if !self.parts.runs.with_state(run, ended).await? {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "the run has not ended; archive it once it has",
            ));
        }
        let masked = self.parts.storage.mask_all().await;
        masked.map_err(|cause| internal(&cause))?;
        let written = self.write(&record, &caller.principal, None).await;
        written.map_err(|cause| match cause {
            ArchiveError::Document(problem) => problem,
            ArchiveError::Storage(_) => {
                tracing::error!(%run, cause = chain(&cause), "could not archive a run");
                Problem::new(
                    ErrorCode::Unavailable,
                    "the archive could not be written; the log of the host says why, and `touchstone \
                     doctor` tests the archive",
                )
            }
            ArchiveError::Changed => Problem::new(
                ErrorCode::Conflict,
                "the run changed while it was archived; try again",
            ),
            cause => internal(&cause),
        })
    }

    /// Writes the archive of a run that has ended, reads it back, and records that in the audit log.
    /// An earlier archive of the run is replaced.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub async fn write(
        &self,
        record: &RunRecord,
        principal: &str,
        reason: Option<String>,
    ) -> Result<Archived, ArchiveError> {
        let written = self.write_object(record).await;
        match &written {
            Ok(_) => self.written.increment(1),
            Err(_) => self.failed.increment(1),
        }
        let written = written?;
        let now = self.parts.clock.now();
        let run = record.run_id.to_string();
        let mut decision = Decision::done(now, principal, "runs:archive", run);
        decision.run_id = Some(record.run_id.clone());
        decision.reasons = reason
            .into_iter()
            .chain([
                format!("archive: {}", written.object),
                format!("sha256: {}", written.sha256),
            ])
            .collect();
        record_alone(&self.parts.runs.store, &record.tenant, &decision).await?;
        Ok(written)
    }

    async fn write_object(&self, record: &RunRecord) -> Result<Archived, ArchiveError> {
        let (run, tenant) = (&record.run_id, &record.tenant);
        let database = &self.parts.runs.store;
        let kept = store::storage::archivable(database, tenant, run).await?;
        let kept = kept.ok_or(ArchiveError::Changed)?;
        let end = self.parts.runs.with_state(run, |state| End {
            status: state.status.as_str().to_owned(),
            ended_at: state.completed_at,
            sequence: state.sequence,
        });
        let end = end.await.map_err(ArchiveError::Document)?;
        let events = end.sequence;
        let key = self.parts.key.key()?;
        let id = self.parts.host_id.clone();
        let host = ArchivingHost {
            id: id.unwrap_or_else(|| key.public().fingerprint()),
            name: "touchstone".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let name = object_name(record);
        let mut upload = self.parts.objects.write(&name, "application/gzip")?;
        let rest = async {
            let mut writer = Writer::new(&self.contents(record).await?)?;
            self.copy_log(record, &mut writer, &mut upload).await?;
            let rest = writer.finish(end, host, &key)?;
            upload.add(rest).await?;
            // A run is deleted before its log is masked. So if it still exists as it was at the
            // start, everything that was read is complete.
            let now = store::storage::archivable(database, tenant, run).await?;
            match now == Some(kept) {
                true => Ok(()),
                false => Err(ArchiveError::Changed),
            }
        };
        if let Err(cause) = rest.await {
            upload.abort().await;
            return Err(cause);
        }
        let written = upload.finish().await?;
        if self.parts.objects.stored(&name).await? != written {
            return Err(ObjectError::Different.into());
        }
        Ok(Archived {
            object: name.join("/"),
            bytes: written.bytes,
            sha256: hex(&written.digest),
            events,
        })
    }

    async fn contents(&self, record: &RunRecord) -> Result<Contents, ArchiveError> {
        let runs = &self.parts.runs;
        let eval = record.spec.eval();
        let thresholds = match eval {
            Some(eval) => {
                let suite = runs.suite_index(eval).await;
                Some(suite.map_err(ArchiveError::Document)?.thresholds())
            }
            None => None,
        };
        let additions = runs.additions(&record.tenant, &record.run_id, eval.map(|it| &**it));
        Ok(Contents {
            record: record.clone(),
            thresholds,
            additions: additions.await.map_err(ArchiveError::Document)?,
        })
    }

    async fn copy_log(
        &self,
        record: &RunRecord,
        writer: &mut Writer,
        upload: &mut Upload,
    ) -> Result<(), ArchiveError> {
        let mut after = 0;
        loop {
            let page =
                store::runs::read(&self.parts.runs.store, &record.run_id, after, PAGE).await?;
            for event in &page {
                writer.event(event.sequence, &event.body)?;
                after = event.sequence;
                if writer.waiting() >= PART {
                    upload.add(writer.take()).await?;
                }
            }
            if reaches_end(&page, PAGE) {
                return Ok(());
            }
        }
    }
}
