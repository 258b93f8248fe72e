//! Folded run states, cached.
//!
//! A state is folded once and afterwards only from where the fold ended, so reading a run of
//! 100,000 tasks costs only the events since the last read. The cache affects speed only.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Mutex;

use crate::rules::run::fold::RunState;
use crate::rules::run::record::RunRecord;
use crate::store;
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TenantId};

const CACHED_RUNS: u64 = 256;
const PAGE: u32 = 2048;
/// How long a run that another replica deleted may still be served.
const RECORD_HOLDS: Duration = Duration::from_secs(10);

/// Records and folded states of runs.
pub struct Projections {
    store: Arc<Database>,
    records: Cache<RunId, Arc<RunRecord>>,
    states: Cache<RunId, Arc<Mutex<RunState>>>,
}

impl Projections {
    pub fn new(store: Arc<Database>) -> Self {
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
        self.states.invalidate(run).await;
    }

    /// Takes the state of a run whose end is durable from its writer, so that its log is not folded
    /// again.
    pub async fn keep(&self, run: &RunId, state: RunState) {
        let state = Arc::new(Mutex::new(state));
        self.states.insert(run.clone(), state).await;
    }

    /// Reads the state of a finished run, if it is cached.
    pub async fn ended<T>(&self, run: &RunId, read: impl FnOnce(&RunState) -> T) -> Option<T> {
        let cached = self.states.get(run).await?;
        let state = cached.lock().await;
        state.status.is_terminal().then(|| read(&state))
    }

    /// Folds the log to its end and reads the state.
    ///
    /// # Errors
    /// The store failed.
    pub async fn with_state<T>(
        &self,
        run: &RunId,
        read: impl FnOnce(&RunState) -> T,
    ) -> Result<T, StoreError> {
        let cached = self
            .states
            .get_with(run.clone(), async { Arc::default() })
            .await;
        let mut state = cached.lock().await;
        catch_up(self.store.as_ref(), run, &mut state).await?;
        Ok(read(&state))
    }
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
