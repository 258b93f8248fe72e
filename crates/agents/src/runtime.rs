//! One invocation against one endpoint.
//!
//! Events of a task, in this order (OpenWOP agent-evaluation, per task):
//!
//! ```text
//! agent.invocation.started
//! [touchstone.task.attached]
//! [touchstone.user.opens            if a simulated user opens the conversation
//!  provider.usage*
//!  touchstone.user.said]
//! per model turn:
//!   [touchstone.model.retried]*
//!   [agent.reasoned]
//!   provider.usage [touchstone.usage.estimated]
//!   [runOrchestrator.decided]
//!   (agent.toolCalled [touchstone.effect.intended] agent.toolReturned [touchstone.fixture.missing]
//!    | [agent.handoff] agent.invocation.started agent.invocation.completed    of a scripted worker)*
//! per answer, if the user may say more ([`Turns`]):
//!   touchstone.turn.answered
//!   provider.usage*                 of the simulated user
//!   [touchstone.user.said | touchstone.user.stopped]
//! agent.decided                     decision null if none was reached
//! agent.invocation.completed
//! ```
//!
//! Every answered call has exactly one `provider.usage`. If an endpoint reports no usage, zero
//! tokens would be wrong and would let calls exceed the budget unnoticed. The usage is then
//! estimated from the size (bytes divided by four), and the event after it says so.

use std::pin::pin;

use async_trait::async_trait;
use serde_json::Value;

use crate::calls::{CallError, CallRole, CallState, Calls, millis, seed};
use crate::dialogue::Turns;
use crate::ports::agent::{
    AgentRuntime, EventSink, Exhausted, Invocation, InvocationEnd, InvocationResult, Meter,
};
use crate::ports::model::{ModelError, ModelInfo};
use crate::rules::activity::Activity;
use crate::rules::workers;
use crate::rules::workers::Role;
use crate::rules::{
    BUDGET_EXHAUSTED, Conversation, ConversationInput, FailureReason, LOOP_LIMIT_EXCEEDED, Limits,
    ModelReply, Next, Step, TASK_TIMEOUT, ToolCall, ToolOutcome, ToolSource,
};
use crate::spans;
use crate::tool_calls::{ToolCaller, ToolSurface};
use touchstone_kit::ids::{AgentId, EventId};
use touchstone_openwop::events::{
    AgentDecided, AgentHandoff, AgentInvocationCompleted, AgentInvocationStarted, AgentReasoned,
    AttachedFile, Event, InvocationOutcome, OrchestratorDecision, RunOrchestratorDecided,
    TaskAttached,
};

/// The runtime for agents that consist of a prompt, an allowlist and a return schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtime {
    /// Limits of every invocation.
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
        let span = spans::invocation(&invocation);
        let span_id = span.id();
        let timeout = invocation.timeout;
        let running = pin!(span.within(self.run(invocation, meter, sink)));
        let result = match timeout {
            None => running.await,
            Some(longest) => match tokio::time::timeout(longest, running).await {
                Ok(result) => result,
                // The span is dropped like the invocation, and recorded as cancelled.
                Err(_) => return timed_out(),
            },
        };
        spans::invoked(span, &result.end);
        InvocationResult { span_id, ..result }
    }
}

/// The result of an invocation that was dropped because it took too long.
fn timed_out() -> InvocationResult {
    InvocationResult {
        end: InvocationEnd::Unjudged {
            reason: TASK_TIMEOUT.to_owned(),
        },
        schema_valid: None,
        latency_ms: 0,
        span_id: None,
    }
}

