//! The only writer of a run's log.
//!
//! Tasks emit events without waiting; ids, times and sequences are assigned under one lock, so they
//! agree. A single flusher appends all pending events as one durable batch (group commit) and only
//! then notifies readers. When the lease is lost, the writer closes and everything not yet durable
//! is void: the new owner decides from the log.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::ports::queue::RunClaim;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::rules::run::record::RunRecord;
use crate::service::metrics::RUN_METRICS;
use crate::service::projections::stored::{Checkpoint, Checkpoints};
use crate::store;
use touchstone_host::background::spawn;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::run_log::{CompanionRecord, Head, StoredEvent};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::lease::Lease;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::{Event, Inherited, NewEvent, write_document, write_inherited};

/// Number of pending events above which tasks wait until the store has caught up.
const BACKLOG: usize = 4096;

/// When a batch is not durable after this time, no more calls are made until it is.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How often a failing append is retried before the run is given back.
const STORE_RETRIES: u32 = 5;

/// How long an append is retried while the database is unavailable: about as long as a lease holds.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval between two checks whether an outage is over.
const OUTAGE_POLL: Duration = Duration::from_millis(500);

/// The writer is closed: the lease is lost, the store failed, or the run has ended.
#[derive(Debug, thiserror::Error)]
#[error("the run's log is closed")]
pub struct Closed;

/// Emits events into one run's log.
#[derive(Clone)]
pub struct RunWriter {
    inner: Arc<Inner>,
}

struct Inner {
    run: Arc<RunRecord>,
    fence: Fence,
    /// `None` where no outgoing calls are made.
    lease: Option<Lease>,
    /// How long the run was active before it was claimed, and when that was.
    active: Duration,
    claimed_at: Instant,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    log: Mutex<Log>,
    checkpoints: Mutex<Checkpoints>,
    /// Scores that are recorded but not durable.
    scores_behind: Arc<AtomicUsize>,
    /// When the current append started.
    appending_since: Mutex<Option<Instant>>,
    /// Signals pending events.
    wake: Notify,
    /// The last durable sequence.
    durable: watch::Sender<u64>,
    closed: CancellationToken,
    /// Whether another replica has claimed the run.
    fenced: AtomicBool,
}

/// The scored tasks of a run that are not durable yet: their calls are wasted if the process is
/// killed now.
pub struct Backlog {
    scores: Arc<AtomicUsize>,
    durable: watch::Receiver<u64>,
}

impl Backlog {
    pub(super) fn new(scores: Arc<AtomicUsize>, durable: watch::Receiver<u64>) -> Self {
        Self { scores, durable }
    }

    /// The number of scores.
    pub fn scores(&self) -> usize {
        self.scores.load(Relaxed)
    }

    /// Makes [`changed`](Self::changed) wait for events that become durable from now on.
    pub fn mark_unchanged(&mut self) {
        self.durable.mark_unchanged();
    }

    /// Waits until more events are durable. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn changed(&mut self) -> Result<(), Closed> {
        self.durable.changed().await.map_err(|_| Closed)
    }
}

struct Log {
    state: RunState,
    /// The status that is durable, or will be with the events taken last.
    taken_status: RunStatus,
    waiting: Vec<StoredEvent>,
    /// Number of scores among the pending events.
    scores: usize,
    /// Records that become durable with the pending events.
    companion: Option<CompanionRecord>,
    last_at: Timestamp,
    ended: bool,
}

/// The content of one transaction.
struct Batch {
    events: Vec<StoredEvent>,
    scores: usize,
    ends: bool,
    companion: Option<CompanionRecord>,
    /// The run's status, if these events change it.
    status: Option<RunStatus>,
    /// The state after these events, if it is to be stored.
    checkpoint: Option<Checkpoint>,
}

