//! The memory that large pages and answers may take, shared by all readers of this process.
//!
//! Whoever wants to load something large waits for room first; the room comes back when the last reader has let go of it. A
//! reader that does not read holds what it was sent until its connection is closed, so waiting ends after a while too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes for all readers together.
const ALL: usize = 64 * 1024 * 1024;
/// Room is given in steps of this many bytes.
const STEP: usize = 1024;
/// How long a reader waits for room.
const PATIENCE: Duration = Duration::from_secs(20);

/// There is no room, and none came back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much of event logs is being read at the same time")]
pub struct Full;

/// Answers that are put together at the same time. They wait for pages while they hold room themselves, so their room must
/// leave enough for the pages.
const ANSWERS: usize = 2;
/// Bytes of one answer: what a page has and one event more.
const ANSWER: usize = 8 * 1024 * 1024;

/// The memory.
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

/// A part of the memory; dropping it gives it back.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

impl Rooms {
    /// Waits for the turn to put an answer together from pages, and for its room.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn answer(&self) -> Result<(OwnedSemaphorePermit, Room), Full> {
        let turn = self.answers.clone().acquire_owned();
        let turn = tokio::time::timeout(PATIENCE, turn).await;
        let turn = turn.map_err(|_| Full)?.map_err(|_| Full)?;
        Ok((turn, self.take(ANSWER).await?))
    }

    /// Waits for room for a number of bytes, at most for a quarter of all there is.
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
    /// Gives back what exceeds a number of bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let excess = self.0.num_permits().saturating_sub(bytes.div_ceil(STEP));
        drop(self.0.split(excess));
    }

    /// Makes the room last as long as any slice of `content`.
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
