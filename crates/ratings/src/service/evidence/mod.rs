//! Evidence: validated, recorded once, read in pages.

pub mod eval_runs;
pub mod run_projection;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use uuid::{Uuid, Version};

use crate::ports::agents::KnownAgent;
use crate::ports::events::{
    EventFilter, EventPosition, EventRecord, NewEvent, Origin, PROJECTED as JUDGED_HERE,
};
use crate::rules::evidence::{
    Batch, Data, Event, EventType, RETENTION_DAYS, Recorder, RejectedEvent, ValidEvent,
    ValidationContext, validate,
};
use crate::service::{Member, Ratings, is_id};
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_host::service::keys::LOCAL;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_runs::rules::eval::rubric::calibration::{MIN_AGREEMENT, shortfall};
use touchstone_runs::store as run_store;

/// Maximum number of events in a batch.
pub const MAX_BATCH: usize = 1000;
/// Statements that an agent must not make about itself (AAAF S14).
const GROUND_TRUTH: &str = "Ground truth must not come from the agent itself";
const OWN_TEST: &str = "Stress test results must not come from the agent itself";
const OWN_NAME: &str = "An agent's own key cannot use ids of UUID version 5, which are reserved for projected \
        evidence";
const SETTLED: &str = "An eval run of this host has already judged this task; correct its score \
    or file an appeal";
const STRAY: &str = "Unknown assessment_id: the agent has no assessment in progress with this \
    id";
const OTHER_AGENT: &str =
    "This id belongs to an event about another agent; send the event with another id";
const OTHER_CONTENT: &str =
    "An event with this id was recorded with different content; send the event with another id";
const WEAKER: &str = "An event with this id was recorded by the agent or by an unknown principal, so its outcome does not count; send the event with another id";
/// Prefix of a model grader's identity.
const GRADER: &str = "sha256-";
/// The source name of events that arrive over the API.
const SOURCE: &str = "api";

/// The result of recording a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Number of accepted events, including those that already existed.
    pub accepted: usize,
    /// Number of accepted events that are new.
    pub new: usize,
    /// The rejected events, by their place in the batch.
    pub errors: Vec<RejectedEvent>,
}

/// Validated events and the kind of principal that records them.
struct ValidatedBatch {
    batch: Batch,
    agents: HashMap<String, KnownAgent>,
    recorder: Recorder,
}

/// The result of recording a valid event.
enum RecordOutcome {
    New,
    Known,
    /// Its id belongs to another event.
    Conflict(&'static str),
}

/// A valid event with its id, given or generated.
struct StoredEvent {
    index: usize,
    id: String,
    outcome: RecordOutcome,
}

/// The result of recording one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The stored event.
    pub event: EventRecord,
    pub new: bool,
}