impl Runtime {
    async fn run(
        &self,
        invocation: Invocation<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult {
        let surface = ToolSurface::of(&invocation).await;
        let mut tools = invocation.agent.tool_allowlist.clone();
        if invocation.live.is_none() {
            let workers = workers::workers_of(invocation.fixtures).into_iter();
            tools.extend(workers.filter(|it| !invocation.agent.tool_allowlist.contains(it)));
        }
        let offered = match (&surface, invocation.live) {
            (Ok(surface), Some(_)) => surface.names.len(),
            (Err(_), _) => 0,
            (_, None) => tools.len(),
        };
        let mut running = Running::start(&invocation, offered, meter, sink);
        let allowed = invocation.max_loop_iterations.unwrap_or(u32::MAX);
        let limits = Limits {
            turns: self.limits.turns.min(allowed),
            ..self.limits
        };
        let ending = match &surface {
            Ok(surface) => running.converse(limits, &tools, surface).await,
            // A task that may need a tool is not started without it.
            Err(missing) => Ending::unjudged(&missing.reason),
        };
        let (result, mut state) = running.finish(ending);
        state.give_back(sink).await;
        result
    }
}

struct Ending {
    end: InvocationEnd,
    outcome: InvocationOutcome,
    /// The value for `agent.decided`, if it is not the output itself.
    output: Option<Value>,
    schema_valid: Option<bool>,
}

impl Ending {
    fn unjudged(reason: impl Into<String>) -> Self {
        Self {
            end: InvocationEnd::Unjudged {
                reason: reason.into(),
            },
            outcome: InvocationOutcome::Failed,
            output: None,
            schema_valid: None,
        }
    }
}

struct Running<'a> {
    invocation: &'a Invocation<'a>,
    meter: &'a dyn Meter,
    sink: &'a dyn EventSink,
    started: EventId,
    /// Model turns so far; a retried call counts as one turn.
    turns: u32,
    state: CallState,
}

