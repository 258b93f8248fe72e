//! What replicas and workers announce about themselves, and who was heard.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use touchstone_agents::rules::worker_labels::{self, WorkerLabels};
use touchstone_kit::ids::{RunId, TenantId};

use crate::rules::access::rights::Needs;
use crate::rules::wire::{Message, Unreadable, check_id, check_most};

/// A process announces itself this often.
pub const EVERY: Duration = Duration::from_secs(2);
/// Most runs that a replica announces.
pub const MAX_RUNS: usize = 1_000;
/// Most models that a worker announces.
const MAX_MODELS: usize = 256;
/// Longest name of a model in bytes.
const MAX_MODEL: usize = 512;
/// A process that was not heard for this time is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A process that was not heard for this time has probably ended.
const PRESENT: Duration = Duration::from_secs(10);
/// If nothing arrives for this time, the bus is silent: this process announces itself more often.
const SILENT: Duration = Duration::from_secs(6);
/// Most processes that are remembered.
const MAX_MEMBERS: usize = 4_096;
/// Most further processes that are counted.
const MAX_COUNTED: usize = 65_536;

/// A replica or a worker is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// Version of the program.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<ReplicaState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerState {
    /// Maximum number of tasks in flight.
    pub capacity: u64,
    /// How many more tasks it takes now.
    pub free: u64,
    pub models: Vec<String>,
    /// It takes no more tasks.
    pub draining: bool,
    #[serde(
        default,
        deserialize_with = "worker_labels::known",
        skip_serializing_if = "WorkerLabels::is_empty"
    )]
    pub labels: WorkerLabels,
    /// Largest task in bytes that it takes in parts.
    #[serde(default)]
    pub largest: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaState {
    /// The runs whose tasks it offers to workers, at most [`MAX_RUNS`].
    pub runs: Vec<RunTasks>,
    /// Number of further runs.
    #[serde(default)]
    pub further_runs: u64,
}

/// The tasks of a run that an owner offers to workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTasks {
    pub run: RunId,
    pub tenant: TenantId,
    /// Tasks that wait for a worker.
    pub offered: u64,
    /// Tasks that workers execute.
    pub held: u64,
    /// The labels that its workers need.
    #[serde(
        default,
        deserialize_with = "worker_labels::known",
        skip_serializing_if = "WorkerLabels::is_empty"
    )]
    pub labels: WorkerLabels,
    /// Why no worker takes the tasks that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved: Option<Unserved>,
}

/// Why no worker that is there now can take a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unserved {
    /// No worker serves the model of the agent.
    Model,
    /// None of those that serve it has the labels.
    Labels,
    /// None of those that have the labels takes a task of this size.
    Size,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

impl Unserved {
    /// Whether no worker that takes tasks now serves the model and has the labels. Pools and the
    /// list of workers are not looked at.
    pub fn of(members: &[Member], model: &str, needs: &Needs) -> Option<Self> {
        let workers = members.iter().filter(|it| it.silent < PRESENT);
        let workers = workers.filter_map(|it| it.presence.worker.as_ref());
        let serving = workers.filter(|it| !it.draining && it.models.iter().any(|it| it == model));
        // The worker that is missing least.
        let missing = serving.map(|it| {
            if !it.labels.has_all(&needs.labels) {
                return Some(Self::Labels);
            }
            (it.largest < needs.bytes).then_some(Self::Size)
        });
        let rank = |missing: &Option<Self>| match missing {
            None => 0,
            Some(Self::Size) => 1,
            Some(_) => 2,
        };
        missing.min_by_key(rank).unwrap_or(Some(Self::Model))
    }
}

impl Message for Presence {
    const NAME: &'static str = "a presence";

    fn check(&self) -> Result<(), Unreadable> {
        check_id("version", &self.version)?;
        if let Some(worker) = &self.worker {
            check_most("worker.models", worker.models.len(), MAX_MODELS)?;
            for model in &worker.models {
                check_most("worker.models", model.len(), MAX_MODEL)?;
            }
        }
        if let Some(replica) = &self.replica {
            check_most("replica.runs", replica.runs.len(), MAX_RUNS)?;
            for tasks in &replica.runs {
                check_id("replica.runs.run", tasks.run.as_str())?;
            }
        }
        Ok(())
    }
}

/// A process that was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub presence: Presence,
    /// Time since its last announcement.
    pub silent: Duration,
}

/// The replicas, and the workers that take tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    pub replicas: u64,
    pub workers: u64,
    /// How many tasks the workers execute at most.
    pub places: u64,
    /// How many more tasks they take now.
    pub free: u64,
}

impl Capacity {
    /// The sum of those that are there now.
    pub fn of(members: &[Member]) -> Self {
        let mut sum = Self::default();
        for member in members.iter().filter(|it| it.silent < PRESENT) {
            if member.presence.replica.is_some() {
                sum.replicas += 1;
            }
            if let Some(worker) = member.presence.worker.as_ref().filter(|it| !it.draining) {
                sum.workers += 1;
                sum.places = sum.places.saturating_add(worker.capacity);
                sum.free = sum.free.saturating_add(worker.free);
            }
        }
        sum
    }
}

