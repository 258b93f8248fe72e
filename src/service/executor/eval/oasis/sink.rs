//! What an agent does in a scenario, on its way to the log: kept in full for the evidence, recorded without what must not be
//! emitted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::domain::ids::{EventId, TaskId};
use crate::domain::oasis::scrub::Scrub;
use crate::ports::{EventSink, Unrecorded};
use crate::protocol::openwop::events::{Event, NewEvent};
use crate::service::run_writer::{Closed, RunWriter};

/// What of an invocation is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Everything.
    InFull,
    /// What it cost: the scenario is not published, and what was said in it would disclose it.
    CostsOnly,
}

/// What an agent said.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// Its reasoning, piece by piece.
    pub reasoning: Vec<String>,
    /// Its last decision.
    pub decision: Option<Value>,
}

/// The sink of one scenario.
pub(super) struct ScenarioSink<'a> {
    writer: &'a RunWriter,
    task: &'a TaskId,
    scrub: &'a Scrub,
    recorded: Recorded,
    said: Mutex<Said>,
}

impl<'a> ScenarioSink<'a> {
    /// A sink into the log of a run.
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
            said: Mutex::default(),
        }
    }

    /// What the agent said.
    pub fn said(&self) -> Said {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
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
                // The hash is of what is recorded: one of a secret would let it be guessed.
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
