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
    Unrecorded, UserTurns,
};
use touchstone_agents::ports::model::{ModelError, Permit, Permits};
use touchstone_agents::rules::WORKERS_UNREACHABLE;
use touchstone_agents::runtime::Runtime;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_kit::ids::{EventId, RunId, TenantId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{AgentInvocationCompleted, Event, InvocationOutcome};
use tracing::{info, warn};

use crate::cluster_metrics::OwnerMetrics;
use crate::ports::bus::{Bus, BusError};
use crate::rules::access::pools::Pools;
use crate::rules::access::rights::{Forbidden, Needs, Rights};
use crate::rules::facts::{self, Foreign};
use crate::rules::lane::Lane;
use crate::rules::offer::{Asked, Offer, Reception};
use crate::rules::presence::{MAX_RUNS, ReplicaState, RunTasks};
use crate::rules::wire::{
    self, Amount, Answer, Ask, Assignment, Await, Claim, Claimed, End, Ending, Facts, Frame, Grant,
    Held, ModelRole, Offered, Question, Received, Token, Verdict, WorkerId,
};
use crate::service::assignment::{assignment, needs};
use crate::service::contact::BusContact;
use crate::service::server::{self, Command};
use crate::service::turns::{Schedule, Turn};
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
/// Most calls of one attempt that have not ended.
const MAX_CALLS: usize = 16;
/// Room for the members around a task in the answer to a claim.
const GRANT_BYTES: usize = 4 * 1024;

/// The tasks that this replica offers to workers.
pub struct Owner {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) replica: String,
    pub(super) metrics: OwnerMetrics,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    hold: Duration,
    schedule: Arc<Schedule>,
    contact: Arc<BusContact>,
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
        let contact = Arc::new(BusContact::new(Arc::clone(&clock), hold));
        Self {
            bus,
            replica,
            schedule: Arc::new(Schedule::new(Arc::clone(&clock))),
            metrics: OwnerMetrics::default(),
            clock,
            ids,
            hold,
            contact,
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

    /// To be told of all that the bus delivers.
    pub fn contact(&self) -> &Arc<BusContact> {
        &self.contact
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
        let user = match invocation.dialogue.map(|it| it.turns) {
            Some(UserTurns::Simulated { model, .. }) => Some(&*model.permits),
            _ => None,
        };
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
        let now = owner.clock.uptime();
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
            since: now,
            offer: Offer::new(owner.hold, now),
            offered_at: now,
            held,
            assignment,
            events: Vec::new(),
            open: None,
            waiting: FuturesUnordered::new(),
            permits: EndpointLimits {
                agent: &*invocation.model.permits,
                user,
            },
            calls: BTreeMap::new(),
            asking: None,
            turn: None,
            is_stored: false,
            skipped: 0,
            is_refused: false,
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
    /// The limits of an endpoint have answered a question.
    Permit {
        invocation: String,
        call: u64,
        permit: Result<Box<dyn Permit>, Answer>,
    },
    /// The log has answered for facts that are recorded.
    Log {
        reply: oneshot::Sender<Received>,
        next: u64,
        answer: Result<(), Unrecorded>,
    },
    Published(Result<Published, BusError>),
    /// The task may be put into the queue; `None` never comes.
    Turn(Option<Turn>),
}

/// What became of a message to a queue.
enum Published {
    Stored,
    /// The queue has messages, so that this one is probably among them.
    Skipped,
}

/// The limits of the endpoints that a task calls, which all workers share.
struct EndpointLimits<'a> {
    agent: &'a dyn Permits,
    user: Option<&'a dyn Permits>,
}

impl<'a> EndpointLimits<'a> {
    const fn of(&self, role: ModelRole) -> Option<&'a dyn Permits> {
        match role {
            ModelRole::Agent => Some(self.agent),
            ModelRole::SimulatedUser => self.user,
        }
    }
}

