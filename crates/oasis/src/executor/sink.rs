//! Receives an agent's events in a scenario: it keeps them in full for the evidence, and records
//! them in the log without literals that must not be emitted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::rules::scrub::Scrub;
use touchstone_agents::ports::agent::{EventSink, Unrecorded};
use touchstone_kit::ids::{EventId, TaskId};
use touchstone_openwop::events::{Event, NewEvent};
use touchstone_runs::service::run_writer::{Closed, RunWriter};

/// Which events of an invocation are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// All events.
    InFull,
    /// Only costs: the scenario is not published, and other events would disclose it.
    CostsOnly,
}

/// An agent's output, taken from its events.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentOutput {
    /// The reasoning, in pieces.
    pub reasoning: Vec<String>,
    /// The last decision.
    pub decision: Option<Value>,
}

/// The event sink of one scenario.
pub(super) struct ScenarioSink<'a> {
    writer: &'a RunWriter,
    task: &'a TaskId,
    scrub: &'a Scrub,
    recorded: Recorded,
    output: Mutex<AgentOutput>,
}

impl<'a> ScenarioSink<'a> {
    /// A sink that writes to the log of a run.
    pub fn new(
        writer: &'a RunWriter,
        task: &'a TaskId,
        scrub: &'a Scrub,
        recorded: Recorded,
    ) -> Self {
        Self {
            writer,
            task,
            scrub,
            recorded,
            output: Mutex::default(),
        }
    }

    /// The agent's output so far.
    pub fn output(&self) -> AgentOutput {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, AgentOutput> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scrubbed(&self, event: Event) -> Event {
        let value = |mut value: Value| {
            self.scrub.value(&mut value);
            value
        };
        match event {
            Event::AgentReasoned(mut it) => {
                it.reasoning = self.scrub.text(&it.reasoning);
                Event::AgentReasoned(it)
            }
            Event::AgentDecided(mut it) => {
                it.decision = value(it.decision);
                Event::AgentDecided(it)
            }
            Event::AgentToolCalled(mut it) => {
                // The hash covers the recorded form: a hash of a secret would allow guessing it.
                Event::AgentToolCalled(match it.inputs.take() {
                    Some(inputs) => it.with_inputs(value(inputs)),
                    None => it,
                })
            }
            Event::AgentToolReturned(mut it) => {
                it.outcome = it.outcome.map(value);
                Event::AgentToolReturned(it)
            }
            other => other,
        }
    }
}

#[async_trait]
impl EventSink for ScenarioSink<'_> {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        match &event {
            Event::AgentReasoned(it) => self.lock().reasoning.push(it.reasoning.clone()),
            Event::AgentDecided(it) => self.lock().decision = Some(it.decision.clone()),
            _ => {}
        }
        let is_cost = matches!(event, Event::ProviderUsage(_) | Event::UsageEstimated(_));
        if self.recorded == Recorded::CostsOnly && !is_cost {
            return EventId::from("");
        }
        let cause = cause.filter(|cause| !cause.as_str().is_empty());
        let event = self.scrubbed(event);
        self.writer
            .emit(&NewEvent::of_task(event, self.task, cause))
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        self.writer.flush().await.map_err(|Closed| Unrecorded)
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        self.writer.may_call().await.map_err(|Closed| Unrecorded)
    }
}
