//! One attempt at a worker: facts go to the owner, and the budget is asked there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use touchstone_agents::budget::Estimate;
use touchstone_agents::model::CIRCUIT_OPEN;
use touchstone_agents::ports::agent::{
    AgentRuntime as _, EventSink, Exhausted, InvocationEnd, InvocationResult, Meter, Unrecorded,
};
use touchstone_agents::ports::model::ModelError;
use touchstone_agents::runtime::Runtime;
use touchstone_host::ports::clock::Clock;
use touchstone_host::service::lease::{Lease, LeaseTerm};
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::Event;
use tracing::warn;

use crate::ports::bus::{Bus, BusError};
use crate::rules::outbox::{Outbox, TooLarge};
use crate::rules::subjects::{Address, Operation};
use crate::rules::wire::parts::{Assembly, Mismatch};
use crate::rules::wire::{
    self, Amount, Answer, Ask, Await, Claimed, End, Ending, Facts, FetchPart, Frame, Grant,
    Message, ModelRole, NewFacts, Proof, Question, Received, Verdict,
};
use crate::service::assignment::Job;
use crate::service::owner::LOG_CLOSED;
use crate::service::worker::ANSWERED_WITHIN;
#[cfg(test)]
use crate::simulation::mutation::Mutation;

/// Pause between two requests to an owner that does not answer.
const ASKED_AGAIN: Duration = Duration::from_millis(250);
/// The label of a task with a fact that does not fit into a message.
pub(super) const TOO_LARGE: &str = "too_large_for_worker";

/// The attempt is lost: its owner has started another one, or has gone.
struct Superseded;

/// Why a question is not granted.
enum Refused {
    Exhausted,
    EndpointDown,
    Superseded,
}

pub(super) struct Attempt {
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    replica: String,
    proof: Proof,
    outbox: Mutex<Outbox>,
    /// Number of the facts after which the owner allowed a call.
    allowed: AtomicU64,
    /// Number of the facts that the owner has reported as durable.
    durable: AtomicU64,
    overflowed: AtomicBool,
    term: LeaseTerm,
    hold: Lease,
    lost: CancellationToken,
    /// When the owner last answered.
    contact: Mutex<Duration>,
    /// The attempt is given up if the owner is silent for this time: it has superseded the attempt
    /// or has gone.
    abandoned_after: Duration,
    /// Allows one message with facts at a time.
    sending: tokio::sync::Mutex<()>,
    /// Number of the last question. Allows one question at a time.
    asking: tokio::sync::Mutex<u64>,
    /// Reservations that are not settled, with the number of their question.
    reserved: Mutex<Vec<(Estimate, u64)>>,
    /// Whether a question may come with facts. Owners of earlier versions would ignore them.
    combines: bool,
    /// Whether the question for the budget may be the one whether the agent's model may be called.
    /// Not if the attempt calls other models too, because a reservation does not name its model.
    combines_calls: AtomicBool,
    /// The question that allowed a call of the agent's model which has not begun.
    may_call: Mutex<Option<u64>>,
}

impl Attempt {
    /// An attempt that was claimed at `claimed_at`.
    pub fn new(
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        replica: String,
        proof: Proof,
        claimed_at: Duration,
        hold: Duration,
        grant: &Grant,
    ) -> Self {
        let term = LeaseTerm::new(claimed_at, hold);
        let held = term.lease(clock.clone());
        Self {
            bus,
            clock,
            replica,
            proof,
            outbox: Mutex::new(Outbox::new(grant.largest_fact)),
            allowed: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            overflowed: AtomicBool::new(false),
            term,
            hold: held,
            lost: CancellationToken::new(),
            contact: Mutex::new(claimed_at),
            abandoned_after: hold.saturating_add(hold / 2),
            sending: tokio::sync::Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            reserved: Mutex::default(),
            combines: grant.combines,
            combines_calls: AtomicBool::new(false),
            may_call: Mutex::default(),
        }
    }

    pub fn replica(&self) -> &str {
        &self.replica
    }

