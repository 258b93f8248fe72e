//! The owner's side: offers each invocation to workers and records what their attempts report.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use touchstone_agents::model::worker_command::is_at_workers;
use touchstone_agents::ports::agent::{
    AgentRuntime, EventSink, Invocation, InvocationResult, Meter, UserTurns,
};
use touchstone_agents::rules::WORKERS_REQUIRED;
use touchstone_agents::runtime::Runtime;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_kit::ids::{RunId, TenantId};

use crate::cluster_metrics::OwnerMetrics;
use crate::ports::bus::Bus;
use crate::rules::access::pools::Pools;
use crate::rules::access::rights::{Forbidden, Needs, Rights};
use crate::rules::lane::Lane;
use crate::rules::offer::Offer;
use crate::rules::presence::{MAX_RUNS, ReplicaState, RunTasks, Unserved};
use crate::rules::wire::Claim;
use crate::rules::wire::parts::ContentLimits;
use crate::service::assignment::{assigned, lane, needs};
use crate::service::attempt::TOO_LARGE;
use crate::service::contact::BusContact;
use crate::service::owner::questions::EndpointLimits;
use crate::service::owner::task::{OwnedTask, unjudged};
use crate::service::owner::text::TaskText;
use crate::service::room::Room;
use crate::service::server::{self, Command};
use crate::service::turns::Schedule;

mod publication;
mod questions;
mod task;
mod text;

/// The label of a task whose workers were lost too often.
pub const WORKER_LOST: &str = "worker_lost";
/// The label of a task whose log takes no further events.
pub(crate) const LOG_CLOSED: &str = "log_closed";
/// Requests to one task that may wait.
const MAX_COMMANDS: usize = 16;

/// The tasks that this replica offers to workers.
pub struct Owner {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) replica: String,
    pub(super) metrics: OwnerMetrics,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    hold: Duration,
    schedule: Arc<Schedule>,
    contact: Arc<BusContact>,
    pools: Pools,
    rights: Rights,
    content: ContentLimits,
    room: Room,
    tasks: Mutex<HashMap<String, Entry>>,
}

/// A task in the list of its owner.
struct Entry {
    commands: mpsc::Sender<Command>,
    run: RunId,
    tenant: TenantId,
    needs: Needs,
    /// The model of the agent, as workers announce it.
    model: String,
    /// Whether a worker executes the task.
    held: Arc<AtomicBool>,
}

impl Owner {
    /// `hold`: how long a worker may work without an answer of this host.
    pub fn new(
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        hold: Duration,
    ) -> Self {
        let replica = ids.mint("host");
        let contact = Arc::new(BusContact::new(Arc::clone(&clock), hold));
        Self {
            bus,
            replica,
            schedule: Arc::new(Schedule::new(Arc::clone(&clock))),
            metrics: OwnerMetrics::default(),
            clock,
            ids,
            hold,
            contact,
            pools: Pools::default(),
            rights: Rights::default(),
            content: ContentLimits::default(),
            room: Room::new(ContentLimits::default().pool),
            tasks: Mutex::default(),
        }
    }

    /// With queues for each of these pools, and only these workers.
    #[must_use]
    pub fn with_access(self, pools: Pools, rights: Rights) -> Self {
        Self {
            pools,
            rights,
            ..self
        }
    }

    /// With these limits of what is sent in parts.
    #[must_use]
    pub fn with_content(self, content: ContentLimits) -> Self {
        Self {
            content,
            room: Room::new(content.pool),
            ..self
        }
    }

    /// To be told of all that the bus delivers.
    pub fn contact(&self) -> &Arc<BusContact> {
        &self.contact
    }

    /// The name of this replica on the bus.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// Answers workers until `stop` is cancelled.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) {
        server::serve(&self, &stop).await;
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn task(&self, offer: &str) -> Option<mpsc::Sender<Command>> {
        let tasks = self.tasks();
        tasks.get(offer).map(|entry| entry.commands.clone())
    }

    /// Whether a worker may execute a task; a task that is not offered any more is not refused.
    pub(super) fn permit(&self, claim: &Claim) -> Result<(), Forbidden> {
        let tasks = self.tasks();
        tasks.get(&claim.offer).map_or(Ok(()), |entry| {
            let (worker, labels) = (&claim.worker.worker, &claim.labels);
            self.rights
                .check(worker, labels, claim.largest, &entry.needs)
        })
    }

    /// The runs whose tasks are offered or executed now. `unserved`: why no worker can take a task
    /// of this model.
    pub fn state(&self, unserved: impl Fn(&str, &Needs) -> Option<Unserved>) -> ReplicaState {
        let mut runs = self.runs();
        let further = runs.len().saturating_sub(MAX_RUNS);
        runs.truncate(MAX_RUNS);
        // Claims and heartbeats do not wait for this.
        let runs = runs.into_iter().map(|(tasks, waiting)| RunTasks {
            unserved: waiting.and_then(|(model, needs)| unserved(&model, &needs)),
            ..tasks
        });
        ReplicaState {
            runs: runs.collect(),
            further_runs: u64::try_from(further).unwrap_or(u64::MAX),
        }
    }

