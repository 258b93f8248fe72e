//! Which events of a batch are taken (AAAF ingest): a fault refuses its own event, never the batch.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::extent::kept;
use super::read::{Envelope, Event, Fault};

/// How far ahead a sender's clock may be.
const AHEAD: SignedDuration = SignedDuration::from_secs(300);
/// Days events are kept, unless a host says otherwise.
pub const RETENTION_DAYS: i64 = 180;

/// What a host knows when events arrive.
pub struct Bounds<'a> {
    /// The time.
    pub now: Timestamp,
    /// Days events are kept.
    pub retention_days: i64,
    /// Whether an agent is the sender's.
    pub is_known: &'a dyn Fn(&str) -> bool,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// What is new, with its place in the batch. That an id is known from before only the store can tell.
    pub events: Vec<Sound>,
    /// Places of events whose id stood earlier in the batch; they count as accepted.
    pub duplicates: Vec<usize>,
    /// What was refused.
    pub errors: Vec<Refusal>,
}

/// An event that is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    /// Its place in the batch.
    pub index: usize,
    /// The event.
    pub event: Event,
    /// What is kept of its data, as JSON.
    pub data: String,
}

/// An event that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Its place in the batch.
    pub index: usize,
    /// Why.
    pub error: String,
}

impl Batch {
    /// How many were taken, known ones among them.
    pub fn accepted(&self) -> usize {
        self.events.len() + self.duplicates.len()
    }

    /// How many were not.
    pub fn rejected(&self) -> usize {
        self.errors.len()
    }
}

/// Looks at every event of a batch.
pub fn judge(documents: &[Value], bounds: &Bounds<'_>) -> Batch {
    let mut batch = Batch {
        events: Vec::new(),
        duplicates: Vec::new(),
        errors: Vec::new(),
    };
    let mut seen = HashSet::new();
    for (index, document) in documents.iter().enumerate() {
        match bounds.admit(document) {
            Err(error) => batch.errors.push(Refusal { index, error }),
            Ok((event, data)) => match &event.id {
                Some(id) if !seen.insert(id.clone()) => batch.duplicates.push(index),
                _ => batch.events.push(Sound { index, event, data }),
            },
        }
    }
    batch
}

impl Bounds<'_> {
    fn admit(&self, document: &Value) -> Result<(Event, String), String> {
        let envelope = Envelope::read(document).map_err(|fault| fault.to_string())?;
        let age = self.now.duration_since(envelope.timestamp);
        let refused = if age < -AHEAD {
            "Timestamp in future"
        } else if age > SignedDuration::from_hours(24 * self.retention_days) {
            "Timestamp older than retention"
        } else if !(self.is_known)(envelope.agent_id) {
            "Unknown agent_id"
        } else {
            let event = envelope.open().map_err(|fault| fault.to_string())?;
            let data = kept(&event).map_err(|member| Fault::Invalid(member).to_string())?;
            return Ok((event, data));
        };
        Err(refused.to_owned())
    }
}