struct OwnedTask<'a> {
    owner: &'a Owner,
    meter: &'a dyn Meter,
    sink: &'a dyn EventSink,
    lane: &'a Lane,
    offer_id: &'a str,
    /// When the task was offered first.
    since: Duration,
    offer: Offer,
    /// When the task began to wait for a worker.
    offered_at: Duration,
    held: Arc<AtomicBool>,
    assignment: Assignment,
    /// The events of the current attempt.
    events: Vec<EventId>,
    /// The invocation that has started and not completed.
    open: Option<String>,
    waiting: FuturesUnordered<BoxFuture<'a, Waited>>,
    permits: EndpointLimits<'a>,
    /// The calls that the worker makes now, by question.
    calls: BTreeMap<u64, Box<dyn Permit>>,
    /// Who waits for the budget's answer to which question.
    asking: Option<(u64, oneshot::Sender<Answer>)>,
    /// The right to be in the queue.
    turn: Option<Turn>,
    /// Whether the queue has confirmed the last message. One that it has not confirmed is
    /// published again, however many others wait.
    is_stored: bool,
    /// Number of times since then that the task was not published because others wait.
    skipped: u32,
    /// Whether a worker was refused because no call may be made now. Its message has left the queue.
    is_refused: bool,
}

impl<'a> OwnedTask<'a> {
    async fn own(mut self, mut commands: mpsc::Receiver<Command>) -> InvocationResult {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.await_turn(false);
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

    /// Waits for the turn of the task, after which it is put into its queue.
    fn await_turn(&mut self, ahead: bool) {
        let Assignment { tenant, run, .. } = &self.assignment;
        let turn = self.owner.schedule.turn(self.lane, tenant, run, ahead);
        let turn = turn.map(|it| Waited::Turn(it.ok()));
        self.waiting.push(turn.boxed());
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
            self.is_refused = true;
            return Claimed::Gone;
        }
        let (ids, now) = (&self.owner.ids, self.owner.clock.uptime());
        let mint = || (ids.mint("inv"), Token::new(&ids.secret()));
        let Some(granted) = self.offer.claim(claim, now, mint) else {
            return Claimed::Gone;
        };
        if !self.held.swap(true, Ordering::Relaxed) {
            let waited = now.saturating_sub(self.offered_at);
            self.owner.metrics.taken(waited);
        }
        if let Some(turn) = self.turn.take() {
            turn.claimed();
        }
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
            Asked::New => match ask.question {
                Question::Call(role) => self.ask_endpoint(ask, role),
                Question::Reserve(_) | Question::Tool | Question::Retry => {
                    self.ask_budget(ask);
                    None
                }
            },
            Asked::Pending => None,
            Asked::Known(answer) => Some(answer),
            Asked::Superseded => Some(Answer::Superseded),
        };
        match known {
            Some(answer) => {
                let _ = reply.send(answer);
            }
            None => self.asking = Some((ask.call, reply)),
        }
    }

    /// Waits for room for a call. Returns the answer if no call may be made.
    fn ask_endpoint(&mut self, ask: &Ask, role: ModelRole) -> Option<Answer> {
        let permits = self.permits.of(role);
        let permits = permits.filter(|_| self.calls.len() < MAX_CALLS);
        let Some(permits) = permits else {
            return Some(Answer::Superseded);
        };
        let (sink, call, invocation) = (self.sink, ask.call, ask.proof.invocation.clone());
        let asked = async move {
            let permit = match permits.acquire().await {
                Err(ModelError::Unavailable { .. } | ModelError::Rejected { .. }) => {
                    Err(Answer::EndpointDown)
                }
                Ok(permit) => permit_to_call(sink, permit).await,
            };
            Waited::Permit {
                invocation,
                call,
                permit,
            }
        };
        self.waiting.push(asked.boxed());
        None
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
                Question::Call(_) => (None, Err(Exhausted)),
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
            Frame::Called { call, health } => {
                if let (Some(permit), Some(health)) = (self.calls.remove(&call), health) {
                    permit.report(health);
                }
            }
            Frame::Ended(ending) if is_label_of_host(&ending.end) => return Err(Foreign),
            Frame::Ended(ending) => {
                self.owner.metrics.attempt_ended();
                self.held.store(false, Ordering::Relaxed);
                return Ok(Some(result(ending)));
            }
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
                let answer = match granted {
                    true => Answer::Granted,
                    false => Answer::Exhausted,
                };
                if !self.offer.answered(&invocation, call, answer) {
                    if let Some(reserved) = reserved.filter(|_| granted) {
                        self.meter.settle(reserved, Estimate::default());
                    }
                    return;
                }
                self.answer(call, answer);
            }
            Waited::Permit {
                invocation,
                call,
                permit,
            } => {
                let answer = permit.as_ref().err().copied().unwrap_or(Answer::Granted);
                if self.offer.answered(&invocation, call, answer) {
                    if let Ok(permit) = permit {
                        self.calls.insert(call, permit);
                    }
                    self.answer(call, answer);
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
            Waited::Turn(turn) => {
                // An earlier message may have been claimed meanwhile.
                if self.offer.invocation().is_none() && self.turn.is_none() {
                    self.turn = turn;
                    self.publish(true);
                }
            }
            Waited::Published(Ok(Published::Stored)) => {
                self.owner.contact.bus_answered();
                self.is_stored = true;
                self.skipped = 0;
            }
            Waited::Published(Ok(Published::Skipped)) => {
                self.owner.contact.bus_answered();
                self.skipped = self.skipped.saturating_add(1);
            }
            Waited::Published(Err(cause)) => {
                self.offer.unpublished(self.owner.clock.uptime());
                warn!(lane = %self.lane, %cause, "a task could not be offered to workers; it is offered again");
            }
        }
    }

    /// Answers the worker that waits for this question.
    fn answer(&mut self, call: u64, answer: Answer) {
        if let Some((_, reply)) = self.asking.take_if(|(asked, _)| *asked == call) {
            let _ = reply.send(answer);
        }
    }

    fn tick(&mut self) -> Option<InvocationResult> {
        let now = self.owner.clock.uptime();
        let Some(may_call) = self.may_call() else {
            return Some(unjudged(LOG_CLOSED));
        };
        if self.owner.contact.is_cut_off(self.since, now) {
            return Some(unjudged(WORKERS_UNREACHABLE));
        }
        if self.offer.is_overdue(now) {
            return self.lose();
        }
        let is_offered_again = may_call && std::mem::take(&mut self.is_refused);
        let may_publish = self.turn.is_some() && self.offer.invocation().is_none();
        if is_offered_again && may_publish {
            self.publish(true);
        } else if may_publish && self.offer.is_unclaimed(now) {
            let certain = !self.is_stored || self.skipped >= MAX_SKIPPED;
            self.publish(certain);
        }
        None
    }

    /// Ends the current attempt without a result, and offers the task again.
    fn lose(&mut self) -> Option<InvocationResult> {
        let now = self.owner.clock.uptime();
        let lost = self.offer.lose(now, self.owner.contact.heard_since(now))?;
        self.held.store(false, Ordering::Relaxed);
        self.owner.metrics.attempt_lost();
        self.offered_at = now;
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
        self.calls.clear();
        self.asking = None;
        if self.offer.is_given_up() {
            return Some(unjudged(WORKER_LOST));
        }
        self.await_turn(true);
        None
    }
}

