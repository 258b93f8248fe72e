//! A task as the text that its worker gets.

use tokio::sync::OwnedSemaphorePermit;
use touchstone_agents::ports::agent::Invocation;

use crate::rules::access::pools::Pool;
use crate::rules::wire::{self, Assignment};
use crate::service::assignment::assigned;
use crate::service::room::Room;

/// Room for the members around a task in the answer to a claim.
const GRANT_BYTES: usize = 4 * 1024;

/// The assignment of a task as JSON text.
pub(super) enum TaskText {
    /// It fits into the answer to a claim.
    Whole(String),
    /// The worker fetches it in parts. The text exists only while a worker has the task, because
    /// many large tasks may wait.
    InParts { bytes: usize, held: Option<Held> },
}

pub(super) struct Held {
    text: String,
    _room: OwnedSemaphorePermit,
}

impl TaskText {
    pub fn of(assignment: &Assignment) -> Option<Self> {
        let text = serde_json::to_string(assignment).ok()?;
        // It is sent in a string.
        let sent = serde_json::to_vec(&text).ok()?;
        Some(match sent.len() > wire::MAX_BYTES - GRANT_BYTES {
            true => Self::InParts {
                bytes: text.len(),
                held: None,
            },
            false => Self::Whole(text),
        })
    }

    /// The size of a text that is fetched in parts; 0 for others.
    pub const fn bytes_in_parts(&self) -> usize {
        match self {
            Self::Whole(_) => 0,
            Self::InParts { bytes, .. } => *bytes,
        }
    }

    /// Makes the text for a worker. Returns whether it is there: a large one needs room.
    pub fn prepare(&mut self, invocation: &Invocation<'_>, room: &Room, pool: &Pool) -> bool {
        let Self::InParts { bytes, held } = self else {
            return true;
        };
        if held.is_none() {
            let room = room.for_task(pool, *bytes);
            *held = room.and_then(|room| {
                let text = serde_json::to_string(&assigned(invocation)?).ok()?;
                Some(Held { text, _room: room })
            });
        }
        held.is_some()
    }

    /// Frees the memory of a text that is fetched in parts.
    pub fn release(&mut self) {
        if let Self::InParts { held, .. } = self {
            *held = None;
        }
    }

    /// What the answer to a claim has of it, and its size if it is fetched in parts.
    pub fn granted(&self) -> (String, Option<usize>) {
        match self {
            Self::Whole(text) => (text.clone(), None),
            Self::InParts { bytes, .. } => (String::new(), Some(*bytes)),
        }
    }

    /// The text that is fetched in parts.
    pub fn in_parts(&self) -> Option<&str> {
        match self {
            Self::Whole(_) => None,
            Self::InParts { held, .. } => held.as_ref().map(|it| it.text.as_str()),
        }
    }
}
