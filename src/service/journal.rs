//! Appending to a run's log from outside an executor.
//!
//! What a caller decides about a run (an approval, a resume, a deployment) is an event in its log like any other. Here the run
//! is taken under a lease for a moment, its log is folded, the decision is made on that state and appended, durably; then
//! workers may go on. So two callers never decide on the same state, and a worker never writes at the same time.
//!
//! A *journal* is a run that only services append to: no worker ever claims it (RFC 0082: deployment events go to a
//! deployment-management run).

use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use tokio::time::Instant;

use super::executor::started;
use super::fault::{internal, unavailable};
use super::projections::catch_up;
use super::run_writer::{Closed, RunWriter};
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::fold::RunState;
use crate::domain::run::fork::Fork;
use crate::domain::run::record::{RunRecord, RunSpec, Work};
use crate::ports::{Beside, Claim, Clock, Ids, Store, StoreError, Wait};
use crate::protocol::error::{ErrorCode, Problem};
use crate::protocol::openwop::events::{Event, NewEvent};

/// A moment's work: nothing is waited for under this lease.
const LEASE: Duration = Duration::from_secs(15);
/// How long to wait for whoever holds the run.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// Nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The run is not there, or another tenant's.
    #[error("no such run")]
    NoSuchRun,
    /// It has ended; nothing is appended to it any more.
    #[error("the run has ended")]
    Ended,
    /// A worker holds it and does not let go, or has to go on with it before anybody else.
    #[error("the run is being worked on")]
    Busy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lease was lost, or the store failed while it was appended; the log has all of it or nothing.
    #[error(transparent)]
    Closed(#[from] Closed),
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::NoSuchRun => Self::new(ErrorCode::NotFound, "no such run"),
            JournalError::Ended => Self::new(ErrorCode::Conflict, "the run has ended"),
            JournalError::Busy => Self::new(
                ErrorCode::Unavailable,
                "the run is being worked on and does not let go; try again",
            ),
            JournalError::Closed(_) => unavailable(&error),
            JournalError::Store(_) => internal(&error),
        }
    }
}

/// Appends what services decide.
pub struct Journal {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    owner: String,
}

impl Journal {
    /// A journal over its ports; `owner` is what its leases are held under.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        owner: String,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            owner,
        }
    }

    /// Records a run that only services append to, and begins its log. `run_id` is the caller's, so that two who open the
    /// same journal at once end up with one: an existing one is no error.
    ///
    /// # Errors
    /// The store failed.
    pub async fn open(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        workflow_id: &str,
        principal: &str,
    ) -> Result<(), JournalError> {
        let record = RunRecord {
            run_id: run_id.clone(),
            tenant: tenant.clone(),
            principal: principal.to_owned(),
            created_at: self.clock.now(),
            spec: RunSpec {
                workflow_id: workflow_id.to_owned(),
                work: Work::Journal,
                scope: None,
                run_timeout_ms: None,
                configurable: Map::new(),
                inputs: Map::new(),
                tags: Vec::new(),
                metadata: Map::new(),
            },
            fork: None,
        };
        match self.store.create(&record, None).await {
            Ok(()) | Err(StoreError::Exists(_)) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Appends what `decide` makes of the run's present state: all of it in one transaction, or nothing when it refuses.
    /// The first append to a journal is preceded by its `run.started`.
    ///
    /// # Errors
    /// [`JournalError`] through `E`, or whatever `decide` refused with.
    pub async fn append<E>(
        &self,
        tenant: &TenantId,
        run: &RunId,
        decide: impl FnOnce(&RunState) -> Result<Vec<NewEvent>, E>,
    ) -> Result<RunState, E>
    where
        E: From<JournalError>,
    {
        self.append_with(tenant, run, decide, |_| None).await
    }

    /// As [`append`](Self::append). What `beside` makes of the events is recorded in the same transaction.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn append_with<E>(
        &self,
        tenant: &TenantId,
        run: &RunId,
        decide: impl FnOnce(&RunState) -> Result<Vec<NewEvent>, E>,
        beside: impl FnOnce(&[NewEvent]) -> Option<Beside>,
    ) -> Result<RunState, E>
    where
        E: From<JournalError>,
    {
        let claim = self.take(tenant, run).await?;
        let (record, fence) = (claim.run.clone(), claim.fence);
        let appended = self.append_under(claim, decide, beside).await;
        let given_back = if record.spec.work.is_claimable() {
            self.store.release(run, fence).await
        } else {
            self.store.park(run, fence, Wait::default()).await
        };
        match given_back {
            // The log has ended, or somebody else has taken over a lease that ran out.
            Ok(()) | Err(StoreError::Fenced) => {}
            Err(cause) => {
                tracing::warn!(run_id = %run, %cause, "a lease cannot be released; it will run out");
            }
        }
        self.store.notify_work().await;
        appended
    }

    async fn append_under<E>(
        &self,
        claim: Claim,
        decide: impl FnOnce(&RunState) -> Result<Vec<NewEvent>, E>,
        beside: impl FnOnce(&[NewEvent]) -> Option<Beside>,
    ) -> Result<RunState, E>
    where
        E: From<JournalError>,
    {
        let mut state = RunState::default();
        catch_up(self.store.as_ref(), &claim.run.run_id, &mut state)
            .await
            .map_err(JournalError::from)?;
        // Whatever were appended in the middle of a history would take the place of an event of it.
        let incomplete = |fork: &Fork| fork.copied(&state) < fork.history;
        if claim.run.fork.as_ref().is_some_and(incomplete) {
            return Err(JournalError::Busy.into());
        }
        let mut events = decide(&state)?;
        let beside = beside(&events);
        if state.started_at.is_none() {
            events.insert(0, NewEvent::of_run(Event::RunStarted(started(&claim.run))));
        }
        let writer = RunWriter::new(
            &claim,
            // A moment's work without outgoing calls.
            None,
            state,
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
        );
        writer.emit_with(&events, beside);
        let (flushed, ()) = tokio::join!(
            async {
                let flushed = tokio::time::timeout(PATIENCE, writer.flush()).await;
                writer.close();
                flushed.unwrap_or(Err(Closed))
            },
            writer.run_flusher()
        );
        flushed.map_err(JournalError::from)?;
        Ok(writer.with_state(Clone::clone))
    }

    async fn take(&self, tenant: &TenantId, run: &RunId) -> Result<Claim, JournalError> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let claim = self
                .store
                .claim_run(tenant, run, &self.owner, LEASE)
                .await?;
            if let Some(claim) = claim {
                return Ok(claim);
            }
            if self.store.run(tenant, run).await?.is_none() {
                return Err(JournalError::NoSuchRun);
            }
            let head = self.store.head(run).await?.unwrap_or_default();
            if head.ended {
                return Err(JournalError::Ended);
            }
            if Instant::now() >= give_up {
                return Err(JournalError::Busy);
            }
            self.store.run_changed(run, head, LOOK).await;
        }
    }
}