impl<'a> Running<'a> {
    fn start(
        invocation: &'a Invocation<'a>,
        offered: usize,
        meter: &'a dyn Meter,
        sink: &'a dyn EventSink,
    ) -> Self {
        let (agent, model) = (invocation.agent, invocation.model.model.info());
        let memory_bound = invocation
            .fixtures
            .filter(|_| invocation.live.is_none())
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
            tool_surface_count: offered,
            memory_bound,
        };
        let started = sink.emit(Event::AgentInvocationStarted(started), None);
        Self {
            invocation,
            meter,
            sink,
            started,
            turns: 0,
            state: CallState::default(),
        }
    }

    fn emit(&self, event: Event) -> EventId {
        self.sink.emit(event, Some(&self.started))
    }

    async fn converse(
        &mut self,
        limits: Limits,
        tools: &[String],
        surface: &ToolSurface,
    ) -> Ending {
        let invocation = self.invocation;
        let agent = invocation.agent;
        let started = self.started.clone();
        let mut tool_caller = ToolCaller {
            invocation,
            surface,
            sink: self.sink,
            started: &started,
            made: 0,
        };
        self.record_files();
        let mut turns = Turns::of(invocation, self.meter, self.sink, &started);
        let opening = match turns.open().await {
            Ok(text) => text.map(Value::String),
            Err(reason) => return Ending::unjudged(reason),
        };
        let mut conversation = Conversation::new(ConversationInput {
            prompt: &agent.prompt,
            tools,
            return_schema: agent.return_schema.as_ref().map(|(_, compiled)| compiled),
            task: invocation.node_id,
            input: opening.as_ref().unwrap_or(invocation.input),
            files: invocation.dialogue.map_or(&[][..], |it| it.files),
            earlier: invocation.dialogue.map_or(&[][..], |it| it.messages),
            continues: Turns::has_any(invocation),
            // Recorded calls first: they must never reach a live tool.
            source: match (invocation.live, invocation.recorded) {
                (_, Some(calls)) => ToolSource::Recorded {
                    calls,
                    fixtures: invocation.fixtures,
                },
                (Some(_), None) => ToolSource::Live {
                    names: &surface.names,
                    definitions: &surface.definitions,
                },
                (None, None) => ToolSource::Fixtures(invocation.fixtures),
            },
            temperature: invocation.temperature,
            max_tokens: invocation.max_tokens,
            limits,
        });
        loop {
            // The caller's limit counts the model turns of the whole task.
            if turns.has_begun() && Some(self.turns) == invocation.max_loop_iterations {
                return Ending::unjudged(LOOP_LIMIT_EXCEEDED);
            }
            let next = match self.call(&mut conversation).await {
                Ok(reply) => {
                    let step = conversation.step(reply);
                    match self.act(step, &mut conversation, &mut tool_caller).await {
                        Ok(next) => next,
                        Err(reason) => return Ending::unjudged(reason),
                    }
                }
                Err(CallError::Model(ModelError::Rejected { reason })) => {
                    conversation.rejected(reason.into())
                }
                Err(CallError::Model(ModelError::Unavailable { reason, .. })) => {
                    return Ending::unjudged(reason);
                }
                Err(CallError::Exhausted) => return Ending::unjudged(BUDGET_EXHAUSTED),
            };
            let continued = turns.after(next, &mut conversation, &mut self.state);
            let next = match continued.await {
                Ok(next) => next,
                Err(reason) => return Ending::unjudged(reason),
            };
            if let Some(ending) = self.ending(next, limits) {
                return ending;
            }
        }
    }

    /// Records which files are sent, without their content.
    fn record_files(&self) {
        let files = self.invocation.dialogue.map_or(&[][..], |it| it.files);
        if files.is_empty() {
            return;
        }
        let attached = files.iter().map(|file| AttachedFile {
            media_type: file.media_type,
            sha256: file.sha256.to_string(),
            size_bytes: file.size as u64,
        });
        self.emit(Event::TaskAttached(TaskAttached {
            files: attached.collect(),
        }));
    }

    /// Records the tool calls of a turn and makes those to live tools. An error is the reason why
    /// the task cannot be judged.
    async fn act(
        &mut self,
        step: Step,
        conversation: &mut Conversation<'_>,
        tool_caller: &mut ToolCaller<'_>,
    ) -> Result<Next, String> {
        self.decide(workers::led(&step.tools));
        for (call, outcome) in step.tools {
            // Live calls whose results would not be used are not made.
            if outcome == ToolOutcome::Live && step.next != Next::Call {
                continue;
            }
            if let Err(Exhausted) = self.meter.call_tool().await {
                return Err(BUDGET_EXHAUSTED.to_owned());
            }
            if let ToolOutcome::Answered(answer) = &outcome
                && let Some((role, worker)) = workers::worker(&call.tool)
            {
                self.record_worker(&call, role, worker, answer);
                continue;
            }
            if outcome != ToolOutcome::Live {
                tool_caller.record(call, outcome);
                continue;
            }
            self.state.give_back(self.sink).await;
            let outcome = tool_caller.make(&call).await.map_err(|it| it.reason)?;
            conversation.record_tool_result(&call.id, &outcome);
        }
        Ok(step.next)
    }

    /// The end of the invocation, unless the model is called again.
    fn ending(&self, next: Next, limits: Limits) -> Option<Ending> {
        match next {
            Next::Call => None,
            Next::Decided {
                output,
                schema_valid,
            } => Some(Ending {
                end: InvocationEnd::Decided { output },
                outcome: InvocationOutcome::Completed,
                output: None,
                schema_valid,
            }),
            // The caller's limit ends the run; it is not the agent's failure (RFC 0058).
            Next::Failed {
                reason: FailureReason::TurnLimit,
                ..
            } if self.invocation.max_loop_iterations == Some(limits.turns) => {
                Some(Ending::unjudged(LOOP_LIMIT_EXCEEDED))
            }
            Next::Failed {
                reason,
                output,
                schema_valid,
            } => Some(Ending {
                end: InvocationEnd::Failed {
                    reason: reason.label().to_owned(),
                },
                outcome: if reason.is_refusal() {
                    InvocationOutcome::Refused
                } else {
                    InvocationOutcome::Failed
                },
                output,
                schema_valid,
            }),
        }
    }

    /// Records which workers are next.
    fn decide(&self, next_worker_ids: Vec<String>) {
        if next_worker_ids.is_empty() {
            return;
        }
        self.emit(Event::RunOrchestratorDecided(RunOrchestratorDecided {
            agent_id: self.invocation.agent.agent_id.clone(),
            decision: OrchestratorDecision::NextWorker { next_worker_ids },
        }));
    }

    /// Records the invocation of a scripted worker, whose answer is already known.
    fn record_worker(&self, call: &ToolCall, role: Role, worker: &str, answer: &Value) {
        let agent_id = AgentId::from(worker);
        let invocation_id = format!("{}:{}", self.invocation.invocation_id, call.id);
        let handed_over = (role == Role::Delegate).then(|| {
            self.emit(Event::AgentHandoff(AgentHandoff {
                from_agent_id: self.invocation.agent.agent_id.clone(),
                to_agent_id: agent_id.clone(),
                reason: workers::reason_of(call),
            }))
        });
        let started = AgentInvocationStarted {
            invocation_id: invocation_id.clone(),
            agent_id: agent_id.clone(),
            source: "run-api".to_owned(),
            model_class: None,
            resolved_model: None,
            resolved_provider: Some(AgentInvocationStarted::WORKER_PROVIDER.to_owned()),
            resolved_agent_version: None,
            resolved_channel: None,
            tool_surface_count: 0,
            memory_bound: false,
        };
        let cause = handed_over.as_ref().unwrap_or(&self.started);
        let started = self
            .sink
            .emit(Event::AgentInvocationStarted(started), Some(cause));
        let completed = AgentInvocationCompleted {
            invocation_id,
            agent_id,
            outcome: workers::outcome_of(answer),
            schema_validated: None,
        };
        self.sink
            .emit(Event::AgentInvocationCompleted(completed), Some(&started));
    }

    async fn call(&mut self, conversation: &mut Conversation<'_>) -> Result<ModelReply, CallError> {
        let invocation = self.invocation;
        conversation.intend(self.activity(invocation.model.model.info()));
        self.turns += 1;
        let calls = Calls {
            binding: invocation.model,
            role: CallRole::Agent,
            meter: self.meter,
            sink: self.sink,
            cause: Some(&self.started),
            task: invocation.node_id,
            seed: seed(&invocation.invocation_id),
        };
        let reasoned = |reply: &ModelReply| {
            let reasoning = spoken_reasoning(reply)?;
            let agent_id = invocation.agent.agent_id.clone();
            Some(Event::AgentReasoned(AgentReasoned {
                agent_id,
                reasoning,
            }))
        };
        let bytes = conversation.request_octets();
        calls
            .ask(conversation.request(), bytes, &mut self.state, reasoned)
            .await
    }

    /// The effect id of the next model turn. A task that is executed again starts with the first
    /// one.
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

    fn finish(self, ending: Ending) -> (InvocationResult, CallState) {
        let latency_ms = millis(self.state.latency());
        let agent_id = &self.invocation.agent.agent_id;
        let decision = match &ending.end {
            InvocationEnd::Decided { output } => output.clone(),
            _ => ending.output.unwrap_or(Value::Null),
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
        let result = InvocationResult {
            end: ending.end,
            schema_valid: ending.schema_valid,
            latency_ms,
            span_id: None,
        };
        (result, self.state)
    }
}

/// The text next to the model's tool calls, or its published reasoning. A final answer is not
/// reasoning.
fn spoken_reasoning(reply: &ModelReply) -> Option<String> {
    let beside = (!reply.tool_calls.is_empty())
        .then_some(reply.text.as_ref())
        .flatten();
    let output = reply.reasoning.as_ref().or(beside)?;
    (!output.trim().is_empty()).then(|| output.clone())
}
