//! What a worker asks about a task: the budget of the run, and the limits of endpoints.

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use touchstone_agents::budget::Estimate;
use touchstone_agents::ports::agent::{EventSink, Exhausted, Unrecorded};
use touchstone_agents::ports::model::{ModelError, Permit, Permits};
use touchstone_kit::money::NanoUsd;

use crate::rules::offer::Asked;
use crate::rules::wire::{Amount, Answer, Ask, ModelRole, Question};
use crate::service::owner::task::{OwnedTask, Waited};
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

impl OwnedTask<'_> {
    pub(super) fn ask(&mut self, ask: &Ask, reply: oneshot::Sender<Answer>) {
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

    /// Answers the worker that waits for this question.
    pub(super) fn answer(&mut self, call: u64, answer: Answer) {
        if let Some((_, reply)) = self.asking.take_if(|(asked, _)| *asked == call) {
            let _ = reply.send(answer);
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

pub(super) const fn estimate(amount: Amount) -> Estimate {
    Estimate {
        tokens: amount.tokens,
        cost: NanoUsd(amount.nano_usd),
    }
}
