//! Comparing two runs (RFC 0054): both logs are read page by page, side by side.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::rules::run::bundle::without_task_content;
use crate::rules::run::diff::{LogDiff, Side, comparable};
use crate::rules::run::record::Work;
use crate::service::projections::Projections;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::RunId;
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

    /// The differences of `b` from `a`. Content of eval runs is masked unless the caller may read
    /// it.
    ///
    /// # Errors
    /// `not_found` if the caller's tenant does not have both.
    pub async fn diff(&self, caller: &Caller, a: &RunId, b: &RunId) -> Result<RunDiff, Problem> {
        let record_a = self.runs.record(&caller.tenant, a).await?;
        let record_b = self.runs.record(&caller.tenant, b).await?;
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
        let mut found = diff.finish(a, b);
        if !caller.has(Scope::RunsContent) {
            for diff in &mut found.event_diffs {
                mask(&record_a.spec.work, &mut diff.a_event)?;
                mask(&record_b.spec.work, &mut diff.b_event)?;
            }
        }
        Ok(found)
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

/// Masks the task content of an event of an eval run.
///
/// # Errors
/// The masked event is not JSON.
fn mask(work: &Work, event: &mut Option<Value>) -> Result<(), Problem> {
    if let (true, Some(document)) = (work.is_eval(), event) {
        let kind = document.get("type").and_then(Value::as_str);
        let kind = kind.unwrap_or_default().to_owned();
        let masked = without_task_content(&kind, &Bytes::from(document.to_string()));
        *document = serde_json::from_slice(&masked).map_err(|cause| internal(&cause))?;
    }
    Ok(())
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
