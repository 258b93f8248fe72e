//! The state of the cluster, for operators.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use touchstone_agents::rules::worker_labels::{self, WorkerLabels};

use crate::ports::queues::Queue;
use crate::rules::presence::{Member, Unserved};
use crate::service::Cluster;

/// `GET /v1/host/touchstone/cluster`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether the host has the section `[cluster]`.
    pub enabled: bool,
    /// The replica that answers.
    pub replica: Option<String>,
    /// Why the queues could not be read.
    pub problem: Option<String>,
    pub replicas: Vec<ReplicaStatus>,
    pub workers: Vec<WorkerStatus>,
    pub queues: Vec<QueueStatus>,
    /// Runs whose tasks workers execute.
    pub runs: Vec<RunStatus>,
    /// Number of further replicas and workers, which are not listed.
    #[serde(default)]
    pub further_members: u64,
    /// Number of further runs, which are not listed.
    #[serde(default)]
    pub further_runs: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    pub replica: String,
    pub version: String,
    /// Milliseconds since its last announcement.
    pub silent_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStatus {
    pub worker: String,
    pub version: String,
    pub capacity: u64,
    pub free: u64,
    pub models: Vec<String>,
    pub draining: bool,
    #[serde(default, deserialize_with = "worker_labels::known")]
    pub labels: WorkerLabels,
    /// Milliseconds since its last announcement.
    pub silent_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    pub pool: String,
    pub lane: String,
    /// Messages that no worker has taken.
    pub waiting: u64,
    /// Messages that a worker has taken and not acknowledged.
    pub unacknowledged: u64,
    /// Requests of workers that wait for a message.
    pub pulls: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    pub run_id: String,
    pub tenant: String,
    /// The owner of its tasks.
    pub replica: String,
    /// Tasks that wait for a worker.
    pub offered: u64,
    /// Tasks that workers execute.
    pub held: u64,
    /// The labels that its workers need.
    #[serde(default, deserialize_with = "worker_labels::known")]
    pub labels: WorkerLabels,
    /// Why no worker takes the tasks that wait.
    #[serde(default)]
    pub unserved: Option<Unserved>,
    /// Milliseconds until the owner's lease ends, if the lease is known.
    pub lease_ms: Option<u64>,
}

impl Status {
    /// The members that this replica has heard.
    fn of(replica: &str, members: &[Member]) -> Self {
        let mut status = Self {
            enabled: true,
            replica: Some(replica.to_owned()),
            ..Self::default()
        };
        for member in members {
            let (name, version) = (member.name.clone(), member.presence.version.clone());
            let silent_ms = milliseconds(member.silent);
            if let Some(state) = &member.presence.replica {
                status.replicas.push(ReplicaStatus {
                    replica: name.clone(),
                    version: version.clone(),
                    silent_ms,
                });
                let runs = state.runs.iter().map(|tasks| RunStatus {
                    run_id: tasks.run.to_string(),
                    tenant: tasks.tenant.to_string(),
                    replica: name.clone(),
                    offered: tasks.offered,
                    held: tasks.held,
                    labels: tasks.labels.clone(),
                    unserved: tasks.unserved,
                    lease_ms: None,
                });
                status.runs.extend(runs);
                status.further_runs = status.further_runs.saturating_add(state.further_runs);
            }
            if let Some(state) = &member.presence.worker {
                status.workers.push(WorkerStatus {
                    worker: name,
                    version,
                    capacity: state.capacity,
                    free: state.free,
                    models: state.models.clone(),
                    draining: state.draining,
                    labels: state.labels.clone(),
                    silent_ms,
                });
            }
        }
        status
    }
}

impl RunStatus {
    /// Why its tasks wait, if no worker can take them.
    pub fn waits_for(&self) -> Option<String> {
        Some(match self.unserved? {
            Unserved::Model => "no worker serves their model".to_owned(),
            Unserved::Labels => {
                let labels = &self.labels;
                format!("no worker that serves their model has the labels {labels}")
            }
            Unserved::Size => {
                "no worker that serves their model takes tasks of this size: upgrade workers, or raise their `max_task_bytes`".to_owned()
            }
            Unserved::Unknown => "no worker can take them".to_owned(),
        })
    }
}

impl Status {
    /// Adds how many milliseconds the lease of each run still lasts, by the run's id.
    pub fn set_leases(&mut self, of: impl Fn(&str) -> Option<u64>) {
        for run in &mut self.runs {
            run.lease_ms = of(&run.run_id);
        }
    }
}

impl Cluster {
    /// What this replica knows about the cluster.
    pub async fn status(&self) -> Status {
        let mut status = Status::of(self.owner.replica(), &self.membership.members());
        let further = self.membership.further_members();
        status.further_members = u64::try_from(further).unwrap_or(u64::MAX);
        match self.queues.queues().await {
            Ok(queues) => status.queues = queues.into_iter().map(QueueStatus::from).collect(),
            Err(cause) => status.problem = Some(cause.to_string()),
        }
        status
    }
}

impl From<Queue> for QueueStatus {
    fn from(queue: Queue) -> Self {
        Self {
            pool: queue.pool,
            lane: queue.lane,
            waiting: queue.waiting,
            unacknowledged: queue.unacknowledged,
            pulls: queue.pulls,
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::presence::{Presence, ReplicaState, RunTasks, WorkerState};

    #[test]
    fn replicas_workers_and_runs_are_listed_apart() {
        let worker = Presence {
            version: "1.0.0".to_owned(),
            worker: Some(WorkerState {
                capacity: 4,
                free: 1,
                models: vec!["openai/m".to_owned()],
                draining: true,
                labels: WorkerLabels::default(),
                largest: 0,
            }),
            replica: None,
        };
        let replica = Presence {
            version: "1.0.1".to_owned(),
            worker: None,
            replica: Some(ReplicaState {
                runs: vec![RunTasks {
                    run: "run_1".into(),
                    tenant: "acme".into(),
                    offered: 2,
                    held: 3,
                    labels: WorkerLabels::default(),
                    unserved: Some(Unserved::Labels),
                }],
                further_runs: 7,
            }),
        };
        let member = |name: &str, presence| Member {
            name: name.to_owned(),
            presence,
            silent: Duration::from_millis(1500),
        };
        let status = Status::of("host_1", &[member("host_1", replica), member("w1", worker)]);
        assert_eq!(status.replicas[0].version, "1.0.1");
        assert_eq!((status.replicas.len(), status.workers.len()), (1, 1));
        assert_eq!(status.workers[0].silent_ms, 1500);
        assert_eq!(status.further_runs, 7);
        let run = &status.runs[0];
        assert_eq!(run.unserved, Some(Unserved::Labels));
        assert_eq!(
            (run.replica.as_str(), run.offered, run.held),
            ("host_1", 2, 3)
        );
    }
}
