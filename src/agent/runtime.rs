//! One invocation against one endpoint.
//!
//! Events of a task, in this order (OpenWOP agent-evaluation, per task):
//!
//! ```text
//! agent.invocation.started
//! per model turn:
//!   [touchstone.model.retried]*
//!   [agent.reasoned]
//!   provider.usage [touchstone.usage.estimated]
//!   (agent.toolCalled agent.toolReturned [touchstone.fixture.missing])*
//! agent.decided                     decision null where none was reached
//! agent.invocation.completed
//! ```
//!
//! Every answered call has exactly one `provider.usage`. Where an endpoint reports no usage, zero tokens would be a lie and
//! would let a budget run dry unseen: the usage is estimated by size (an octet count divided by four) and the event after it
//! says so.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;

use crate::domain::agent::{
    BUDGET_EXHAUSTED, Brief, Conversation, FailureReason, LOOP_LIMIT_EXCEEDED, Limits, ModelReply,
    Next, ToolCall, ToolOutcome, estimate, usage_from_size,
};
use crate::domain::budget::Estimate;
use crate::domain::ids::EventId;
use crate::domain::run::activity::Activity;
use crate::ports::{
    AgentRuntime, EventSink, Exhausted, Heard, Invocation, InvocationEnd, InvocationResult, Meter,
    ModelError, ModelInfo,
};
use crate::protocol::openwop::events::{
    AgentDecided, AgentInvocationCompleted, AgentInvocationStarted, AgentReasoned, AgentToolCalled,
    AgentToolReturned, Event, FixtureMissing, InvocationOutcome, ModelRetried, ProviderUsage,
    RunError, ToolStatus, UsageEstimated,
};

/// The runtime for agents that are a prompt, an allowlist and a return schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtime {
    /// Bounds of every invocation.
    pub limits: Limits,
}

#[async_trait]
impl AgentRuntime for Runtime {
    async fn invoke(
        &self,
        invocation: Invocation<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult {
        let mut running = Running::start(&invocation, meter, sink);
        let allowed = invocation.max_loop_iterations.unwrap_or(u32::MAX);
        let limits = Limits {
            turns: self.limits.turns.min(allowed),
            ..self.limits
        };
        let ending = running.converse(limits).await;
        running.finish(ending)
    }
}

/// Why a call gave no reply.
enum Stop {
    Model(ModelError),
    Exhausted,
}

/// How the conversation ended.
struct Ending {
    end: InvocationEnd,
    outcome: InvocationOutcome,
    /// For `agent.decided`, where it is not the output itself.
    said: Option<Value>,
    schema_valid: Option<bool>,
}

impl Ending {
    fn unjudged(reason: impl Into<String>) -> Self {
        Self {
            end: InvocationEnd::Unjudged {
                reason: reason.into(),
            },
            outcome: InvocationOutcome::Failed,
            said: None,
            schema_valid: None,
        }
    }
}

struct Running<'a> {
    invocation: &'a Invocation<'a>,
    meter: &'a dyn Meter,
    sink: &'a dyn EventSink,
    started: EventId,
    /// Model turns so far; what is tried again is one.
    turns: u32,
    first_call: Option<Instant>,
    waited: Duration,
}

impl<'a> Running<'a> {
    fn start(
        invocation: &'a Invocation<'a>,
        meter: &'a dyn Meter,
        sink: &'a dyn EventSink,
    ) -> Self {
        let (agent, model) = (invocation.agent, invocation.model.model.info());
        let memory_bound = invocation
            .fixtures
            .is_some_and(|fixtures| !fixtures.memory_seed.is_empty());
        let started = AgentInvocationStarted {
            invocation_id: invocation.invocation_id.clone(),
            agent_id: agent.agent_id.clone(),
            source: "run-api".to_owned(),
            model_class: Some(agent.model_class),
            resolved_model: Some(model.model.clone()),
            resolved_provider: Some(model.provider.clone()),
            resolved_agent_version: Some(invocation.agent_version.to_owned()),
            resolved_channel: invocation.agent_channel.map(str::to_owned),
            tool_surface_count: agent.tool_allowlist.len(),
            memory_bound,
        };
        let started = sink.emit(Event::AgentInvocationStarted(started), None);
        Self {
            invocation,
            meter,
            sink,
            started,
            turns: 0,
            first_call: None,
            waited: Duration::ZERO,
        }
    }

