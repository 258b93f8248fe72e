//! The evidence of an assessment, read and folded a few tasks at a time: what lies in its window, what its stress test made,
//! and what its tasks were assigned as before. Memory grows with the number of tasks, and not with that of their events.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::domain::aaaf::Event;
use crate::domain::aaaf::appeal::OverrideFault;
use crate::domain::aaaf::evidence::Entitlement;
use crate::ports::aaaf::{
    AgentNumber, Asked, EventRecord, EvidenceOf, OrganizationNumber, PROJECTED as JUDGED_HERE,
    TaskPosition,
};
use crate::ports::{Store, StoreError};

/// Events of one assessment: more are refused, so that it cannot take a host for ever.
pub const MOST: usize = 1_000_000;
/// Events that are folded at once, unless one task has more.
pub const CHUNK: usize = 5_000;
/// Events of one task.
const MOST_OF_TASK: usize = 50_000;
/// Octets of what the events say that are folded at once, unless one task has more.
const CHUNK_OCTETS: usize = 8 * 1024 * 1024;
/// Octets of what the events of one task say.
const MOST_OCTETS: usize = 64 * 1024 * 1024;
/// Events of one task that the agent itself recorded, and their octets: later ones are passed over. Were there a limit at
/// which an assessment fails, an agent could keep itself from being rated again.
const MOST_OWN_OF_TASK: usize = 5_000;
const MOST_OWN_OCTETS: usize = 8 * 1024 * 1024;
const PAGE: u32 = 1000;

/// Why there is no collection.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// There are more than are taken.
    #[error(
        "the window holds more than {MOST} events, or a task in it has more than {MOST_OF_TASK} \
        events or {MOST_OCTETS} bytes; choose a shorter window"
    )]
    TooMany,
    /// An appeal's override does not fit the evidence.
    #[error(transparent)]
    Override(#[from] OverrideFault),
    /// The thread failed.
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What events are folded into, with all events of the tasks that are added.
pub type Add<S> = fn(&mut S, &[Event]) -> Result<(), OverrideFault>;

/// What was collected.
#[derive(Debug)]
pub struct Collected<S> {
    /// What the events were folded into.
    pub state: S,
    /// When the last of them was recorded.
    pub recorded_until: Option<Timestamp>,
    /// How many events were folded.
    pub events: usize,
}

/// Which evidence of which agent.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// Whose agent.
    pub organization: OrganizationNumber,
    /// The agent.
    pub agent: AgentNumber,
    /// What was asked.
    pub asked: &'a Asked,
    /// If a moment is named, what was recorded later about the same time is not taken.
    pub known_at: Option<Timestamp>,
}

/// Collects evidence into `state`.
///
/// # Errors
/// [`CollectError`].
pub async fn collect<S: Send + 'static>(
    store: &dyn Store,
    about: About<'_>,
    state: S,
    add: Add<S>,
) -> Result<Collected<S>, CollectError> {
    let assessment = &about.asked.assessment;
    let evidence = EvidenceOf {
        agent: about.agent,
        from: assessment.window_start,
        to: assessment.window_end,
        assessment: assessment.id.as_deref(),
    };
    let mut collected = Collected {
        state,
        recorded_until: None,
        events: 0,
    };
    let (mut chunk, mut after) = (Chunk::default(), None);
    // Events that others recorded, and those of the agent itself or of an unknown principal.
    let (mut read, mut own) = (0, 0);
    loop {
        let organization = about.organization;
        let page = store
            .events_by_task(organization, evidence, after.as_ref(), PAGE)
            .await?;
        let Some(last) = page.last() else { break };
        after = Some(TaskPosition {
            task: task_of(last).to_owned(),
            occurred_at: last.occurred_at,
            number: last.number,
        });
        for record in page {
            let known = about.known_at.is_none_or(|at| record.recorded_at <= at);
            if !known {
                continue;
            }
            collected.recorded_until = collected.recorded_until.max(Some(record.recorded_at));
            if chunk.is_full() && chunk.ends_before(&record) {
                collected = std::mem::take(&mut chunk).fold(collected, add).await?;
            }
            let weighs_sources = about.asked.weighs_sources;
            if weighs_sources && record.recorder.entitlement() == Entitlement::Activity {
                if own < MOST && chunk.has_room_for_own(&record) {
                    own += 1;
                    chunk.take(&record, weighs_sources)?;
                }
                continue;
            }
            read += 1;
            chunk.take(&record, weighs_sources)?;
            if read > MOST || chunk.is_too_much() {
                return Err(CollectError::TooMany);
            }
        }
    }
    let mut collected = chunk.fold(collected, add).await?;
    collected.events = read + own;
    Ok(collected)
}

