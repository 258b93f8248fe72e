//! Replicas, workers, queues and the runs that workers execute.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::page::answer::html;
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{count, latency};
use crate::page::visit::Visit;
use touchstone_cluster::service::status::{RunStatus, Status, WorkerStatus};
use touchstone_host::http::answer::Answer;
use touchstone_host::render::words::{duration, plain};
use touchstone_kit::ids::TenantId;

/// A process that was silent for this time has probably ended. It announces itself every 2 seconds.
const SILENT_MS: u64 = 10_000;

#[derive(Template)]
#[template(path = "operations/cluster.html")]
struct Page {
    chrome: Chrome,
    /// `None` if the host has no cluster.
    cluster: Option<View>,
}

struct View {
    tiles: Vec<(&'static str, String, &'static str)>,
    nats: Badge,
    /// Why the queues could not be read.
    problem: Option<String>,
    /// The versions that run, if there are several.
    versions: Option<String>,
    /// What is not listed.
    further: Vec<(String, &'static str)>,
    workers: Vec<Worker>,
    runs: Vec<Run>,
    queues: Vec<Queue>,
    replicas: Vec<Replica>,
}

struct Worker {
    name: String,
    state: Badge,
    busy: u64,
    capacity: u64,
    places: String,
    models: Vec<String>,
    labels: String,
    version: String,
    silence: String,
}

struct Run {
    id: String,
    /// `None` for a run of another tenant.
    href: Option<String>,
    tenant: String,
    owner: String,
    lease: String,
    waiting: String,
    held: String,
    labels: String,
    /// Why its tasks wait, if no worker can take them.
    unserved: Option<String>,
}

struct Queue {
    name: String,
    waiting: String,
    taken: String,
    pulls: String,
}

struct Replica {
    name: String,
    version: String,
    state: Badge,
    silence: String,
    answers: bool,
}

/// `GET /console/cluster`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let cluster = match &api.cluster {
        None => None,
        Some(cluster) => {
            let mut status = cluster.status().await;
            let work = api.runs.runs.work(&visit.caller).await?;
            status.set_leases(|run| work.lease_ms(run));
            Some(View::of(&status, visit.tenant()))
        }
    };
    html(&Page {
        chrome: visit.chrome(Section::Cluster),
        cluster,
    })
}

fn number(value: u64) -> String {
    count(usize::try_from(value).unwrap_or(usize::MAX))
}

/// Whether a process still announces itself.
fn state(silent_ms: u64, otherwise: Badge) -> Badge {
    match silent_ms >= SILENT_MS {
        true => Badge::warn("Silent"),
        false => otherwise,
    }
}

impl View {
    fn of(status: &Status, tenant: &TenantId) -> Self {
        let there = |it: &&WorkerStatus| it.silent_ms < SILENT_MS && !it.draining;
        let workers: Vec<&WorkerStatus> = status.workers.iter().filter(there).collect();
        let free: u64 = workers.iter().map(|it| it.free).sum();
        let places: u64 = workers.iter().map(|it| it.capacity).sum();
        let waiting: u64 = status.runs.iter().map(|it| it.offered).sum();
        let held: u64 = status.runs.iter().map(|it| it.held).sum();
        let all = status.workers.iter().map(|it| &it.version);
        let mut versions: Vec<String> = all
            .chain(status.replicas.iter().map(|it| &it.version))
            .map(|it| plain(it))
            .collect();
        versions.sort();
        versions.dedup();
        Self {
            tiles: vec![
                ("Workers that take tasks", number(workers.len() as u64), ""),
                (
                    "Free places",
                    format!("{} of {}", number(free), number(places)),
                    "",
                ),
                ("Tasks that wait for a worker", number(waiting), ""),
                ("Tasks at workers", number(held), ""),
            ],
            nats: match status.problem {
                None => Badge::good("Answers"),
                Some(_) => Badge::bad("No answer"),
            },
            problem: status.problem.as_deref().map(plain),
            further: [
                (status.further_members, "replicas and workers"),
                (status.further_runs, "runs"),
            ]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, of)| (number(count), of))
            .collect(),
            versions: (versions.len() > 1).then(|| versions.join(", ")),
            workers: status.workers.iter().map(Worker::of).collect(),
            runs: status.runs.iter().map(|it| Run::of(it, tenant)).collect(),
            queues: status
                .queues
                .iter()
                .map(|it| Queue {
                    name: plain(&format!("{}/{}", it.pool, it.lane)),
                    waiting: number(it.waiting),
                    taken: number(it.unacknowledged),
                    pulls: number(it.pulls),
                })
                .collect(),
            replicas: status
                .replicas
                .iter()
                .map(|it| Replica {
                    name: plain(&it.replica),
                    version: plain(&it.version),
                    state: state(it.silent_ms, Badge::good("Serves")),
                    silence: duration(it.silent_ms),
                    answers: status.replica.as_ref() == Some(&it.replica),
                })
                .collect(),
        }
    }
}

