//! Calls to a model endpoint on behalf of one task: reserves budget, retries until an answer or the
//! maximum number of attempts, meters, settles and records.

use std::time::Duration;

use tokio::time::Instant;

use crate::budget::Estimate;
use crate::call_metrics::CallMetrics;
use crate::client_metrics;
use crate::ports::agent::{EventSink, Exhausted, Meter, Unrecorded};
use crate::ports::model::{EndpointHealth, ModelBinding, ModelError, TIMEOUT};
use crate::rules::prices::ModelPrice;
use crate::rules::{
    BUDGET_EXHAUSTED, ModelReply, ModelRequest, TokenUsage, estimate, octets_of, usage_from_size,
};
use crate::spans;
use touchstone_host::net::response_memory::MemoryReservation;
use touchstone_host::net::response_memory::within;
use touchstone_host::otlp::span::Span;
use touchstone_kit::ids::{EventId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_kit::redaction::mask;
use touchstone_openwop::events::{
    AnswerCached, Event, ModelRetried, ProviderUsage, ReplyRejected, UsageEstimated,
};

/// Maximum plausible cost of one call as reported by another host. A larger report is invalid, and
/// the configured price applies.
const MOST_COST: NanoUsd = NanoUsd(1_000_000_000_000_000);
/// Why usage was estimated although usage was reported.
const INVALID_USAGE: &str = "invalid_usage";

/// Why a call has no reply.
pub(super) enum CallError {
    /// The endpoint gave no reply.
    Model(ModelError),
    /// The budget allows no further call.
    Exhausted,
}

impl CallError {
    /// The label of a task that is unjudged because a model in this role gave no reply.
    fn label(self, role: &str) -> String {
        match self {
            Self::Model(ModelError::Unavailable { reason, .. }) => format!("{role}_{reason}"),
            Self::Model(ModelError::Rejected { reason }) => format!("{role}_{reason}"),
            Self::Exhausted => BUDGET_EXHAUSTED.to_owned(),
        }
    }
}

/// For whom a model is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRole {
    Agent,
    Judge,
    /// A simulated user.
    User,
    Embeddings,
}

impl CallRole {
    pub const COUNT: usize = 4;

    /// The name in metrics and spans, and in reasons such as `judge_malformed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Judge => "judge",
            Self::User => "user",
            Self::Embeddings => "embeddings",
        }
    }
}

/// The calls of one task, and where they are recorded.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    pub binding: &'a ModelBinding,
    pub role: CallRole,
    pub meter: &'a dyn Meter,
    pub sink: &'a dyn EventSink,
    /// The event that caused the calls.
    pub cause: Option<&'a EventId>,
    pub task: &'a TaskId,
    /// Seed that spreads the retries of different callers.
    pub seed: u64,
}

/// When a task's first call was made, and how long later calls waited for permits and budget.
/// Latency is the time since the first call minus the waits.
#[derive(Debug, Default)]
pub(super) struct CallState {
    first_call: Option<Instant>,
    waited: Duration,
    /// Memory room of the last answer, if the answer was large.
    room: Option<MemoryReservation>,
}

impl CallState {
    /// Returns the room of the last answer once its content is durable; until then the content
    /// takes memory. A task that waits for a permit, the budget or a tool must hold no room,
    /// because others hold those and wait for room.
    pub async fn give_back(&mut self, sink: &dyn EventSink) {
        if self.room.is_some() {
            // A closed log ends the next call.
            let _ = sink.kept().await;
            self.room = None;
        }
    }

    /// Leaves time out of the latency in which the task waited for something else than the model.
    pub fn leave_out(&mut self, waited: Duration) {
        self.waited += waited;
    }

    /// Time since the first call, without the waits.
    pub fn latency(&self) -> Duration {
        self.first_call
            .map_or(Duration::ZERO, |first| first.elapsed())
            .saturating_sub(self.waited)
    }
}

