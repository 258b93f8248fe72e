//! The evidence of an assessment, read in pages: what lies in its window, and what its tasks were assigned as before it.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use serde_json::json;

use crate::domain::aaaf::Event;
use crate::ports::aaaf::{
    AgentNumber, Asked, EventFilter, EventRecord, OrganizationNumber, PROJECTED as JUDGED_HERE,
};
use crate::ports::{Store, StoreError};

/// Events of one assessment: more are refused, so that it cannot take more memory than a host has.
pub const MOST: usize = 100_000;
/// Octets of what they say.
const MOST_OCTETS: usize = 64 * 1024 * 1024;
const PAGE: u32 = 1000;
/// Tasks whose assignments are asked for at once.
const TASKS: usize = 500;

/// Why there is no collection.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// There are more than are taken.
    #[error(
        "the window holds more than {MOST} events, or {MOST_OCTETS} octets of them; take a shorter one"
    )]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was collected.
#[derive(Debug, Default)]
pub struct Collected {
    /// The evidence.
    pub events: Vec<Event>,
    /// When the last of it was recorded.
    pub recorded_until: Option<Timestamp>,
    octets: usize,
    /// Whether what an event states counts by who recorded it.
    weighs_sources: bool,
    /// Of each event, whether this host has made it.
    made_here: Vec<bool>,
}

/// Collects it; as far as it was recorded up to a moment, if one is named: what came later about the same time is not in it.
///
/// # Errors
/// [`CollectError`].
pub async fn collect(
    store: &dyn Store,
    organization: OrganizationNumber,
    agent: AgentNumber,
    asked: &Asked,
    known_at: Option<Timestamp>,
) -> Result<Collected, CollectError> {
    let assessment = &asked.assessment;
    let window = EventFilter {
        agent: Some(agent),
        kind: None,
        from: Some(assessment.window_start),
        to: Some(assessment.window_end),
    };
    let mut collected = Collected {
        weighs_sources: asked.weighs_sources,
        ..Collected::default()
    };
    let mut after = None;
    loop {
        let page = store.events(organization, &window, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.position());
        collected.read(page, known_at)?;
    }
    // What the assessment's own stress test has made counts whenever it was made; what lies in the window is here already, and
    // an id counts once.
    after = None;
    while let Some(id) = &assessment.id {
        let page = store.active_events(organization, agent, id, after, PAGE);
        let page = page.await?;
        let Some(last) = page.last() else { break };
        after = Some(last.position());
        collected.read(page, known_at)?;
    }
    let tasks: BTreeSet<String> = collected
        .events
        .iter()
        .map(|event| event.task_id.clone())
        .collect();
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let before = assessment.window_start;
    for tasks in tasks.chunks(TASKS) {
        let assigned = store.assignments(organization, agent, tasks, before);
        collected.read(assigned.await?, known_at)?;
    }
    collected.settle();
    Ok(collected)
}

impl Collected {
    fn read(
        &mut self,
        page: Vec<EventRecord>,
        known_at: Option<Timestamp>,
    ) -> Result<(), CollectError> {
        self.octets += page.iter().map(|it| it.octets).sum::<usize>();
        if self.events.len() + page.len() > MOST || self.octets > MOST_OCTETS {
            return Err(CollectError::TooMany);
        }
        let known = |record: &EventRecord| known_at.is_none_or(|at| record.recorded_at <= at);
        for record in page.into_iter().filter(known) {
            self.recorded_until = self.recorded_until.max(Some(record.recorded_at));
            let document = json!({"id": record.id, "agent_id": record.agent, "type": record.kind,
                "timestamp": record.occurred_at, "data": record.data});
            let event = Event::read(&document).map_err(|_| StoreError::Inconsistent {
                table: "aaaf_event",
                column: "data",
            })?;
            self.events.push(match self.weighs_sources {
                true => event.recorded_by(record.recorder),
                false => event,
            });
            self.made_here.push(record.source == JUDGED_HERE);
        }
        Ok(())
    }

    /// Of a task that this host has judged nothing counts but what it says itself, whoever was told of it first.
    fn settle(&mut self) {
        let made_here = std::mem::take(&mut self.made_here);
        let with_origin = self.events.iter().zip(&made_here);
        let judged: HashSet<String> = with_origin
            .filter(|(_, made_here)| **made_here)
            .map(|(event, _)| event.task_id.clone())
            .collect();
        let mut made_here = made_here.into_iter();
        self.events
            .retain(|event| made_here.next() == Some(true) || !judged.contains(&event.task_id));
    }
}