impl Ratings {
    /// Records a batch. An invalid event, or one whose id belongs to another event, is rejected
    /// without affecting the others. An event without an id gets one, from the name space of the
    /// request if it has one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn ingest(
        &self,
        member: &Member,
        documents: &[Value],
        names: Option<Uuid>,
    ) -> Result<Ingested, Problem> {
        let validated = self.validate(member, documents).await?;
        let stored = self.record(member, &validated, names).await?;
        let ValidatedBatch { mut batch, .. } = validated;
        let new = stored
            .iter()
            .filter(|it| matches!(it.outcome, RecordOutcome::New));
        let (new, mut conflicts) = (new.count(), 0);
        for StoredEvent { index, id, outcome } in &stored {
            let RecordOutcome::Conflict(why) = outcome else {
                continue;
            };
            conflicts += 1;
            batch.errors.push(RejectedEvent::conflict(*index, why));
            // The same event again in the same batch.
            let is_same = |place: &usize| {
                let named = documents.get(*place).and_then(|it| it.get("id"));
                named.and_then(Value::as_str) == Some(id)
            };
            let (same, others) = batch.duplicates.into_iter().partition(is_same);
            batch.duplicates = others;
            let refused = |place: usize| RejectedEvent::conflict(place, why);
            batch.errors.extend(Vec::into_iter(same).map(refused));
        }
        batch.errors.sort_by_key(|refusal| refusal.index);
        Ok(Ingested {
            accepted: batch.accepted() - conflicts,
            new,
            errors: batch.errors,
        })
    }

    /// Records one event. An event that is already recorded is returned unchanged.
    ///
    /// # Errors
    /// `INVALID_EVENT_TYPE`, `validation_error`; `conflict` for the id of another event.
    pub async fn ingest_one(
        &self,
        member: &Member,
        document: Value,
        names: Option<Uuid>,
    ) -> Result<Recorded, Problem> {
        let named = document.get("type").and_then(Value::as_str);
        if named.is_some_and(|named| EventType::from_name(named).is_none()) {
            return Err(unknown_type());
        }
        let documents = [document];
        let validated = self.validate(member, &documents).await?;
        if let Some(refusal) = validated.batch.errors.first() {
            return Err(Problem::new(
                ErrorCode::ValidationError,
                refusal.error.clone(),
            ));
        }
        let stored = self.record(member, &validated, names).await?;
        let StoredEvent { id, outcome, .. } = stored.first().ok_or_else(nothing_recorded)?;
        if let RecordOutcome::Conflict(why) = outcome {
            return Err(Problem::new(ErrorCode::Conflict, *why).with("id", id.as_str()));
        }
        let event = store::events::event(&self.store, member.organization.number, id).await;
        let event = event.map_err(|cause| internal(&cause))?;
        Ok(Recorded {
            event: event.ok_or_else(nothing_recorded)?,
            new: matches!(outcome, RecordOutcome::New),
        })
    }

    /// Events of the organization, by agent, time and arrival; only those of `agent` if it is set.
    ///
    /// # Errors
    /// `INVALID_EVENT_TYPE`.
    pub async fn events(
        &self,
        member: &Member,
        agent: Option<&str>,
        mut filter: EventFilter,
        after: Option<EventPosition>,
        limit: u32,
    ) -> Result<Vec<EventRecord>, Problem> {
        let organization = member.organization.number;
        if let Some(kind) = &filter.kind
            && EventType::from_name(kind).is_none()
        {
            return Err(unknown_type());
        }
        if let Some(id) = agent {
            // An unknown agent, or an agent of another organization, has nothing to list.
            let Some(agent) = self.agent_number(member, id).await? else {
                return Ok(Vec::new());
            };
            filter.agent = Some(agent);
        }
        let events = store::events::events(&self.store, organization, &filter, after, limit);
        events.await.map_err(|cause| internal(&cause))
    }

    async fn validate(
        &self,
        member: &Member,
        documents: &[Value],
    ) -> Result<ValidatedBatch, Problem> {
        let recorder = self.recorder(member).await?;
        let named = documents
            .iter()
            .filter_map(|it| it.get("agent_id")?.as_str());
        let named: BTreeSet<&str> = named.filter(|id| is_id(id)).collect();
        let named: Vec<&str> = named.into_iter().collect();
        let known =
            store::agents::known_agents(&self.store, member.organization.number, &named).await;
        let known = known.map_err(|cause| internal(&cause))?;
        let is_known = |id: &str| known.contains_key(id);
        let is_closed = |id: &str| known.get(id).is_some_and(|agent| agent.closed);
        let mut batch = validate(
            documents,
            &ValidationContext {
                now: self.clock.now(),
                retention_days: RETENTION_DAYS,
                is_known: &is_known,
                is_closed: &is_closed,
            },
        );
        if recorder == Recorder::Agent {
            reject(&mut batch, states_ground_truth, GROUND_TRUTH);
            reject(&mut batch, |it| it.assessment_id.is_some(), OWN_TEST);
            reject(&mut batch, is_named_like_projected, OWN_NAME);
        }
        self.reject_settled(member, &mut batch, &known).await?;
        self.reject_stray(member, &mut batch, &known).await?;
        Ok(ValidatedBatch {
            batch,
            agents: known,
            recorder,
        })
    }

    /// The kind of principal that a member's key counts as when it records an event now.
    pub(super) async fn recorder(&self, member: &Member) -> Result<Recorder, Problem> {
        let caller = &member.caller;
        let principal = caller.principal.as_str();
        if self.is_agents_key(member).await? {
            return Ok(Recorder::Agent);
        }
        if principal.starts_with(GRADER) {
            let found = run_store::calibrations::find(&self.store, &caller.tenant, principal).await;
            let found = found.map_err(|cause| internal(&cause))?;
            let shortfall = shortfall(found.as_ref(), MIN_AGREEMENT, self.clock.now());
            return Ok(match shortfall {
                None => Recorder::Grader,
                Some(_) => Recorder::UncalibratedGrader,
            });
        }
        let is_operator = caller.key_id.as_str() == LOCAL;
        let names_person = principal != caller.key_id.as_str();
        Ok(match is_operator || names_person {
            true => Recorder::Person,
            false => Recorder::Organization,
        })
    }

    /// Whether a member's key belongs to an agent of the organization.
    pub(super) async fn is_agents_key(&self, member: &Member) -> Result<bool, Problem> {
        let (organization, caller) = (member.organization.number, &member.caller);
        let found =
            store::agents::is_agent(&self.store, organization, &caller.principal, &caller.key_id);
        found.await.map_err(|cause| internal(&cause))
    }

    /// Rejects a member's key that belongs to an agent of the organization.
    pub(super) async fn reject_agent_key(
        &self,
        member: &Member,
        message: &'static str,
    ) -> Result<(), Problem> {
        match self.is_agents_key(member).await? {
            true => Err(Problem::new(ErrorCode::Forbidden, message)),
            false => Ok(()),
        }
    }

    /// Rejects events about tasks that the host itself has judged: no statement competes with the
    /// host's judgment.
    async fn reject_settled(
        &self,
        member: &Member,
        batch: &mut Batch,
        agents: &HashMap<String, KnownAgent>,
    ) -> Result<(), Problem> {
        let mut tasks: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for ValidEvent { event, .. } in &batch.events {
            if !is_projected_name(&event.task_id) {
                continue;
            }
            let of_agent = tasks.entry(&event.agent_id).or_default();
            of_agent.insert(&event.task_id);
        }
        let mut settled = HashSet::new();
        for (agent, tasks) in tasks {
            let number = agents.get(agent).ok_or_else(nothing_recorded)?.number;
            let tasks: Vec<&str> = tasks.into_iter().collect();
            let organization = member.organization.number;
            let judged =
                store::events::assigned_by(&self.store, organization, number, JUDGED_HERE, &tasks);
            let judged = judged.await.map_err(|cause| internal(&cause))?;
            settled.extend(judged.into_iter().map(|task| (agent.to_owned(), task)));
        }
        if !settled.is_empty() {
            let is_settled =
                |it: &Event| settled.contains(&(it.agent_id.clone(), it.task_id.clone()));
            reject(batch, is_settled, SETTLED);
        }
        Ok(())
    }

    /// Rejects events that name an assessment that is not in progress or belongs to another agent.
    /// Otherwise they would count when an appeal scores that assessment again.
    async fn reject_stray(
        &self,
        member: &Member,
        batch: &mut Batch,
        agents: &HashMap<String, KnownAgent>,
    ) -> Result<(), Problem> {
        let named = batch.events.iter();
        let named: BTreeSet<&str> = named
            .filter_map(|it| it.event.assessment_id.as_deref())
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = named.into_iter().collect();
        let organization = member.organization.number;
        let under_way =
            store::assessments::assessments_under_way(&self.store, organization, &named);
        let under_way = under_way.await.map_err(|cause| internal(&cause))?;
        let is_stray = |event: &Event| match &event.assessment_id {
            None => false,
            Some(id) => {
                let agent = agents.get(&event.agent_id).map(|agent| agent.number);
                agent.is_none() || under_way.get(id).copied() != agent
            }
        };
        reject(batch, is_stray, STRAY);
        Ok(())
    }

    /// Records the valid events of a batch and returns the result of each.
    async fn record(
        &self,
        member: &Member,
        validated: &ValidatedBatch,
        names: Option<Uuid>,
    ) -> Result<Vec<StoredEvent>, Problem> {
        let ValidatedBatch { batch, agents, .. } = validated;
        let mut events = Vec::with_capacity(batch.events.len());
        for ValidEvent { index, event, data } in &batch.events {
            let agent = agents.get(&event.agent_id).ok_or_else(nothing_recorded)?;
            let fresh = || match names {
                Some(names) => Uuid::new_v5(&names, index.to_string().as_bytes()).to_string(),
                None => self.fresh_id(),
            };
            events.push(NewEvent {
                id: event.id.clone().unwrap_or_else(fresh),
                agent: agent.number,
                kind: event.event_type().as_str(),
                occurred_at: event.timestamp,
                task: event.task_id.clone(),
                assessment: event.assessment_id.clone(),
                data: data.clone(),
            });
        }
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let organization = member.organization.number;
        let origin = Origin {
            source: SOURCE,
            recorder: validated.recorder,
            principal: &member.caller.principal,
        };
        let recorded =
            store::events::record_events(&self.store, organization, &events, origin, now);
        let recorded = recorded.await.map_err(|cause| internal(&cause))?;
        let existing = events.iter().zip(&recorded).filter(|(_, new)| !**new);
        let existing: Vec<&str> = existing.map(|(event, _)| event.id.as_str()).collect();
        let mut earlier = HashMap::new();
        if !existing.is_empty() {
            let found = store::events::events_named(&self.store, organization, &existing).await;
            let found = found.map_err(|cause| internal(&cause))?;
            earlier.extend(found.into_iter().map(|it| (it.id.clone(), it)));
        }
        let sent = batch.events.iter().zip(events).zip(recorded);
        let stored = sent.map(|((sound, event), new)| {
            let conflict = earlier
                .get(&event.id)
                .and_then(|it| conflict(it, &event, &sound.event, validated.recorder));
            StoredEvent {
                index: sound.index,
                outcome: match conflict {
                    _ if new => RecordOutcome::New,
                    None => RecordOutcome::Known,
                    Some(why) => RecordOutcome::Conflict(why),
                },
                id: event.id,
            }
        });
        Ok(stored.collect())
    }
}

