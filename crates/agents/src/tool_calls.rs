//! Tool calls of a turn: records them, and makes the live ones.
//!
//! A live call is recorded before it is made and has an effect id in the run (OpenWOP idempotency,
//! layer 2). A call with side effects is announced first, and made only once the announcement is
//! durable: a worker that takes over the run then knows that the outcome of the call is unknown,
//! and does not repeat it.

use std::time::Instant;

use serde_json::{Map, Value};

use crate::calls::millis;
use crate::ports::agent::{EventSink, Invocation, Unrecorded};
use crate::ports::live_tools::{LiveCall, LiveTools, ToolAnswer, ToolsUnavailable};
use crate::rules::activity::Activity;
use crate::rules::{Effects, ToolCall, ToolDefinition, ToolOutcome};
use crate::spans;
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::{
    AgentToolCalled, AgentToolReturned, EffectIntended, Event, FixtureMissing, RunError,
    ToolStatus, ToolTransport,
};

/// The live tools of an invocation; empty if fixtures replace them.
#[derive(Default)]
pub(super) struct ToolSurface {
    pub names: Vec<String>,
    pub definitions: Vec<ToolDefinition>,
}

impl ToolSurface {
    /// The tools that the agent may call and this host has.
    ///
    /// # Errors
    /// A server that should have one of them does not list its tools.
    pub async fn of(invocation: &Invocation<'_>) -> Result<Self, ToolsUnavailable> {
        let Some(live) = invocation.live else {
            return Ok(Self::default());
        };
        let allowed = &invocation.agent.tool_allowlist;
        let definitions = live.offers(allowed, invocation.node_id).await?;
        let names = definitions.iter().map(|it| it.tool.clone()).collect();
        Ok(Self { names, definitions })
    }
}

pub(super) struct ToolCaller<'a> {
    pub invocation: &'a Invocation<'a>,
    pub surface: &'a ToolSurface,
    pub sink: &'a dyn EventSink,
    pub started: &'a EventId,
    /// Number of live calls so far.
    pub made: u32,
}

impl ToolCaller<'_> {
    /// Records a call that already has an outcome.
    pub fn record(&self, call: ToolCall, outcome: ToolOutcome) {
        let span = spans::tool(&call, None);
        let called = self.called(&call, None);
        spans::returned(span, &outcome);
        self.returned(&call, outcome, &called, None);
    }

    /// Makes a live call.
    ///
    /// # Errors
    /// The call has no answer, which is not a fault of the agent.
    pub async fn make(&mut self, call: &ToolCall) -> Result<ToolOutcome, ToolsUnavailable> {
        let (Some(live), Ok(Value::Object(arguments))) = (self.invocation.live, &call.arguments)
        else {
            return Err(ToolsUnavailable::because("tool_unavailable"));
        };
        let called = self.called(call, Some(ToolTransport::Mcp));
        self.announce(call, &called).await?;
        self.made += 1;
        let begun = Instant::now();
        let span = spans::tool(call, Some("mcp"));
        let answer = span.within(self.ask(live, call, arguments)).await;
        let took = millis(begun.elapsed());
        let (outcome, missed) = match answer {
            Ok(ToolAnswer::Answered(value)) => (ToolOutcome::Answered(value), None),
            Ok(ToolAnswer::Failed(value)) => (ToolOutcome::Failed(value), None),
            Err(why) => (ToolOutcome::Unavailable, Some(why)),
        };
        spans::returned(span, &outcome);
        self.returned(call, outcome.clone(), &called, Some(took));
        missed.map_or(Ok(outcome), Err)
    }

    async fn ask(
        &self,
        live: &dyn LiveTools,
        call: &ToolCall,
        arguments: &Map<String, Value>,
    ) -> Result<ToolAnswer, ToolsUnavailable> {
        let activity = Activity {
            tenant: self.invocation.tenant,
            run: self.invocation.run,
            node: self.invocation.node_id.as_str(),
            ordinal: self.made,
            provider_key: &Activity::of_tool(&call.tool),
        };
        // This label is never read: the log that would hold it is closed.
        let may_call = self.sink.may_call().await;
        may_call.map_err(|Unrecorded| ToolsUnavailable::because("tool_unavailable"))?;
        live.call(LiveCall {
            tool: &call.tool,
            arguments,
            task: self.invocation.node_id,
            activity: &activity.id(),
        })
        .await
    }

    async fn announce(&self, call: &ToolCall, called: &EventId) -> Result<(), ToolsUnavailable> {
        let known = self.surface.definitions.iter();
        let changes = known
            .filter(|it| it.tool == call.tool)
            .any(|it| it.effects != Effects::None);
        if !changes {
            return Ok(());
        }
        let intended = EffectIntended {
            tool: call.tool.clone(),
            call_id: call.id.clone(),
        };
        self.sink
            .emit(Event::EffectIntended(intended), Some(called));
        let kept = self.sink.kept().await;
        // This label is never read: the log that would hold it is closed.
        kept.map_err(|Unrecorded| ToolsUnavailable::because("tool_unavailable"))
    }

    fn called(&self, call: &ToolCall, transport: Option<ToolTransport>) -> EventId {
        let called = AgentToolCalled {
            agent_id: self.invocation.agent.agent_id.clone(),
            tool_name: call.tool.clone(),
            call_id: call.id.clone(),
            inputs: None,
            args_hash: None,
            transport,
        }
        .with_inputs(call.arguments.clone().unwrap_or_else(Value::String));
        self.sink
            .emit(Event::AgentToolCalled(called), Some(self.started))
    }

    fn returned(
        &self,
        call: &ToolCall,
        outcome: ToolOutcome,
        called: &EventId,
        duration_ms: Option<u64>,
    ) {
        let missing = outcome == ToolOutcome::FixtureMissing;
        let error = outcome.error().map(|(code, message)| RunError {
            code: code.to_owned(),
            message: message.to_owned(),
        });
        let (status, outcome, error) = match outcome {
            ToolOutcome::Answered(value) => (ToolStatus::Ok, Some(value), None),
            // The tool's own error value; an error code cannot hold it.
            ToolOutcome::Failed(value) => (ToolStatus::Error, Some(value), None),
            ToolOutcome::Forbidden => (ToolStatus::Forbidden, None, error),
            ToolOutcome::FixtureMissing
            | ToolOutcome::InvalidArguments
            | ToolOutcome::Live
            | ToolOutcome::NotOffered
            | ToolOutcome::EffectRefused
            | ToolOutcome::Unavailable => (ToolStatus::Error, None, error),
        };
        let returned = AgentToolReturned {
            agent_id: self.invocation.agent.agent_id.clone(),
            tool_name: call.tool.clone(),
            call_id: call.id.clone(),
            outcome,
            error,
            status,
            duration_ms,
        };
        let returned = self
            .sink
            .emit(Event::AgentToolReturned(returned), Some(called));
        if missing {
            let missing = FixtureMissing {
                tool: call.tool.clone(),
                call_id: call.id.clone(),
            };
            self.sink
                .emit(Event::FixtureMissing(missing), Some(&returned));
        }
    }
}