impl Worker {
    fn of(worker: &WorkerStatus) -> Self {
        let busy = worker.capacity.saturating_sub(worker.free);
        let otherwise = match worker.draining {
            true => Badge::info("Draining"),
            false => Badge::good("Takes tasks"),
        };
        Self {
            name: plain(&worker.worker),
            state: state(worker.silent_ms, otherwise),
            busy,
            capacity: worker.capacity,
            places: format!("{} of {}", number(busy), number(worker.capacity)),
            models: worker.models.iter().map(|it| plain(it)).collect(),
            labels: worker.labels.to_string(),
            version: plain(&worker.version),
            silence: duration(worker.silent_ms),
        }
    }
}

impl Run {
    fn of(run: &RunStatus, tenant: &TenantId) -> Self {
        let is_own = run.tenant == tenant.as_str();
        let id = plain(&run.run_id);
        Self {
            href: is_own.then(|| format!("/console/runs/{id}")),
            id,
            tenant: plain(&run.tenant),
            owner: plain(&run.replica),
            lease: latency(run.lease_ms),
            waiting: number(run.offered),
            held: number(run.held),
            labels: run.labels.to_string(),
            unserved: run.waits_for(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Status {
        let worker = |name: &str, silent: u64, draining: bool| {
            json!({
                "worker": name, "version": "1.0.0", "capacity": 4, "free": 1, "models": ["openai/m"],
                "draining": draining, "silentMs": silent
            })
        };
        let run = |id: &str, tenant: &str| {
            json!({
                "runId": id, "tenant": tenant, "replica": "host_1", "offered": 3, "held": 2,
                "leaseMs": 4000
            })
        };
        let document = json!({
            "enabled": true, "replica": "host_1", "problem": null,
            "replicas": [{"replica": "host_1", "version": "1.1.0", "silentMs": 1000}],
            "workers": [worker("w1", 500, false), worker("w2", 30_000, false), worker("w3", 500, true)],
            "queues": [{"pool": "shared", "lane": "h1", "waiting": 3, "unacknowledged": 2, "pulls": 1}],
            "runs": [run("run_1", "acme"), run("run_2", "globex")]
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn only_workers_that_take_tasks_have_free_places() {
        let view = View::of(&status(), &"acme".into());
        let values: Vec<&str> = view.tiles.iter().map(|(_, it, _)| it.as_str()).collect();
        assert_eq!(values, ["1", "1 of 4", "6", "4"]);
        let states: Vec<&str> = view
            .workers
            .iter()
            .map(|it| it.state.text.as_str())
            .collect();
        assert_eq!(states, ["Takes tasks", "Silent", "Draining"]);
        assert_eq!(view.versions.as_deref(), Some("1.0.0, 1.1.0"));
        assert!(view.replicas[0].answers);
    }

    #[test]
    fn only_runs_of_the_own_tenant_are_linked() {
        let view = View::of(&status(), &"acme".into());
        let links: Vec<Option<&str>> = view.runs.iter().map(|it| it.href.as_deref()).collect();
        assert_eq!(links, [Some("/console/runs/run_1"), None]);
    }
}
