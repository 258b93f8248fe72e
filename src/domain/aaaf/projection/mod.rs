//! Eval runs as evidence (AAAF, OpenWOP eval runs): from a run's log and an assessment profile to evidence events. Pure, and the
//! same log always gives the same events with the same ids.

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

use self::log::{Entry, Said, Scored};
use super::evidence::EventType;

/// Whose run it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The run.
    pub run_id: String,
    /// The agent that is assessed, as the log calls it.
    pub agent_id: String,
    /// The assessment whose stress test it is.
    #[serde(default)]
    pub assessment_id: Option<String>,
}

/// A safety finding of a task, from the run's summary.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Finding {
    /// What was found.
    pub kind: String,
    /// How bad it is.
    pub severity: FindingSeverity,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are OpenWOP's own")]
pub enum FindingSeverity {
    Low,
    Medium,
    High,
    Critical,
}

/// What a run says of an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Projection {
    /// The evidence events, as documents.
    pub events: Vec<Value>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Skipped>,
}

/// Why a run is no evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// Nobody said what its tasks are.
    NoProfile,
    /// The profile is of another suite or version.
    ProfileMismatch,
    /// It is no eval run.
    NoEval,
}

/// What a task of a run is called as evidence.
pub fn task_id(run: &str, task: &str) -> String {
    uuid(&[run, task])
}

/// The id of the event that says how a task ended which was scored there in the run's log.
pub fn judgment_id(run: &str, sequence: u64) -> String {
    event_id(run, sequence, EventType::TaskCompleted, 0)
}

fn event_id(run: &str, sequence: u64, kind: EventType, n: usize) -> String {
    let (sequence, n) = (sequence.to_string(), n.to_string());
    uuid(&[run, &sequence, kind.as_str(), &n])
}

/// Named after what it is made from, so that it is the same however often it is made.
fn uuid(parts: &[&str]) -> String {
    let namespace = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"aaaf.openwop");
    Uuid::new_v5(&namespace, parts.join(":").as_bytes()).to_string()
}

/// What a run says of the agent known as `agent_id` to who collects evidence.
///
/// # Errors
/// An event of the log that is not what its type says.
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
        return Ok(none(Skipped::NoProfile));
    };
    let entries = log::read(events)?;
    let started = entries.iter().find_map(|it| match &it.said {
        Said::EvalStarted(started) => Some(started),
        _ => None,
    });
    let Some(suite) = started else {
        return Ok(none(Skipped::NoEval));
    };
    if (&profile.suite_id, &profile.suite_version) != (&suite.suite_id, &suite.suite_version) {
        return Ok(none(Skipped::ProfileMismatch));
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

/// A judged task of the run.
struct Task<'a> {
    /// Its name in the suite.
    name: &'a str,
    /// Its id as evidence.
    id: String,
    profile: TaskProfile,
    domain: String,
    complexity_level: u8,
    /// What happened in it, in order.
    entries: Vec<&'a Entry<'a>>,
    /// Its beginning.
    began: &'a Entry<'a>,
    /// Its judgment.
    judged: &'a Entry<'a>,
    scored: &'a Scored,
    /// The agent that is assessed, as the log calls it.
    agent: &'a str,
}

impl<'a> Task<'a> {
    /// `None` of a task that was not judged, or of which the profile says too little.
    fn of(
        name: &'a str,
        mut entries: Vec<&'a Entry<'a>>,
        profile: &Profile,
        evidence: &Evidence<'a>,
    ) -> Option<Self> {
        let (judged, scored) = entries.iter().find_map(|it| match &it.said {
            Said::Scored(scored) => Some((*it, scored)),
            _ => None,
        })?;
        let profile = profile.of_task(name);
        let (domain, level) = (profile.domain.clone()?, profile.complexity_level?.get());
        // By sequence, not by when they were told apart.
        entries.sort_by_key(|it| it.sequence);
        let invoked = entries
            .iter()
            .find(|it| matches!(it.said, Said::InvocationStarted(_)));
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
    made: Vec<Made>,
}

struct Made {
    at: Timestamp,
    task: String,
    rank: usize,
    id: String,
    document: Value,
}

impl Evidence<'_> {
    /// Adds an event: named after the entry it is about, told at `when`.
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
        // A task is completed after everything that happened in it at the same moment.
        let rank = match event_type {
            EventType::TaskCompleted => EventType::ALL.len(),
            _ => EventType::ALL
                .iter()
                .position(|it| *it == event_type)
                .unwrap_or_default(),
        };
        self.made.push(Made {
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
        // Repeats of an agent without memory measure noise, not learning.
        let remembers = matches!(&task.began.said, Said::InvocationStarted(it) if it.memory_bound == Some(true));
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
        let key = |it: &Made| (it.at, it.task.clone(), it.rank, it.id.clone());
        self.made.sort_by_cached_key(key);
        self.made.into_iter().map(|it| it.document).collect()
    }
}

/// Sets a member that is known.
fn set(document: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let (Value::Object(members), Some(value)) = (document, value) {
        members.insert(name.to_owned(), json!(value));
    }
}