    pub const fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Whether the owner has superseded the attempt, or has gone.
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Applies the answer to a heartbeat that was sent at `sent_at`.
    pub fn judged(&self, verdict: Verdict, sent_at: Duration) {
        self.contacted();
        #[cfg(test)]
        let sent_at = match Mutation::HeldSinceAnswer.is_on() {
            true => self.clock.uptime(),
            false => sent_at,
        };
        match verdict {
            Verdict::Keep { hold_ms } => self.term.renew(sent_at, Duration::from_millis(hold_ms)),
            Verdict::Pause => {}
            Verdict::Drop => self.lost.cancel(),
        }
    }

    /// Gives the attempt up if its owner has been silent for too long.
    pub fn check_contact(&self) {
        let contact = *self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        if self.clock.uptime() >= contact.saturating_add(self.abandoned_after) {
            self.lost.cancel();
        }
    }

    fn contacted(&self) {
        *self.contact.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.uptime();
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, frame: Frame) -> Option<u64> {
        match self.outbox().push(frame) {
            Ok(index) => Some(index),
            Err(TooLarge) => {
                self.overflowed.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Executes the attempt until its result is recorded, or until it is lost.
    pub async fn execute(self: &Arc<Self>, job: Job, runtime: &Runtime) {
        let combines_calls = self.combines && !job.has_simulated_user();
        self.combines_calls.store(combines_calls, Ordering::Relaxed);
        let job = job.limited_by(self);
        let invocation = job.invocation(self.proof.invocation.clone());
        let result = tokio::select! {
            biased;
            () = self.lost.cancelled() => return,
            result = runtime.invoke(invocation, &**self, &**self) => result,
        };
        let ending = if self.overflowed.load(Ordering::Relaxed) {
            unjudged(TOO_LARGE)
        } else {
            ending(result)
        };
        if self.push(Frame::Ended(ending)).is_none() {
            self.push(Frame::Ended(unjudged(TOO_LARGE)));
        }
        if let Err(Superseded) = self.flush(Await::Recorded).await {
            let invocation = &self.proof.invocation;
            warn!(
                invocation,
                "the result of an attempt came too late, or its owner has gone"
            );
        }
    }

    /// The text of the task, which its owner sends in parts. `None` if the attempt is lost.
    pub async fn fetch(&self, bytes: usize) -> Option<String> {
        let mut task = Assembly::new(bytes);
        while !task.is_complete() {
            let fetch = FetchPart {
                proof: self.proof.clone(),
                part_from: task.next(),
            };
            let answer = self.request(Operation::Claim, &fetch).await;
            let part = match answer.ok()? {
                Claimed::Part { text } => text,
                Claimed::Granted(_) | Claimed::Gone | Claimed::Forbidden { .. } => {
                    self.lost.cancel();
                    return None;
                }
            };
            if let Err(Mismatch) = task.add(&part) {
                self.lost.cancel();
                return None;
            }
        }
        Some(task.into_text())
    }

    /// Sends a request until it is answered. A message that cannot be written or read is of another
    /// version, so the attempt is given up.
    async fn request<M: Message, A: Message>(
        &self,
        operation: Operation,
        message: &M,
    ) -> Result<A, Superseded> {
        let address = Address {
            operation,
            replica: self.replica.clone(),
            worker: self.proof.worker.worker.clone(),
        };
        let bytes = wire::write(message).map_err(|cause| self.give_up(&cause))?;
        loop {
            let asked = self.bus.request(&address, bytes.clone(), ANSWERED_WITHIN);
            let answered = tokio::select! {
                biased;
                () = self.lost.cancelled() => return Err(Superseded),
                answered = asked => answered,
            };
            match answered {
                Ok(answer) => {
                    self.contacted();
                    return wire::read(&answer).map_err(|cause| self.give_up(&cause));
                }
                Err(BusError::NoAnswer) => {}
                Err(BusError::NoResponder | BusError::Failed(_)) => {
                    tokio::time::sleep(ASKED_AGAIN).await;
                }
            }
        }
    }

    fn give_up(&self, cause: &wire::Unreadable) -> Superseded {
        let invocation = &self.proof.invocation;
        warn!(invocation, %cause, "an attempt was given up");
        self.lost.cancel();
        Superseded
    }

    /// The number of the facts for which the owner has confirmed more than that they are recorded.
    const fn reached(&self, until: Await) -> Option<&AtomicU64> {
        match until {
            Await::Recorded => None,
            Await::MayCall => Some(&self.allowed),
            Await::Durable => Some(&self.durable),
        }
    }

    /// Sends the facts that are not recorded yet, and waits as `until` says.
    async fn flush(&self, until: Await) -> Result<(), Superseded> {
        let _sending = self.sending.lock().await;
        let end = self.outbox().end();
        loop {
            let (from, frames) = {
                let outbox = self.outbox();
                (outbox.first(), outbox.next())
            };
            let reached = self.reached(until);
            if from >= end && reached.is_none_or(|it| it.load(Ordering::Relaxed) >= end) {
                return Ok(());
            }
            let sent = from.saturating_add(frames.len() as u64);
            let until = if sent >= end { until } else { Await::Recorded };
            let facts = Facts {
                proof: self.proof.clone(),
                from,
                frames,
                until,
            };
            match self.request(Operation::Facts, &facts).await? {
                Received::Recorded { next } if next >= from => {
                    self.outbox().recorded(next);
                    if let Some(reached) = self.reached(until) {
                        reached.fetch_max(sent.min(next), Ordering::Relaxed);
                    }
                }
                // The owner misses facts that it had recorded.
                Received::Recorded { .. } | Received::Superseded => {
                    self.lost.cancel();
                    return Err(Superseded);
                }
            }
        }
    }

    /// The facts that are sent with a question, if all that are not recorded fit into one message.
    /// Others are sent before the question.
    async fn facts_of_question(&self) -> Result<Option<NewFacts>, Superseded> {
        if self.combines {
            let outbox = self.outbox();
            let (from, frames, end) = (outbox.first(), outbox.next(), outbox.end());
            drop(outbox);
            if frames.is_empty() {
                return Ok(None);
            }
            let has_parts = frames.iter().any(|it| matches!(it, Frame::Part { .. }));
            if !has_parts && from.saturating_add(frames.len() as u64) == end {
                return Ok(Some(NewFacts { from, frames }));
            }
        }
        self.flush(Await::Recorded).await.map(|()| None)
    }

    /// Asks the owner. Returns the number of the question if it is granted, and whether a call may
    /// be made.
    async fn ask(&self, question: Question) -> Result<(u64, bool), Refused> {
        let mut last = self.asking.lock().await;
        // The budget may wait for the usage of this attempt's last call.
        let facts = self.facts_of_question().await;
        let facts = facts.map_err(|Superseded| Refused::Superseded)?;
        let sent = facts.as_ref();
        let sent = sent.map(|it| it.from.saturating_add(it.frames.len() as u64));
        *last += 1;
        let ask = Ask {
            proof: self.proof.clone(),
            call: *last,
            question,
            facts,
        };
        let answer = loop {
            let answer = self.request(Operation::Meter, &ask).await;
            match answer.unwrap_or(Answer::Superseded) {
                // The owner may not have looked at the question.
                Answer::Wait => {}
                answer => break answer,
            }
        };
        if answer == Answer::Superseded {
            self.lost.cancel();
            return Err(Refused::Superseded);
        }
        if let Some(sent) = sent {
            self.outbox().recorded(sent);
        }
        match answer {
            Answer::Granted => {
                #[cfg(test)]
                let is_allowed = Mutation::ReservedCallsMade.is_on();
                #[cfg(not(test))]
                let is_allowed = false;
                Ok((*last, is_allowed))
            }
            Answer::MayCall => Ok((*last, true)),
            Answer::EndpointDown => Err(Refused::EndpointDown),
            Answer::Exhausted | Answer::Wait | Answer::Superseded => Err(Refused::Exhausted),
        }
    }

    /// The owner has asked the log of the run whether a call may be made, after what is recorded.
    fn allow_call(&self) {
        let recorded = self.outbox().first();
        self.allowed.fetch_max(recorded, Ordering::Relaxed);
    }

    fn unused_call(&self) -> MutexGuard<'_, Option<u64>> {
        self.may_call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back a call that was allowed and is not made now.
    pub async fn return_call(&self) {
        if self.drop_call() {
            // A lost attempt is noticed by its next question.
            let _ = self.flush(Await::Recorded).await;
        }
    }

    /// Whether a call was allowed that is not made.
    fn drop_call(&self) -> bool {
        let unused = self.unused_call().take();
        let health = None;
        unused.is_some_and(|call| self.push(Frame::Called { call, health }).is_some())
    }

    async fn ask_budget(&self, question: Question) -> Result<u64, Exhausted> {
        let granted = self.ask(question).await;
        granted.map(|(call, _)| call).map_err(|_| Exhausted)
    }

    /// Waits until the owner allows a call of this model. Returns the number of the question.
    pub async fn ask_to_call(&self, role: ModelRole) -> Result<u64, ModelError> {
        if role == ModelRole::Agent
            && let Some(call) = self.unused_call().take()
        {
            return Ok(call);
        }
        match self.ask(Question::Call(role)).await {
            Ok((call, _)) => {
                self.allow_call();
                Ok(call)
            }
            Err(Refused::EndpointDown) => Err(ModelError::unavailable(CIRCUIT_OPEN, false)),
            Err(Refused::Exhausted | Refused::Superseded) => {
                Err(ModelError::unavailable(LOG_CLOSED, false))
            }
        }
    }
}

fn unjudged(reason: &str) -> Ending {
    Ending {
        end: End::Unjudged {
            reason: reason.to_owned(),
        },
        schema_valid: None,
        latency_ms: 0,
    }
}

fn ending(result: InvocationResult) -> Ending {
    Ending {
        end: match result.end {
            InvocationEnd::Decided { output } => End::Decided { output },
            InvocationEnd::Failed { reason } => End::Failed { reason },
            InvocationEnd::Unjudged { reason } => End::Unjudged { reason },
        },
        schema_valid: result.schema_valid,
        latency_ms: result.latency_ms,
    }
}

impl From<Estimate> for Amount {
    fn from(estimate: Estimate) -> Self {
        Self {
            tokens: estimate.tokens,
            nano_usd: estimate.cost.0,
        }
    }
}

/// Events have an index until their owner gives them an id.
#[async_trait]
impl EventSink for Attempt {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        let index = self.push(Frame::Event {
            kind: event.kind().to_owned(),
            payload: serde_json::to_string(&event).unwrap_or_default(),
            cause: cause.and_then(|it| it.as_str().parse().ok()),
        });
        EventId::from(index.map_or_else(String::new, |it| it.to_string()))
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        let sent = self.flush(Await::Durable).await;
        sent.map_err(|Superseded| Unrecorded)
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        if self.overflowed.load(Ordering::Relaxed) {
            return Err(Unrecorded);
        }
        let sent = self.flush(Await::MayCall).await;
        sent.map_err(|Superseded| Unrecorded)?;
        #[cfg(test)]
        if Mutation::HoldIgnored.is_on() {
            return Ok(());
        }
        // The owner may have superseded the attempt unless the hold is valid.
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(Unrecorded),
            () = self.hold.held() => Ok(()),
        }
    }
}

#[async_trait]
impl Meter for Attempt {
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted> {
        let amount = estimate.into();
        let question = match self.combines_calls.load(Ordering::Relaxed) {
            true => Question::ReserveAndCall {
                amount,
                role: ModelRole::Agent,
            },
            false => Question::Reserve(amount),
        };
        let granted = self.ask(question).await;
        let (call, may_call) = granted.map_err(|_| Exhausted)?;
        if may_call {
            self.allow_call();
            self.drop_call();
            *self.unused_call() = Some(call);
        }
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.push((estimate, call));
        Ok(())
    }

    fn settle(&self, estimate: Estimate, used: Estimate) {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reserved.iter().rposition(|(it, _)| *it == estimate);
        let Some(at) = found else { return };
        let (_, call) = reserved.swap_remove(at);
        drop(reserved);
        // The call was not made: it was cancelled, or the limits of this process refused it.
        if *self.unused_call() == Some(call) {
            self.drop_call();
        }
        self.push(Frame::Settled {
            call,
            used: used.into(),
        });
    }

    async fn call_tool(&self) -> Result<(), Exhausted> {
        self.ask_budget(Question::Tool).await.map(drop)
    }

    async fn retry(&self) -> Result<(), Exhausted> {
        self.ask_budget(Question::Retry).await.map(drop)
    }
}