impl RunWriter {
    /// A writer that continues where `state` ends.
    pub fn new(
        claim: &RunClaim,
        lease: Option<Lease>,
        state: RunState,
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        let durable = watch::Sender::new(state.sequence);
        // A clock that was set back between workers must not date a later event earlier.
        let last_at = state.last_at.unwrap_or(Timestamp::MIN);
        let log = Mutex::new(Log {
            taken_status: state.status,
            state,
            waiting: Vec::new(),
            scores: 0,
            companion: None,
            last_at,
            ended: false,
        });
        let inner = Inner {
            run: claim.run.clone(),
            fence: claim.fence,
            lease,
            active: claim.active,
            claimed_at: Instant::now(),
            store,
            clock,
            ids,
            log,
            checkpoints: Mutex::default(),
            scores_behind: Arc::default(),
            appending_since: Mutex::new(None),
            wake: Notify::new(),
            durable,
            closed: CancellationToken::new(),
            fenced: AtomicBool::new(false),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Stores the state each time that many events have become durable since the stored one.
    pub fn checkpoint(&self, stored: u64, every: u64) {
        *self.inner.checkpoints() = Checkpoints::new(stored, every);
    }

    /// Records an event. It is durable once [`flush`](Self::flush) returns; after the terminal
    /// event, or when the writer is closed, it is discarded.
    pub fn emit(&self, new: &NewEvent) -> EventId {
        let unique = self.inner.ids.mint("evt");
        let mut log = self.inner.lock();
        let id = self.record(&mut log, &unique, new);
        drop(log);
        self.inner.wake.notify_one();
        id
    }

    /// Records events that belong together: they become durable in one transaction or not at all.
    pub fn emit_all(&self, events: &[NewEvent]) {
        self.emit_with(events, None);
    }

    /// As [`emit_all`](Self::emit_all), together with another record.
    pub fn emit_with(&self, events: &[NewEvent], companion: Option<CompanionRecord>) {
        let uniques: Vec<String> = events.iter().map(|_| self.inner.ids.mint("evt")).collect();
        let mut log = self.inner.lock();
        for (unique, new) in uniques.iter().zip(events) {
            self.record(&mut log, unique, new);
        }
        log.companion = companion.or_else(|| log.companion.take());
        drop(log);
        self.inner.wake.notify_one();
    }

    /// Records an event copied from another run.
    pub fn emit_inherited(&self, inherited: Inherited) {
        let mut log = self.inner.lock();
        if log.ended || self.inner.closed.is_cancelled() {
            return;
        }
        let at = self.inner.clock.now().max(log.last_at);
        let sequence = log.state.sequence + 1;
        match write_inherited(&self.inner.run.run_id, sequence, at, &inherited) {
            Ok(line) => {
                log.last_at = at;
                match &inherited.event {
                    Some(event) => {
                        log.state
                            .record(sequence, event, inherited.node_id.as_ref(), at);
                        log.ended = event.is_terminal();
                    }
                    None => log.state.sequence = sequence,
                }
                log.waiting.push(StoredEvent {
                    sequence,
                    kind: inherited.kind.into(),
                    body: line.into(),
                });
            }
            Err(cause) => {
                error!(run_id = %self.inner.run.run_id, %cause, "could not serialize an event; releasing the run");
                self.inner.closed.cancel();
            }
        }
        drop(log);
        self.inner.wake.notify_one();
    }

    /// Whether the terminal event is recorded.
    pub fn has_ended(&self) -> bool {
        self.inner.lock().ended
    }

    fn record(&self, log: &mut Log, unique: &str, new: &NewEvent) -> EventId {
        let sequence = log.state.sequence + 1;
        let id = EventId::at(unique, sequence);
        if log.ended || self.inner.closed.is_cancelled() {
            return id;
        }
        // A clock that steps back must not date a later event earlier.
        let at = self.inner.clock.now().max(log.last_at);
        match write_document(&self.inner.run.run_id, &id, sequence, at, new) {
            Ok(line) => {
                log.last_at = at;
                log.state
                    .record(sequence, &new.event, new.node_id.as_ref(), at);
                log.ended = new.event.is_terminal();
                if matches!(new.event, Event::EvalScored(_)) {
                    log.scores += 1;
                    self.inner.scores_behind.fetch_add(1, Relaxed);
                }
                log.waiting.push(StoredEvent {
                    sequence,
                    kind: new.event.kind().into(),
                    body: line.into(),
                });
            }
            Err(cause) => {
                error!(run_id = %self.inner.run.run_id, %cause, "could not serialize an event; releasing the run");
                self.inner.closed.cancel();
            }
        }
        id
    }

    /// Reads the folded state.
    pub fn with_state<T>(&self, read: impl FnOnce(&RunState) -> T) -> T {
        read(&self.inner.lock().state)
    }

    /// Takes the folded state of a log that is complete or closed. Reads the empty state afterwards.
    pub fn take_state(&self) -> RunState {
        std::mem::take(&mut self.inner.lock().state)
    }

    /// Waits until the store has caught up enough for another task.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn ready(&self) -> Result<(), Closed> {
        let mut durable = self.inner.durable.subscribe();
        while self.inner.lock().waiting.len() > BACKLOG {
            tokio::select! {
                () = self.inner.closed.cancelled() => return Err(Closed),
                changed = durable.changed() => changed.map_err(|_| Closed)?,
            }
        }
        if self.inner.closed.is_cancelled() {
            Err(Closed)
        } else {
            Ok(())
        }
    }

    /// Waits while the database accepts no writes.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn writable(&self) -> Result<(), Closed> {
        let outage_over = async {
            while !self.inner.store.takes_writes().await {
                tokio::time::sleep(OUTAGE_POLL).await;
            }
        };
        tokio::select! {
            biased;
            () = self.inner.closed.cancelled() => Err(Closed),
            () = outage_over => Ok(()),
        }
    }