    /// The runs, each with what the largest of its tasks needs that wait: the tasks of a run need the
    /// same model and labels.
    fn runs(&self) -> Vec<(RunTasks, Option<(String, Needs)>)> {
        let tasks = self.tasks();
        let mut runs: BTreeMap<&RunId, (RunTasks, Option<&Entry>)> = BTreeMap::new();
        for entry in tasks.values() {
            let (tasks, largest) = runs.entry(&entry.run).or_insert_with(|| {
                let tasks = RunTasks {
                    run: entry.run.clone(),
                    tenant: entry.tenant.clone(),
                    offered: 0,
                    held: 0,
                    labels: entry.needs.labels.clone(),
                    unserved: None,
                };
                (tasks, None)
            });
            if entry.held.load(Ordering::Relaxed) {
                tasks.held += 1;
                continue;
            }
            tasks.offered += 1;
            if largest.is_none_or(|it| it.needs.bytes < entry.needs.bytes) {
                *largest = Some(entry);
            }
        }
        let runs = runs.into_values().map(|(tasks, largest)| {
            let waiting = largest.map(|it| (it.model.clone(), it.needs.clone()));
            (tasks, waiting)
        });
        runs.collect()
    }
}

/// Executes invocations at workers; those that only this process can execute, here, unless they require
/// labels of workers.
pub struct ClusterRuntime {
    pub owner: Arc<Owner>,
    pub local: Runtime,
}

#[async_trait]
impl AgentRuntime for ClusterRuntime {
    async fn invoke(
        &self,
        invocation: Invocation<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult {
        let owner = &*self.owner;
        let Distributed { lane, text, needs } = match owner.distributed(&invocation) {
            Ok(distributed) => distributed,
            Err(_) if !needs_worker(&invocation) => {
                return self.local.invoke(invocation, meter, sink).await;
            }
            Err(reason) => return unjudged(reason),
        };
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let user = match invocation.dialogue.map(|it| it.turns) {
            Some(UserTurns::Simulated { model, .. }) => Some(&*model.permits),
            _ => None,
        };
        let model = invocation.model.identity().to_string();
        let offer_id = invocation.invocation_id.clone();
        let held = Arc::new(AtomicBool::new(false));
        let entry = Entry {
            commands: sender,
            run: invocation.run.clone(),
            tenant: invocation.tenant.clone(),
            needs,
            model,
            held: Arc::clone(&held),
        };
        owner.tasks().insert(offer_id.clone(), entry);
        let now = owner.clock.uptime();
        let _listed = Listed {
            owner,
            offer: &offer_id,
        };
        let task = OwnedTask {
            owner,
            meter,
            sink,
            lane: &lane,
            offer_id: &offer_id,
            since: now,
            offer: Offer::new(owner.hold, now),
            offered_at: now,
            held,
            invocation: &invocation,
            text,
            events: Vec::new(),
            open: None,
            waiting: FuturesUnordered::new(),
            permits: EndpointLimits {
                agent: &*invocation.model.permits,
                user,
            },
            calls: BTreeMap::new(),
            asking: None,
            assembly: None,
            turn: None,
            is_stored: false,
            skipped: 0,
            is_refused: false,
        };
        task.own(commands).await
    }
}

/// A task for workers.
struct Distributed {
    lane: Lane,
    text: TaskText,
    needs: Needs,
}

impl Owner {
    /// The task of an invocation.
    ///
    /// # Errors
    /// Only this process can execute it. The label is for a task that only workers can execute.
    fn distributed(&self, invocation: &Invocation<'_>) -> Result<Distributed, &'static str> {
        let assignment = assigned(invocation).ok_or(WORKERS_REQUIRED)?;
        let text = TaskText::of(&assignment).ok_or(WORKERS_REQUIRED)?;
        let bytes = text.bytes_in_parts();
        if bytes > self.content.task {
            return Err(TOO_LARGE);
        }
        Ok(Distributed {
            lane: lane(invocation, &self.pools, bytes > 0).ok_or(WORKERS_REQUIRED)?,
            text,
            needs: needs(&assignment, invocation.worker_labels, bytes),
        })
    }
}

/// Whether the host itself cannot execute an invocation.
fn needs_worker(invocation: &Invocation<'_>) -> bool {
    !invocation.worker_labels.is_empty() || is_at_workers(invocation.model)
}

/// Withdraws a task when its invocation has ended or is dropped.
struct Listed<'a> {
    owner: &'a Owner,
    offer: &'a str,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.owner.tasks().remove(self.offer);
    }
}
