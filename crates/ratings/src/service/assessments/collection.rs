//! Collects the evidence of an assessment: the events within its window, those of its own stress
//! test, and earlier task assignments. Events are read and folded a few tasks at a time, so memory
//! grows with the number of tasks and not with the number of events.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::ports::agents::AgentNumber;
use crate::ports::assessments::AssessmentRequest;
use crate::ports::events::{EventRecord, EvidenceQuery, PROJECTED as JUDGED_HERE, TaskPosition};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::Event;
use crate::rules::appeal::OverrideFault;
use crate::rules::evidence::Entitlement;
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;

/// Maximum number of events of one assessment, so that one assessment cannot occupy a host
/// indefinitely.
pub const MAX_EVENTS: usize = 1_000_000;
/// Number of events folded at once, unless a single task has more.
pub const CHUNK_EVENTS: usize = 5_000;
/// Maximum number of events of one task.
const MAX_TASK_EVENTS: usize = 50_000;
/// Size of the event data folded at once in bytes, unless a single task has more.
const CHUNK_OCTETS: usize = 8 * 1024 * 1024;
/// Maximum size of the event data of one task, in bytes.
const MAX_TASK_OCTETS: usize = 64 * 1024 * 1024;
/// Maximum number and bytes of the events of one task that the agent itself recorded; further ones
/// are ignored. If they failed the assessment, an agent could prevent its own reassessment.
const MAX_OWN_TASK_EVENTS: usize = 5_000;
const MAX_OWN_TASK_OCTETS: usize = 8 * 1024 * 1024;
const PAGE: u32 = 1000;

/// Why evidence cannot be collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The window or one of its tasks exceeds a limit.
    #[error(
        "the window holds more than {MAX_EVENTS} events, or a task in it has more than {MAX_TASK_EVENTS} \
        events or {MAX_TASK_OCTETS} bytes; choose a shorter window"
    )]
    TooMany,
    /// An appeal's override does not fit the evidence.
    #[error(transparent)]
    Override(#[from] OverrideFault),
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Folds events into the state. Every task is added with all of its events.
pub type Add<S> = fn(&mut S, &[Event]) -> Result<(), OverrideFault>;

/// The result of a collection.
#[derive(Debug)]
pub struct Collected<S> {
    pub state: S,
    /// When the newest of the events was recorded.
    pub recorded_until: Option<Timestamp>,
    /// Number of folded events.
    pub events: usize,
}

/// Selects the evidence of an agent.
#[derive(Clone, Copy)]
pub struct EvidenceScope<'a> {
    pub organization: OrganizationNumber,
    pub agent: AgentNumber,
    pub request: &'a AssessmentRequest,
    /// If set, events that were recorded later than this are ignored.
    pub known_at: Option<Timestamp>,
}

/// Folds the evidence into `state`.
///
/// # Errors
/// [`CollectError`].
pub async fn collect<S: Send + 'static>(
    store: &Database,
    scope: EvidenceScope<'_>,
    state: S,
    add: Add<S>,
) -> Result<Collected<S>, CollectError> {
    let assessment = &scope.request.assessment;
    let evidence = EvidenceQuery {
        agent: scope.agent,
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
    // Events recorded by others, and events recorded by the agent itself or an unknown principal.
    let (mut read, mut own) = (0, 0);
    loop {
        let organization = scope.organization;
        let page =
            store::events::events_by_task(store, organization, evidence, after.as_ref(), PAGE)
                .await?;
        let Some(last) = page.last() else { break };
        after = Some(TaskPosition {
            task: task_of(last).to_owned(),
            occurred_at: last.occurred_at,
            number: last.number,
        });
        for record in page {
            let known = scope.known_at.is_none_or(|at| record.recorded_at <= at);
            if !known {
                continue;
            }
            collected.recorded_until = collected.recorded_until.max(Some(record.recorded_at));
            if chunk.is_full() && chunk.ends_before(&record) {
                collected = std::mem::take(&mut chunk).fold(collected, add).await?;
            }
            let weighs_sources = scope.request.weighs_sources;
            if weighs_sources && record.recorder.entitlement() == Entitlement::Activity {
                if own < MAX_EVENTS && chunk.has_room_for_own(&record) {
                    own += 1;
                    chunk.push(&record, weighs_sources)?;
                }
                continue;
            }
            read += 1;
            chunk.push(&record, weighs_sources)?;
            if read > MAX_EVENTS || chunk.exceeds_task_limit() {
                return Err(CollectError::TooMany);
            }
        }
    }
    let mut collected = chunk.fold(collected, add).await?;
    collected.events = read + own;
    Ok(collected)
}

fn task_of(record: &EventRecord) -> &str {
    record
        .data
        .get("task_id")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whole tasks, each with all of its events.
#[derive(Default)]
struct Chunk {
    events: Vec<Event>,
    octets: usize,
    /// For each event, whether this host produced it.
    from_host: Vec<bool>,
    /// Events of the last task that others recorded.
    of_last_task: Extent,
    /// Events of the last task that the agent itself recorded.
    own_of_last_task: Extent,
}

/// A number of events and their size.
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
        self.events.len() >= CHUNK_EVENTS || self.octets >= CHUNK_OCTETS
    }

    fn ends_before(&self, next: &EventRecord) -> bool {
        let last = self.events.last();
        last.is_some_and(|it| it.task_id != task_of(next))
    }

    fn exceeds_task_limit(&self) -> bool {
        self.of_last_task.exceeds(MAX_TASK_EVENTS, MAX_TASK_OCTETS)
    }

    fn has_room_for_own(&self, next: &EventRecord) -> bool {
        let so_far = match self.ends_before(next) {
            true => Extent::default(),
            false => self.own_of_last_task,
        };
        let with = so_far.with(next.octets);
        !with.exceeds(MAX_OWN_TASK_EVENTS, MAX_OWN_TASK_OCTETS)
    }

    fn push(&mut self, record: &EventRecord, weighs_sources: bool) -> Result<(), StoreError> {
        let document = json!({"id": record.id, "agent_id": record.agent, "type": record.kind,
            "timestamp": record.occurred_at, "data": record.data});
        let event = Event::read(&document).map_err(|_| StoreError::Inconsistent {
            table: "rating_event",
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
        self.from_host.push(record.source == JUDGED_HERE);
        self.events.push(event);
        Ok(())
    }

    /// Folds the chunk on a blocking thread, so that other requests are served in the meantime.
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
            self.drop_superseded();
            add(&mut state, &self.events).map(|()| state)
        });
        Ok(Collected {
            state: folded.await??,
            recorded_until,
            events,
        })
    }

    /// Retains only this host's events about tasks that this host has judged, even if others were
    /// recorded first.
    fn drop_superseded(&mut self) {
        let from_host = std::mem::take(&mut self.from_host);
        let with_origin = self.events.iter().zip(&from_host);
        let judged: HashSet<String> = with_origin
            .filter(|(_, from_host)| **from_host)
            .map(|(event, _)| event.task_id.clone())
            .collect();
        let mut from_host = from_host.into_iter();
        self.events
            .retain(|event| from_host.next() == Some(true) || !judged.contains(&event.task_id));
    }
}
