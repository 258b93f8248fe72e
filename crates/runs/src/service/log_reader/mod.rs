//! Reading a run's log for many consumers at once.
//!
//! Readers request pages. A full page never changes and is cached, weighted by its bytes; the last
//! page of a log is cached separately and grows in place, reading only new events. The first reader
//! of a page loads it, the others wait for it. A consumer holds only its position, so a slow
//! consumer does not delay the others.
//!
//! A consumer that does not read holds its page. Other consumers share that page for as long as it is
//! held, even if it is too large for a cache.
//!
//! A page ends after [`PAGE_EVENTS`] events or [`PAGE_BYTES`] bytes. A page cut by its bytes is
//! followed by pages that start at the reader's position. Pages count against the memory of all
//! readers for as long as any slice of them is held.
//!
//! The store has the form of major 1. Other [forms](form) of a page are made once and cached too.

pub mod filter;
pub mod follower;
pub mod form;
pub mod memory;
pub mod page;
pub mod projections;

use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::future::Cache;
use moka::policy::EvictionPolicy;
use tokio::sync::{Mutex, Semaphore};

pub use crate::service::log_reader::filter::Filter;
pub use crate::service::log_reader::follower::Follow;
use crate::service::log_reader::follower::Followers;
pub use crate::service::log_reader::form::{LogForm, Unshown};
pub use crate::service::log_reader::memory::{MemoryPermit, OutOfMemory, ReadMemory};
use crate::service::log_reader::page::Layout;
pub use crate::service::log_reader::page::{PAGE_BYTES, PAGE_EVENTS, Page, PagedEvent};
use crate::service::log_reader::projections::Projections;
use crate::store;
use touchstone_host::store::database::head;

use touchstone_host::ports::run_log::{Head, reaches_end};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::log::Numbering;

const DEFAULT_CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// Concurrent reads of the store: each may return [`PAGE_BYTES`] and one event more.
const AT_ONCE: usize = 2;
/// Pages up to this size, in bytes, are not counted.
const SMALL_BYTES: usize = 16 * 1024;
/// Maximum size, in bytes, of a cached last page.
const LARGEST_TAIL: usize = 128 * 1024;
/// Number of runs whose last page is cached.
const TAILS: u64 = 64;
/// Maximum number of pages that readers share only because one of them holds the page.
const HELD: u64 = 4096;
/// How long pages are cached, in every replica.
const CONTENT_TTL: Duration = Duration::from_secs(60);
const TAIL_IDLE: Duration = Duration::from_secs(60);

/// The log could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store failed; shared because several readers may have waited for the same page.
    #[error("the log cannot be read")]
    Store(#[source] Arc<StoreError>),
    /// The store returned other events than its own head announces.
    #[error("the log has a gap after event {0}")]
    Gap(u64),
    /// Other readers have used up the memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// An event has no form under the reader's major.
    #[error(transparent)]
    Unshown(Arc<Unshown>),
}

impl From<StoreError> for Error {
    fn from(cause: StoreError) -> Self {
        Self::Store(Arc::new(cause))
    }
}

type Tail = Arc<Mutex<Option<Arc<Page>>>>;

/// Shared access to the logs of all runs, with limited memory.
pub struct LogReader {
    store: Arc<Database>,
    /// Keyed by the first place.
    full: Cache<(RunId, u64), Arc<Page>>,
    tails: Cache<RunId, Tail>,
    /// Pages that a reader may still hold, by their first place.
    held: Cache<(RunId, u64), Weak<Page>>,
    projections: Projections,
    followers: Followers,
    memory: ReadMemory,
    turns: Semaphore,
    /// Held by the reader that loads a page after a cut; other readers of that page wait.
    turns_after_cuts: Cache<(RunId, u64), Arc<Mutex<()>>>,
}

impl LogReader {
    /// A reader over `store` that caches up to 16 MiB of pages.
    pub fn new(store: Arc<Database>) -> Self {
        Self::with_cache_bytes(store, DEFAULT_CACHE_BYTES)
    }

    /// A reader that caches up to `cache_bytes` of full pages, and half of that in other forms.
    pub fn with_cache_bytes(store: Arc<Database>, cache_bytes: u64) -> Self {
        Self {
            store,
            full: Cache::builder()
                .max_capacity(cache_bytes)
                .eviction_policy(EvictionPolicy::lru())
                // Content that was deleted from the log disappears from the cache too.
                .time_to_live(CONTENT_TTL)
                .weigher(|_, page: &Arc<Page>| page.weight())
                .build(),
            tails: Cache::builder()
                .max_capacity(TAILS)
                .time_to_idle(TAIL_IDLE)
                .time_to_live(CONTENT_TTL)
                .build(),
            held: Cache::builder()
                .max_capacity(HELD)
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(CONTENT_TTL)
                .build(),
            projections: Projections::new(cache_bytes / 2),
            followers: Followers::default(),
            memory: ReadMemory::default(),
            turns: Semaphore::new(AT_ONCE),
            turns_after_cuts: Cache::builder()
                .max_capacity(HELD)
                .time_to_idle(TAIL_IDLE)
                .build(),
        }
    }

    /// The memory that readers share.
    pub fn memory(&self) -> &ReadMemory {
        &self.memory
    }

    /// The current head of the log, from the store.
    ///
    /// # Errors
    /// The store failed.
    pub async fn head(&self, run: &RunId) -> Result<Head, Error> {
        Ok(head(&self.store, run).await?.unwrap_or_default())
    }

