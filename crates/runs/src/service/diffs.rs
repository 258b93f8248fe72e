//! Comparing two runs (RFC 0054): both logs are read page by page, side by side.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::rules::run::diff::{LogDiff, Side, comparable};
use crate::service::projections::Projections;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::diff::RunDiff;

/// Events of each log in memory at a time.
const PAGE: u32 = 512;

pub struct Diffs {
    runs: Arc<Runs>,
    store: Arc<Database>,
    projections: Arc<Projections>,
}

impl Diffs {
    pub fn new(runs: Arc<Runs>, store: Arc<Database>, projections: Arc<Projections>) -> Self {
        Self {
            runs,
            store,
            projections,
        }
    }

    /// The differences of `b` from `a`. Both belong to the tenant.
    ///
    /// # Errors
    /// `not_found` if either does not exist.
    pub async fn diff(&self, tenant: &TenantId, a: &RunId, b: &RunId) -> Result<RunDiff, Problem> {
        self.runs.record(tenant, a).await?;
        self.runs.record(tenant, b).await?;
        let (a, b) = (self.side(a).await?, self.side(b).await?);
        let end = comparable(&a, &b);
        let mut diff = LogDiff::default();
        let mut left = Reader::new(self.store.as_ref(), &a);
        let mut right = Reader::new(self.store.as_ref(), &b);
        for seq in 1..=end {
            let (of_a, of_b) = (left.event(seq).await?, right.event(seq).await?);
            let body = |event: &Option<StoredEvent>| event.as_ref().map(|event| event.body.clone());
            let (of_a, of_b) = (body(&of_a), body(&of_b));
            diff.compare(seq, of_a.as_deref(), of_b.as_deref());
            if diff.is_full() {
                break;
            }
        }
        Ok(diff.finish(a, b))
    }

    /// The length of the log and the status of the run at one moment.
    async fn side(&self, run: &RunId) -> Result<Side, Problem> {
        let (events, status) = self
            .projections
            .with_state(run, |state| (state.sequence, state.status))
            .await
            .map_err(|cause| internal(&cause))?;
        Ok(Side {
            run: run.clone(),
            events,
            status,
        })
    }
}

/// Reads a log up to the end it had when the comparison started.
struct Reader<'a> {
    store: &'a Database,
    run: RunId,
    end: u64,
    page: VecDeque<StoredEvent>,
}

impl<'a> Reader<'a> {
    fn new(store: &'a Database, side: &Side) -> Self {
        Self {
            store,
            run: side.run.clone(),
            end: side.events,
            page: VecDeque::new(),
        }
    }

    /// The event at `seq`, which increases by one from call to call; `None` after the end.
    async fn event(&mut self, seq: u64) -> Result<Option<StoredEvent>, Problem> {
        if seq > self.end {
            return Ok(None);
        }
        if self.page.is_empty() {
            let page = store::runs::read(self.store, &self.run, seq - 1, PAGE)
                .await
                .map_err(|cause| internal(&cause))?;
            self.page = page.into();
        }
        match self.page.pop_front() {
            Some(event) if event.sequence == seq => Ok(Some(event)),
            _ => Err(internal(&StoreError::Inconsistent {
                table: "event",
                column: "sequence",
            })),
        }
    }
}
