//! Projects eval runs to evidence (AAAF, OpenWOP eval runs): a run's log and an assessment profile
//! become evidence events. The projection is pure: the same log gives the same events with the same
//! ids.

mod completion;
mod delegation;
mod log;
mod orchestration;
mod profile;
mod tools;
mod trimmed;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub use self::log::{LogFault, RunEvent};
pub use self::profile::{Delegation, Orchestration, Profile, ProfileFault, TaskProfile};

use self::log::{Entry, EntryKind, Scored};
use crate::rules::evidence::EventType;

/// Identifies a run and its agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub run_id: String,
    /// The assessed agent, as named in the log.
    pub agent_id: String,
    /// The assessment whose stress test the run belongs to.
    #[serde(default)]
    pub assessment_id: Option<String>,
}

/// A safety finding of a task, from the run's summary.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Finding {
    pub kind: String,
    pub severity: FindingSeverity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    Low,
    Medium,
    High,
    Critical,
}

/// The projection of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Projection {
    /// The evidence events, as documents.
    pub events: Vec<Value>,
    /// Why the run produced no events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<SkipReason>,
}

/// Why a run is not evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The suite has no profile.
    NoProfile,
    /// The profile describes another suite or version.
    ProfileMismatch,
    /// The run is not an eval run.
    NoEval,
}

/// The id of a task of a run in its evidence.
pub fn task_id(run: &str, task: &str) -> String {
    uuid(&[run, task])
}

/// The id of the event that states how a task ended; `sequence` is that of its judgment in the
/// run's log.
pub fn judgment_id(run: &str, sequence: u64) -> String {
    event_id(run, sequence, EventType::TaskCompleted, 0)
}

fn event_id(run: &str, sequence: u64, kind: EventType, n: usize) -> String {
    let (sequence, n) = (sequence.to_string(), n.to_string());
    uuid(&[run, &sequence, kind.as_str(), &n])
}

/// A UUID derived from its parts, so that repeating the projection gives the same one.
fn uuid(parts: &[&str]) -> String {
    let namespace = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"aaaf.openwop");
    Uuid::new_v5(&namespace, parts.join(":").as_bytes()).to_string()
}

/// The evidence of a run about the agent known as `agent_id`.
///
/// # Errors
/// An event of the log whose payload does not match its type.
pub fn project(
    agent_id: &str,
    run: &Run,
    profile: Option<&Profile>,
    events: &[RunEvent],
    findings: &BTreeMap<String, Vec<Finding>>,
) -> Result<Projection, LogFault> {
    let none = |reason| Projection {
        events: Vec::new(),
        skipped: Some(reason),
    };
    let Some(profile) = profile else {
        return Ok(none(SkipReason::NoProfile));
    };
    let entries = log::read(events)?;
    let started = entries.iter().find_map(|it| match &it.kind {
        EntryKind::EvalStarted(started) => Some(started),
        _ => None,
    });
    let Some(suite) = started else {
        return Ok(none(SkipReason::NoEval));
    };
    if (&profile.suite_id, &profile.suite_version) != (&suite.suite_id, &suite.suite_version) {
        return Ok(none(SkipReason::ProfileMismatch));
    }
    let mut common = Map::new();
    common.insert("source".to_owned(), json!("openwop_eval"));
    common.insert("run_id".to_owned(), json!(run.run_id));
    if let Some(assessment) = &run.assessment_id {
        common.insert("assessment_id".to_owned(), json!(assessment));
    }
    if suite.modes.iter().any(|mode| mode == "live-shadow") {
        common.insert("mode".to_owned(), json!("live-shadow"));
    }
    let mut evidence = Evidence {
        agent_id,
        run,
        common,
        made: Vec::new(),
    };
    for (name, entries) in log::by_task(&entries) {
        if let Some(task) = Task::of(&name, entries, profile, &evidence) {
            evidence.begin(&task, profile);
            tools::project(&task, &mut evidence);
            delegation::project(&task, &mut evidence);
            orchestration::project(&task, &mut evidence);
            completion::project(&task, findings.get(&name), &mut evidence);
        }
    }
    Ok(Projection {
        events: evidence.sorted(),
        skipped: None,
    })
}

