//! Reading a run's log for many at once.
//!
//! Readers ask for pages. A full page never changes and is kept, weighed in octets; the page at the end of the log is kept
//! apart and grows in place, reading only what is new. Whoever asks first reads, the others wait for it. A consumer holds
//! nothing but its position, so one that is slow costs nobody anything.
//!
//! A page ends after [`PAGE_EVENTS`] events or [`PAGE_BYTES`] bytes. One that was cut by its bytes is followed by pages that
//! begin where their reader stands. Pages count against the memory of all readers for as long as anybody holds a slice.

mod filter;
mod follower;
mod page;
mod room;

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::{Mutex, Semaphore};

pub use filter::Filter;
pub use follower::Follow;
use follower::Followers;
pub use page::{PAGE_BYTES, PAGE_EVENTS, Page, PagedEvent};
pub use room::{Full, Room, Rooms};

use crate::domain::ids::RunId;
use crate::ports::{Head, Store, StoreError, reaches_end};

const DEFAULT_CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// Reads of the store at the same time: each may return [`PAGE_BYTES`] and one event more.
const AT_ONCE: usize = 2;
/// Pages up to this size are not counted.
const SMALL_BYTES: usize = 16 * 1024;
/// A larger page at the end of a log is not kept.
const LARGEST_TAIL: usize = 128 * 1024;
/// Runs whose last page is kept; beyond it the page is read again.
const TAILS: u64 = 64;
const TAIL_IDLE: Duration = Duration::from_secs(60);

