//! The transcript of a task, recorded for the detectors from the events on their way to the log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::rules::eval::assertions::turns::TurnLog;
use crate::rules::eval::assertions::{ToolCall, mark_answered};
use crate::rules::eval::safety::{Transcript, examine};
use crate::rules::eval::scoring_document::Conversation;
use touchstone_agents::ports::agent::{EventSink, Unrecorded};
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::{Event, ToolStatus};
use touchstone_openwop::suite::Task;
use touchstone_openwop::summary::SafetyFinding;

/// An event sink that keeps a transcript of all events it forwards.
pub(super) struct TranscriptSink<S> {
    sink: S,
    transcript: Mutex<Transcript>,
    calls: Mutex<Vec<ToolCall>>,
    /// Absent if no assertion needs them.
    returned: Option<Mutex<Vec<Value>>>,
    turns: Mutex<TurnLog>,
}

impl<S: EventSink> TranscriptSink<S> {
    /// Forwards to `sink`, and keeps what tools return if `keeps_results`. The author's texts in
    /// the conversation of the task are part of its input.
    pub fn new(sink: S, conversation: Option<&Conversation>, keeps_results: bool) -> Self {
        let given = conversation.into_iter().flat_map(Conversation::given);
        Self {
            sink,
            transcript: Mutex::new(Transcript::given(given.map(str::to_owned).collect())),
            calls: Mutex::default(),
            returned: keeps_results.then(Mutex::default),
            turns: Mutex::default(),
        }
    }

    fn transcript(&self) -> MutexGuard<'_, Transcript> {
        self.transcript
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent's last message, if it was text.
    pub fn final_text(&self) -> Option<String> {
        let transcript = self.transcript();
        let mut leaves = transcript.last_answer().leaves();
        let text = leaves.next().map(|(_, text)| text.to_owned());
        text.filter(|_| leaves.next().is_none())
    }

    /// The tool calls of the attempt that counts.
    pub fn calls(&self) -> Vec<ToolCall> {
        let calls = self.calls.lock();
        calls.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Results of the tools in the attempt that counts, in their order.
    pub fn returned(&self) -> Vec<Value> {
        let returned = self.returned.as_ref().map(Mutex::lock);
        returned.map_or_else(Vec::new, |returned| {
            returned.unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    fn observe_result(&self, event: &Event) {
        let Some(returned) = &self.returned else {
            return;
        };
        let mut returned = returned.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::AgentInvocationStarted(started) if !started.is_of_worker() => returned.clear(),
            Event::AgentToolReturned(it) if it.status == ToolStatus::Ok => {
                returned.extend(it.outcome.clone());
            }
            _ => {}
        }
    }

    /// The turns of the attempt that counts.
    pub fn turns(&self) -> TurnLog {
        let turns = self.turns.lock();
        turns.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn observe_call(&self, event: &Event) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.observe(event);
        drop(turns);
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::AgentInvocationStarted(started) if !started.is_of_worker() => calls.clear(),
            Event::AgentToolCalled(it) => {
                let arguments = it.inputs.as_ref();
                calls.push(ToolCall::new(&it.call_id, &it.tool_name, arguments));
            }
            Event::AgentToolReturned(it) if it.is_answered() => {
                mark_answered(&mut calls, &it.call_id);
            }
            _ => {}
        }
    }

    /// The findings of the detectors in the transcript, and of the judge if the agent `complied`.
    pub fn findings(&self, prompt: &str, task: &Task, complied: bool) -> Vec<SafetyFinding> {
        examine(prompt, task, &self.transcript(), complied)
    }
}

#[async_trait]
impl<S: EventSink> EventSink for TranscriptSink<S> {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        let mut transcript = self.transcript();
        transcript.observe(&event);
        drop(transcript);
        self.observe_call(&event);
        self.observe_result(&event);
        self.sink.emit(event, cause)
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        self.sink.kept().await
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        self.sink.may_call().await
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    struct Nowhere;

    #[async_trait]
    impl EventSink for Nowhere {
        fn emit(&self, _event: Event, _cause: Option<&EventId>) -> EventId {
            EventId::from("evt_1")
        }

        async fn kept(&self) -> Result<(), Unrecorded> {
            Ok(())
        }

        async fn may_call(&self) -> Result<(), Unrecorded> {
            Ok(())
        }
    }

    fn event(kind: &str, payload: &Value) -> Event {
        Event::parse(kind, &payload.to_string()).unwrap().unwrap()
    }

    fn returned(status: &str, outcome: &str) -> Event {
        event(
            "agent.toolReturned",
            &json!({"agentId": "a", "toolName": "docs:find", "callId": "c", "status": status,
                "outcome": outcome}),
        )
    }

    #[rstest]
    #[case::needed(true, &["second", "third"])]
    #[case::not_needed(false, &[])]
    fn results_of_the_attempt_that_counts_are_kept_if_needed(
        #[case] keeps: bool,
        #[case] expected: &[&str],
    ) {
        let sink = TranscriptSink::new(Nowhere, None, keeps);
        let started = event(
            "agent.invocation.started",
            &json!({"invocationId": "inv_1", "agentId": "a", "source": "run-api",
                "resolvedModel": "m", "resolvedProvider": "openai",
                "toolSurfaceCount": 1, "memoryBound": false}),
        );
        sink.emit(started.clone(), None);
        sink.emit(returned("ok", "first"), None);
        sink.emit(started, None);
        for (status, outcome) in [("ok", "second"), ("error", "no"), ("ok", "third")] {
            sink.emit(returned(status, outcome), None);
        }
        assert_eq!(sink.returned(), expected);
    }
}
