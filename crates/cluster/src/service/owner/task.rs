//! One task of an owner: its attempts, and the facts that are recorded of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use touchstone_agents::budget::Estimate;
use touchstone_agents::ports::agent::{
    EventSink, Invocation, InvocationEnd, InvocationResult, Meter, Unrecorded,
};
use touchstone_agents::ports::model::Permit;
use touchstone_agents::rules::WORKERS_UNREACHABLE;
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::{AgentInvocationCompleted, Event, InvocationOutcome};
use tracing::{info, warn};

use crate::ports::bus::BusError;
use crate::rules::facts::{self, Foreign};
use crate::rules::lane::Lane;
use crate::rules::offer::{Offer, Reception};
use crate::rules::wire::parts::{Assembly, Mismatch, part};
use crate::rules::wire::{
    Answer, Await, Claim, Claimed, End, Ending, Facts, FetchPart, Frame, Grant, Held, NewFacts,
    Proof, Received, Token, Verdict, WorkerId,
};
use crate::service::owner::publication::Published;
use crate::service::owner::questions::{EndpointLimits, estimate};
use crate::service::owner::text::TaskText;
use crate::service::owner::{LOG_CLOSED, Owner, WORKER_LOST};
use crate::service::server::Command;
use crate::service::turns::Turn;
#[cfg(test)]
use crate::simulation::mutation::Mutation;

/// How often the holds are checked.
const TICK: Duration = Duration::from_millis(500);
/// How often a task is not published again because the queue has messages. The number of messages
/// comes from the bus, which may be wrong for long; the task must not wait for ever.
const MAX_SKIPPED: u32 = 12;

/// What a task waits for.
pub(super) enum Waited {
    /// The budget has answered a question.
    Budget {
        invocation: String,
        call: u64,
        reserved: Option<Estimate>,
        granted: bool,
        /// The permit for the call, if it was asked for and there was one.
        permit: Option<Box<dyn Permit>>,
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

/// What became of facts.
pub(super) enum Recorded {
    All,
    /// The attempt has ended with this result.
    Ended(InvocationResult),
    /// Facts before them are missing.
    Missing,
    /// The sender does not hold the attempt.
    Superseded,
    /// The sender cannot have one of them. Its attempt does not count any more.
    Foreign,
    /// There is no room for a large fact now.
    NoRoom,
}

pub(super) struct OwnedTask<'a> {
    pub(super) owner: &'a Owner,
    pub(super) meter: &'a dyn Meter,
    pub(super) sink: &'a dyn EventSink,
    pub(super) lane: &'a Lane,
    pub(super) offer_id: &'a str,
    /// When the task was offered first.
    pub(super) since: Duration,
    pub(super) offer: Offer,
    /// When the task began to wait for a worker.
    pub(super) offered_at: Duration,
    pub(super) held: Arc<AtomicBool>,
    pub(super) invocation: &'a Invocation<'a>,
    pub(super) text: TaskText,
    /// The events of the current attempt.
    pub(super) events: Vec<EventId>,
    /// The invocation that has started and not completed.
    pub(super) open: Option<String>,
    pub(super) waiting: FuturesUnordered<BoxFuture<'a, Waited>>,
    pub(super) permits: EndpointLimits<'a>,
    /// The calls that the worker makes now, by question.
    pub(super) calls: BTreeMap<u64, Box<dyn Permit>>,
    /// Who waits for the budget's answer to which question.
    pub(super) asking: Option<(u64, oneshot::Sender<Answer>)>,
    /// A large fact whose parts arrive, and its room.
    pub(super) assembly: Option<(Assembly, OwnedSemaphorePermit)>,
    /// The right to be in the queue.
    pub(super) turn: Option<Turn>,
    /// Whether the queue has confirmed the last message. One that it has not confirmed is
    /// published again, however many others wait.
    pub(super) is_stored: bool,
    /// Number of times since then that the task was not published because others wait.
    pub(super) skipped: u32,
    /// Whether a worker was refused because no call may be made now, or there is no room for the
    /// task. Its message has left the queue.
    pub(super) is_refused: bool,
}

impl<'a> OwnedTask<'a> {
    pub async fn own(mut self, mut commands: mpsc::Receiver<Command>) -> InvocationResult {
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

    /// Whether a call may be made now; `None` if none may ever be made again.
    pub(super) fn may_call(&self) -> Option<bool> {
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
            Command::Ask(ask, reply) => return self.ask(ask, reply),
            Command::Beat(worker, held, reply) => {
                let _ = reply.send(self.beat(&worker, &held));
            }
            Command::Facts(facts, reply) => return self.facts(facts, reply),
            Command::Part(fetch, reply) => {
                let _ = reply.send(self.part(&fetch));
            }
        }
        None
    }

