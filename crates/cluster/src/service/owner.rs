//! The owner's side: offers each invocation to workers and records what their attempts report.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use touchstone_agents::budget::Estimate;
use touchstone_agents::ports::agent::{
    AgentRuntime, EventSink, Exhausted, Invocation, InvocationEnd, InvocationResult, Meter,
    Unrecorded,
};
use touchstone_agents::runtime::Runtime;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_kit::ids::{EventId, RunId, TenantId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{AgentInvocationCompleted, Event, InvocationOutcome};
use tracing::{info, warn};

use crate::ports::bus::{Bus, BusError};
use crate::rules::access::pools::Pools;
use crate::rules::access::rights::{Forbidden, Needs, Rights};
use crate::rules::facts::{self, Foreign};
use crate::rules::lane::Lane;
use crate::rules::offer::{Asked, Offer, Reception};
use crate::rules::presence::{MAX_RUNS, ReplicaState, RunTasks};
use crate::rules::wire::{
    self, Amount, Answer, Ask, Assignment, Await, Claim, Claimed, End, Ending, Facts, Frame, Grant,
    Held, Offered, Question, Received, Token, Verdict, WorkerId,
};
use crate::service::assignment::{assignment, needs};
use crate::service::server::{self, Command};
#[cfg(test)]
use crate::simulation::mutation::Mutation;

/// The label of a task whose workers were lost too often.
pub const WORKER_LOST: &str = "worker_lost";
/// The label of a task whose log takes no further events.
pub(crate) const LOG_CLOSED: &str = "log_closed";
/// How often the holds are checked.
const TICK: Duration = Duration::from_millis(500);
/// How often a task is not published again because the queue has messages. The number of messages
/// comes from the bus, which may be wrong for long; the task must not wait for ever.
const MAX_SKIPPED: u32 = 12;
/// Requests to one task that may wait.
const MAX_COMMANDS: usize = 16;
/// Room for the members around a task in the answer to a claim.
const GRANT_BYTES: usize = 4 * 1024;

/// The tasks that this replica offers to workers.
pub struct Owner {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) replica: String,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    hold: Duration,
    pools: Pools,
    rights: Rights,
    tasks: Mutex<HashMap<String, Entry>>,
}

/// A task in the list of its owner.
struct Entry {
    commands: mpsc::Sender<Command>,
    run: RunId,
    tenant: TenantId,
    needs: Needs,
    /// Whether a worker executes the task.
    held: Arc<AtomicBool>,
}

impl Owner {
    /// `hold`: how long a worker may work without an answer of this host.
    pub fn new(
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        hold: Duration,
    ) -> Self {
        let replica = ids.mint("host");
        Self {
            bus,
            replica,
            clock,
            ids,
            hold,
            pools: Pools::default(),
            rights: Rights::default(),
            tasks: Mutex::default(),
        }
    }

    /// With queues for each of these pools, and only these workers.
    #[must_use]
    pub fn with_access(self, pools: Pools, rights: Rights) -> Self {
        Self {
            pools,
            rights,
            ..self
        }
    }

    /// The name of this replica on the bus.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// Answers workers until `stop` is cancelled.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) {
        server::serve(&self, &stop).await;
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn task(&self, offer: &str) -> Option<mpsc::Sender<Command>> {
        let tasks = self.tasks();
        tasks.get(offer).map(|entry| entry.commands.clone())
    }

    /// Whether a worker may execute a task; a task that is not offered any more is not refused.
    pub(super) fn permit(&self, offer: &str, worker: &str) -> Result<(), Forbidden> {
        let tasks = self.tasks();
        let entry = tasks.get(offer);
        entry.map_or(Ok(()), |entry| self.rights.check(worker, &entry.needs))
    }

