//! Appending to a run's log from outside an executor.
//!
//! A caller's decision about a run (an approval, a resume, a deployment) is an event in its log
//! like any other. This module takes the run under a short lease, folds its log, decides on that
//! state and appends durably; then workers may continue. So two callers never decide on the same
//! state, and a worker never writes at the same time.
//!
//! A *journal* is a run that only services append to: no worker ever claims it (RFC 0082:
//! deployment events go to a deployment-management run).

use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use tokio::time::Instant;

use crate::ports::queue::{RunClaim, Wait};
use crate::rules::run::fold::RunState;
use crate::rules::run::fork::Fork;
use crate::rules::run::record::{RunRecord, RunSpec, Work};
use crate::service::executor::endings::started;
use crate::service::projections::folded;
use crate::service::run_writer::{Closed, RunWriter};
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::run_log::CompanionRecord;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::{internal, unavailable};
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::events::{Event, NewEvent};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;

/// Long enough to fold and append: nothing is awaited under this lease.
const LEASE: Duration = Duration::from_secs(15);
/// How long to wait for the current holder of the run.
const TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The run does not exist, or is another tenant's.
    #[error("no such run")]
    NoSuchRun,
    /// The run has ended; its log is complete.
    #[error("the run has ended")]
    Ended,
    /// A worker holds the run and does not release it, or has to continue it first.
    #[error("a worker is executing the run")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lease was lost, or the store failed during the append; the log has all of the events or
    /// none.
    #[error(transparent)]
    Closed(#[from] Closed),
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::NoSuchRun => Self::new(ErrorCode::NotFound, "no such run"),
            JournalError::Ended => Self::new(ErrorCode::RunTerminal, "the run has ended"),
            JournalError::Busy => Self::new(
                ErrorCode::Unavailable,
                "a worker is executing the run and does not release it; try again",
            ),
            JournalError::Closed(_) => unavailable(&error),
            JournalError::Store(_) => internal(&error),
        }
    }
}

/// Appends decisions of services.
pub struct Journal {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    owner: String,
}

impl Journal {
    /// A journal over its ports; `owner` holds its leases.
    pub fn new(
        store: Arc<Database>,
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

    /// Records a run that only services append to, and starts its log. The caller chooses `run_id`,
    /// so that two callers that open the same journal concurrently share it; an existing one is not
    /// an error.
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
            trace: None,
            log: LogMark::of_new(Major::V1),
        };
        match store::runs::create(&self.store, &record, None).await {
            Ok(()) | Err(StoreError::Exists(_)) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Appends the events `decide` derives from the run's current state, in one transaction, or
    /// nothing if it refuses. The first append to a journal is preceded by its `run.started`.
    ///
    /// # Errors
    /// [`JournalError`] through `E`, or the error of `decide`.
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

    /// As [`append`](Self::append). Whatever `companion` returns for the events is recorded in the
    /// same transaction.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn append_with<E>(
        &self,
        tenant: &TenantId,
        run: &RunId,
        decide: impl FnOnce(&RunState) -> Result<Vec<NewEvent>, E>,
        companion: impl FnOnce(&[NewEvent]) -> Option<CompanionRecord>,
    ) -> Result<RunState, E>
    where
        E: From<JournalError>,
    {
        let claim = self.claim(tenant, run).await?;
        let (record, fence) = (claim.run.clone(), claim.fence);
        let appended = self.append_claimed(claim, decide, companion).await;
        let released = if record.spec.work.is_claimable() {
            store::queue::release(&self.store, run, fence).await
        } else {
            store::queue::park(&self.store, run, fence, Wait::default()).await
        };
        match released {
            // The log has ended, or another process took over an expired lease.
            Ok(()) | Err(StoreError::Fenced) => {}
            Err(cause) => {
                tracing::warn!(run_id = %run, %cause, "could not release a lease; it will expire");
            }
        }
        self.store.notify_work().await;
        appended
    }

    async fn append_claimed<E>(
        &self,
        claim: RunClaim,
        decide: impl FnOnce(&RunState) -> Result<Vec<NewEvent>, E>,
        companion: impl FnOnce(&[NewEvent]) -> Option<CompanionRecord>,
    ) -> Result<RunState, E>
    where
        E: From<JournalError>,
    {
        let (state, _) = folded(&self.store, &claim.run.run_id)
            .await
            .map_err(JournalError::from)?;
        // An event appended in the middle of a copied history would take the place of one of its
        // events.
        let incomplete = |fork: &Fork| fork.copied(&state) < fork.history;
        if claim.run.fork.as_ref().is_some_and(incomplete) {
            return Err(JournalError::Busy.into());
        }
        let mut events = decide(&state)?;
        let companion = companion(&events);
        if state.started_at.is_none() {
            events.insert(0, NewEvent::of_run(Event::RunStarted(started(&claim.run))));
        }
        let writer = RunWriter::new(
            &claim,
            // A short operation without outgoing calls needs no lease term.
            None,
            state,
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
        );
        writer.emit_with(&events, companion);
        let (flushed, ()) = tokio::join!(
            async {
                let flushed = tokio::time::timeout(TIMEOUT, writer.flush()).await;
                writer.close();
                flushed.unwrap_or(Err(Closed))
            },
            writer.run_flusher()
        );
        flushed.map_err(JournalError::from)?;
        Ok(writer.take_state())
    }

    async fn claim(&self, tenant: &TenantId, run: &RunId) -> Result<RunClaim, JournalError> {
        let give_up = Instant::now() + TIMEOUT;
        loop {
            let claim =
                store::queue::claim_run(&self.store, tenant, run, &self.owner, LEASE).await?;
            if let Some(claim) = claim {
                return Ok(claim);
            }
            if store::runs::find(&self.store, tenant, run).await?.is_none() {
                return Err(JournalError::NoSuchRun);
            }
            let head = head(&self.store, run).await?.unwrap_or_default();
            if head.ended {
                return Err(JournalError::Ended);
            }
            if Instant::now() >= give_up {
                return Err(JournalError::Busy);
            }
            self.store.run_changed(run, head, POLL_INTERVAL).await;
        }
    }
}