/// The processes that were heard lately, by name.
#[derive(Debug, Default)]
pub struct Members {
    members: BTreeMap<String, (Presence, Duration)>,
    /// When each process was heard that is not remembered, because there are too many.
    further: BTreeMap<String, Duration>,
    /// Since when messages arrive without a silence of the bus, and when the last one did.
    arriving: Option<(Duration, Duration)>,
}

impl Members {
    /// Something has arrived.
    pub fn arrived(&mut self, now: Duration) {
        let since = self
            .arriving
            .filter(|(_, last)| now.saturating_sub(*last) < SILENT);
        self.arriving = Some((since.map_or(now, |(since, _)| since), now));
    }

    /// Whether each process that takes part has been heard.
    pub fn knows_all(&mut self, now: Duration) -> bool {
        let is_listening = self.arriving.is_some_and(|(since, last)| {
            now.saturating_sub(since) >= PRESENT && now.saturating_sub(last) < SILENT
        });
        is_listening && self.further(now) == 0
    }

    pub fn hear(&mut self, name: &str, presence: Presence, now: Duration) {
        self.forget(now);
        if self.members.len() < MAX_MEMBERS || self.members.contains_key(name) {
            self.further.remove(name);
            self.members.insert(name.to_owned(), (presence, now));
        } else if self.further.len() < MAX_COUNTED || self.further.contains_key(name) {
            self.further.insert(name.to_owned(), now);
        }
    }

    /// Whether a worker has said that it takes no further tasks.
    pub fn is_draining(&self, worker: &str) -> bool {
        let found = self.members.get(worker);
        let state = found.and_then(|(presence, _)| presence.worker.as_ref());
        state.is_some_and(|it| it.draining)
    }

    /// Number of processes that were heard lately and are not remembered.
    pub fn further(&mut self, now: Duration) -> usize {
        self.forget(now);
        self.further.len()
    }

    /// All that were heard lately, sorted by name.
    pub fn current(&mut self, now: Duration) -> Vec<Member> {
        self.forget(now);
        let members = self.members.iter().map(|(name, (presence, at))| Member {
            name: name.clone(),
            presence: presence.clone(),
            silent: now.saturating_sub(*at),
        });
        members.collect()
    }

    fn forget(&mut self, now: Duration) {
        let is_recent = |at: &Duration| now.saturating_sub(*at) < FORGOTTEN;
        self.members.retain(|_, (_, at)| is_recent(at));
        self.further.retain(|_, at| is_recent(at));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};
    use touchstone_agents::rules::worker_labels::WorkerLabel;

    use super::*;
    use crate::rules::wire;

    fn worker(free: u64) -> Presence {
        Presence {
            version: "1.2.3".to_owned(),
            worker: Some(WorkerState {
                capacity: 4,
                free,
                models: vec!["openai/m".to_owned()],
                draining: false,
                labels: WorkerLabels::default(),
                largest: 0,
            }),
            replica: None,
        }
    }

    fn labels(names: &[&str]) -> WorkerLabels {
        let labels = names.iter().map(|it| WorkerLabel::parse(it).unwrap());
        WorkerLabels::new(labels.collect()).unwrap()
    }

    #[test]
    fn a_task_is_unserved_without_a_worker_of_its_model_and_labels() {
        let member = |names: &[&str], draining, silent| Member {
            name: "w".to_owned(),
            presence: Presence {
                worker: worker(1).worker.map(|it| WorkerState {
                    labels: labels(names),
                    draining,
                    ..it
                }),
                ..worker(1)
            },
            silent: Duration::from_secs(silent),
        };
        let needs = |required: &[&str], bytes| Needs {
            tenant: "acme".into(),
            models: Vec::new(),
            labels: labels(required),
            bytes,
        };
        let of = |members: &[Member], required: &[&str]| {
            Unserved::of(members, "openai/m", &needs(required, 0))
        };
        let plain = [member(&[], false, 0)];
        assert_eq!(of(&plain, &[]), None);
        assert_eq!(of(&plain, &["gpu"]), Some(Unserved::Labels));
        let gpu = [member(&[], false, 0), member(&["eu", "gpu"], false, 0)];
        assert_eq!(of(&gpu, &["gpu"]), None);
        assert_eq!(of(&gpu, &["gpu", "us"]), Some(Unserved::Labels));
        let of_other = Unserved::of(&gpu, "openai/other", &needs(&[], 0));
        assert_eq!(of_other, Some(Unserved::Model));
        let large = |required| Unserved::of(&gpu, "openai/m", &needs(required, 1));
        assert_eq!(large(&["gpu"]), Some(Unserved::Size));
        assert_eq!(large(&["us"]), Some(Unserved::Labels));
        for gone in [member(&[], true, 0), member(&[], false, 10)] {
            assert_eq!(of(&[gone], &[]), Some(Unserved::Model));
        }
        assert_eq!(of(&[], &[]), Some(Unserved::Model));
    }