struct Task<'a> {
    /// The task's id in the suite.
    name: &'a str,
    /// The task's id in the evidence.
    id: String,
    profile: TaskProfile,
    domain: String,
    complexity_level: u8,
    /// The log entries of the task, in order.
    entries: Vec<&'a Entry<'a>>,
    began: &'a Entry<'a>,
    judged: &'a Entry<'a>,
    scored: &'a Scored,
    /// The assessed agent, as named in the log.
    agent: &'a str,
}

impl<'a> Task<'a> {
    /// `None` for a task that was not judged, or that the profile does not describe sufficiently.
    fn of(
        name: &'a str,
        mut entries: Vec<&'a Entry<'a>>,
        profile: &Profile,
        evidence: &Evidence<'a>,
    ) -> Option<Self> {
        let (judged, scored) = entries.iter().find_map(|it| match &it.kind {
            EntryKind::Scored(scored) => Some((*it, scored)),
            _ => None,
        })?;
        let profile = profile.of_task(name);
        let (domain, level) = (profile.domain.clone()?, profile.complexity_level?.get());
        // Sort by sequence; the grouping does not keep the order.
        entries.sort_by_key(|it| it.sequence);
        let invoked = entries
            .iter()
            .find(|it| matches!(it.kind, EntryKind::InvocationStarted(_)));
        Some(Self {
            name,
            id: task_id(&evidence.run.run_id, name),
            profile,
            domain,
            complexity_level: level,
            began: invoked.or(entries.first()).copied()?,
            judged,
            scored,
            agent: &evidence.run.agent_id,
            entries,
        })
    }
}

struct Evidence<'a> {
    agent_id: &'a str,
    run: &'a Run,
    common: Map<String, Value>,
    made: Vec<ProjectedEvent>,
}

struct ProjectedEvent {
    at: Timestamp,
    task: String,
    rank: usize,
    id: String,
    document: Value,
}

impl Evidence<'_> {
    /// Adds an event with an id derived from its log entry and the time `when`.
    fn add(
        &mut self,
        task: &Task<'_>,
        event_type: EventType,
        about: (&Entry<'_>, usize),
        when: &Entry<'_>,
        data: Value,
    ) {
        let (entry, n) = about;
        let id = event_id(&self.run.run_id, entry.sequence, event_type, n);
        let mut all = self.common.clone();
        all.insert("task_id".to_owned(), json!(task.id));
        if let Value::Object(data) = data {
            all.extend(data);
        }
        // A completion comes after all other events of the task with the same time.
        let rank = match event_type {
            EventType::TaskCompleted => EventType::ALL.len(),
            _ => EventType::ALL
                .iter()
                .position(|it| *it == event_type)
                .unwrap_or_default(),
        };
        self.made.push(ProjectedEvent {
            at: when.at,
            task: task.id.clone(),
            rank,
            document: json!({"id": id, "agent_id": self.agent_id, "type": event_type.as_str(),
                "timestamp": when.timestamp, "data": all}),
            id,
        });
    }

    fn begin(&mut self, task: &Task<'_>, profile: &Profile) {
        let Profile {
            suite_id,
            suite_version,
            ..
        } = profile;
        let group = task.profile.task_group.clone();
        // Repetitions by an agent without memory measure noise, not learning.
        let remembers = matches!(&task.began.kind, EntryKind::InvocationStarted(it) if it.memory_bound == Some(true));
        let mut data = json!({
            "complexity_level": task.complexity_level, "domain": task.domain,
            "assigned_at": task.began.timestamp,
            "task_group": group.unwrap_or_else(|| format!("{suite_id}@{suite_version}/{}", task.name)),
            "eval_task_id": task.name, "suite_id": suite_id, "suite_version": suite_version,
            "learning_eligible": remembers,
        });
        set(&mut data, "baseline_seconds", task.profile.baseline_seconds);
        set(&mut data, "autonomy_level", task.profile.autonomy_level);
        set(&mut data, "probe", task.profile.probe.as_ref());
        self.add(
            task,
            EventType::TaskAssigned,
            (task.began, 0),
            task.began,
            data,
        );
    }

    fn sorted(mut self) -> Vec<Value> {
        let key = |it: &ProjectedEvent| (it.at, it.task.clone(), it.rank, it.id.clone());
        self.made.sort_by_cached_key(key);
        self.made.into_iter().map(|it| it.document).collect()
    }
}

/// Sets a member if it has a value.
fn set(document: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let (Value::Object(members), Some(value)) = (document, value) {
        members.insert(name.to_owned(), json!(value));
    }
}