    fn emit(&self, event: Event) -> EventId {
        self.sink.emit(event, Some(&self.started))
    }

    async fn converse(&mut self, limits: Limits) -> Ending {
        let invocation = self.invocation;
        let agent = invocation.agent;
        let mut conversation = Conversation::new(Brief {
            prompt: &agent.prompt,
            tools: &agent.tool_allowlist,
            return_schema: agent.return_schema.as_ref().map(|(_, compiled)| compiled),
            task: invocation.node_id,
            input: invocation.input,
            fixtures: invocation.fixtures,
            temperature: invocation.temperature,
            max_tokens: invocation.max_tokens,
            limits,
        });
        loop {
            let next = match self.call(&mut conversation).await {
                Ok(reply) => {
                    let step = conversation.step(reply);
                    for (call, outcome) in step.tools {
                        if let Err(Exhausted) = self.meter.call_tool() {
                            return Ending::unjudged(BUDGET_EXHAUSTED);
                        }
                        self.record_tool(call, outcome);
                    }
                    step.next
                }
                Err(Stop::Model(ModelError::Rejected { reason })) => {
                    conversation.rejected(reason.into())
                }
                Err(Stop::Model(ModelError::Unavailable { reason, .. })) => {
                    return Ending::unjudged(reason);
                }
                Err(Stop::Exhausted) => return Ending::unjudged(BUDGET_EXHAUSTED),
            };
            match next {
                Next::Call => {}
                Next::Decided {
                    output,
                    schema_valid,
                } => {
                    return Ending {
                        end: InvocationEnd::Decided { output },
                        outcome: InvocationOutcome::Completed,
                        said: None,
                        schema_valid,
                    };
                }
                // The caller's bound is the run's end, not the agent's failure (RFC 0058).
                Next::Failed {
                    reason: FailureReason::TurnLimit,
                    ..
                } if invocation.max_loop_iterations == Some(limits.turns) => {
                    return Ending::unjudged(LOOP_LIMIT_EXCEEDED);
                }
                Next::Failed {
                    reason,
                    said,
                    schema_valid,
                } => {
                    return Ending {
                        end: InvocationEnd::Failed {
                            reason: reason.label().to_owned(),
                        },
                        outcome: if reason.is_refusal() {
                            InvocationOutcome::Refused
                        } else {
                            InvocationOutcome::Failed
                        },
                        said,
                        schema_valid,
                    };
                }
            }
        }
    }

    /// One model turn: reserved, tried until it is answered or the attempts are used up, metered and settled.
    async fn call(&mut self, conversation: &mut Conversation<'_>) -> Result<ModelReply, Stop> {
        let info = self.invocation.model.model.info();
        conversation.intend(self.activity(info));
        self.turns += 1;
        let octets = conversation.request_octets();
        let asked = Instant::now();
        let estimate = estimate(octets, self.invocation.max_tokens, info.price);
        self.meter
            .reserve(estimate)
            .await
            .map_err(|Exhausted| Stop::Exhausted)?;
        let mut held = Held {
            meter: self.meter,
            estimate,
            used: Estimate::default(),
        };
        let reply = self.attempts(conversation, asked).await?;
        held.used = self.record_reply(info, &reply, octets);
        Ok(reply)
    }

    /// The name of the next model turn. A task that is done anew begins with the first one again.
    fn activity(&self, info: &ModelInfo) -> String {
        let activity = Activity {
            tenant: self.invocation.tenant,
            run: self.invocation.run,
            node: self.invocation.node_id.as_str(),
            ordinal: self.turns,
            provider_key: &format!("{}:chat:completions", info.provider),
        };
        activity.id()
    }