    /// The runs whose tasks are offered or executed now.
    pub fn state(&self) -> ReplicaState {
        let mut runs: BTreeMap<RunId, RunTasks> = BTreeMap::new();
        for entry in self.tasks().values() {
            let tasks = runs.entry(entry.run.clone()).or_insert_with(|| RunTasks {
                run: entry.run.clone(),
                tenant: entry.tenant.clone(),
                offered: 0,
                held: 0,
            });
            match entry.held.load(Ordering::Relaxed) {
                true => tasks.held += 1,
                false => tasks.offered += 1,
            }
        }
        ReplicaState {
            runs: runs.into_values().take(MAX_RUNS).collect(),
        }
    }
}

/// Executes invocations at workers; those that only this process can execute, here.
pub struct ClusterRuntime {
    pub owner: Arc<Owner>,
    pub local: Runtime,
}

#[async_trait]
impl AgentRuntime for ClusterRuntime {
    async fn invoke(
        &self,
        invocation: Invocation<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult {
        let owner = &*self.owner;
        let distributed = assignment(&invocation, &owner.pools).filter(|(_, it)| fits(it));
        let Some((lane, assignment)) = distributed else {
            return self.local.invoke(invocation, meter, sink).await;
        };
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let offer_id = invocation.invocation_id;
        let held = Arc::new(AtomicBool::new(false));
        let entry = Entry {
            commands: sender,
            run: invocation.run.clone(),
            tenant: invocation.tenant.clone(),
            needs: needs(&assignment),
            held: Arc::clone(&held),
        };
        owner.tasks().insert(offer_id.clone(), entry);
        let _listed = Listed {
            owner,
            offer: &offer_id,
        };
        let task = OwnedTask {
            owner,
            meter,
            sink,
            lane: &lane,
            offer_id: &offer_id,
            offer: Offer::new(owner.hold, owner.clock.uptime()),
            held,
            assignment,
            events: Vec::new(),
            open: None,
            waiting: FuturesUnordered::new(),
            asking: None,
            is_stored: false,
            skipped: 0,
        };
        task.own(commands).await
    }
}

/// Whether a task fits into a message.
fn fits(assignment: &Assignment) -> bool {
    // A task is sent as text in a string.
    let text = serde_json::to_string(assignment).and_then(|text| serde_json::to_vec(&text));
    text.is_ok_and(|text| text.len() <= wire::MAX_BYTES - GRANT_BYTES)
}

/// Withdraws a task when its invocation has ended or is dropped.
struct Listed<'a> {
    owner: &'a Owner,
    offer: &'a str,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.owner.tasks().remove(self.offer);
    }
}

/// What a task waits for.
enum Waited {
    /// The budget has answered a question.
    Budget {
        invocation: String,
        call: u64,
        reserved: Option<Estimate>,
        granted: bool,
    },
    /// The log has answered for facts that are recorded.
    Log {
        reply: oneshot::Sender<Received>,
        next: u64,
        answer: Result<(), Unrecorded>,
    },
    Published(Result<Published, BusError>),
}

/// What became of a message to a queue.
enum Published {
    Stored,
    /// The queue has messages, so that this one is probably among them.
    Skipped,
}

struct OwnedTask<'a> {
    owner: &'a Owner,
    meter: &'a dyn Meter,
    sink: &'a dyn EventSink,
    lane: &'a Lane,
    offer_id: &'a str,
    offer: Offer,
    held: Arc<AtomicBool>,
    assignment: Assignment,
    /// The events of the current attempt.
    events: Vec<EventId>,
    /// The invocation that has started and not completed.
    open: Option<String>,
    waiting: FuturesUnordered<BoxFuture<'a, Waited>>,
    /// Who waits for the budget's answer to which question.
    asking: Option<(u64, oneshot::Sender<Answer>)>,
    /// Whether the queue has confirmed the last message. One that it has not confirmed is
    /// published again, however many others wait.
    is_stored: bool,
    /// Number of times since then that the task was not published because others wait.
    skipped: u32,
}

