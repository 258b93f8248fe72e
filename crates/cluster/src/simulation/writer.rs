//! The writer of a run's log at one host: events become durable a little later, as long as the host
//! holds the run.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use touchstone_agents::ports::agent::{EventSink, InvocationEnd, Unrecorded};
use touchstone_host::ports::clock::Clock;
use touchstone_host::service::lease::{Lease, LeaseTerm};
use touchstone_kit::ids::{AgentId, EventId};
use touchstone_openwop::events::{AgentInvocationCompleted, Event, InvocationOutcome};

use crate::simulation::database::{Entry, Fenced, LEASE};
use crate::simulation::schedule::{Millis, Node};
use crate::simulation::world::World;

/// Time after which an append without an answer prevents calls.
const STALLED_AFTER: Millis = 1_000;
/// How long an append takes.
const APPEND: RangeInclusive<Millis> = 1..=20;
/// Pause before the database is tried again.
const AGAIN: Duration = Duration::from_millis(200);

pub struct Writer {
    world: Arc<World>,
    pub host: usize,
    pub fence: u64,
    clock: Arc<dyn Clock>,
    term: LeaseTerm,
    lease: Lease,
    log: Mutex<Log>,
    /// Number of durable entries.
    durable: watch::Sender<u64>,
    emitted: Notify,
    pub closed: CancellationToken,
}

#[derive(Default)]
struct Log {
    waiting: Vec<Entry>,
    emitted: u64,
    /// When the append under way began.
    appending: Option<Millis>,
}

impl Writer {
    /// The writer of a host that has claimed the run when its clock showed `claimed_at`.
    pub fn new(world: Arc<World>, host: usize, fence: u64, claimed_at: Duration) -> Self {
        let clock = world.clock(Node::Host(host));
        let term = LeaseTerm::new(claimed_at, Duration::from_millis(LEASE));
        Self {
            lease: term.lease(Arc::clone(&clock)),
            term,
            world,
            host,
            fence,
            clock,
            log: Mutex::default(),
            durable: watch::Sender::new(0),
            emitted: Notify::new(),
            closed: CancellationToken::new(),
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    fn add(&self, entry: impl FnOnce(EventId) -> Entry) -> EventId {
        let mut log = self.log();
        log.emitted += 1;
        let id = EventId::from(format!("evt_{}_{}", self.fence, log.emitted));
        if !self.closed.is_cancelled() {
            log.waiting.push(entry(id.clone()));
        }
        drop(log);
        self.emitted.notify_one();
        id
    }

    /// Closes the invocation of a task that an earlier owner has left open.
    pub fn close_invocation(&self, task: &str) {
        let open = self.world.state().database.open_invocation(task);
        if let Some(invocation_id) = open {
            let event = Event::AgentInvocationCompleted(AgentInvocationCompleted {
                invocation_id,
                agent_id: AgentId::from("pack.agent"),
                outcome: InvocationOutcome::Failed,
                schema_validated: None,
            });
            self.add(|id| Entry::Event {
                task: task.to_owned(),
                id,
                cause: None,
                event,
            });
        }
    }

    pub fn score(&self, task: &str, end: InvocationEnd) {
        self.add(|_| Entry::Scored {
            task: task.to_owned(),
            end,
        });
    }

    /// Waits until everything so far is durable.
    pub async fn flush(&self) -> Result<(), Unrecorded> {
        let target = self.log().emitted;
        let mut durable = self.durable.subscribe();
        let is_durable = async { drop(durable.wait_for(|it| *it >= target).await) };
        tokio::select! {
            biased;
            () = is_durable => Ok(()),
            () = self.closed.cancelled() => Err(Unrecorded),
        }
    }

    pub async fn may_call(&self) -> Result<(), Unrecorded> {
        loop {
            if self.closed.is_cancelled() {
                return Err(Unrecorded);
            }
            let now = self.world.now();
            let appending = self.log().appending;
            let is_stalled = appending.is_some_and(|since| now >= since + STALLED_AFTER);
            if !self.world.has_database(self.host) || is_stalled {
                tokio::time::sleep(AGAIN).await;
            } else if !self.lease.holds() {
                tokio::select! {
                    biased;
                    () = self.closed.cancelled() => {}
                    () = self.lease.held() => {}
                }
            } else {
                return Ok(());
            }
        }
    }

    /// Waits until the host runs and reaches the database.
    async fn connected(&self) {
        loop {
            self.world.running(Node::Host(self.host)).await;
            if self.world.has_database(self.host) {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Appends what is recorded, until another host has taken over the run.
    pub async fn append(&self) {
        loop {
            while self.log().waiting.is_empty() {
                self.emitted.notified().await;
            }
            self.log().appending = Some(self.world.now());
            let takes = self.world.random(APPEND);
            tokio::time::sleep(Duration::from_millis(takes)).await;
            self.connected().await;
            let entries = std::mem::take(&mut self.log().waiting);
            let count = entries.len() as u64;
            self.world
                .trace(|| format!("h{} appends {entries:?}", self.host));
            if self.world.append(self.fence, entries) == Err(Fenced) {
                self.closed.cancel();
                return;
            }
            self.log().appending = None;
            self.durable.send_modify(|it| *it += count);
        }
    }

    /// Keeps the lease on the run, until another host has taken it over.
    pub async fn renew(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(LEASE / 3)).await;
            let asked_at = self.clock.uptime();
            self.connected().await;
            let now = self.world.now();
            let renewed = self.world.state().database.renew(self.fence, now);
            match renewed {
                Ok(()) => self.term.renew(asked_at, Duration::from_millis(LEASE)),
                Err(Fenced) => {
                    self.closed.cancel();
                    return;
                }
            }
        }
    }
}

/// Records the events of one task.
pub struct TaskSink<'a> {
    pub writer: &'a Writer,
    pub task: &'a str,
}

#[async_trait]
impl EventSink for TaskSink<'_> {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        self.writer.world.reported(self.task, &event);
        self.writer.add(|id| Entry::Event {
            task: self.task.to_owned(),
            id,
            cause: cause.cloned(),
            event,
        })
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        self.writer.flush().await
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        self.writer.may_call().await
    }
}