    fn claim(&mut self, claim: &Claim) -> Claimed {
        let (owner, pool) = (self.owner, self.lane.pool());
        let may_claim =
            self.may_call() == Some(true) && self.text.prepare(self.invocation, &owner.room, pool);
        if !may_claim {
            self.is_refused = true;
            return Claimed::Gone;
        }
        let (ids, now) = (&self.owner.ids, self.owner.clock.uptime());
        let mint = || (ids.mint("inv"), Token::new(&ids.secret()));
        let Some(granted) = self.offer.claim(claim, now, mint) else {
            if self.offer.invocation().is_none() {
                self.text.release();
            }
            return Claimed::Gone;
        };
        if !self.held.swap(true, Ordering::Relaxed) {
            let waited = now.saturating_sub(self.offered_at);
            self.owner.metrics.taken(waited);
        }
        if let Some(turn) = self.turn.take() {
            turn.claimed();
        }
        let (task, parts_of) = self.text.granted();
        Claimed::Granted(Box::new(Grant {
            invocation: granted.invocation,
            token: granted.token,
            hold_ms: u64::try_from(self.owner.hold.as_millis()).unwrap_or(u64::MAX),
            task,
            parts_of,
            largest_fact: self.owner.content.task,
            combines: true,
        }))
    }

    /// A part of the task's text, for the holder of the attempt.
    fn part(&mut self, fetch: &FetchPart) -> Claimed {
        let text = self.text.in_parts();
        let text = text.filter(|_| self.offer.is_held_by(&fetch.proof));
        let part = text.and_then(|text| part(text, fetch.part_from));
        part.map_or(Claimed::Gone, |text| Claimed::Part {
            text: text.to_owned(),
        })
    }

