//! Pages in forms other than the stored one, each made once for all its readers.
//!
//! A page that has grown is projected from where its last projection ended.

use std::sync::{Arc, Weak};

use moka::future::Cache;
use moka::policy::EvictionPolicy;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::service::log_reader::form::{LogForm, SUSPENDED, Unshown};
use crate::service::log_reader::page::{Layout, Page, PagedEvent};
use crate::service::log_reader::{CONTENT_TTL, Error, HELD, LogReader, SMALL_BYTES, TAIL_IDLE};
use crate::store;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::v2::event::Unprojectable;

/// Number of pages that are projected at the same time or were recently.
const TURNS: u64 = 256;
/// Events searched at a time.
const AT_A_TIME: u32 = 256;

/// The page of a run that begins at a place, under a major, with or without content.
type Key = (RunId, u64, Major, bool);

pub(super) struct Projections {
    /// With the time of the first projection: a page that grows is projected again after [`CONTENT_TTL`],
    /// because content can be deleted.
    pages: Cache<Key, (Arc<Page>, Instant)>,
    /// Those that a reader may still hold.
    held: Cache<Key, (Weak<Page>, Instant)>,
    /// The reader that makes a page; the others wait for it.
    turns: Cache<Key, Arc<Mutex<()>>>,
}

impl Projections {
    pub(super) fn new(cache_bytes: u64) -> Self {
        Self {
            pages: Cache::builder()
                .max_capacity(cache_bytes)
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(CONTENT_TTL)
                .weigher(|_, (page, _): &(Arc<Page>, Instant)| page.weight())
                .build(),
            held: Cache::builder()
                .max_capacity(HELD)
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(CONTENT_TTL)
                .build(),
            turns: Cache::builder()
                .max_capacity(TURNS)
                .time_to_idle(TAIL_IDLE)
                .build(),
        }
    }

    /// A form of a stored page, or of the page after it has grown further.
    pub(super) async fn of(
        &self,
        reader: &LogReader,
        run: &RunId,
        stored: &Page,
        form: &LogForm,
    ) -> Result<Arc<Page>, Error> {
        let key = (run.clone(), stored.first(), form.major, form.is_masked);
        let is_whole = |page: &Arc<Page>| page.last() >= stored.last();
        if let Some((page, _)) = self.known(&key).await.filter(|it| is_whole(&it.0)) {
            return Ok(page);
        }
        let turn = self.turns.get_with(key.clone(), async { Arc::default() });
        let turn = turn.await;
        let _turn = turn.lock().await;
        let begun = self.known(&key).await;
        if let Some((page, _)) = begun.clone().filter(|it| is_whole(&it.0)) {
            return Ok(page);
        }
        let begun = begun.filter(|(_, since)| since.elapsed() < CONTENT_TTL);
        let since = begun.as_ref().map_or_else(Instant::now, |it| it.1);
        let begun = begun.map(|it| it.0);
        let done = begun.as_ref().map_or(stored.first() - 1, |it| it.last());
        let permit = match stored.bytes() > SMALL_BYTES {
            true => {
                let bytes = stored.bytes() + stored.bytes() / 4;
                Some(reader.memory.reserve(bytes).await?)
            }
            false => None,
        };
        let more = project(&reader.store, run, form, stored, done).await?;
        let page = Arc::new(match begun {
            Some(page) => page.extended(more, permit),
            None => {
                let layout = Layout {
                    major: form.major,
                    numbers: form.numbers(),
                };
                Page::new(stored.first(), layout, more, permit)
            }
        });
        let held = (Arc::downgrade(&page), since);
        self.held.insert(key.clone(), held).await;
        self.pages.insert(key, (page.clone(), since)).await;
        Ok(page)
    }

    /// A page that is cached or held, with the time of its first projection.
    async fn known(&self, key: &Key) -> Option<(Arc<Page>, Instant)> {
        if let Some(known) = self.pages.get(key).await {
            return Some(known);
        }
        let (page, since) = self.held.get(key).await?;
        Some((page.upgrade()?, since))
    }
}

/// The events of a stored page after a place, in a form.
async fn project(
    store: &Database,
    run: &RunId,
    form: &LogForm,
    stored: &Page,
    done: u64,
) -> Result<Vec<PagedEvent>, Error> {
    let events = stored.events_after(done);
    let of_page = stored.events_after(0).iter();
    let of_page = of_page.take_while(|event| event.sequence <= done);
    let of_page: Vec<&PagedEvent> = of_page.filter(|event| &*event.kind == SUSPENDED).collect();
    let known = of_page.iter().map(|event| &*event.body);
    let unshown = |cause: Unshown| Error::Unshown(Arc::new(cause));
    match form.project(known.clone(), events) {
        Err(Unshown {
            cause: Unprojectable::Interrupt { .. },
            ..
        }) => {
            // The node was suspended before this page.
            let earlier = suspensions(store, run, stored.first() - 1).await?;
            let earlier = earlier.iter().map(|event| &*event.body);
            form.project(earlier.chain(known), events).map_err(unshown)
        }
        projected => projected.map_err(unshown),
    }
}

/// The events that suspended nodes, up to a place.
///
/// # Errors
/// The store failed.
pub async fn suspensions(
    store: &Database,
    run: &RunId,
    upto: u64,
) -> Result<Vec<StoredEvent>, StoreError> {
    let mut found = Vec::new();
    let mut after = 0;
    while after < upto {
        let limit = u32::try_from(upto - after).map_or(AT_A_TIME, |left| left.min(AT_A_TIME));
        let events = store::runs::read(store, run, after, limit).await?;
        let Some(last) = events.last() else {
            break;
        };
        after = last.sequence;
        found.extend(events.into_iter().filter(|it| &*it.kind == SUSPENDED));
    }
    Ok(found)
}