    #[test]
    fn a_silent_process_is_shown_for_a_while() {
        let mut members = Members::default();
        members.hear("w2", worker(4), Duration::ZERO);
        members.hear("w1", worker(3), Duration::from_secs(5));
        members.hear("w1", worker(2), Duration::from_secs(7));
        let seen = members.current(Duration::from_secs(9));
        let names: Vec<&str> = seen.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["w1", "w2"]);
        assert_eq!(seen[0].silent, Duration::from_secs(2));
        assert_eq!(seen[0].presence, worker(2));
        let seen = members.current(FORGOTTEN);
        assert_eq!(seen.len(), 1, "{seen:?}");
    }

    #[test]
    fn all_are_known_once_the_bus_has_delivered_for_a_while() {
        let mut members = Members::default();
        let at = Duration::from_secs;
        assert!(!members.knows_all(at(100)), "nothing was delivered");
        for second in [100, 102, 104, 106, 108] {
            assert!(!members.knows_all(at(second)));
            members.arrived(at(second));
        }
        assert!(!members.knows_all(at(109)));
        members.arrived(at(110));
        assert!(members.knows_all(at(115)));
        assert!(!members.knows_all(at(116)), "the bus is silent");
        members.arrived(at(120));
        assert!(!members.knows_all(at(121)));
        for second in 121..=130 {
            members.arrived(at(second));
        }
        assert!(members.knows_all(at(131)));
        for number in 0..=MAX_MEMBERS {
            members.hear(&format!("w{number}"), worker(1), at(131));
        }
        assert!(!members.knows_all(at(131)), "there are too many");
    }

    #[test]
    fn processes_beyond_the_limit_are_counted() {
        let mut members = Members::default();
        for number in 0..MAX_MEMBERS + 3 {
            members.hear(&format!("w{number}"), worker(1), Duration::ZERO);
        }
        members.hear(&format!("w{MAX_MEMBERS}"), worker(1), Duration::ZERO);
        assert_eq!(members.current(Duration::ZERO).len(), MAX_MEMBERS);
        assert_eq!(members.further(Duration::ZERO), 3);
        let later = FORGOTTEN + Duration::from_secs(1);
        members.hear(&format!("w{MAX_MEMBERS}"), worker(1), later);
        assert_eq!(members.further(later), 0);
        assert_eq!(members.current(later).len(), 1);
    }

    #[test]
    fn the_capacity_is_that_of_workers_that_take_tasks_now() {
        let draining = Presence {
            worker: worker(4).worker.map(|it| WorkerState {
                draining: true,
                ..it
            }),
            ..worker(4)
        };
        let mut members = Members::default();
        let now = Duration::from_secs(20);
        members.hear("w1", worker(1), now);
        members.hear("w2", worker(4), Duration::from_secs(15));
        members.hear("w3", worker(4), Duration::from_secs(10));
        members.hear("w4", draining, now);
        let expected = Capacity {
            replicas: 0,
            workers: 2,
            places: 8,
            free: 5,
        };
        assert_eq!(Capacity::of(&members.current(now)), expected);
    }

    #[test]
    fn a_presence_is_read_as_it_is_written() {
        let message = wire::write(&worker(1)).unwrap();
        assert_eq!(wire::read::<Presence>(&message), Ok(worker(1)));
    }

    #[test]
    fn presences_of_other_versions_are_read() {
        let earlier = json!({
            "v": 1, "version": "1.0.0",
            "worker": {"capacity": 4, "free": 1, "models": ["openai/m"], "draining": false}
        });
        assert_eq!(
            read(&earlier),
            Ok(Presence {
                version: "1.0.0".to_owned(),
                ..worker(1)
            })
        );
        let later = json!({
            "v": 1, "version": "9.0.0",
            "worker": {
                "capacity": 4, "free": 1, "models": ["openai/m"], "draining": false,
                "labels": ["gpu", "zone/a"]
            },
            "replica": {"runs": [
                {"run": "run_1", "tenant": "acme", "offered": 1, "held": 0, "unserved": "later"},
                {"run": "run_2", "tenant": "acme", "offered": 1, "held": 0}
            ]}
        });
        let later = read(&later).unwrap();
        assert_eq!(later.worker.unwrap().labels, labels(&["gpu"]));
        let unserved: Vec<_> = later
            .replica
            .unwrap()
            .runs
            .iter()
            .map(|it| it.unserved)
            .collect();
        assert_eq!(unserved, [Some(Unserved::Unknown), None]);
    }

    fn read(presence: &Value) -> Result<Presence, Unreadable> {
        wire::read(&Bytes::from(presence.to_string()))
    }

    #[test]
    fn names_with_control_characters_are_refused() {
        let odd = Presence {
            version: "1\u{1b}[2J".to_owned(),
            ..worker(1)
        };
        assert!(wire::read::<Presence>(&wire::write(&odd).unwrap()).is_err());
    }
}
