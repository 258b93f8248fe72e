//! The transcript of a task, recorded for the detectors from the events on their way to the log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::rules::eval::assertions::ToolCall;
use crate::rules::eval::assertions::turns::TurnLog;
use crate::rules::eval::safety::{Transcript, examine};
use crate::rules::eval::scoring_document::Conversation;
use touchstone_agents::ports::agent::{EventSink, Unrecorded};
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::Event;
use touchstone_openwop::suite::Task;
use touchstone_openwop::summary::SafetyFinding;

/// An event sink that keeps a transcript of all events it forwards.
pub(super) struct TranscriptSink<S> {
    sink: S,
    transcript: Mutex<Transcript>,
    calls: Mutex<Vec<ToolCall>>,
    turns: Mutex<TurnLog>,
}

impl<S: EventSink> TranscriptSink<S> {
    /// Forwards to `sink`. The author's texts in the conversation of the task are part of its input.
    pub fn new(sink: S, conversation: Option<&Conversation>) -> Self {
        let given = conversation.into_iter().flat_map(Conversation::given);
        Self {
            sink,
            transcript: Mutex::new(Transcript::given(given.map(str::to_owned).collect())),
            calls: Mutex::default(),
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
            Event::AgentToolCalled(called) => calls.push(ToolCall {
                tool: called.tool_name.clone(),
                arguments: called.inputs.clone(),
            }),
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
        self.sink.emit(event, cause)
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        self.sink.kept().await
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        self.sink.may_call().await
    }
}