impl<'a> OwnedTask<'a> {
    async fn own(mut self, mut commands: mpsc::Receiver<Command>) -> InvocationResult {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.publish(true);
        loop {
            let ended = tokio::select! {
                biased;
                Some(waited) = self.waiting.next(), if !self.waiting.is_empty() => {
                    self.waited(waited);
                    None
                }
                // Before requests, which may always be waiting.
                _ = ticks.tick() => self.tick(),
                Some(command) = commands.recv() => self.receive(command),
            };
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// Puts the task into its queue. Unless `certainly`, only if the queue is empty: the message of
    /// the task may be among the others.
    fn publish(&mut self, certainly: bool) {
        if certainly {
            self.is_stored = false;
        }
        self.offer.published(self.owner.clock.uptime());
        let (owner, lane) = (self.owner, self.lane);
        let offered = Offered {
            replica: owner.replica.clone(),
            offer: self.offer_id.to_owned(),
        };
        let Ok(message) = wire::write(&offered) else {
            return;
        };
        let publish = async move { publish(owner, lane, message, certainly).await };
        self.waiting.push(publish.map(Waited::Published).boxed());
    }

    /// Whether a call may be made now; `None` if none may ever be made again.
    fn may_call(&self) -> Option<bool> {
        let asked = tokio::task::unconstrained(self.sink.may_call());
        match asked.now_or_never() {
            None => Some(false),
            Some(Ok(())) => Some(true),
            Some(Err(Unrecorded)) => None,
        }
    }

    fn receive(&mut self, command: Command) -> Option<InvocationResult> {
        // A worker that has gone does not wait for its answer.
        match command {
            Command::Claim(claim, reply) => {
                let _ = reply.send(self.claim(&claim));
            }
            Command::Ask(ask, reply) => self.ask(&ask, reply),
            Command::Beat(worker, held, reply) => {
                let _ = reply.send(self.beat(&worker, &held));
            }
            Command::Facts(facts, reply) => return self.facts(facts, reply),
        }
        None
    }

    fn claim(&mut self, claim: &Claim) -> Claimed {
        if self.may_call() != Some(true) {
            return Claimed::Gone;
        }
        let (ids, now) = (&self.owner.ids, self.owner.clock.uptime());
        let mint = || (ids.mint("inv"), Token::new(&ids.secret()));
        let Some(granted) = self.offer.claim(claim, now, mint) else {
            return Claimed::Gone;
        };
        self.held.store(true, Ordering::Relaxed);
        Claimed::Granted(Box::new(Grant {
            invocation: granted.invocation,
            token: granted.token,
            hold_ms: u64::try_from(self.owner.hold.as_millis()).unwrap_or(u64::MAX),
            task: self.assignment.clone(),
        }))
    }

    fn beat(&mut self, worker: &WorkerId, held: &Held) -> Verdict {
        let (now, may_call) = (self.owner.clock.uptime(), self.may_call());
        self.offer.beat(worker, held, now, may_call)
    }

    fn ask(&mut self, ask: &Ask, reply: oneshot::Sender<Answer>) {
        let known = match self.offer.ask(&ask.proof, ask.call, ask.question) {
            Asked::New => {
                self.ask_budget(ask);
                None
            }
            Asked::Pending => None,
            Asked::Known { granted: true } => Some(Answer::Granted),
            Asked::Known { granted: false } => Some(Answer::Exhausted),
            Asked::Superseded => Some(Answer::Superseded),
        };
        match known {
            Some(answer) => {
                let _ = reply.send(answer);
            }
            None => self.asking = Some((ask.call, reply)),
        }
    }

    fn ask_budget(&mut self, ask: &Ask) {
        let (meter, invocation, call) = (self.meter, ask.proof.invocation.clone(), ask.call);
        let question = ask.question;
        let asked = async move {
            let (reserved, answer) = match question {
                Question::Reserve(amount) => {
                    let estimate = estimate(amount);
                    (Some(estimate), meter.reserve(estimate).await)
                }
                Question::Tool => (None, meter.call_tool().await),
                Question::Retry => (None, meter.retry().await),
            };
            Waited::Budget {
                invocation,
                call,
                reserved,
                granted: answer != Err(Exhausted),
            }
        };
        self.waiting.push(asked.boxed());
    }

    fn facts(
        &mut self,
        facts: Facts,
        reply: oneshot::Sender<Received>,
    ) -> Option<InvocationResult> {
        let Facts {
            proof,
            from,
            frames,
            until,
        } = facts;
        #[cfg(test)]
        let until = match Mutation::ConfirmedEarly.is_on() {
            true => Await::Recorded,
            false => until,
        };
        let mut ended = None;
        match self.offer.receive(&proof, from, frames.len()) {
            Reception::Superseded => {
                let _ = reply.send(Received::Superseded);
                return None;
            }
            Reception::Missing => {
                let next = self.offer.next_fact();
                let _ = reply.send(Received::Recorded { next });
                return None;
            }
            Reception::Record { skip } => {
                for frame in frames.into_iter().skip(skip) {
                    match self.record(frame, &proof.invocation) {
                        Ok(None) => {}
                        Ok(result) => {
                            ended = result;
                            break;
                        }
                        Err(Foreign) => {
                            let worker = &proof.worker.worker;
                            warn!(worker, "a worker reported a fact that it cannot have");
                            let _ = reply.send(Received::Superseded);
                            return self.lose();
                        }
                    }
                }
            }
        }
        let next = self.offer.next_fact();
        if ended.is_some() || until == Await::Recorded {
            let _ = reply.send(Received::Recorded { next });
            return ended;
        }
        let sink = self.sink;
        let asked = async move {
            let answer = match until {
                Await::Durable => sink.kept().await,
                Await::MayCall | Await::Recorded => sink.may_call().await,
            };
            Waited::Log {
                reply,
                next,
                answer,
            }
        };
        self.waiting.push(asked.boxed());
        None
    }

    /// Records one fact. Returns the result if the attempt has ended.
    fn record(
        &mut self,
        frame: Frame,
        invocation: &str,
    ) -> Result<Option<InvocationResult>, Foreign> {
        match frame {
            Frame::Event {
                kind,
                payload,
                cause,
            } => {
                let event = facts::event(&kind, &payload, invocation, &self.assignment.node)?;
                match &event {
                    Event::AgentInvocationStarted(it) if it.invocation_id == invocation => {
                        self.open = Some(invocation.to_owned());
                    }
                    Event::AgentInvocationCompleted(it) if it.invocation_id == invocation => {
                        self.open = None;
                    }
                    _ => {}
                }
                let cause = cause.and_then(|index| usize::try_from(index).ok());
                let cause = cause.and_then(|index| self.events.get(index));
                let id = self.sink.emit(event, cause);
                self.events.push(id);
            }
            Frame::Settled { call, used } => {
                if let Some(reserved) = self.offer.settle(call) {
                    self.meter.settle(estimate(reserved), estimate(used));
                }
            }
            Frame::Ended(ending) => return Ok(Some(result(ending))),
        }
        Ok(None)
    }

    fn waited(&mut self, waited: Waited) {
        match waited {
            Waited::Budget {
                invocation,
                call,
                reserved,
                granted,
            } => {
                if !self.offer.answered(&invocation, call, granted) {
                    if let Some(reserved) = reserved.filter(|_| granted) {
                        self.meter.settle(reserved, Estimate::default());
                    }
                    return;
                }
                if let Some((_, reply)) = self.asking.take_if(|(asked, _)| *asked == call) {
                    let answer = match granted {
                        true => Answer::Granted,
                        false => Answer::Exhausted,
                    };
                    let _ = reply.send(answer);
                }
            }
            Waited::Log {
                reply,
                next,
                answer,
            } => {
                let answer = match answer {
                    Ok(()) => Received::Recorded { next },
                    Err(Unrecorded) => Received::Superseded,
                };
                let _ = reply.send(answer);
            }
            Waited::Published(Ok(Published::Stored)) => {
                self.is_stored = true;
                self.skipped = 0;
            }
            Waited::Published(Ok(Published::Skipped)) => {
                self.skipped = self.skipped.saturating_add(1);
            }
            Waited::Published(Err(cause)) => {
                self.offer.unpublished(self.owner.clock.uptime());
                warn!(lane = %self.lane, %cause, "a task could not be offered to workers; it is offered again");
            }
        }
    }

    fn tick(&mut self) -> Option<InvocationResult> {
        let now = self.owner.clock.uptime();
        if self.may_call().is_none() {
            return Some(unjudged(LOG_CLOSED));
        }
        if self.offer.is_overdue(now) {
            return self.lose();
        }
        if self.offer.is_unclaimed(now) {
            let certain = !self.is_stored || self.skipped >= MAX_SKIPPED;
            self.publish(certain);
        }
        None
    }

    /// Ends the current attempt without a result, and offers the task again.
    fn lose(&mut self) -> Option<InvocationResult> {
        let lost = self.offer.lose(self.owner.clock.uptime())?;
        self.held.store(false, Ordering::Relaxed);
        let (run, invocation, worker) =
            (&self.assignment.run, &lost.invocation, &lost.worker.worker);
        info!(run_id = %run, invocation, worker, "an attempt was lost");
        for reserved in lost.reserved {
            self.meter.settle(estimate(reserved), Estimate::default());
        }
        if let Some(invocation_id) = self.open.take() {
            let completed = AgentInvocationCompleted {
                invocation_id,
                agent_id: self.assignment.agent.agent.clone(),
                outcome: InvocationOutcome::Failed,
                schema_validated: None,
            };
            let event = Event::AgentInvocationCompleted(completed);
            self.sink.emit(event, self.events.first());
        }
        self.events.clear();
        self.asking = None;
        if self.offer.is_given_up() {
            return Some(unjudged(WORKER_LOST));
        }
        self.publish(true);
        None
    }
}

/// Gives back what the attempt has reserved, cancellation included.
impl Drop for OwnedTask<'_> {
    fn drop(&mut self) {
        let lost = self.offer.lose(self.owner.clock.uptime());
        for reserved in lost.into_iter().flat_map(|lost| lost.reserved) {
            self.meter.settle(estimate(reserved), Estimate::default());
        }
        // Answers of the budget that have not been looked at.
        while let Some(Some(waited)) = self.waiting.next().now_or_never() {
            self.waited(waited);
        }
    }
}

fn unjudged(reason: &str) -> InvocationResult {
    InvocationResult {
        end: InvocationEnd::Unjudged {
            reason: reason.to_owned(),
        },
        schema_valid: None,
        latency_ms: 0,
        span_id: None,
    }
}

async fn publish(
    owner: &Owner,
    lane: &Lane,
    message: Bytes,
    certainly: bool,
) -> Result<Published, BusError> {
    if !certainly && owner.bus.waiting(lane).await? > 0 {
        return Ok(Published::Skipped);
    }
    owner.bus.publish(lane, &owner.replica, message).await?;
    Ok(Published::Stored)
}

const fn estimate(amount: Amount) -> Estimate {
    Estimate {
        tokens: amount.tokens,
        cost: NanoUsd(amount.nano_usd),
    }
}

fn result(ending: Ending) -> InvocationResult {
    InvocationResult {
        end: match ending.end {
            End::Decided { output } => InvocationEnd::Decided { output },
            End::Failed { reason } => InvocationEnd::Failed { reason },
            End::Unjudged { reason } => InvocationEnd::Unjudged { reason },
        },
        schema_valid: ending.schema_valid,
        latency_ms: ending.latency_ms,
        span_id: None,
    }
}
