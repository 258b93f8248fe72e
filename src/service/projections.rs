//! Folded run states, kept warm.
//!
//! A state is folded once and then only from where it ended, so a look at a run of 100,000 tasks costs what happened since
//! the last look. Dropping the cache changes nothing but speed.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Mutex;

use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::fold::RunState;
use crate::domain::run::record::RunRecord;
use crate::ports::{Store, StoreError, reaches_end};

const CACHED_RUNS: u64 = 256;
const PAGE: u32 = 2048;
/// A run that another replica deletes is served for so long at most.
const RECORD_HOLDS: Duration = Duration::from_secs(10);

/// Records and folded states of runs.
pub struct Projections {
    store: Arc<dyn Store>,
    records: Cache<RunId, Arc<RunRecord>>,
    states: Cache<RunId, Arc<Mutex<RunState>>>,
}

impl Projections {
    /// An empty cache over `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            records: Cache::builder()
                .max_capacity(CACHED_RUNS)
                .time_to_live(RECORD_HOLDS)
                .build(),
            states: Cache::new(CACHED_RUNS),
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
        let Some(record) = self.store.run(tenant, run).await? else {
            return Ok(None);
        };
        let record = Arc::new(record);
        self.records.insert(run.clone(), record.clone()).await;
        Ok(Some(record))
    }

    /// Drops what is kept of a run that was deleted.
    pub async fn forget(&self, run: &RunId) {
        self.records.invalidate(run).await;
        self.states.invalidate(run).await;
    }

    /// Takes over the state of a run whose end is durable from the one who wrote it, so that nobody folds its log again.
    pub async fn keep(&self, run: &RunId, state: RunState) {
        let state = Arc::new(Mutex::new(state));
        self.states.insert(run.clone(), state).await;
    }

    /// Looks at the state of a run that has ended, if it is kept here.
    pub async fn ended<T>(&self, run: &RunId, look: impl FnOnce(&RunState) -> T) -> Option<T> {
        let cached = self.states.get(run).await?;
        let state = cached.lock().await;
        state.status.is_terminal().then(|| look(&state))
    }

    /// Folds the log to its end and looks at the state.
    ///
    /// # Errors
    /// The store failed.
    pub async fn with_state<T>(
        &self,
        run: &RunId,
        look: impl FnOnce(&RunState) -> T,
    ) -> Result<T, StoreError> {
        let cached = self
            .states
            .get_with(run.clone(), async { Arc::default() })
            .await;
        let mut state = cached.lock().await;
        catch_up(self.store.as_ref(), run, &mut state).await?;
        Ok(look(&state))
    }
}

/// Folds whatever the log has beyond `state`. Events that cannot be read are counted in the state.
///
/// # Errors
/// The store failed.
pub async fn catch_up(
    store: &dyn Store,
    run: &RunId,
    state: &mut RunState,
) -> Result<(), StoreError> {
    while !state.status.is_terminal() {
        let events = store.read(run, state.sequence, PAGE).await?;
        for event in &events {
            state.apply_stored(event.sequence, &event.body);
        }
        if reaches_end(&events, PAGE) {
            break;
        }
    }
    Ok(())
}
