//! What a worker asks about a task: the budget of the run, and the limits of endpoints.

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use touchstone_agents::budget::Estimate;
use touchstone_agents::ports::agent::{EventSink, Exhausted, InvocationResult, Unrecorded};
use touchstone_agents::ports::model::{ModelError, Permit, Permits};
use touchstone_kit::money::NanoUsd;

use crate::rules::offer::Asked;
#[cfg(test)]
use crate::rules::wire::NewFacts;
use crate::rules::wire::{Amount, Answer, Ask, ModelRole, Question};
use crate::service::owner::task::{OwnedTask, Recorded, Waited};
#[cfg(test)]
use crate::simulation::mutation::Mutation;

/// Most calls of one attempt that have not ended.
const MAX_CALLS: usize = 16;

/// The limits of the endpoints that a task calls, which all workers share.
pub(super) struct EndpointLimits<'a> {
    pub agent: &'a dyn Permits,
    pub user: Option<&'a dyn Permits>,
}

impl<'a> EndpointLimits<'a> {
    const fn of(&self, role: ModelRole) -> Option<&'a dyn Permits> {
        match role {
            ModelRole::Agent => Some(self.agent),
            ModelRole::SimulatedUser => self.user,
        }
    }
}

impl<'a> OwnedTask<'a> {
    /// Records the facts that come with a question, and answers it. Returns the result if the task
    /// has ended.
    pub(super) fn ask(
        &mut self,
        mut ask: Ask,
        reply: oneshot::Sender<Answer>,
    ) -> Option<InvocationResult> {
        if let Some(facts) = ask.facts.take() {
            #[cfg(test)]
            let facts = match Mutation::FactsOfQuestionsIgnored.is_on() {
                true => NewFacts {
                    from: facts.from,
                    frames: Vec::new(),
                },
                false => facts,
            };
            let recorded = self.record_all(&ask.proof, facts);
            let ended = match recorded {
                Recorded::All => None,
                Recorded::Ended(result) => Some(Some(result)),
                Recorded::Missing | Recorded::Superseded | Recorded::NoRoom => Some(None),
                Recorded::Foreign => Some(self.lose()),
            };
            if let Some(ended) = ended {
                let _ = reply.send(Answer::Superseded);
                return ended;
            }
        }
        self.answer_question(&ask, reply);
        None
    }

    fn answer_question(&mut self, ask: &Ask, reply: oneshot::Sender<Answer>) {
        let known = match self.offer.ask(&ask.proof, ask.call, ask.question) {
            Asked::New => match ask.question {
                Question::Call(role) => self.ask_endpoint(ask, role),
                Question::Reserve(_)
                | Question::ReserveAndCall { .. }
                | Question::Tool
                | Question::Retry => {
                    self.ask_budget(ask);
                    None
                }
            },
            Asked::Pending => None,
            // The log took calls when this answer was given, and may be unavailable now.
            Asked::Known(answer) if allows_call(ask.question, answer) => match self.may_call() {
                Some(true) => Some(answer),
                // The worker asks again when it has no answer in time.
                Some(false) => return,
                None => Some(Answer::Superseded),
            },
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

    /// The limits of an endpoint, unless the attempt has too many calls.
    fn limits(&self, role: ModelRole) -> Option<&'a dyn Permits> {
        let permits = self.permits.of(role);
        permits.filter(|_| self.calls.len() < MAX_CALLS)
    }

    /// Waits for room for a call. Returns the answer if no call may be made.
    fn ask_endpoint(&mut self, ask: &Ask, role: ModelRole) -> Option<Answer> {
        let Some(permits) = self.limits(role) else {
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
        let (sink, question) = (self.sink, ask.question);
        let permits = match question {
            Question::ReserveAndCall { role, .. } => self.limits(role),
            _ => None,
        };
        let asked = async move {
            let reserved = question.reserves().map(estimate);
            let answer = match (question, reserved) {
                (_, Some(estimate)) => meter.reserve(estimate).await,
                (Question::Tool, _) => meter.call_tool().await,
                (Question::Retry, _) => meter.retry().await,
                _ => Err(Exhausted),
            };
            let granted = answer != Err(Exhausted);
            let permits = permits.filter(|_| granted);
            Waited::Budget {
                invocation,
                call,
                reserved,
                granted,
                permit: permits.and_then(|permits| permit_now(sink, permits)),
            }
        };
        self.waiting.push(asked.boxed());
    }

    /// Answers the worker that waits for this question.
    pub(super) fn answer(&mut self, call: u64, answer: Answer) {
        if let Some((_, reply)) = self.asking.take_if(|(asked, _)| *asked == call) {
            let _ = reply.send(answer);
        }
    }
}

/// Whether a worker calls a model after this answer.
const fn allows_call(question: Question, answer: Answer) -> bool {
    match answer {
        Answer::MayCall => true,
        Answer::Granted => matches!(question, Question::Call(_)),
        _ => false,
    }
}

/// A permit, if a call may be made now. A worker that waits for the budget of its run must hold no
/// permit, and one that waits for a permit asks for it alone.
fn permit_now(sink: &dyn EventSink, permits: &dyn Permits) -> Option<Box<dyn Permit>> {
    let asked = async {
        let permit = permits.acquire_now()?;
        permit_to_call(sink, permit).await.ok()
    };
    tokio::task::unconstrained(asked).now_or_never().flatten()
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

pub(super) const fn estimate(amount: Amount) -> Estimate {
    Estimate {
        tokens: amount.tokens,
        cost: NanoUsd(amount.nano_usd),
    }
}
