//! Stored states: read before a log is folded, and written after a long one was.
//!
//! They affect speed only. A state that cannot be read or written is never an error.

use tracing::warn;

use crate::ports::storage::ContentKept;
use crate::rules::run::fold::RunState;
use crate::rules::run::fold::stored::{Snapshot, Tasks, Unusable};
use crate::service::metrics::{ProjectionOutcome, RUN_METRICS};
use crate::service::projections::PAGE;
use crate::store::projection::{self, Refused};
use crate::store::runs;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;

/// Number of events from which the state of a log is stored. Shorter logs are read in one page.
pub const LONG_LOG: u64 = 2048;

/// Where the fold of a log starts.
#[derive(Default)]
pub struct Start {
    /// The stored state, or the empty one.
    pub state: RunState,
    /// The task content that the log keeps; `None` if no state may be stored.
    pub content: Option<ContentKept>,
}

/// The stored state that a new one continues.
#[derive(Debug)]
pub struct Earlier {
    pub sequence: u64,
    /// Of its chunks.
    pub digests: Vec<String>,
}

/// Whether stored states are what their logs fold to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub equal: usize,
    /// Runs whose stored state is damaged or differs from the fold of the log.
    pub wrong: Vec<RunId>,
}

/// Folds the logs of the newest runs with a stored state and compares. Longer logs are left out.
///
/// # Errors
/// The store failed.
pub async fn compare(store: &Database, runs: u32, events: u32) -> Result<Comparison, StoreError> {
    let mut compared = Comparison::default();
    for run in projection::newest(store, events, runs).await? {
        let stored = projection::load(store, &run).await?;
        match stored.and_then(|stored| stored.state) {
            Some(Ok(state)) if folded_to(store, &run, state.sequence).await? == state => {
                compared.equal += 1;
            }
            Some(_) => compared.wrong.push(run),
            // Deleted meanwhile.
            None => {}
        }
    }
    Ok(compared)
}

/// The fold of the log up to a sequence.
async fn folded_to(store: &Database, run: &RunId, last: u64) -> Result<RunState, StoreError> {
    let mut state = RunState::default();
    loop {
        let left = u32::try_from(last.saturating_sub(state.sequence)).unwrap_or(PAGE);
        let page = left.min(PAGE);
        let events = runs::read(store, run, state.sequence, page).await?;
        for event in events.iter().filter(|event| event.sequence <= last) {
            state.apply_stored(event.sequence, &event.body);
        }
        if state.sequence >= last || events.is_empty() {
            return Ok(state);
        }
    }
}

/// Reads the stored state of a run. One that is damaged is deleted.
pub async fn start(store: &Database, run: &RunId) -> Start {
    let stored = match projection::load(store, run).await {
        Ok(Some(stored)) => stored,
        Ok(None) => return Start::default(),
        Err(cause) => {
            failed(run, cause, "could not read the stored state of a run");
            return Start::default();
        }
    };
    let state = match stored.state {
        Some(Ok(state)) => {
            RUN_METRICS.projection(ProjectionOutcome::Read);
            state
        }
        Some(Err(refused)) => {
            refuse(store, run, &refused).await;
            RunState::default()
        }
        None => RunState::default(),
    };
    Start {
        state,
        content: Some(stored.content),
    }
}

async fn refuse(store: &Database, run: &RunId, refused: &Refused) {
    match &refused.reason {
        // Of another version, which may still use it.
        Unusable::Format(_) => RUN_METRICS.projection(ProjectionOutcome::OtherFormat),
        cause @ Unusable::Damaged(_) => {
            RUN_METRICS.projection(ProjectionOutcome::Damaged);
            warn!(run_id = %run, %cause, "ignored the stored state of a run; its log is folded instead");
            if let Err(cause) = projection::discard(store, run, refused).await {
                failed(run, cause, "could not delete the stored state of a run");
            }
        }
    }
}

/// Stores a state whose events are durable. Returns what a later one can continue, unless another
/// state is kept.
pub async fn store(
    store: &Database,
    run: &RunId,
    content: ContentKept,
    snapshot: Snapshot,
    earlier: Option<Earlier>,
) -> Option<Earlier> {
    let (after, digests) = earlier
        .map(|earlier| (earlier.sequence, earlier.digests))
        .unzip();
    let id = run.clone();
    let encode = move || snapshot.encode(&id, digests.unwrap_or_default());
    let encoded = tokio::task::spawn_blocking(encode).await.ok()??;
    match projection::store(store, run, content, &encoded, after).await {
        Ok(true) => {
            RUN_METRICS.projection(ProjectionOutcome::Stored);
            Some(Earlier {
                sequence: encoded.sequence,
                digests: encoded.digests,
            })
        }
        Ok(false) => None,
        Err(cause) => {
            failed(run, cause, "could not store the state of a run");
            None
        }
    }
}

fn failed(run: &RunId, cause: StoreError, message: &'static str) {
    RUN_METRICS.projection(ProjectionOutcome::Failed);
    let cause = anyhow::Error::new(cause);
    warn!(run_id = %run, cause = format!("{cause:#}"), "{message}");
}

/// The states of a run in progress, which are stored from time to time so that a resume folds only
/// the rest of the log.
pub struct Checkpoints {
    /// Number of events between two states.
    every: u64,
    /// The sequence of the last one.
    last: u64,
    /// Whether it is being stored.
    is_storing: bool,
    earlier: Option<Earlier>,
}

impl Default for Checkpoints {
    /// Never.
    fn default() -> Self {
        Self::new(0, u64::MAX)
    }
}

impl Checkpoints {
    /// `last` is the sequence of the stored state.
    pub const fn new(last: u64, every: u64) -> Self {
        Self {
            every,
            last,
            is_storing: false,
            earlier: None,
        }
    }

    /// Copies the state if it is to be stored once its events are durable.
    pub fn due(&mut self, state: &mut RunState) -> Option<Checkpoint> {
        let passed = state.sequence.saturating_sub(self.last);
        if self.is_storing || passed < self.every || state.status.is_terminal() {
            return None;
        }
        self.last = state.sequence;
        let earlier = self.earlier.take();
        let which = match &earlier {
            Some(_) => Tasks::Changed,
            None => Tasks::All,
        };
        let snapshot = state.snapshot(which)?;
        self.is_storing = true;
        Some(Checkpoint { snapshot, earlier })
    }

    /// Whether the last one is stored.
    pub fn done(&mut self, stored: Option<Earlier>) {
        self.is_storing = false;
        self.earlier = stored;
    }
}

/// A state to store.
#[derive(Debug)]
pub struct Checkpoint {
    snapshot: Snapshot,
    earlier: Option<Earlier>,
}

impl Checkpoint {
    /// Stores the state of a run that has not ended, whose log keeps all content.
    pub async fn store(self, database: &Database, run: &RunId) -> Option<Earlier> {
        store(database, run, ContentKept::All, self.snapshot, self.earlier).await
    }
}