/// Why an event cannot be treated as a repetition of the one already recorded under its id.
fn conflict(
    earlier: &EventRecord,
    sent: &NewEvent,
    event: &Event,
    recorder: Recorder,
) -> Option<&'static str> {
    let data: Option<Value> = serde_json::from_str(&sent.data).ok();
    let is_same = earlier.kind == sent.kind
        && earlier.occurred_at.as_microsecond() == sent.occurred_at.as_microsecond()
        && data.as_ref() == Some(&earlier.data);
    let (before, now) = (earlier.recorder.entitlement(), recorder.entitlement());
    if earlier.agent_number != sent.agent {
        Some(OTHER_AGENT)
    } else if !is_same {
        Some(OTHER_CONTENT)
    } else {
        (before < now && event.exceeds(before)).then_some(WEAKER)
    }
}

/// The problem for a case that cannot occur: a validated batch without a recorded event.
fn nothing_recorded() -> Problem {
    Problem::new(
        ErrorCode::InternalError,
        "internal error; try again, and contact the operator if it persists",
    )
}

fn unknown_type() -> Problem {
    let known = EventType::ALL.map(EventType::as_str).join(", ");
    Problem::new(
        ErrorCode::InvalidEventType,
        format!("Invalid event type; known are {known}"),
    )
    .with("field", "type")
}

