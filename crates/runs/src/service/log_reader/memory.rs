//! The memory for large pages and responses, shared by all readers of this process.
//!
//! A reader first reserves memory for anything large; it is returned once the last reader has
//! dropped the content. A stalled reader holds its memory until its connection is closed, so other
//! readers wait longer than its timeout.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes for all readers together.
const TOTAL_BYTES: usize = 64 * 1024 * 1024;
/// Granularity in bytes.
const UNIT_BYTES: usize = 1024;
/// How long a reader waits for memory.
pub const WAIT: Duration = Duration::from_secs(40);

/// No memory is free, and none was returned in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for event logs: too many large reads at the same time")]
pub struct OutOfMemory;

/// Responses assembled at the same time. They wait for pages while they hold memory, so they must
/// leave enough for the pages.
const MAX_RESPONSES: usize = 2;
/// Bytes of one response: a page and one event more.
const RESPONSE_BYTES: usize = 8 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct ReadMemory {
    units: Arc<Semaphore>,
    responses: Arc<Semaphore>,
}

impl Default for ReadMemory {
    fn default() -> Self {
        Self {
            units: Arc::new(Semaphore::new(TOTAL_BYTES / UNIT_BYTES)),
            responses: Arc::new(Semaphore::new(MAX_RESPONSES)),
        }
    }
}

/// A reservation; dropping it returns the memory.
#[derive(Debug)]
pub struct MemoryPermit(OwnedSemaphorePermit);

impl ReadMemory {
    /// Waits for a turn to assemble a response from pages, and for its memory.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub async fn reserve_response(
        &self,
    ) -> Result<(OwnedSemaphorePermit, MemoryPermit), OutOfMemory> {
        let turn = self.responses.clone().acquire_owned();
        let turn = tokio::time::timeout(WAIT, turn).await;
        let turn = turn.map_err(|_| OutOfMemory)?.map_err(|_| OutOfMemory)?;
        Ok((turn, self.reserve(RESPONSE_BYTES).await?))
    }

    /// Waits for a number of bytes, at most a quarter of the whole.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub async fn reserve(&self, bytes: usize) -> Result<MemoryPermit, OutOfMemory> {
        let units = bytes.min(TOTAL_BYTES / 4).div_ceil(UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let taken = self.units.clone().acquire_many_owned(units);
        match tokio::time::timeout(WAIT, taken).await {
            Ok(Ok(permit)) => Ok(MemoryPermit(permit)),
            Ok(Err(_)) | Err(_) => Err(OutOfMemory),
        }
    }
}

impl MemoryPermit {
    /// Returns everything beyond a number of bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let excess = self
            .0
            .num_permits()
            .saturating_sub(bytes.div_ceil(UNIT_BYTES));
        drop(self.0.split(excess));
    }

    /// Holds the reservation for as long as any slice of `content` exists.
    pub fn hold(mut self, content: Vec<u8>) -> Bytes {
        self.shrink(content.len());
        Bytes::from_owner(PermittedBytes {
            content,
            _permit: self,
        })
    }
}

struct PermittedBytes {
    content: Vec<u8>,
    _permit: MemoryPermit,
}

impl AsRef<[u8]> for PermittedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}
