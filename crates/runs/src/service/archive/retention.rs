//! Deletes runs that are past their retention, after they were archived if there is an archive.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::service::archive::{Archive, attempts};
use crate::service::storage::{RETENTION_PRINCIPAL, Storage};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::chain;
use touchstone_host::service::jobs::{Replica, Shared, Turn};

/// One replica at a time archives. Two would only write the same archives twice.
const JOB: Shared = Shared {
    name: "run archive",
    every: SignedDuration::ZERO,
    lease: Duration::from_secs(120),
};

pub struct Retention {
    storage: Arc<Storage>,
    archive: Option<Arc<Archive>>,
    replica: Replica,
}

impl Retention {
    pub fn new(storage: Arc<Storage>, archive: Option<Arc<Archive>>, replica: Replica) -> Self {
        // Hosts without an archive export the numbers too, so that dashboards show 0.
        for outcome in ["written", "failed"] {
            attempts(outcome).increment(0);
        }
        Self {
            storage,
            archive,
            replica,
        }
    }

    /// Deletes runs past their retention, masks the logs of deleted runs, compresses logs, and
    /// deletes interrupted uploads of suites. With an archive, a run is deleted only after its
    /// archive was written; what failed is tried again by the next call.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sweep(&self, shutdown: &CancellationToken) -> Result<u64, StoreError> {
        // A fault in one of them does not keep the others from being done.
        let deleted = self.delete(shutdown).await;
        let compressed = self.storage.compress_logs(shutdown).await;
        let swept = self.storage.sweep_uploads(shutdown).await;
        let deleted = deleted?;
        compressed?;
        swept?;
        Ok(deleted)
    }

    async fn delete(&self, shutdown: &CancellationToken) -> Result<u64, StoreError> {
        // Content that is due for deletion must not outlive the run in its archive.
        self.storage.delete_content(shutdown).await?;
        if self.storage.due_before().is_none() {
            return Ok(0);
        }
        let deleted = match &self.archive {
            None => self.delete_all(None, shutdown).await?,
            Some(archive) => {
                let Some(turn) = self.replica.begin(JOB).await? else {
                    return Ok(0);
                };
                let deleted = self.delete_all(Some((archive, &turn)), shutdown).await?;
                turn.end(shutdown).await?;
                deleted
            }
        };
        if deleted > 0 {
            info!(deleted, "deleted runs past their retention");
        }
        Ok(deleted)
    }

    async fn delete_all(
        &self,
        archive: Option<(&Archive, &Turn<'_>)>,
        shutdown: &CancellationToken,
    ) -> Result<u64, StoreError> {
        let Some(before) = self.storage.due_before() else {
            return Ok(0);
        };
        let (mut after, mut deleted) = (0, 0);
        while !shutdown.is_cancelled() {
            let due = self.storage.due(before, after).await?;
            let Some((last, _)) = due.last() else { break };
            after = *last;
            for (_, record) in &due {
                if !self.storage.may_be_deleted(record).await {
                    continue;
                }
                let mut reasons = Vec::new();
                if let Some((archive, turn)) = archive {
                    turn.hold().await?;
                    let reason = self.storage.retention_reason();
                    let written = archive.write(record, RETENTION_PRINCIPAL, Some(reason));
                    // An interrupted archive leaves no object.
                    let Some(written) = shutdown.run_until_cancelled(written).await else {
                        return Ok(deleted);
                    };
                    match written {
                        Ok(written) => reasons.push(format!("archive: {}", written.object)),
                        Err(cause) => {
                            error!(
                                run = %record.run_id,
                                cause = chain(&cause),
                                "could not archive a run; it is kept, and the host will retry"
                            );
                            if cause.is_of_all_runs() {
                                return Ok(deleted);
                            }
                            continue;
                        }
                    }
                }
                deleted += u64::from(self.storage.delete_due(record, reasons).await?);
            }
            self.storage.mask_all().await?;
        }
        Ok(deleted)
    }
}