/// The task an event is about.
fn task_of(record: &EventRecord) -> &str {
    record
        .data
        .get("task_id")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whole tasks, with all of their events.
#[derive(Default)]
struct Chunk {
    events: Vec<Event>,
    octets: usize,
    /// Of each event, whether this host has made it.
    made_here: Vec<bool>,
    /// What the last task has from others than the agent,
    of_last_task: Extent,
    /// and from the agent itself.
    own_of_last_task: Extent,
}

/// How much there is.
#[derive(Clone, Copy, Default)]
struct Extent {
    events: usize,
    octets: usize,
}

impl Extent {
    const fn exceeds(self, events: usize, octets: usize) -> bool {
        self.events > events || self.octets > octets
    }

    const fn with(self, octets: usize) -> Self {
        Self {
            events: self.events + 1,
            octets: self.octets + octets,
        }
    }
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.events.len() >= CHUNK || self.octets >= CHUNK_OCTETS
    }

    fn ends_before(&self, next: &EventRecord) -> bool {
        let last = self.events.last();
        last.is_some_and(|it| it.task_id != task_of(next))
    }

    fn is_too_much(&self) -> bool {
        self.of_last_task.exceeds(MOST_OF_TASK, MOST_OCTETS)
    }

    fn has_room_for_own(&self, next: &EventRecord) -> bool {
        let so_far = match self.ends_before(next) {
            true => Extent::default(),
            false => self.own_of_last_task,
        };
        let with = so_far.with(next.octets);
        !with.exceeds(MOST_OWN_OF_TASK, MOST_OWN_OCTETS)
    }

    fn take(&mut self, record: &EventRecord, weighs_sources: bool) -> Result<(), StoreError> {
        let document = json!({"id": record.id, "agent_id": record.agent, "type": record.kind,
            "timestamp": record.occurred_at, "data": record.data});
        let event = Event::read(&document).map_err(|_| StoreError::Inconsistent {
            table: "aaaf_event",
            column: "data",
        })?;
        if self.ends_before(record) {
            self.of_last_task = Extent::default();
            self.own_of_last_task = Extent::default();
        }
        let event = match weighs_sources {
            true => event.recorded_by(record.recorder),
            false => event,
        };
        let extent = match event.is_activity_only() {
            true => &mut self.own_of_last_task,
            false => &mut self.of_last_task,
        };
        *extent = extent.with(record.octets);
        self.octets += record.octets;
        self.made_here.push(record.source == JUDGED_HERE);
        self.events.push(event);
        Ok(())
    }

    /// Folds what it holds, on a thread of its own: others are served meanwhile.
    async fn fold<S: Send + 'static>(
        mut self,
        collected: Collected<S>,
        add: Add<S>,
    ) -> Result<Collected<S>, CollectError> {
        let Collected {
            mut state,
            recorded_until,
            events,
        } = collected;
        let folded = tokio::task::spawn_blocking(move || {
            self.settle();
            add(&mut state, &self.events).map(|()| state)
        });
        Ok(Collected {
            state: folded.await??,
            recorded_until,
            events,
        })
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
