//! Folded run states, cached.
//!
//! A state is folded once and afterwards only from where the fold ended, so reading a run of
//! 100,000 tasks costs only the events since the last read. The state of a long log is also stored
//! (ADR 70), so that the first read after a start need not fold the log. Both affect speed only.

pub mod computing;
pub mod ended;
pub mod stored;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use moka::future::Cache;
use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use tokio::sync::Mutex;

use crate::rules::run::fold::RunState;
use crate::rules::run::fold::stored::Tasks;
use crate::rules::run::record::RunRecord;
use crate::service::projections::ended::Ended;
use crate::service::projections::stored::{LONG_LOG, Start};
use crate::store;
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TenantId};

const CACHED_RECORDS: usize = 16 * 1024 * 1024;
const CACHED_STATES: usize = 64 * 1024 * 1024;
const CACHED_ENDED: usize = 16 * 1024 * 1024;
/// Size in bytes from which the state of an ended run is dropped once its results are stored.
const LARGE_STATE: usize = 16 * 1024 * 1024;
/// How long a state is kept after it was read.
const STATE_HOLDS: Duration = Duration::from_secs(300);
/// How long the results of an ended run are kept for the next page.
const ENDED_HOLDS: Duration = Duration::from_secs(30);
/// Estimated bytes of a record without tasks.
const RECORD_BYTES: usize = 4096;
const PAGE: u32 = 2048;
/// How long a run that another replica deleted may still be served.
const RECORD_HOLDS: Duration = Duration::from_secs(10);

/// Records and folded states of runs.
pub struct Projections {
    store: Arc<Database>,
    records: Cache<RunId, Arc<RunRecord>>,
    states: States,
    ended: Cache<RunId, Arc<Ended>>,
    keeps_large: bool,
}

/// Folded states, limited by the memory that they take.
struct States {
    cached: Cache<RunId, Arc<CachedState>>,
}

#[derive(Default)]
struct CachedState {
    state: Mutex<RunState>,
    /// The size of the state that the cache knows, in bytes.
    weight: AtomicUsize,
}

impl States {
    fn new(bytes: usize) -> Self {
        let weigher =
            move |_: &RunId, cached: &Arc<CachedState>| weight(cached.weight.load(Relaxed), bytes);
        let cached = Cache::builder()
            .max_capacity(bytes as u64)
            .weigher(weigher)
            .time_to_idle(STATE_HOLDS)
            // The state in use is kept, however often others are read.
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { cached }
    }

    async fn insert(&self, run: &RunId, state: RunState) {
        let cached = CachedState {
            weight: state.bytes().into(),
            state: state.into(),
        };
        self.cached.insert(run.clone(), Arc::new(cached)).await;
        self.evict().await;
    }

    /// Frees displaced and dropped states. Without this, the cache keeps them until its next use.
    async fn evict(&self) {
        self.cached.run_pending_tasks().await;
    }

    /// The state of a run, which is empty if it is not cached.
    async fn get_or_empty(&self, run: &RunId) -> Arc<CachedState> {
        let empty = async { Arc::default() };
        self.cached.get_with(run.clone(), empty).await
    }

    /// Drops the state of a run if it has at least this many bytes.
    async fn drop_from(&self, run: &RunId, bytes: usize) {
        let cached = self.cached.get(run).await;
        if cached.is_some_and(|cached| cached.weight.load(Relaxed) >= bytes) {
            self.cached.invalidate(run).await;
            self.evict().await;
        }
    }

    /// Tells the cache the size of a state if it has changed considerably.
    async fn weigh(&self, run: &RunId, cached: &Arc<CachedState>, bytes: usize) {
        let known = cached.weight.load(Relaxed);
        if bytes.abs_diff(known) <= known / 8 {
            return;
        }
        cached.weight.store(bytes, Relaxed);
        // A state that was dropped meanwhile, because its run was deleted, must not come back.
        let put = |entry: Option<moka::Entry<RunId, Arc<CachedState>>>| {
            let is_kept = entry.is_some_and(|entry| Arc::ptr_eq(entry.value(), cached));
            ready(match is_kept {
                true => Op::Put(cached.clone()),
                false => Op::Nop,
            })
        };
        self.cached.entry_by_ref(run).and_compute_with(put).await;
        self.evict().await;
    }
}