impl Calls<'_> {
    pub fn emit(&self, event: Event) -> EventId {
        self.sink.emit(event, self.cause)
    }

    /// Makes one call with a request of about `octets` bytes. The events that `derived` creates
    /// from the reply are recorded before its usage.
    pub async fn ask(
        &self,
        request: &ModelRequest<'_>,
        octets: usize,
        state: &mut CallState,
        derived: impl FnOnce(&ModelReply) -> Option<Event>,
    ) -> Result<ModelReply, CallError> {
        let asked = Instant::now();
        state.give_back(self.sink).await;
        let price = self.binding.model.info().price.as_ref();
        let estimate = estimate(octets, request.max_tokens, price.map(ModelPrice::tokens));
        self.meter
            .reserve(estimate)
            .await
            .map_err(|Exhausted| CallError::Exhausted)?;
        let mut reservation = BudgetReservation {
            meter: self.meter,
            estimate,
            used: Estimate::default(),
        };
        let (reply, span) = self.attempts(request, asked, state).await?;
        if let Some(event) = derived(&reply) {
            self.emit(event);
        }
        reservation.used = self.record_usage(&reply, octets, request.max_tokens, span);
        Ok(reply)
    }

    /// Asks a model in a role other than the agent's, at most `most` times, until `read` accepts
    /// its reply. Every request gets an `activity` id of its own, because an endpoint may answer a
    /// repeated id with its earlier reply. An error is the label of the task: `{role}_malformed` if
    /// no reply was accepted.
    pub async fn ask_for<T>(
        &self,
        most: u32,
        mut request: ModelRequest<'_>,
        activity: impl Fn(u32) -> String + Send,
        read: impl Fn(&ModelReply) -> Option<T> + Send,
    ) -> Result<T, String> {
        let octets = request.messages.iter().map(octets_of).sum();
        let role = self.role.as_str();
        let malformed = format!("{role}_malformed");
        for times in 1..=most {
            request.activity = Some(activity(times));
            let state = &mut CallState::default();
            let reply = self.ask(&request, octets, state, |_| None).await;
            let reply = reply.map_err(|error| error.label(role))?;
            if let Some(read) = read(&reply) {
                return Ok(read);
            }
            self.emit(rejected(role, &reply));
            // Once the endpoint is corrected, the same command must ask again.
            self.binding.model.forget(&request, &reply).await;
            if times < most {
                let retried = self.retry(times, &malformed, Duration::ZERO).await;
                retried.map_err(|error| error.label(role))?;
            }
        }
        Err(malformed)
    }

    async fn attempts(
        &self,
        request: &ModelRequest<'_>,
        mut idle_since: Instant,
        state: &mut CallState,
    ) -> Result<(ModelReply, Span), CallError> {
        let info = self.binding.model.info();
        let metrics = self.metrics();
        // Needs no permit, and says nothing about the health of the endpoint.
        if let Some(reply) = self.binding.model.recall(request).await {
            state.first_call.get_or_insert_with(Instant::now);
            metrics.cached();
            return Ok((reply, self.span(request)));
        }
        let mut attempt = 1;
        loop {
            let permit = self
                .binding
                .permits
                .acquire()
                .await
                .inspect_err(|error| metrics.prevented(error))
                .map_err(CallError::Model)?;
            // After the wait for the permit, which may have been longer than the lease.
            self.may_call().await?;
            match state.first_call {
                None => state.first_call = Some(Instant::now()),
                Some(_) => state.waited += idle_since.elapsed(),
            }
            let span = self.span(request);
            let began = Instant::now();
            let answer = self.binding.model.complete(request);
            let answer = span.within(within(info.timeout, answer)).await;
            let (answer, room) = answer.unwrap_or_else(|| {
                let late = ModelError::unavailable(TIMEOUT, true);
                (Err(late), None)
            });
            let took = began.elapsed();
            metrics.attempted(&answer, took);
            client_metrics::attempted(self.binding, self.role, answer.as_ref(), took);
            // The permit is released while waiting for the retry, so that other calls can use it.
            permit.report(EndpointHealth::of(&answer));
            let error = match answer {
                Ok(reply) => {
                    state.room = room;
                    return Ok((reply, span));
                }
                Err(error) => error,
            };
            spans::failed(span, &error);
            let ModelError::Unavailable {
                reason,
                retryable: true,
                retry_after,
            } = &error
            else {
                return Err(CallError::Model(error));
            };
            let Some(wait) = info.retry.wait(attempt, self.seed, *retry_after) else {
                return Err(CallError::Model(error));
            };
            self.retry(attempt, reason, wait).await?;
            tokio::time::sleep(wait).await;
            idle_since = Instant::now();
            attempt += 1;
        }
    }

    fn span(&self, request: &ModelRequest<'_>) -> Span {
        spans::call(self.role, self.task, self.binding, request)
    }

    async fn may_call(&self) -> Result<(), CallError> {
        let may_call = self.sink.may_call().await;
        // Another worker has taken over the run and makes the call itself.
        may_call
            .map_err(|Unrecorded| CallError::Model(ModelError::unavailable("log_closed", false)))
    }

    /// Counts a retry and records it.
    async fn retry(&self, attempt: u32, reason: &str, wait: Duration) -> Result<(), CallError> {
        self.meter
            .retry()
            .await
            .map_err(|Exhausted| CallError::Exhausted)?;
        self.emit(Event::ModelRetried(ModelRetried {
            attempt,
            reason: reason.to_owned(),
            wait_ms: millis(wait),
        }));
        Ok(())
    }

    fn metrics(&self) -> &'static CallMetrics {
        CallMetrics::of(&self.binding.model.info().provider, self.role)
    }

    fn record_usage(
        &self,
        reply: &ModelReply,
        octets: usize,
        max_tokens: Option<u64>,
        span: Span,
    ) -> Estimate {
        let info = self.binding.model.info();
        let reported = reply.usage.filter(TokenUsage::is_plausible);
        let usage = reported.unwrap_or_else(|| {
            let estimated = usage_from_size(octets, reply);
            // No answer has more tokens than the request allows; an embedding has none.
            let output = estimated.output.min(max_tokens.unwrap_or(u64::MAX));
            TokenUsage {
                output,
                ..estimated
            }
        });
        spans::answered(span, reply, usage, reported.is_none());
        let price = info.price.as_ref().map(ModelPrice::tokens);
        let priced = price.map(|price| price.cost(usage.input, usage.output));
        let full = reply.cost.filter(|cost| *cost <= MOST_COST).or(priced);
        let cost = if reply.from_cache {
            Some(NanoUsd::ZERO)
        } else {
            full
        };
        if !reply.from_cache {
            self.metrics().used(&usage, full);
            if let Some(usage) = &reported {
                client_metrics::used(self.binding, self.role, reply, usage);
            }
        }
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
        if reply.from_cache {
            self.emit(Event::AnswerCached(AnswerCached {
                cost_saved_usd: full,
            }));
        }
        let cost = cost.unwrap_or_default();
        Estimate { tokens, cost }
    }
}

/// Maximum length of a rejected reply in the log, in bytes.
const MAX_REJECTED: usize = 2000;

/// Records a reply that does not have the requested form, so that people see why.
fn rejected(role: &str, reply: &ModelReply) -> Event {
    let text = mask(reply.text.as_deref().unwrap_or_default());
    let end = text.floor_char_boundary(MAX_REJECTED);
    let cut = if end < text.len() { "…" } else { "" };
    Event::ReplyRejected(ReplyRejected {
        by: role.to_owned(),
        reply: format!("{}{cut}", text.get(..end).unwrap_or_default()),
    })
}

/// A budget reservation that is settled in every case, cancellation included.
struct BudgetReservation<'a> {
    meter: &'a dyn Meter,
    estimate: Estimate,
    used: Estimate,
}

impl Drop for BudgetReservation<'_> {
    fn drop(&mut self) {
        self.meter.settle(self.estimate, self.used);
    }
}

/// FNV-1a of an id: the seed that spreads retries.
pub(super) fn seed(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A duration in milliseconds, rounded down.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
