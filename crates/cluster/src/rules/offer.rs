//! The owner's view of one task: who executes which attempt, and what of it is recorded.
//!
//! Times are those of the owner's monotonic clock. A worker counts its hold from when it sent a
//! message, and the owner counts from when it answers, which is later. The owner supersedes an
//! attempt only after a margin for clocks of different speed. So a worker that obeys its hold makes
//! no call after the next attempt has started.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rules::wire::{Amount, Answer, Claim, Held, Proof, Question, Token, Verdict, WorkerId};
#[cfg(test)]
use crate::simulation::mutation::Mutation;

/// Attempts after which a task is given up whose workers fell silent while the owner heard of others:
/// the task may be what ends its workers.
pub const MAX_LOST: u32 = 3;
/// Lost attempts after which a task is given up, whatever the reason. A task that ends every worker
/// before the worker can report anything must come to an end, but an outage must not be taken for
/// that: at an attempt per hold and margin, these last for more than 3.5 minutes with the default
/// hold.
pub const MAX_ATTEMPTS: u32 = 20;
/// How long a task waits for a claim before it may be published again.
pub const PUBLISHED_AGAIN: Duration = Duration::from_secs(5);
/// The same after a fault, after which the queue probably lacks the message.
const RETRIED_AFTER: Duration = Duration::from_secs(1);
/// Most facts of one attempt.
const MAX_FACTS: u64 = 100_000;
/// Most calls of one attempt whose usage is not known yet.
const MAX_OPEN_CALLS: usize = 16;

#[derive(Debug)]
pub struct Offer {
    hold: Duration,
    state: State,
    /// All lost attempts.
    lost: u32,
    /// Those that count as faults of the task.
    counted: u32,
}

#[derive(Debug)]
enum State {
    /// Published, and not claimed since.
    Waiting {
        since: Duration,
    },
    Held(Box<Attempt>),
}

#[derive(Debug)]
struct Attempt {
    /// The claim that was granted.
    claim: String,
    worker: WorkerId,
    invocation: String,
    token: Token,
    until: Duration,
    /// Whether the worker has shown that it got the grant.
    is_known: bool,
    /// Number of the next fact.
    next: u64,
    last_question: Option<(u64, Question, QuestionState)>,
    /// Estimates of calls whose usage is not known yet, by question.
    reserved: BTreeMap<u64, Amount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuestionState {
    Asked,
    Answered(Answer),
}

/// A granted attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    pub invocation: String,
    pub token: Token,
}

/// What to do with facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Record them without the first `skip`, which are recorded.
    Record { skip: usize },
    /// Facts before them are missing.
    Missing,
    /// The sender does not hold the attempt.
    Superseded,
}

/// What to do with a question to the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    New,
    /// It has been asked and has no answer yet.
    Pending,
    Known(Answer),
    Superseded,
}

/// An attempt that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub invocation: String,
    pub worker: WorkerId,
    /// Estimates that are still reserved.
    pub reserved: Vec<Amount>,
}

impl Attempt {
    /// Whether the attempt counts as a fault of the task once it is lost.
    fn counts(&self, hold: Duration, heard_since: Duration) -> bool {
        let silent_since = self.until.saturating_sub(hold);
        let is_alone = heard_since <= silent_since;
        #[cfg(test)]
        let is_alone = is_alone || Mutation::OutagesCounted.is_on();
        #[cfg(test)]
        if Mutation::UnknownAttemptsCounted.is_on() {
            return is_alone;
        }
        self.is_known && is_alone
    }
}

impl Offer {
    /// A task that is published now.
    pub const fn new(hold: Duration, now: Duration) -> Self {
        Self {
            hold,
            state: State::Waiting { since: now },
            lost: 0,
            counted: 0,
        }
    }

    /// Additional time for clocks of different speed.
    fn margin(&self) -> Duration {
        #[cfg(test)]
        if Mutation::NoMargin.is_on() {
            return Duration::ZERO;
        }
        self.hold / 8
    }