    /// The place for a `Last-Event-ID` under major 1, which is one of the log's `numbers` or an event
    /// id. `None` for anything else.
    ///
    /// # Errors
    /// The store failed.
    pub async fn position(
        &self,
        run: &RunId,
        numbers: Numbering,
        last_event_id: &str,
    ) -> Result<Option<u64>, Error> {
        if last_event_id.bytes().all(|b| b.is_ascii_digit()) {
            let sequence = last_event_id.parse().ok();
            return Ok(sequence.map(|it| numbers.read_up_to(it)));
        }
        let well_formed = last_event_id.len() <= 128
            && last_event_id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !well_formed {
            return Ok(None);
        }
        Ok(store::runs::sequence_of(&self.store, run, last_event_id).await?)
    }

    /// As [`page_after`](Self::page_after), in the form of a reader.
    ///
    /// # Errors
    /// [`Error::Unshown`], and as there.
    pub async fn page_for(
        &self,
        run: &RunId,
        position: u64,
        head: u64,
        form: &LogForm,
    ) -> Result<Arc<Page>, Error> {
        let page = self.page_after(run, position, head).await?;
        let page = match form.is_masked {
            true => page.without_content(),
            false => page,
        };
        match form.is_stored() {
            true => Ok(page),
            false => self.projections.of(self, run, &page, form).await,
        }
    }

    /// The page with the event after `position` in a log that reaches at least `head`, as it is
    /// stored.
    ///
    /// # Errors
    /// The log cannot be read, or is not what its head announces.
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
            let key = (run.clone(), first);
            let known = match self.full.get(&key).await {
                Some(page) => Some(page),
                None => self.held(run, first, end).await,
            };
            match known {
                Some(page) => page,
                None => {
                    let load = self.load(run, first, end);
                    let loaded = self.full.try_get_with(key, load).await;
                    loaded.map_err(|cause: Arc<Error>| (*cause).clone())?
                }
            }
        };
        if page.last() > position {
            return Ok(page);
        }
        if !page.is_cut() {
            return Err(Error::Gap(page.last()));
        }
        self.after_a_cut(run, position + 1, end, head).await
    }

    /// The page that starts at `first`, after a page cut by its bytes, and ends at `end`.
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
        let last = end.min(head);
        let turn = self
            .turns_after_cuts
            .get_with(key.clone(), async { Arc::default() });
        let turn = turn.await;
        let _turn = turn.lock().await;
        if let Some(page) = self.held(run, first, last).await {
            return Ok(page);
        }
        let page = self.load(run, first, last).await?;
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
                let (more, mut permit) = self.read(run, page.last(), head).await?;
                // The page and the new events are both copied into the new page.
                if permit.is_none() && page.bytes() > SMALL_BYTES {
                    permit = Some(self.memory.reserve(page.bytes() + SMALL_BYTES).await?);
                }
                // Not shared: it repeats events that were read earlier, so deleted content would be shown
                // for longer than `CONTENT_TTL`.
                Arc::new(page.extended(more, permit))
            }
            None => {
                if let Some(page) = self.held(run, first, head).await {
                    return Ok(page);
                }
                let page = self.load(run, first, head).await?;
                // A reader more than a page behind must not replace the newest page.
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

    async fn load(&self, run: &RunId, first: u64, last: u64) -> Result<Arc<Page>, Error> {
        let (events, permit) = self.read(run, first - 1, last).await?;
        let page = Arc::new(Page::new(first, Layout::STORED, events, permit));
        let key = (run.clone(), first);
        self.held.insert(key, Arc::downgrade(&page)).await;
        Ok(page)
    }

    /// The page from `first` to at least `last`, if a reader holds it. It is not cached again, so that
    /// deleted content disappears within [`CONTENT_TTL`].
    async fn held(&self, run: &RunId, first: u64, last: u64) -> Option<Arc<Page>> {
        let held = self.held.get(&(run.clone(), first)).await?;
        let page = held.upgrade()?;
        (page.last() >= last || page.is_cut()).then_some(page)
    }

    /// The events after `after` within one page, at least up to `last` unless they are large; with
    /// a memory reservation if they are not small.
    async fn read(
        &self,
        run: &RunId,
        after: u64,
        last: u64,
    ) -> Result<(Vec<PagedEvent>, Option<MemoryPermit>), Error> {
        // The size is known only after the read, so few reads run at the same time.
        let _turn = self.turns.acquire().await.map_err(|_| OutOfMemory)?;
        // Include whatever else the page has by now: it is equally durable.
        let limit = u32::try_from(PAGE_EVENTS - after % PAGE_EVENTS).unwrap_or(u32::MAX);
        let events = store::runs::read(&self.store, run, after, limit).await?;
        let unbroken = events
            .iter()
            .zip(after + 1..)
            .all(|(event, expected)| event.sequence == expected);
        let ends_early = after + (events.len() as u64) < last;
        if !unbroken || (ends_early && reaches_end(&events, limit)) {
            return Err(Error::Gap(after));
        }
        let bytes: usize = events.iter().map(|event| event.body.len()).sum();
        let permit = match bytes > SMALL_BYTES {
            true => Some(self.memory.reserve(bytes + bytes / 8).await?),
            false => None,
        };
        Ok((events.into_iter().map(PagedEvent::from).collect(), permit))
    }
}
