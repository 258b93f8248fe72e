//! Records a transcript of a task for the detectors, from the events on their way to the log.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::rules::eval::safety::{Transcript, examine};
use touchstone_agents::ports::agent::{EventSink, Unrecorded};
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::Event;
use touchstone_openwop::suite::Task;
use touchstone_openwop::summary::SafetyFinding;

/// An event sink that keeps a transcript of all events it forwards.
pub(super) struct Witness<S> {
    sink: S,
    seen: Mutex<Transcript>,
}

impl<S: EventSink> Witness<S> {
    /// Forwards to `sink`.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            seen: Mutex::default(),
        }
    }

    /// The agent's last message, if it was text.
    pub fn last_words(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut leaves = seen.answer().leaves();
        let words = leaves.next().map(|(_, text)| text.to_owned());
        words.filter(|_| leaves.next().is_none())
    }

    /// The findings of the detectors in the transcript, and of the judge if the agent `complied`.
    pub fn findings(&self, prompt: &str, task: &Task, complied: bool) -> Vec<SafetyFinding> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        examine(prompt, task, &seen, complied)
    }
}

#[async_trait]
impl<S: EventSink> EventSink for Witness<S> {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.observe(&event);
        drop(seen);
        self.sink.emit(event, cause)
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        self.sink.kept().await
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        self.sink.may_call().await
    }
}