    /// Grants the task if no worker holds it. `mint` makes the id and the token of a new attempt.
    pub fn claim(
        &mut self,
        claim: &Claim,
        now: Duration,
        mint: impl FnOnce() -> (String, Token),
    ) -> Option<Granted> {
        let until = now.saturating_add(self.hold);
        match &mut self.state {
            State::Waiting { .. } => {
                let (invocation, token) = mint();
                self.state = State::Held(Box::new(Attempt {
                    claim: claim.claim.clone(),
                    worker: claim.worker.clone(),
                    invocation: invocation.clone(),
                    token: token.clone(),
                    until,
                    is_known: false,
                    next: 0,
                    last_question: None,
                    reserved: BTreeMap::new(),
                }));
                Some(Granted { invocation, token })
            }
            // The answer to the first request may have been lost.
            State::Held(attempt)
                if attempt.claim == claim.claim
                    && attempt.worker == claim.worker
                    && attempt.next == 0 =>
            {
                attempt.until = until;
                Some(Granted {
                    invocation: attempt.invocation.clone(),
                    token: attempt.token.clone(),
                })
            }
            State::Held(_) => None,
        }
    }

    fn attempt(&mut self, worker: &WorkerId, id: &str, token: &Token) -> Option<&mut Attempt> {
        let State::Held(attempt) = &mut self.state else {
            return None;
        };
        let holds =
            attempt.worker == *worker && attempt.invocation == id && attempt.token == *token;
        #[cfg(test)]
        let holds = holds
            || (attempt.invocation == id
                && (attempt.worker == *worker || Mutation::AnyWorker.is_on())
                && (attempt.token == *token || Mutation::AnyToken.is_on()));
        if !holds {
            return None;
        }
        attempt.is_known = true;
        Some(&mut **attempt)
    }

    fn proven(&mut self, proof: &Proof) -> Option<&mut Attempt> {
        self.attempt(&proof.worker, &proof.invocation, &proof.token)
    }

    /// Whether the sender holds the current attempt.
    pub fn is_held_by(&mut self, proof: &Proof) -> bool {
        self.proven(proof).is_some()
    }

    /// The id of the current attempt.
    pub fn invocation(&self) -> Option<&str> {
        match &self.state {
            State::Held(attempt) => Some(&attempt.invocation),
            State::Waiting { .. } => None,
        }
    }

    /// Receives `count` facts from number `from` on. If they are to be recorded, the caller records
    /// all of them before anything else is received.
    pub fn receive(&mut self, proof: &Proof, from: u64, count: usize) -> Reception {
        let Some(attempt) = self.proven(proof) else {
            return Reception::Superseded;
        };
        let end = from.saturating_add(count as u64);
        if end > MAX_FACTS {
            return Reception::Superseded;
        }
        let Some(skip) = attempt.next.checked_sub(from) else {
            return Reception::Missing;
        };
        attempt.next = attempt.next.max(end);
        let skip = usize::try_from(skip).unwrap_or(count).min(count);
        #[cfg(test)]
        let skip = match Mutation::RepeatedFactsRecorded.is_on() {
            true => 0,
            false => skip,
        };
        Reception::Record { skip }
    }

    /// Number of the next fact of the current attempt.
    pub fn next_fact(&self) -> u64 {
        match &self.state {
            State::Held(attempt) => attempt.next,
            State::Waiting { .. } => 0,
        }
    }