    fn beat(&mut self, worker: &WorkerId, held: &Held) -> Verdict {
        let (now, may_call) = (self.owner.clock.uptime(), self.may_call());
        self.offer.beat(worker, held, now, may_call)
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
        let recorded = self.record_all(&proof, NewFacts { from, frames });
        let next = self.offer.next_fact();
        match recorded {
            Recorded::All if until != Await::Recorded => {}
            Recorded::All | Recorded::Missing => {
                let _ = reply.send(Received::Recorded { next });
                return None;
            }
            Recorded::Ended(result) => {
                let _ = reply.send(Received::Recorded { next });
                return Some(result);
            }
            Recorded::Superseded => {
                let _ = reply.send(Received::Superseded);
                return None;
            }
            Recorded::Foreign => {
                let _ = reply.send(Received::Superseded);
                return self.lose();
            }
            // The worker sends them again when it has no answer in time.
            Recorded::NoRoom => return None,
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

    /// Records the facts of the attempt's holder that are not recorded yet.
    pub(super) fn record_all(&mut self, proof: &Proof, facts: NewFacts) -> Recorded {
        let NewFacts { from, frames } = facts;
        let room = match self.room_for(proof, from, &frames) {
            Ok(room) => room,
            Err(recorded) => return recorded,
        };
        let skip = match self.offer.receive(proof, from, frames.len()) {
            Reception::Superseded => return Recorded::Superseded,
            Reception::Missing => return Recorded::Missing,
            Reception::Record { skip } => skip,
        };
        if let Some(begun) = room {
            self.assembly = Some(begun);
        }
        for frame in frames.into_iter().skip(skip) {
            match self.record(frame, &proof.invocation) {
                Ok(None) => {}
                Ok(Some(result)) => return Recorded::Ended(result),
                Err(Foreign) => {
                    let worker = &proof.worker.worker;
                    warn!(worker, "a worker reported a fact that it cannot have");
                    return Recorded::Foreign;
                }
            }
        }
        Recorded::All
    }

    /// Room for the large fact that begins with these, if one does.
    fn room_for(
        &mut self,
        proof: &Proof,
        from: u64,
        frames: &[Frame],
    ) -> Result<Option<(Assembly, OwnedSemaphorePermit)>, Recorded> {
        let known = self.offer.next_fact().saturating_sub(from);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let new = (0..).zip(frames.iter().skip(known));
        let begun = new.filter_map(|(at, frame)| match frame {
            Frame::Part { of: Some(of), .. } => Some((at, *of)),
            _ => None,
        });
        let begun: Vec<(usize, usize)> = begun.collect();
        if begun.is_empty() {
            return Ok(None);
        }
        if !self.offer.is_held_by(proof) {
            return Err(Recorded::Superseded);
        }
        let limit = self.owner.content.task;
        // One at a time, so that no attempt keeps room while it waits for more.
        let &[(0, bytes)] = begun.as_slice() else {
            return Err(Recorded::Foreign);
        };
        if bytes > limit || self.assembly.is_some() {
            return Err(Recorded::Foreign);
        }
        let room = self.owner.room.for_fact(self.lane.pool(), bytes);
        let room = room.ok_or(Recorded::NoRoom)?;
        Ok(Some((Assembly::new(bytes), room)))
    }

    /// Adds a part of a large fact, and records the fact if it is complete.
    fn record_part(
        &mut self,
        text: &str,
        invocation: &str,
    ) -> Result<Option<InvocationResult>, Foreign> {
        let (mut assembly, room) = self.assembly.take().ok_or(Foreign)?;
        assembly.add(text).map_err(|Mismatch| Foreign)?;
        if !assembly.is_complete() {
            self.assembly = Some((assembly, room));
            return Ok(None);
        }
        let frame: Frame = serde_json::from_str(&assembly.into_text()).map_err(|_| Foreign)?;
        match frame {
            Frame::Part { .. } => Err(Foreign),
            whole => self.record(whole, invocation),
        }
    }

    /// Records one fact. Returns the result if the attempt has ended.
    fn record(
        &mut self,
        frame: Frame,
        invocation: &str,
    ) -> Result<Option<InvocationResult>, Foreign> {
        if self.assembly.is_some() && !matches!(frame, Frame::Part { .. }) {
            return Err(Foreign);
        }
        match frame {
            Frame::Part { text, .. } => return self.record_part(&text, invocation),
            Frame::Event {
                kind,
                payload,
                cause,
            } => {
                let event = facts::event(&kind, &payload, invocation, self.invocation.node_id)?;
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
                permit,
            } => {
                let answer = match (granted, &permit) {
                    (true, Some(_)) => Answer::MayCall,
                    (true, None) => Answer::Granted,
                    (false, _) => Answer::Exhausted,
                };
                if !self.offer.answered(&invocation, call, answer) {
                    if let Some(reserved) = reserved.filter(|_| granted) {
                        self.meter.settle(reserved, Estimate::default());
                    }
                    return;
                }
                if let Some(permit) = permit {
                    self.calls.insert(call, permit);
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
    pub(super) fn lose(&mut self) -> Option<InvocationResult> {
        let now = self.owner.clock.uptime();
        let lost = self.offer.lose(now, self.owner.contact.heard_since(now))?;
        self.held.store(false, Ordering::Relaxed);
        self.owner.metrics.attempt_lost();
        self.offered_at = now;
        let (run, invocation, worker) =
            (self.invocation.run, &lost.invocation, &lost.worker.worker);
        info!(run_id = %run, invocation, worker, "an attempt was lost");
        for reserved in lost.reserved {
            self.meter.settle(estimate(reserved), Estimate::default());
        }
        if let Some(invocation_id) = self.open.take() {
            let completed = AgentInvocationCompleted {
                invocation_id,
                agent_id: self.invocation.agent.agent_id.clone(),
                outcome: InvocationOutcome::Failed,
                schema_validated: None,
            };
            let event = Event::AgentInvocationCompleted(completed);
            self.sink.emit(event, self.events.first());
        }
        self.events.clear();
        self.calls.clear();
        self.asking = None;
        self.assembly = None;
        self.text.release();
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

pub(super) fn unjudged(reason: &str) -> InvocationResult {
    InvocationResult {
        end: InvocationEnd::Unjudged {
            reason: reason.to_owned(),
        },
        schema_valid: None,
        latency_ms: 0,
        span_id: None,
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
