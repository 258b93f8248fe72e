//! The memory for large pages and responses, shared by all readers of this process.
//!
//! A reader first reserves memory for anything large; it is returned once the last reader has
//! dropped the content. A stalled reader holds its memory until its connection is closed, so
//! waiting times out too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes for all readers together.
const ALL: usize = 64 * 1024 * 1024;
/// Granularity in bytes.
const STEP: usize = 1024;
/// How long a reader waits for memory.
const PATIENCE: Duration = Duration::from_secs(20);

/// No memory is free, and none was returned in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for event logs: too many large reads at the same time")]
pub struct Full;

/// Responses assembled at the same time. They wait for pages while they hold memory, so they must
/// leave enough for the pages.
const ANSWERS: usize = 2;
/// Bytes of one response: a page and one event more.
const ANSWER: usize = 8 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Rooms {
    steps: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

impl Default for Rooms {
    fn default() -> Self {
        Self {
            steps: Arc::new(Semaphore::new(ALL / STEP)),
            answers: Arc::new(Semaphore::new(ANSWERS)),
        }
    }
}

/// A reservation; dropping it returns the memory.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

impl Rooms {
    /// Waits for a turn to assemble a response from pages, and for its memory.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn answer(&self) -> Result<(OwnedSemaphorePermit, Room), Full> {
        let turn = self.answers.clone().acquire_owned();
        let turn = tokio::time::timeout(PATIENCE, turn).await;
        let turn = turn.map_err(|_| Full)?.map_err(|_| Full)?;
        Ok((turn, self.take(ANSWER).await?))
    }

    /// Waits for a number of bytes, at most a quarter of the whole.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn take(&self, bytes: usize) -> Result<Room, Full> {
        let steps = bytes.min(ALL / 4).div_ceil(STEP);
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let taken = self.steps.clone().acquire_many_owned(steps);
        match tokio::time::timeout(PATIENCE, taken).await {
            Ok(Ok(permit)) => Ok(Room(permit)),
            Ok(Err(_)) | Err(_) => Err(Full),
        }
    }
}

impl Room {
    /// Returns everything beyond a number of bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let excess = self.0.num_permits().saturating_sub(bytes.div_ceil(STEP));
        drop(self.0.split(excess));
    }

    /// Holds the reservation for as long as any slice of `content` exists.
    pub fn hold(mut self, content: Vec<u8>) -> Bytes {
        self.shrink(content.len());
        Bytes::from_owner(Held {
            content,
            _room: self,
        })
    }
}

struct Held {
    content: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}