/// The log could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store failed; shared because several readers may have waited for the same page.
    #[error("the log cannot be read")]
    Store(#[source] Arc<StoreError>),
    /// The store gave other events than its own head promises.
    #[error("the log has a gap after event {0}")]
    Gap(u64),
    /// Others read so much that there is no memory left.
    #[error(transparent)]
    Full(#[from] Full),
}

impl From<StoreError> for Error {
    fn from(cause: StoreError) -> Self {
        Self::Store(Arc::new(cause))
    }
}

type Tail = Arc<Mutex<Option<Arc<Page>>>>;

/// Shared, bounded access to the logs of all runs.
pub struct LogReader {
    store: Arc<dyn Store>,
    /// By the first sequence.
    full: Cache<(RunId, u64), Arc<Page>>,
    tails: Cache<RunId, Tail>,
    followers: Followers,
    rooms: Rooms,
    turns: Semaphore,
}

impl LogReader {
    /// A reader over `store` that keeps up to 16 MiB of pages.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with_cache_bytes(store, DEFAULT_CACHE_BYTES)
    }

    /// A reader that keeps up to `cache_bytes` of full pages.
    pub fn with_cache_bytes(store: Arc<dyn Store>, cache_bytes: u64) -> Self {
        Self {
            store,
            full: Cache::builder()
                .max_capacity(cache_bytes)
                .weigher(|_, page: &Arc<Page>| page.weight())
                .build(),
            tails: Cache::builder()
                .max_capacity(TAILS)
                .time_to_idle(TAIL_IDLE)
                .build(),
            followers: Followers::default(),
            rooms: Rooms::default(),
            turns: Semaphore::new(AT_ONCE),
        }
    }

    /// The memory that readers share.
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Where the log ends now, asked of the store.
    ///
    /// # Errors
    /// The store failed.
    pub async fn head(&self, run: &RunId) -> Result<Head, Error> {
        Ok(self.store.head(run).await?.unwrap_or_default())
    }

    /// The position a `Last-Event-ID` stands for: a sequence or an event id. `None` for anything else.
    ///
    /// # Errors
    /// The store failed.
    pub async fn position(&self, run: &RunId, last_event_id: &str) -> Result<Option<u64>, Error> {
        if last_event_id.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(last_event_id.parse().ok());
        }
        let well_formed = last_event_id.len() <= 128
            && last_event_id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !well_formed {
            return Ok(None);
        }
        Ok(self.store.sequence_of(run, last_event_id).await?)
    }

    /// The page with the event after `position` in a log that reaches at least `head`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn page_after(
        &self,
        run: &RunId,
        position: u64,
        head: u64,
    ) -> Result<Arc<Page>, Error> {
        let first = position / PAGE_EVENTS * PAGE_EVENTS + 1;
        let end = first + PAGE_EVENTS - 1;
        let page = if head < end {
            self.tail(run, first, head).await?
        } else {
            self.full
                .try_get_with((run.clone(), first), async {
                    self.load(run, first, end).await.map(Arc::new)
                })
                .await
                .map_err(|cause: Arc<Error>| (*cause).clone())?
        };
        if page.last() > position {
            return Ok(page);
        }
        if !page.is_cut() {
            return Err(Error::Gap(page.last()));
        }
        self.after_a_cut(run, position + 1, end, head).await
    }

    /// The page from `first` on, which lies behind one that was cut by its bytes and ends at `end`.
    async fn after_a_cut(
        &self,
        run: &RunId,
        first: u64,
        end: u64,
        head: u64,
    ) -> Result<Arc<Page>, Error> {
        let key = (run.clone(), first);
        if let Some(page) = self.full.get(&key).await {
            return Ok(page);
        }
        let page = Arc::new(self.load(run, first, end.min(head)).await?);
        if page.last() < first {
            return Err(Error::Gap(first - 1));
        }
        if page.is_cut() || page.last() == end {
            self.full.insert(key, page.clone()).await;
        }
        Ok(page)
    }

    /// Follows a run whose log reaches `known`.
    pub fn follow(&self, run: &RunId, known: Head) -> Follow {
        self.followers.follow(&self.store, run, known)
    }

    async fn tail(&self, run: &RunId, first: u64, head: u64) -> Result<Arc<Page>, Error> {
        let tail = self
            .tails
            .get_with(run.clone(), async { Tail::default() })
            .await;
        let mut kept = tail.lock().await;
        let page = match kept.as_ref().filter(|page| page.first() == first) {
            Some(page) if page.last() >= head || page.is_cut() => return Ok(page.clone()),
            Some(page) => {
                let (more, mut room) = self.read(run, page.last(), head).await?;
                // Both the page and what is added to it are copied into the new one.
                if room.is_none() && page.bytes() > SMALL_BYTES {
                    room = Some(self.rooms.take(page.bytes() + SMALL_BYTES).await?);
                }
                Arc::new(page.extended(more, room))
            }
            None => {
                let page = Arc::new(self.load(run, first, head).await?);
                // A reader that lags behind by more than a page must not take the place of the newest one.
                if kept.as_ref().is_some_and(|newer| newer.first() > first) {
                    return Ok(page);
                }
                page
            }
        };
        // The last pages of all runs together stay small.
        *kept = (page.bytes() <= LARGEST_TAIL).then(|| page.clone());
        Ok(page)
    }

    async fn load(&self, run: &RunId, first: u64, last: u64) -> Result<Page, Error> {
        let (events, room) = self.read(run, first - 1, last).await?;
        Ok(Page::new(first, events, room))
    }

    /// The events after `after`, at least up to `last` unless they are large, within one page; with room for them if they
    /// are not small.
    async fn read(
        &self,
        run: &RunId,
        after: u64,
        last: u64,
    ) -> Result<(Vec<PagedEvent>, Option<Room>), Error> {
        // How much it will be is known only once it is there; few read at the same time.
        let _turn = self.turns.acquire().await.map_err(|_| Full)?;
        // Whatever else the page has by now comes along: it is as durable as what was asked for.
        let limit = u32::try_from(PAGE_EVENTS - after % PAGE_EVENTS).unwrap_or(u32::MAX);
        let events = self.store.read(run, after, limit).await?;
        let unbroken = events
            .iter()
            .zip(after + 1..)
            .all(|(event, expected)| event.sequence == expected);
        let ends_early = after + (events.len() as u64) < last;
        if !unbroken || (ends_early && reaches_end(&events, limit)) {
            return Err(Error::Gap(after));
        }
        let bytes: usize = events.iter().map(|event| event.body.len()).sum();
        let room = match bytes > SMALL_BYTES {
            true => Some(self.rooms.take(bytes + bytes / 8).await?),
            false => None,
        };
        Ok((events.into_iter().map(PagedEvent::from).collect(), room))
    }
}
