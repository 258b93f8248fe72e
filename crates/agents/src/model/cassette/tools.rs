//! Recording and replay of live tools: the tool definitions of their servers, and the outcomes of
//! calls.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::model::cassette::format::{
    Line, RecordedToolOutcome, key_of, mask_in, mask_tool_outcome,
};
use crate::model::cassette::{MISSING, Recording, Replay, locked};
use crate::ports::live_tools::{LiveCall, LiveTools, ToolAnswer, ToolsUnavailable};
use crate::rules::ToolDefinition;
use touchstone_kit::ids::TaskId;

/// The recorded form of a call, without secrets. The position of the call in its run is not part of
/// it.
fn call_of(call: &LiveCall<'_>) -> Value {
    // As text: printing and parsing a number must not change the key.
    let arguments = Value::Object(call.arguments.clone()).to_string();
    let mut request = json!({"call": call.tool, "arguments": arguments});
    mask_in(&mut request);
    request
}

fn list_of(tools: &[String]) -> Value {
    json!({"list": tools})
}

impl Recording {
    /// Wraps live tools to record their exchanges.
    pub fn listen_to_tools(self: &Arc<Self>, tools: Arc<dyn LiveTools>) -> Arc<dyn LiveTools> {
        Arc::new(RecordedTools {
            tools,
            recording: Arc::clone(self),
        })
    }

    fn keep_tool(
        &self,
        request: Value,
        task: &TaskId,
        outcome: RecordedToolOutcome,
    ) -> serde_json::Result<()> {
        let task = Some(task.as_str().to_owned());
        self.keep_exchange(request, task, mask_tool_outcome(outcome)?, Line::Tool)
    }
}

struct RecordedTools {
    tools: Arc<dyn LiveTools>,
    recording: Arc<Recording>,
}

impl RecordedTools {
    fn keep(&self, request: Value, task: &TaskId, outcome: RecordedToolOutcome) {
        if let Err(fault) = self.recording.keep_tool(request, task, outcome) {
            let mut tape = locked(&self.recording.state);
            tape.failed.get_or_insert_with(|| fault.into());
        }
    }
}

#[async_trait]
impl LiveTools for RecordedTools {
    async fn offers(
        &self,
        tools: &[String],
        task: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable> {
        let offers = self.tools.offers(tools, task).await;
        let outcome = match &offers {
            Ok(offers) => RecordedToolOutcome::Offers(offers.clone()),
            Err(missing) => RecordedToolOutcome::Unavailable(missing.reason.clone()),
        };
        self.keep(list_of(tools), task, outcome);
        offers
    }

    async fn call(&self, call: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable> {
        let answer = self.tools.call(call).await;
        let outcome = match &answer {
            Ok(ToolAnswer::Answered(value)) => RecordedToolOutcome::Answered(value.clone()),
            Ok(ToolAnswer::Failed(value)) => RecordedToolOutcome::Failed(value.clone()),
            Err(missing) => RecordedToolOutcome::Unavailable(missing.reason.clone()),
        };
        self.keep(call_of(&call), call.task, outcome);
        answer
    }
}

impl Replay {
    /// The live tools of the recorded run, if it had any.
    pub fn tools(self: &Arc<Self>) -> Option<Arc<dyn LiveTools>> {
        (!self.tools.is_empty()).then(|| Arc::new(ReplayedTools(Arc::clone(self))) as _)
    }

    fn recorded_outcome(
        &self,
        request: &Value,
        task: &TaskId,
    ) -> Result<RecordedToolOutcome, ToolsUnavailable> {
        let found = || {
            let place = (key_of(request).ok()?, Some(task.as_str().to_owned()));
            let outcome = self.tools.get(&place)?;
            let mut requests = locked(&self.requests);
            let nth = requests.entry(place).or_default();
            let outcome = outcome.get(nth)?;
            *nth += 1;
            Some(outcome.clone())
        };
        found().ok_or_else(|| {
            locked(&self.missing).insert(task.as_str().to_owned());
            ToolsUnavailable::because(MISSING)
        })
    }
}

struct ReplayedTools(Arc<Replay>);

#[async_trait]
impl LiveTools for ReplayedTools {
    async fn offers(
        &self,
        tools: &[String],
        task: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable> {
        match self.0.recorded_outcome(&list_of(tools), task)? {
            RecordedToolOutcome::Offers(offers) => Ok(offers),
            RecordedToolOutcome::Unavailable(reason) => Err(ToolsUnavailable { reason }),
            RecordedToolOutcome::Answered(_) | RecordedToolOutcome::Failed(_) => {
                Err(ToolsUnavailable::because(MISSING))
            }
        }
    }

    async fn call(&self, call: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable> {
        match self.0.recorded_outcome(&call_of(&call), call.task)? {
            RecordedToolOutcome::Answered(value) => Ok(ToolAnswer::Answered(value)),
            RecordedToolOutcome::Failed(value) => Ok(ToolAnswer::Failed(value)),
            RecordedToolOutcome::Unavailable(reason) => Err(ToolsUnavailable { reason }),
            RecordedToolOutcome::Offers(_) => Err(ToolsUnavailable::because(MISSING)),
        }
    }
}