    async fn attempts(
        &mut self,
        conversation: &Conversation<'_>,
        mut idle_since: Instant,
    ) -> Result<ModelReply, Stop> {
        let binding = self.invocation.model;
        let info = binding.model.info();
        let mut attempt = 1;
        loop {
            let permit = binding.permits.acquire().await.map_err(Stop::Model)?;
            match self.first_call {
                None => self.first_call = Some(Instant::now()),
                Some(_) => self.waited += idle_since.elapsed(),
            }
            let answer = binding.model.complete(conversation.request());
            let answer = tokio::time::timeout(info.timeout, answer)
                .await
                .unwrap_or_else(|_| {
                    Err(ModelError::Unavailable {
                        reason: "timeout".to_owned(),
                        retryable: true,
                        retry_after: None,
                    })
                });
            // The permit is not kept while waiting to try again: others may fare better.
            permit.hear(Heard::of(&answer));
            let error = match answer {
                Ok(reply) => return Ok(reply),
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
            let seed = seed(&self.invocation.invocation_id);
            let Some(wait) = info.retry.wait(attempt, seed, *retry_after) else {
                return Err(Stop::Model(error));
            };
            self.meter.retry().map_err(|Exhausted| Stop::Exhausted)?;
            self.emit(Event::ModelRetried(ModelRetried {
                attempt,
                reason: reason.clone(),
                wait_ms: millis(wait),
            }));
            tokio::time::sleep(wait).await;
            idle_since = Instant::now();
            attempt += 1;
        }
    }

    fn record_reply(&self, info: &ModelInfo, reply: &ModelReply, octets: usize) -> Estimate {
        if let Some(reasoning) = spoken_reasoning(reply) {
            self.emit(Event::AgentReasoned(AgentReasoned {
                agent_id: self.invocation.agent.agent_id.clone(),
                reasoning,
            }));
        }
        let usage = reply
            .usage
            .unwrap_or_else(|| usage_from_size(octets, reply));
        let cost = info.price.cost(usage.input, usage.output);
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
            node_id: Some(self.invocation.node_id.clone()),
        }));
        if reply.usage.is_none() {
            self.emit(Event::UsageEstimated(UsageEstimated {
                input_tokens: usage.input,
                output_tokens: usage.output,
            }));
        }
        Estimate { tokens, cost }
    }

    fn record_tool(&self, call: ToolCall, outcome: ToolOutcome) {
        let agent_id = &self.invocation.agent.agent_id;
        let called = self.emit(Event::AgentToolCalled(AgentToolCalled {
            agent_id: agent_id.clone(),
            tool_name: call.tool.clone(),
            call_id: call.id.clone(),
            inputs: Some(call.arguments.unwrap_or_else(Value::String)),
        }));
        let error = outcome.error().map(|(code, message)| RunError {
            code: code.to_owned(),
            message: message.to_owned(),
        });
        let missing = outcome == ToolOutcome::FixtureMissing;
        let (status, outcome) = match outcome {
            ToolOutcome::Answered(value) => (ToolStatus::Ok, Some(value)),
            ToolOutcome::Forbidden => (ToolStatus::Forbidden, None),
            ToolOutcome::FixtureMissing | ToolOutcome::InvalidArguments => {
                (ToolStatus::Error, None)
            }
        };
        let returned = AgentToolReturned {
            agent_id: agent_id.clone(),
            tool_name: call.tool.clone(),
            call_id: call.id.clone(),
            outcome,
            error,
            status,
        };
        let returned = self
            .sink
            .emit(Event::AgentToolReturned(returned), Some(&called));
        if missing {
            let missing = FixtureMissing {
                tool: call.tool,
                call_id: call.id,
            };
            self.sink
                .emit(Event::FixtureMissing(missing), Some(&returned));
        }
    }

    fn finish(self, ending: Ending) -> InvocationResult {
        let latency = self
            .first_call
            .map_or(Duration::ZERO, |first| first.elapsed())
            .saturating_sub(self.waited);
        let agent_id = &self.invocation.agent.agent_id;
        let decision = match &ending.end {
            InvocationEnd::Decided { output } => output.clone(),
            _ => ending.said.unwrap_or(Value::Null),
        };
        self.emit(Event::AgentDecided(AgentDecided {
            agent_id: agent_id.clone(),
            decision,
        }));
        self.emit(Event::AgentInvocationCompleted(AgentInvocationCompleted {
            invocation_id: self.invocation.invocation_id.clone(),
            agent_id: agent_id.clone(),
            outcome: ending.outcome,
            schema_validated: ending.schema_valid,
        }));
        InvocationResult {
            end: ending.end,
            schema_valid: ending.schema_valid,
            latency_ms: millis(latency),
        }
    }
}

/// What the model said beside its tool calls, or handed out as its reasoning. A final answer is no reasoning.
fn spoken_reasoning(reply: &ModelReply) -> Option<String> {
    let beside = (!reply.tool_calls.is_empty())
        .then_some(reply.text.as_ref())
        .flatten();
    let said = reply.reasoning.as_ref().or(beside)?;
    (!said.trim().is_empty()).then(|| said.clone())
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

/// FNV-1a: the invocation's own place in the spread of retries.
fn seed(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
