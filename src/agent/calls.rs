//! Calls of a model endpoint on behalf of one task: reserved, tried until they are answered or the attempts are used up,
//! metered, settled and recorded.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::agent::{ModelReply, ModelRequest, TokenUsage, estimate, usage_from_size};
use crate::domain::budget::Estimate;
use crate::domain::ids::{EventId, TaskId};
use crate::domain::money::NanoUsd;
use crate::net::Room;
use crate::net::room::within;
use crate::ports::{
    EventSink, Exhausted, Heard, Meter, ModelBinding, ModelError, TIMEOUT, Unrecorded,
};
use crate::protocol::openwop::events::{Event, ModelRetried, ProviderUsage, UsageEstimated};

/// Most that one call can have cost, as another host reports it. A larger report is a fault, and the price counts.
const MOST_COST: NanoUsd = NanoUsd(1_000_000_000_000_000);
/// Why usage was estimated although some was reported.
const INVALID_USAGE: &str = "invalid_usage";

/// Why a call gave no reply.
pub(super) enum Stop {
    /// The endpoint gave none.
    Model(ModelError),
    /// The budget allows no further call.
    Exhausted,
}

/// Whoever calls, and where it is recorded.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    /// The endpoint.
    pub binding: &'a ModelBinding,
    /// The run's budget.
    pub meter: &'a dyn Meter,
    /// The run's log.
    pub sink: &'a dyn EventSink,
    /// What the calls are made for.
    pub cause: Option<&'a EventId>,
    /// The task they are made for.
    pub task: &'a TaskId,
    /// The caller's own place in the spread of retries.
    pub seed: u64,
}

/// When a task's first call was made, and how long later ones waited for others: latency is what is left.
#[derive(Debug, Default)]
pub(super) struct Pace {
    first_call: Option<Instant>,
    waited: Duration,
    /// Of the last answer, if it was a large one.
    room: Option<Room>,
}

impl Pace {
    /// Gives back the room of the last answer once what it said is durable; until then it takes memory. Whoever waits for
    /// a permit, the budget or a tool must hold no room: others hold those and wait for room.
    pub async fn give_back(&mut self, sink: &dyn EventSink) {
        if self.room.is_some() {
            // A log that is closed ends the next call.
            let _ = sink.kept().await;
            self.room = None;
        }
    }

    /// From the first call on, without the waiting.
    pub fn latency(&self) -> Duration {
        self.first_call
            .map_or(Duration::ZERO, |first| first.elapsed())
            .saturating_sub(self.waited)
    }
}

/// The run has gone to another worker, which makes the call itself.
fn log_closed() -> ModelError {
    ModelError::Unavailable {
        reason: "log_closed".to_owned(),
        retryable: false,
        retry_after: None,
    }
}

impl Calls<'_> {
    /// Records an event of the task.
    pub fn emit(&self, event: Event) -> EventId {
        self.sink.emit(event, self.cause)
    }

    /// Makes one call of about `octets`. What `said` makes of the reply is recorded before its usage.
    pub async fn ask(
        &self,
        request: &ModelRequest<'_>,
        octets: usize,
        pace: &mut Pace,
        said: impl FnOnce(&ModelReply) -> Option<Event>,
    ) -> Result<ModelReply, Stop> {
        let asked = Instant::now();
        pace.give_back(self.sink).await;
        let price = self.binding.model.info().price;
        let estimate = estimate(octets, request.max_tokens, price);
        self.meter
            .reserve(estimate)
            .await
            .map_err(|Exhausted| Stop::Exhausted)?;
        let mut held = Held {
            meter: self.meter,
            estimate,
            used: Estimate::default(),
        };
        let reply = self.attempts(request, asked, pace).await?;
        if let Some(event) = said(&reply) {
            self.emit(event);
        }
        held.used = self.record_usage(&reply, octets);
        Ok(reply)
    }

    async fn attempts(
        &self,
        request: &ModelRequest<'_>,
        mut idle_since: Instant,
        pace: &mut Pace,
    ) -> Result<ModelReply, Stop> {
        let info = self.binding.model.info();
        let mut attempt = 1;
        loop {
            self.may_call().await?;
            let permit = self.binding.permits.acquire().await.map_err(Stop::Model)?;
            // Waiting for the permit may have taken longer than the lease.
            self.may_call().await?;
            match pace.first_call {
                None => pace.first_call = Some(Instant::now()),
                Some(_) => pace.waited += idle_since.elapsed(),
            }
            let answer = self.binding.model.complete(request);
            let (answer, room) = within(info.timeout, answer).await.unwrap_or_else(|| {
                let late = ModelError::Unavailable {
                    reason: TIMEOUT.to_owned(),
                    retryable: true,
                    retry_after: None,
                };
                (Err(late), None)
            });
            // The permit is not kept while waiting to try again: others may fare better.
            permit.hear(Heard::of(&answer));
            let error = match answer {
                Ok(reply) => {
                    pace.room = room;
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let ModelError::Unavailable {
                reason,
                retryable: true,
                retry_after,
            } = &error
            else {
                return Err(Stop::Model(error));
            };
            let Some(wait) = info.retry.wait(attempt, self.seed, *retry_after) else {
                return Err(Stop::Model(error));
            };
            self.retry(attempt, reason, wait)?;
            tokio::time::sleep(wait).await;
            idle_since = Instant::now();
            attempt += 1;
        }
    }

    async fn may_call(&self) -> Result<(), Stop> {
        let may_call = self.sink.may_call().await;
        may_call.map_err(|Unrecorded| Stop::Model(log_closed()))
    }

    /// Counts a retry and records it.
    pub fn retry(&self, attempt: u32, reason: &str, wait: Duration) -> Result<(), Stop> {
        self.meter.retry().map_err(|Exhausted| Stop::Exhausted)?;
        self.emit(Event::ModelRetried(ModelRetried {
            attempt,
            reason: reason.to_owned(),
            wait_ms: millis(wait),
        }));
        Ok(())
    }

    fn record_usage(&self, reply: &ModelReply, octets: usize) -> Estimate {
        let info = self.binding.model.info();
        let reported = reply.usage.filter(TokenUsage::is_plausible);
        let usage = reported.unwrap_or_else(|| usage_from_size(octets, reply));
        let priced = || info.price.cost(usage.input, usage.output);
        let cost = reply.cost.filter(|cost| *cost <= MOST_COST);
        let cost = cost.unwrap_or_else(priced);
        let tokens = usage.input.saturating_add(usage.output);
        self.emit(Event::ProviderUsage(ProviderUsage {
            provider: info.provider.clone(),
            model: info.model.clone(),
            input_tokens: usage.input,
            output_tokens: usage.output,
            total_tokens: tokens,
            cost_estimate_usd: cost,
            currency: "USD".to_owned(),
            cache_read_tokens: usage.cached_input,
            node_id: Some(self.task.clone()),
        }));
        if reported.is_none() {
            let invalid = reply.usage_invalid || reply.usage.is_some();
            self.emit(Event::UsageEstimated(UsageEstimated {
                input_tokens: usage.input,
                output_tokens: usage.output,
                reason: invalid.then(|| INVALID_USAGE.to_owned()),
            }));
        }
        Estimate { tokens, cost }
    }
}

/// A reservation that is settled whatever happens, cancellation included.
struct Held<'a> {
    meter: &'a dyn Meter,
    estimate: Estimate,
    used: Estimate,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.meter.settle(self.estimate, self.used);
    }
}

/// FNV-1a: a caller's own place in the spread of retries, by its name.
pub(super) fn seed(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