/// Gives back what the attempt has reserved, cancellation included.
impl Drop for OwnedTask<'_> {
    fn drop(&mut self) {
        if self.held.load(Ordering::Relaxed) {
            self.owner.metrics.attempt_withdrawn();
        }
        let now = self.owner.clock.uptime();
        let lost = self.offer.lose(now, now);
        for reserved in lost.into_iter().flat_map(|lost| lost.reserved) {
            self.meter.settle(estimate(reserved), Estimate::default());
        }
        // Answers of the budget that have not been looked at. What else has arrived is dropped.
        while let Some(Some(waited)) = self.waiting.next().now_or_never() {
            if matches!(waited, Waited::Budget { .. }) {
                self.waited(waited);
            }
        }
    }
}

/// The permit, once the log of the run takes the call.
async fn permit_to_call(
    sink: &dyn EventSink,
    permit: Box<dyn Permit>,
) -> Result<Box<dyn Permit>, Answer> {
    #[cfg(test)]
    if Mutation::ConfirmedEarly.is_on() {
        return Ok(permit);
    }
    match sink.may_call().await {
        Ok(()) => Ok(permit),
        Err(Unrecorded) => Err(Answer::Superseded),
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

/// Whether the end has a label that only a host may give, because it acts on it.
fn is_label_of_host(end: &End) -> bool {
    let labels = [WORKER_LOST, LOG_CLOSED, WORKERS_UNREACHABLE];
    matches!(end, End::Unjudged { reason } if labels.contains(&reason.as_str()))
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
