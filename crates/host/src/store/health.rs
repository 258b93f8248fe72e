//! Checks whether the database accepts writes, by writing to it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::ports::store::{Outage, StoreError};
use crate::store::database::Database;
use crate::store::sql::query;

/// How long the result of a check is reused, so that frequent readiness checks do not cause
/// frequent writes.
const FRESH: Duration = Duration::from_secs(1);

/// Time limit of one check.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes that must fit on the disk to end an outage. Without this reserve, small writes would
/// succeed on a disk that is still full, and work would start whose results cannot be stored.
const RESERVE: usize = 64 * 1024;

/// The result of the last check, and whether a write has failed since.
#[derive(Default)]
pub(super) struct WriteHealth {
    /// The number of failed writes, and how many of them precede the last successful check.
    reported: AtomicU64,
    settled: AtomicU64,
    /// Whether a write has failed since the last successful check. At a start, none has.
    failed: AtomicBool,
    last: Mutex<Option<Checked>>,
}

struct Checked {
    at: Instant,
    failure: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("the last write failed: {0}")]
struct StillOut(String);

impl WriteHealth {
    fn report(&self) {
        self.failed.store(true, Ordering::Release);
        self.require_check();
    }

    fn require_check(&self) {
        self.reported.fetch_add(1, Ordering::AcqRel);
    }

    fn in_outage(&self) -> bool {
        self.reported.load(Ordering::Acquire) != self.settled.load(Ordering::Acquire)
    }

    async fn check<F>(&self, probe: impl FnOnce(usize) -> F + Send) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>> + Send,
    {
        let mut last = self.last.lock().await;
        // A failure that is reported during the probe must not count as resolved by it.
        let reported = self.reported.load(Ordering::Acquire);
        let outage = self.in_outage();
        if let Some(checked) = last.as_ref().filter(|it| it.at.elapsed() < FRESH) {
            return match &checked.failure {
                None if !outage => Ok(()),
                None => Err(unavailable(StillOut(
                    "a write of another request failed".to_owned(),
                ))),
                Some(cause) => Err(unavailable(StillOut(cause.clone()))),
            };
        }
        let reserve = if outage { RESERVE } else { 0 };
        let result = timeout(PROBE_TIMEOUT, probe(reserve)).await;
        let result = result.unwrap_or_else(|late| Err(unavailable(late)));
        let failure = result.as_ref().err().map(with_causes);
        match &failure {
            Some(cause) => {
                self.report();
                // Log once per outage; checks repeat every second.
                if last.as_ref().is_none_or(|it| it.failure.is_none()) {
                    warn!(cause, "the database does not accept writes");
                }
            }
            None => {
                self.settled.store(reported, Ordering::Release);
                if self.failed.swap(false, Ordering::AcqRel) {
                    info!("the database accepts writes again");
                }
            }
        }
        *last = Some(Checked {
            at: Instant::now(),
            failure,
        });
        result
    }
}

fn unavailable(cause: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable(Outage(Box::new(cause)))
}

fn with_causes(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Whether the database accepts writes. A full disk, a read-only server or a deleted file still
/// answers reads.
impl Database {
    /// Writes one record durably, at most once a second however many callers ask; others get that
    /// result. After an outage the record is large, so that success means room for more than a few
    /// bytes.
    ///
    /// # Errors
    /// [`StoreError`] if the write failed.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        const PROBE: &str = "INSERT INTO write_probe (id, written_at, filler) VALUES (1, {now}, $1) ON CONFLICT (id) DO UPDATE
            SET written_at = excluded.written_at, filler = excluded.filler";
        let probe = |reserve| async move {
            query(PROBE)
                .bind("0".repeat(reserve))
                .execute(self.writer()?)
                .await?;
            Ok(())
        };
        self.health().check(probe).await
    }

    /// Reports that a write failed with [`StoreError::Unavailable`].
    pub fn report_outage(&self) {
        self.health().report();
    }

    /// Lets no work start before a write succeeds, because a host may start on a full disk.
    pub fn require_check(&self) {
        self.health().require_check();
    }

    /// Whether a write has failed since the last successful
    /// [`check_writable`](Self::check_writable).
    pub fn in_outage(&self) -> bool {
        self.health().in_outage()
    }

    /// Whether new work may start: its results could be written.
    pub async fn takes_writes(&self) -> bool {
        !self.in_outage() || self.check_writable().await.is_ok()
    }
}