    /// Receives a heartbeat. `may_call`: whether the owner would make a call now; `None` if it
    /// never will again.
    pub fn beat(
        &mut self,
        worker: &WorkerId,
        held: &Held,
        now: Duration,
        may_call: Option<bool>,
    ) -> Verdict {
        let (hold, until) = (self.hold, now.saturating_add(self.hold));
        let Some(attempt) = self.attempt(worker, &held.invocation, &held.token) else {
            return Verdict::Drop;
        };
        let Some(may_call) = may_call else {
            return Verdict::Drop;
        };
        attempt.until = until;
        if !may_call {
            return Verdict::Pause;
        }
        Verdict::Keep {
            hold_ms: u64::try_from(hold.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Receives a question to the budget. Questions are asked one after the other.
    pub fn ask(&mut self, proof: &Proof, call: u64, question: Question) -> Asked {
        let Some(attempt) = self.proven(proof) else {
            return Asked::Superseded;
        };
        #[cfg(test)]
        if Mutation::RepeatedQuestionsAsked.is_on() {
            attempt.last_question = Some((call, question, QuestionState::Asked));
            return Asked::New;
        }
        match attempt.last_question {
            Some((last, same, state)) if last == call => match state {
                _ if same != question => Asked::Superseded,
                QuestionState::Asked => Asked::Pending,
                QuestionState::Answered(answer) => Asked::Known(answer),
            },
            Some((last, _, _)) if call < last => Asked::Superseded,
            _ if attempt.reserved.len() >= MAX_OPEN_CALLS => Asked::Superseded,
            _ => {
                attempt.last_question = Some((call, question, QuestionState::Asked));
                Asked::New
            }
        }
    }

    /// Records the answer to a question. `false` if the attempt was lost meanwhile: what was granted
    /// is then given back by the caller.
    pub fn answered(&mut self, invocation: &str, call: u64, answer: Answer) -> bool {
        let State::Held(attempt) = &mut self.state else {
            return false;
        };
        if attempt.invocation != invocation {
            return false;
        }
        let Some((last, question, state)) = &mut attempt.last_question else {
            return false;
        };
        if *last != call {
            return false;
        }
        *state = QuestionState::Answered(answer);
        if let (Answer::Granted | Answer::MayCall, Some(estimate)) = (answer, question.reserves()) {
            attempt.reserved.insert(call, estimate);
        }
        true
    }

    /// The estimate that was reserved for a call, once.
    pub fn settle(&mut self, call: u64) -> Option<Amount> {
        match &mut self.state {
            State::Held(attempt) => attempt.reserved.remove(&call),
            State::Waiting { .. } => None,
        }
    }

    /// Ends the current attempt without a result. The task waits to be published again.
    ///
    /// `heard_since`: since when the owner hears of workers without a long silence. The attempt
    /// counts as a fault of the task only if its worker has had the task, and fell silent while
    /// others were heard of.
    pub fn lose(&mut self, now: Duration, heard_since: Duration) -> Option<Lost> {
        let waiting = State::Waiting { since: now };
        match std::mem::replace(&mut self.state, waiting) {
            #[cfg(test)]
            State::Held(attempt) if Mutation::ReservationsKept.is_on() => Some(Lost {
                invocation: attempt.invocation,
                worker: attempt.worker,
                reserved: Vec::new(),
            }),
            State::Held(attempt) => {
                self.lost += 1;
                self.counted += u32::from(attempt.counts(self.hold, heard_since));
                Some(Lost {
                    invocation: attempt.invocation,
                    worker: attempt.worker,
                    reserved: attempt.reserved.into_values().collect(),
                })
            }
            State::Waiting { since } => {
                self.state = State::Waiting { since };
                None
            }
        }
    }

    /// Whether the holder has been silent for longer than its hold.
    pub fn is_overdue(&self, now: Duration) -> bool {
        #[cfg(test)]
        if Mutation::HoldsNeverEnd.is_on() {
            return false;
        }
        match &self.state {
            State::Held(attempt) => now >= attempt.until.saturating_add(self.margin()),
            State::Waiting { .. } => false,
        }
    }

    /// Whether the task waits for so long that its message may be lost.
    pub fn is_unclaimed(&self, now: Duration) -> bool {
        #[cfg(test)]
        if Mutation::NotPublishedAgain.is_on() {
            return false;
        }
        match self.state {
            State::Waiting { since } => now >= since.saturating_add(PUBLISHED_AGAIN),
            State::Held(_) => false,
        }
    }

    /// The task was published again.
    pub fn published(&mut self, now: Duration) {
        if let State::Waiting { since } = &mut self.state {
            *since = now;
        }
    }

    /// The task could not be published at `now`: it is published again soon.
    pub fn unpublished(&mut self, now: Duration) {
        if let State::Waiting { since } = &mut self.state {
            *since = now.saturating_sub(PUBLISHED_AGAIN.saturating_sub(RETRIED_AFTER));
        }
    }

    /// Whether the task is given up because too many attempts were lost.
    pub const fn is_given_up(&self) -> bool {
        self.counted >= MAX_LOST || self.lost >= MAX_ATTEMPTS
    }
}

#[cfg(test)]
mod tests;
