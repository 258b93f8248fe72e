//! Reading a run's log for many at once.
//!
//! Readers ask for pages. A full page never changes and is kept, weighed in octets; the page at the end of the log is kept
//! apart and grows in place, reading only what is new. Whoever asks first reads, the others wait for it. A consumer holds
//! nothing but its position, so one that is slow costs nobody anything.

mod filter;
mod follower;
mod page;

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Mutex;

pub use filter::Filter;
pub use follower::Follow;
use follower::Followers;
pub use page::{PAGE_EVENTS, Page, PagedEvent};

use crate::domain::ids::RunId;
use crate::ports::{Head, Store, StoreError};

const DEFAULT_CACHE_BYTES: u64 = 32 * 1024 * 1024;
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
    full: Cache<(RunId, u64), Arc<Page>>,
    tails: Cache<RunId, Tail>,
    followers: Followers,
}

impl LogReader {
    /// A reader over `store` that keeps up to 32 MiB of pages.
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
        }
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
        let index = position / PAGE_EVENTS;
        let first = index * PAGE_EVENTS + 1;
        let end = first + PAGE_EVENTS - 1;
        if head < end {
            return self.tail(run, first, head).await;
        }
        self.full
            .try_get_with((run.clone(), index), async {
                self.load(run, first, end).await.map(Arc::new)
            })
            .await
            .map_err(|cause: Arc<Error>| (*cause).clone())
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
            Some(page) if page.last() >= head => return Ok(page.clone()),
            Some(page) => {
                let more = self.read(run, page.last(), head).await?;
                Arc::new(page.extended(more))
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
        *kept = Some(page.clone());
        Ok(page)
    }

    async fn load(&self, run: &RunId, first: u64, last: u64) -> Result<Page, Error> {
        Ok(Page::new(first, self.read(run, first - 1, last).await?))
    }

    /// The events after `after`, at least up to `last`, within one page.
    async fn read(&self, run: &RunId, after: u64, last: u64) -> Result<Vec<PagedEvent>, Error> {
        // Whatever else the page has by now comes along: it is as durable as what was asked for.
        let room = PAGE_EVENTS - after % PAGE_EVENTS;
        let limit = u32::try_from(room).unwrap_or(u32::MAX);
        let events = self.store.read(run, after, limit).await?;
        let unbroken = events
            .iter()
            .zip(after + 1..)
            .all(|(event, expected)| event.sequence == expected);
        if !unbroken || after + (events.len() as u64) < last {
            return Err(Error::Gap(after));
        }
        Ok(events.into_iter().map(PagedEvent::from).collect())
    }
}