/// Rejects the events that match, for this reason.
fn reject(batch: &mut Batch, is_refused: impl Fn(&Event) -> bool, why: &str) {
    let errors = &mut batch.errors;
    batch.events.retain(|it| {
        let refused = is_refused(&it.event);
        if refused {
            errors.push(RejectedEvent::invalid(it.index, why.to_owned()));
        }
        !refused
    });
    errors.sort_by_key(|refusal| refusal.index);
}

/// Whether its id could be one that a host generates for an eval run (AAAF S10).
fn is_named_like_projected(event: &Event) -> bool {
    event.id.as_deref().is_some_and(is_projected_name)
}

fn is_projected_name(name: &str) -> bool {
    Uuid::try_parse(name).is_ok_and(|id| id.get_version() == Some(Version::Sha1))
}

/// Whether the event states ground truth about delegations.
fn states_ground_truth(event: &Event) -> bool {
    let decisions = match &event.data {
        Data::DelegationDecision(decision) => std::slice::from_ref(decision.as_ref()),
        Data::TaskCompleted(completed) => completed.delegation_decisions.as_slice(),
        _ => &[],
    };
    decisions.iter().any(|decision| {
        decision.ground_truth.is_some()
            || decision.correct.is_some()
            || decision.selection_score.is_some()
            || decision.optimal_delegates.is_some()
    })
}