impl Projections {
    pub fn new(store: Arc<Database>) -> Self {
        let of_record = |_: &RunId, record: &Arc<RunRecord>| {
            let tasks = record.spec.eval().map_or(0, |eval| eval.tasks.bytes());
            weight(RECORD_BYTES + tasks, CACHED_RECORDS)
        };
        Self {
            store,
            records: Cache::builder()
                .max_capacity(CACHED_RECORDS as u64)
                .weigher(of_record)
                .time_to_live(RECORD_HOLDS)
                .build(),
            states: States::new(CACHED_STATES),
            ended: Cache::builder()
                .max_capacity(CACHED_ENDED as u64)
                .weigher(|_, ended: &Arc<Ended>| weight(ended.bytes(), CACHED_ENDED))
                .time_to_idle(ENDED_HOLDS)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            keeps_large: false,
        }
    }

    /// Whether [`release`](Self::release) does nothing, because stored states and results are deleted with
    /// task content when runs end.
    #[must_use]
    pub fn keeping_large(self, keeps_large: bool) -> Self {
        Self {
            keeps_large,
            ..self
        }
    }

    /// The record of a run of this tenant.
    ///
    /// # Errors
    /// The store failed.
    pub async fn record(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Option<Arc<RunRecord>>, StoreError> {
        if let Some(record) = self.records.get(run).await {
            return Ok((record.tenant == *tenant).then_some(record));
        }
        let Some(record) = store::runs::find(&self.store, tenant, run).await? else {
            return Ok(None);
        };
        let record = Arc::new(record);
        self.records.insert(run.clone(), record.clone()).await;
        Ok(Some(record))
    }

    /// Drops the cached record and state of a deleted run.
    pub async fn forget(&self, run: &RunId) {
        self.records.invalidate(run).await;
        self.states.cached.invalidate(run).await;
        self.ended.invalidate(run).await;
    }

    /// Takes the state of a run whose end is durable from its writer, so that its log is not folded
    /// again.
    pub async fn keep(&self, run: &RunId, state: RunState) {
        self.states.insert(run, state).await;
    }

    /// Drops the state of a run whose results are stored, if it is large: views read the results and the
    /// parts of the stored state that they need.
    pub async fn release(&self, run: &RunId) {
        if !self.keeps_large {
            self.states.drop_from(run, LARGE_STATE).await;
        }
    }

    /// Reads the state of a finished run, if it is cached or stored. A stored one is not cached:
    /// gates read many runs once.
    pub async fn ended<T>(&self, run: &RunId, read: impl FnOnce(&RunState) -> T) -> Option<T> {
        if let Some(cached) = self.states.cached.get(run).await {
            let state = cached.state.lock().await;
            if state.status.is_terminal() {
                return Some(read(&state));
            }
        }
        let Start { state, .. } = stored::start(&self.store, run).await;
        state.status.is_terminal().then(|| read(&state))
    }

    /// Folds the log to its end and reads the state. The state of a finished run with a long log is
    /// stored if it was not.
    ///
    /// # Errors
    /// The store failed.
    pub async fn with_state<T>(
        &self,
        run: &RunId,
        read: impl FnOnce(&RunState) -> T,
    ) -> Result<T, StoreError> {
        let cached = self.states.get_or_empty(run).await;
        let mut state = cached.state.lock().await;
        let before = state.sequence;
        let mut content = None;
        if before == 0 {
            let start = stored::start(&self.store, run).await;
            (*state, content) = (start.state, start.content);
        }
        let start = state.sequence;
        catch_up(self.store.as_ref(), run, &mut state).await?;
        if state.sequence > before {
            self.states.weigh(run, &cached, state.bytes()).await;
        }
        let is_long = state.sequence - start >= LONG_LOG && state.status.is_terminal();
        let content = content.filter(|_| is_long);
        let snapshot = content.and_then(|content| Some((content, state.snapshot(Tasks::All)?)));
        let value = read(&state);
        drop(state);
        if let Some((content, snapshot)) = snapshot {
            stored::store(&self.store, run, content, snapshot, None).await;
        }
        Ok(value)
    }
}

/// The weight of `bytes` in a cache of this size. Anything is kept that is used alone, because the
/// next reader would have to read it again.
fn weight(bytes: usize, cache: usize) -> u32 {
    u32::try_from(bytes.min(cache)).unwrap_or(u32::MAX)
}

/// The state of a run: the stored one, if there is one, and the fold of the rest of the log. Also
/// returns the sequence of the stored one, or 0.
///
/// # Errors
/// The store failed.
pub async fn folded(store: &Database, run: &RunId) -> Result<(RunState, u64), StoreError> {
    let Start { mut state, .. } = stored::start(store, run).await;
    let stored = state.sequence;
    catch_up(store, run, &mut state).await?;
    Ok((state, stored))
}

/// Folds the events of the log beyond `state`. Events that cannot be read are counted in the state.
///
/// # Errors
/// The store failed.
pub async fn catch_up(
    store: &Database,
    run: &RunId,
    state: &mut RunState,
) -> Result<(), StoreError> {
    while !state.status.is_terminal() {
        let events = store::runs::read(store, run, state.sequence, PAGE).await?;
        for event in &events {
            state.apply_stored(event.sequence, &event.body);
        }
        if reaches_end(&events, PAGE) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::run::fold::TaskFacts;

    fn state(tasks: usize) -> RunState {
        let scored = || TaskFacts {
            scored: true,
            ..TaskFacts::default()
        };
        let mut state = RunState::default();
        let tasks = (0..tasks).map(|n| (format!("task-{n}").into(), scored()));
        state.eval.tasks = tasks.collect();
        state
    }

    async fn kept(states: &States, runs: &[&str]) -> Vec<bool> {
        states.cached.run_pending_tasks().await;
        let runs = runs
            .iter()
            .map(|run| states.cached.contains_key(&RunId::from(*run)));
        runs.collect()
    }

    #[tokio::test]
    async fn states_that_were_read_last_are_kept_up_to_a_size() {
        let size = state(1000).bytes();
        let states = States::new(2 * size + size / 2);
        for run in ["a", "b", "c"] {
            states.insert(&run.into(), state(1000)).await;
        }
        assert_eq!(kept(&states, &["a", "b", "c"]).await, [false, true, true]);
        states.get_or_empty(&"b".into()).await;
        states.insert(&"d".into(), state(1000)).await;
        let found = kept(&states, &["b", "c", "d"]).await;
        assert_eq!(found, [true, false, true]);
        // One that exceeds the cache is not read again and again.
        states.insert(&"large".into(), state(9000)).await;
        let found = kept(&states, &["b", "d", "large"]).await;
        assert_eq!(found, [false, false, true]);
    }

    #[tokio::test]
    async fn only_large_states_are_dropped() {
        let size = state(1000).bytes();
        let states = States::new(10 * size);
        states.insert(&"small".into(), state(100)).await;
        states.insert(&"large".into(), state(1000)).await;
        for run in ["small", "large", "unknown"] {
            states.drop_from(&run.into(), size).await;
        }
        let found = kept(&states, &["small", "large", "unknown"]).await;
        assert_eq!(found, [true, false, false]);
    }

    #[tokio::test]
    async fn a_state_that_grows_displaces_others() {
        let size = state(1000).bytes();
        let states = States::new(2 * size + size / 2);
        states.insert(&"a".into(), state(1000)).await;
        let growing = states.get_or_empty(&"b".into()).await;
        assert_eq!(kept(&states, &["a", "b"]).await, [true, true]);
        *growing.state.lock().await = state(2000);
        let grown = growing.state.lock().await.bytes();
        states.weigh(&"b".into(), &growing, grown).await;
        assert_eq!(kept(&states, &["a", "b"]).await, [false, true]);
        // The run was deleted.
        states.cached.invalidate(&RunId::from("b")).await;
        states.weigh(&"b".into(), &growing, 3 * grown).await;
        assert_eq!(kept(&states, &["b"]).await, [false]);
    }
}
