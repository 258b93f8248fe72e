//! Comparing two runs (RFC 0054): both logs are read page by page, side by side.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::rules::run::bundle::without_task_content;
use crate::rules::run::diff::{LogDiff, Side, UNREADABLE, comparable};
use crate::rules::run::record::{RunRecord, Work};
use crate::service::log_reader::projections::suspensions;
use crate::service::log_reader::{LogForm, PagedEvent, Unshown};
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
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::v2::event::Unprojectable;

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

    /// The differences of `b` from `a` in the form of a major. Sequences of the answer itself are
    /// numbers of `a`; each event has one of its own log. Content of eval runs is masked unless the
    /// caller may read it.
    ///
    /// # Errors
    /// `not_found` if the caller's tenant does not have both; an event has no form under the major.
    pub async fn diff(
        &self,
        caller: &Caller,
        (a, b): (&RunId, &RunId),
        major: Major,
    ) -> Result<RunDiff, Problem> {
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
        let mut of_a = Shown::new(&self.store, &record_a, major);
        let mut of_b = Shown::new(&self.store, &record_b, major);
        for diff in &mut found.event_diffs {
            of_a.show(diff.seq, &mut diff.a_event).await?;
            of_b.show(diff.seq, &mut diff.b_event).await?;
            diff.seq = of_a.form.numbers().sequence(diff.seq);
        }
        let diverged = found.diverged_at_seq;
        found.diverged_at_seq = diverged.map(|place| of_a.form.numbers().sequence(place));
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

/// Shows events of one run in the form of a major.
struct Shown<'a> {
    store: &'a Database,
    run: &'a RunId,
    form: LogForm,
    /// The events that suspended nodes, once one is needed.
    suspensions: Option<Vec<StoredEvent>>,
}

impl<'a> Shown<'a> {
    fn new(store: &'a Database, record: &'a RunRecord, major: Major) -> Self {
        Self {
            store,
            run: &record.run_id,
            form: LogForm::of(record, major),
            suspensions: None,
        }
    }

    /// Gives an event at a place its form. Major 2 has none for an event that cannot be parsed: only
    /// the difference is shown then.
    async fn show(&mut self, place: u64, event: &mut Option<Value>) -> Result<(), Problem> {
        let Some(document) = event else {
            return Ok(());
        };
        let kind = document.get("type").and_then(Value::as_str);
        let kind = kind.unwrap_or_default().to_owned();
        if kind == UNREADABLE {
            match self.form.major {
                Major::V1 => {
                    if let Some(sequence) = document.get_mut("sequence") {
                        *sequence = self.form.numbers().sequence(place).into();
                    }
                }
                Major::V2 => *event = None,
            }
            return Ok(());
        }
        if self.form.is_stored() {
            return Ok(());
        }
        let stored = PagedEvent {
            sequence: place,
            kind: kind.into(),
            body: document.to_string().into(),
        };
        let shown = self.project(&stored).await?;
        *document = serde_json::from_slice(&shown.body).map_err(|cause| internal(&cause))?;
        Ok(())
    }

    async fn project(&mut self, event: &PagedEvent) -> Result<PagedEvent, Problem> {
        let one = std::slice::from_ref(event);
        let mut projected = self.form.project([], one);
        if let Err(Unshown {
            cause: Unprojectable::Interrupt { .. },
            ..
        }) = projected
        {
            if self.suspensions.is_none() {
                let found = suspensions(self.store, self.run, u64::MAX).await;
                self.suspensions = Some(found.map_err(|cause| internal(&cause))?);
            }
            let known = self.suspensions.iter().flatten();
            let earlier = known.take_while(|it| it.sequence < event.sequence);
            projected = self.form.project(earlier.map(|it| &*it.body), one);
        }
        let shown = projected.map_err(|cause| cause.problem())?;
        let shown = shown.into_iter().next();
        // One event has one form.
        shown.ok_or_else(|| {
            internal(&StoreError::Inconsistent {
                table: "event",
                column: "body",
            })
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
