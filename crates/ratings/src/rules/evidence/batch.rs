//! Validates the events of a batch (AAAF ingest). An invalid event is rejected without affecting
//! the others.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::extent::stored_document;
use super::read::{Envelope, Event, Fault};

/// How far ahead of the host's clock a timestamp may be.
const AHEAD: SignedDuration = SignedDuration::from_secs(300);
/// Default retention of events, in days.
pub const RETENTION_DAYS: i64 = 180;

/// The host's facts for validating events.
pub struct ValidationContext<'a> {
    pub now: Timestamp,
    /// Retention of events, in days.
    pub retention_days: i64,
    /// Whether an agent belongs to the sender.
    pub is_known: &'a dyn Fn(&str) -> bool,
    /// Whether an agent of the sender is archived or suspended.
    pub is_closed: &'a dyn Fn(&str) -> bool,
}

/// The validated batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Valid events with their place in the batch. Only the store knows whether an id already
    /// exists.
    pub events: Vec<ValidEvent>,
    /// Places of events that repeat an earlier event of the batch with the same id and content;
    /// they count as accepted.
    pub duplicates: Vec<usize>,
    /// The rejected events.
    pub errors: Vec<RejectedEvent>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ValidEvent {
    /// Its place in the batch.
    pub index: usize,
    pub event: Event,
    /// The part of its data that is stored, as JSON.
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedEvent {
    /// Its place in the batch.
    pub index: usize,
    pub error: String,
    /// `CONFLICT` if the id belongs to another event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
}

impl RejectedEvent {
    pub const CONFLICT: &'static str = "CONFLICT";
    pub const SAME_ID: &'static str =
        "Another event of this batch has the same id; give each event its own";

    /// Rejects an invalid event.
    pub const fn invalid(index: usize, error: String) -> Self {
        Self {
            index,
            error,
            code: None,
        }
    }

    /// Rejects an event whose id belongs to another event.
    pub fn conflict(index: usize, error: &str) -> Self {
        Self {
            index,
            error: error.to_owned(),
            code: Some(Self::CONFLICT),
        }
    }
}

impl Batch {
    /// Number of accepted events, including known ones.
    pub fn accepted(&self) -> usize {
        self.events.len() + self.duplicates.len()
    }

    pub fn rejected(&self) -> usize {
        self.errors.len()
    }
}

pub fn validate(documents: &[Value], bounds: &ValidationContext<'_>) -> Batch {
    let mut batch = Batch {
        events: Vec::new(),
        duplicates: Vec::new(),
        errors: Vec::new(),
    };
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, document) in documents.iter().enumerate() {
        match bounds.admit(document) {
            Err(error) => batch.errors.push(RejectedEvent::invalid(index, error)),
            Ok((event, data)) => {
                let place = batch.events.len();
                let earlier = event.id.as_ref().and_then(|id| seen.get(id));
                match earlier.and_then(|place| batch.events.get(*place)) {
                    Some(earlier) if earlier.event == event => batch.duplicates.push(index),
                    Some(_) => {
                        let refusal = RejectedEvent::conflict(index, RejectedEvent::SAME_ID);
                        batch.errors.push(refusal);
                    }
                    None => {
                        seen.extend(event.id.clone().map(|id| (id, place)));
                        batch.events.push(ValidEvent { index, event, data });
                    }
                }
            }
        }
    }
    batch
}

impl ValidationContext<'_> {
    fn admit(&self, document: &Value) -> Result<(Event, String), String> {
        let envelope = Envelope::read(document).map_err(|fault| fault.to_string())?;
        let age = self.now.duration_since(envelope.timestamp);
        let refused = if age < -AHEAD {
            "Timestamp in future"
        } else if age > SignedDuration::from_hours(24 * self.retention_days) {
            "Timestamp older than retention"
        } else if !(self.is_known)(envelope.agent_id) {
            "Unknown agent_id"
        } else if (self.is_closed)(envelope.agent_id) {
            "This agent is archived or suspended"
        } else {
            let event = envelope.open().map_err(|fault| fault.to_string())?;
            let data =
                stored_document(&event).map_err(|member| Fault::Invalid(member).to_string())?;
            return Ok((event, data));
        };
        Err(refused.to_owned())
    }
}
