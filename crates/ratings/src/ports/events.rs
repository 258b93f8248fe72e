//! Store access to evidence, which is append-only. Projections are rebuilt from evidence, never the
//! other way round.

use jiff::Timestamp;
use serde_json::Value;

use crate::ports::agents::AgentNumber;
use crate::rules::evidence::Recorder;

/// A validated event to record.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Unique in the organization; chosen by the client or generated.
    pub id: String,
    pub agent: AgentNumber,
    pub kind: &'static str,
    pub occurred_at: Timestamp,
    pub task: String,
    /// The assessment whose stress test produced the event.
    pub assessment: Option<String>,
    /// The event's data, as JSON.
    pub data: String,
}

/// The source name of events projected from this host's eval runs.
pub const PROJECTED: &str = "openwop_eval";

/// How events came to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The source: the API, or the eval runs of this host.
    pub source: &'a str,
    pub recorder: Recorder,
    pub principal: &'a str,
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its place in the order of arrival.
    pub number: i64,
    pub id: String,
    pub agent: String,
    pub agent_number: AgentNumber,
    pub kind: String,
    pub occurred_at: Timestamp,
    pub recorded_at: Timestamp,
    /// The source: the API, or the eval runs of this host.
    pub source: String,
    pub recorder: Recorder,
    /// The principal; `None` for events from before it was stored.
    pub recorded_by: Option<String>,
    pub data: Value,
    /// Size of the stored data, in bytes.
    pub octets: usize,
}

impl EventRecord {
    /// The position of this record in a list.
    pub fn position(&self) -> EventPosition {
        EventPosition {
            agent: self.agent_number,
            occurred_at: self.occurred_at,
            number: self.number,
        }
    }
}

/// Position in a list of events ordered by agent, time and arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPosition {
    pub agent: AgentNumber,
    pub occurred_at: Timestamp,
    /// Its place in the order of arrival.
    pub number: i64,
}

/// Position in a list of events ordered by task, time and arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPosition {
    pub task: String,
    pub occurred_at: Timestamp,
    /// Its place in the order of arrival.
    pub number: i64,
}

/// Selects the evidence that an assessment of an agent may use: events within its window, events of
/// its own stress test at any time, and task assignments from before the window.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceQuery<'a> {
    pub agent: AgentNumber,
    /// Inclusive.
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    pub assessment: Option<&'a str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub agent: Option<AgentNumber>,
    pub kind: Option<String>,
    /// Inclusive.
    pub from: Option<Timestamp>,
    /// Exclusive.
    pub to: Option<Timestamp>,
}
