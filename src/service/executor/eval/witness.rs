//! Who watches a task for the detectors: every event of it passes by on its way to the log.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::domain::eval::safety::{Transcript, examine};
use crate::domain::ids::EventId;
use crate::ports::{EventSink, Unrecorded};
use crate::protocol::openwop::events::Event;
use crate::protocol::openwop::suite::Task;
use crate::protocol::openwop::summary::SafetyFinding;

/// A sink that keeps a transcript of what goes into another one.
pub(super) struct Witness<S> {
    sink: S,
    seen: Mutex<Transcript>,
}

impl<S: EventSink> Witness<S> {
    /// Watches what goes into `sink`.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            seen: Mutex::default(),
        }
    }

    /// What the agent said in the end, if that was a text.
    pub fn last_words(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut leaves = seen.answer().leaves();
        let words = leaves.next().map(|(_, text)| text.to_owned());
        words.filter(|_| leaves.next().is_none())
    }

    /// What detectors find in it, and the judge, if the agent `complied`.
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