    /// The scored tasks that are not durable yet.
    pub fn backlog(&self) -> Backlog {
        Backlog::new(
            self.inner.scores_behind.clone(),
            self.inner.durable.subscribe(),
        )
    }

    /// How long the run was executed or waited, by a monotonic clock; without the time in which no
    /// process held it.
    pub fn active(&self) -> Duration {
        self.inner.active + self.inner.claimed_at.elapsed()
    }

    /// Waits until a call to a model, an agent or a tool may be made: the database accepts writes,
    /// the log becomes durable, and the lease holds for certain.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn may_call(&self) -> Result<(), Closed> {
        let mut durable = self.inner.durable.subscribe();
        loop {
            if self.inner.closed.is_cancelled() {
                return Err(Closed);
            }
            self.writable().await?;
            let lapsed = self.inner.lease.as_ref().filter(|lease| !lease.holds());
            let stalled = self.inner.is_stalled();
            tokio::select! {
                () = self.inner.closed.cancelled(), if stalled || lapsed.is_some() => {}
                () = async { if let Some(lease) = lapsed { lease.held().await } }, if lapsed.is_some() => {}
                changed = durable.changed(), if stalled => changed.map_err(|_| Closed)?,
                else => return Ok(()),
            }
        }
    }

    /// Waits until everything emitted so far is durable.
    ///
    /// # Errors
    /// [`Closed`] if it never will be.
    pub async fn flush(&self) -> Result<(), Closed> {
        let target = self.inner.lock().state.sequence;
        let mut durable = self.inner.durable.subscribe();
        loop {
            if *durable.borrow_and_update() >= target {
                return Ok(());
            }
            tokio::select! {
                biased;
                changed = durable.changed() => changed.map_err(|_| Closed)?,
                () = self.inner.closed.cancelled() => return Err(Closed),
            }
        }
    }

    /// Stops writing at once; events that are not durable are void.
    pub fn close(&self) {
        self.inner.closed.cancel();
    }

    /// Whether the writer is closed: the lease is lost or the store failed.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.is_cancelled()
    }

    /// Whether an append showed that another replica has claimed the run.
    pub fn is_fenced(&self) -> bool {
        self.inner.fenced.load(Relaxed)
    }

    /// Cancelled when the writer is closed; cancelling it closes the writer.
    pub fn closed_token(&self) -> CancellationToken {
        self.inner.closed.clone()
    }

    /// Appends batches until the terminal event is durable or the writer is closed. If it ends
    /// before that, by a panic or by being dropped, it closes the writer, so that no task waits for
    /// events that will never be written.
    pub fn run_flusher(&self) -> impl Future<Output = ()> + Send + 'static {
        let writer = self.clone();
        // Created here and not at the first poll: a task may be dropped before that.
        let closes = self.inner.closed.clone().drop_guard();
        async move {
            let ended = tokio::select! {
                ended = writer.append_all() => ended,
                // A store that does not respond must not keep a lost run.
                () = writer.inner.closed.cancelled() => false,
            };
            if ended {
                closes.disarm();
            }
        }
    }

    /// Appends pending events; `true` once the terminal event is durable, `false` if nothing more
    /// can be written.
    async fn append_all(&self) -> bool {
        loop {
            self.inner.wake.notified().await;
            loop {
                let mut batch = self.inner.take();
                if batch.events.is_empty() {
                    break;
                }
                if let Err(cause) = self.append(&batch).await {
                    match cause {
                        StoreError::Fenced => {
                            self.inner.fenced.store(true, Relaxed);
                            warn!(run_id = %self.inner.run.run_id, "the lease was lost; another replica continues");
                        }
                        cause => {
                            let cause = anyhow::Error::new(cause);
                            error!(run_id = %self.inner.run.run_id, cause = format!("{cause:#}"), "could not write the log");
                        }
                    }
                    return false;
                }
                if let Some(checkpoint) = batch.checkpoint.take() {
                    self.store_checkpoint(checkpoint);
                }
                if batch.ends {
                    return true;
                }
            }
        }
    }

    /// Appends continue meanwhile.
    fn store_checkpoint(&self, checkpoint: Checkpoint) {
        let inner = self.inner.clone();
        spawn("checkpoint of a run", async move {
            let stored = checkpoint.store(&inner.store, &inner.run.run_id).await;
            inner.checkpoints().done(stored);
        });
    }

    async fn append(&self, batch: &Batch) -> Result<(), StoreError> {
        let inner = &self.inner;
        let Batch { events, ends, .. } = batch;
        let Some(last) = events.last() else {
            return Ok(());
        };
        inner.set_appending(Some(Instant::now()));
        let mut attempt = 0;
        let began = Instant::now();
        loop {
            let (store, fence) = (&inner.store, inner.fence);
            let run = &inner.run;
            let appended = match (&batch.companion, batch.status) {
                (None, None) => store::runs::append(store, &run.run_id, fence, events, *ends).await,
                (companion, status) => {
                    let companion = companion.as_ref();
                    store::runs::append_changing(
                        store, run, fence, events, *ends, companion, status,
                    )
                    .await
                }
            };
            match appended {
                Ok(()) => break,
                Err(cause @ (StoreError::Backend(_) | StoreError::Unavailable(_))) => {
                    RUN_METRICS.append_failed();
                    let outage = matches!(cause, StoreError::Unavailable(_));
                    if outage {
                        inner.store.report_outage();
                    }
                    let keep_trying = outage && began.elapsed() < OUTAGE_TIMEOUT;
                    if attempt >= STORE_RETRIES && !keep_trying {
                        return Err(cause);
                    }
                    attempt += 1;
                    // The commit may have succeeded although its response was lost.
                    if let Ok(Some(head)) = head(&inner.store, &inner.run.run_id).await
                        && head.sequence == last.sequence
                        && self.is_ours(last).await
                    {
                        break;
                    }
                    let cause = anyhow::Error::new(cause);
                    warn!(run_id = %inner.run.run_id, cause = format!("{cause:#}"), attempt, "the store failed; retrying");
                    tokio::time::sleep(Duration::from_millis(50 << attempt.min(STORE_RETRIES)))
                        .await;
                }
                Err(cause) => return Err(cause),
            }
        }
        let head = Head {
            sequence: last.sequence,
            ended: *ends,
        };
        RUN_METRICS.appended(events.len(), began.elapsed());
        inner.set_appending(None);
        inner.scores_behind.fetch_sub(batch.scores, Relaxed);
        inner.durable.send_replace(last.sequence);
        inner.store.notify_run(&inner.run.run_id, head).await;
        Ok(())
    }

    async fn is_ours(&self, last: &StoredEvent) -> bool {
        let found = store::runs::read(
            &self.inner.store,
            &self.inner.run.run_id,
            last.sequence - 1,
            1,
        )
        .await;
        found.is_ok_and(|events| events.first() == Some(last))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Log> {
        // No code panics while it holds the lock; even if one did, the log up to here would be
        // consistent.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn appending(&self) -> MutexGuard<'_, Option<Instant>> {
        self.appending_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set_appending(&self, since: Option<Instant>) {
        *self.appending() = since;
    }

    fn is_stalled(&self) -> bool {
        let since = *self.appending();
        since.is_some_and(|since| since.elapsed() >= STALLED_AFTER)
    }

    fn checkpoints(&self) -> MutexGuard<'_, Checkpoints> {
        self.checkpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Batch {
        let mut log = self.lock();
        let checkpoint = match log.waiting.is_empty() {
            true => None,
            false => self.checkpoints().due(&mut log.state),
        };
        let status = log.state.status;
        let before = std::mem::replace(&mut log.taken_status, status);
        Batch {
            status: (status != before).then_some(status),
            events: std::mem::take(&mut log.waiting),
            scores: std::mem::take(&mut log.scores),
            ends: log.ended,
            companion: log.companion.take(),
            checkpoint,
        }
    }
}
