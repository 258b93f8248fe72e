//! Which events of a batch are taken (AAAF ingest): a fault refuses its own event, never the batch.

use std::collections::HashMap;

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
    /// Places of events that stood earlier in the batch with the same id and content; they count as accepted.
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
    /// `CONFLICT` for an id that another event has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
}

impl Refusal {
    /// The code of an event whose id another event has.
    pub const CONFLICT: &'static str = "CONFLICT";
    /// Two events of one batch with the same id.
    pub const SAME_ID: &'static str =
        "Another event of this batch has the same id; give each event its own";

    /// One for what is wrong with the event itself.
    pub const fn unsound(index: usize, error: String) -> Self {
        Self {
            index,
            error,
            code: None,
        }
    }

    /// One for an id that another event has.
    pub fn conflict(index: usize, error: &str) -> Self {
        Self {
            index,
            error: error.to_owned(),
            code: Some(Self::CONFLICT),
        }
    }
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
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, document) in documents.iter().enumerate() {
        match bounds.admit(document) {
            Err(error) => batch.errors.push(Refusal::unsound(index, error)),
            Ok((event, data)) => {
                let place = batch.events.len();
                let earlier = event.id.as_ref().and_then(|id| seen.get(id));
                match earlier.and_then(|place| batch.events.get(*place)) {
                    Some(earlier) if earlier.event == event => batch.duplicates.push(index),
                    Some(_) => {
                        let refusal = Refusal::conflict(index, Refusal::SAME_ID);
                        batch.errors.push(refusal);
                    }
                    None => {
                        seen.extend(event.id.clone().map(|id| (id, place)));
                        batch.events.push(Sound { index, event, data });
                    }
                }
            }
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
