//! Evidence: append-only. A projection may be made anew from it, it never from anything.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::{AgentNumber, OrganizationNumber};
use crate::domain::aaaf::evidence::Recorder;
use crate::ports::StoreError;

/// An event to be recorded, judged sound.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Unique in the organization, chosen by the client or minted.
    pub id: String,
    /// Whom it is about.
    pub agent: AgentNumber,
    /// Its type.
    pub kind: &'static str,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The task it is about.
    pub task: String,
    /// The assessment whose stress test made it.
    pub assessment: Option<String>,
    /// What it says, as JSON.
    pub data: String,
}

/// The source of what a host projects from its own eval runs.
pub const PROJECTED: &str = "openwop_eval";

/// How events came to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// What made them: the API, or the eval runs of this host.
    pub source: &'a str,
    /// What kind of principal recorded them.
    pub recorder: Recorder,
    /// The principal.
    pub principal: &'a str,
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its place in the order of arrival.
    pub number: i64,
    /// Its id.
    pub id: String,
    /// The id of the agent.
    pub agent: String,
    /// What the store calls the agent.
    pub agent_number: AgentNumber,
    /// Its type.
    pub kind: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// What made it: the API, or the eval runs of this host.
    pub source: String,
    /// What kind of principal recorded it.
    pub recorder: Recorder,
    /// The principal; `None` for events from before it was kept.
    pub recorded_by: Option<String>,
    /// What it says.
    pub data: Value,
    /// How long that is, in octets.
    pub octets: usize,
}

impl EventRecord {
    /// Where a list goes on after this one.
    pub fn position(&self) -> EventPosition {
        EventPosition {
            agent: self.agent_number,
            occurred_at: self.occurred_at,
            number: self.number,
        }
    }
}

/// Where a list of events goes on: by agent, then time, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPosition {
    /// The agent.
    pub agent: AgentNumber,
    /// When the last one seen happened.
    pub occurred_at: Timestamp,
    /// Its place in the order of arrival.
    pub number: i64,
}

/// Where a list of events by task continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPosition {
    /// The task of the last one seen.
    pub task: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Its place in the order of arrival.
    pub number: i64,
}

/// The evidence that an assessment of an agent may look at: what lies in its window, what its own stress test made whenever it
/// did, and what tasks were assigned as before the window.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceOf<'a> {
    /// The agent.
    pub agent: AgentNumber,
    /// Where the window begins,
    pub from: Timestamp,
    /// and ends.
    pub to: Timestamp,
    /// The assessment.
    pub assessment: Option<&'a str>,
}

/// Which events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only of this agent.
    pub agent: Option<AgentNumber>,
    /// Only of this type.
    pub kind: Option<String>,
    /// Only from this moment on.
    pub from: Option<Timestamp>,
    /// Only before this moment.
    pub to: Option<Timestamp>,
}

/// Evidence of organizations.
#[async_trait]
pub trait EvidenceLog: Send + Sync {
    /// Records events in one transaction, in their order. Says of each whether it is new; one whose id the organization has
    /// already is left as it was recorded first.
    async fn record_events(
        &self,
        organization: OrganizationNumber,
        events: &[NewEvent],
        origin: Origin<'_>,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError>;
    /// The one of this id.
    async fn event(
        &self,
        organization: OrganizationNumber,
        id: &str,
    ) -> Result<Option<EventRecord>, StoreError>;
    /// Those of these ids, in any order.
    async fn events_named(
        &self,
        organization: OrganizationNumber,
        ids: &[&str],
    ) -> Result<Vec<EventRecord>, StoreError>;
    /// Events after a position, by agent, time and arrival.
    async fn events(
        &self,
        organization: OrganizationNumber,
        filter: &EventFilter,
        after: Option<EventPosition>,
        limit: u32,
    ) -> Result<Vec<EventRecord>, StoreError>;
    /// The evidence of an assessment after a position, by task, time and arrival.
    async fn events_by_task(
        &self,
        organization: OrganizationNumber,
        evidence: EvidenceOf<'_>,
        after: Option<&TaskPosition>,
        limit: u32,
    ) -> Result<Vec<EventRecord>, StoreError>;
    /// Whether evidence about an agent was collected at a moment already: an event that others than agents had recorded by
    /// then, or that a run of this host had made by then.
    async fn is_collected_by(
        &self,
        organization: OrganizationNumber,
        agent: AgentNumber,
        moment: Timestamp,
    ) -> Result<bool, StoreError>;
    /// Which of these tasks were assigned to an agent as a source says.
    async fn assigned_by(
        &self,
        organization: OrganizationNumber,
        agent: AgentNumber,
        source: &str,
        tasks: &[&str],
    ) -> Result<HashSet<String>, StoreError>;
    /// Whether one of these ids is that of another source's event.
    async fn is_taken(
        &self,
        organization: OrganizationNumber,
        source: &str,
        ids: &[&str],
    ) -> Result<bool, StoreError>;
}
