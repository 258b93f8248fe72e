use async_trait::async_trait;

use super::StoreError;

/// Whether the database accepts writes. A full disk, a read-only server or a deleted file still
/// answers reads.
#[async_trait]
pub trait Health: Send + Sync {
    /// Writes one record durably, at most once a second however many callers ask; others get that
    /// result. After an outage the record is large, so that success means room for more than a few
    /// bytes.
    ///
    /// # Errors
    /// [`StoreError`] if the write failed.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Reports that a write failed with [`StoreError::Unavailable`].
    fn report_outage(&self);

    /// Whether a write has failed since the last successful
    /// [`check_writable`](Self::check_writable).
    fn in_outage(&self) -> bool;

    /// Whether new work may start: its results could be written.
    async fn takes_writes(&self) -> bool {
        !self.in_outage() || self.check_writable().await.is_ok()
    }
}
