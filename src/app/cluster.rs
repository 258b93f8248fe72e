//! Workers and their owners on NATS.

use std::sync::Arc;
use std::time::Duration;

use crate::app::Error;
use crate::config::Config;
use tokio_util::sync::CancellationToken;
use touchstone_agents::model::worker_command::WorkerCommand;
use touchstone_agents::model::{Judges, ModelCatalog, Setup};
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_cluster::config::ClusterSettings;
use touchstone_cluster::nats::{NatsBus, Role};
use touchstone_cluster::rules::access::pools::Pool;
use touchstone_cluster::rules::presence::Presence;
use touchstone_cluster::service::Cluster;
use touchstone_cluster::service::owner::Owner;
use touchstone_cluster::service::presence::{Membership, announce, announce_once, follow_orders};
use touchstone_cluster::service::signals::ReplicaSignals;
use touchstone_cluster::service::worker::{Worker, WorkerSettings};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::gauges::ProcessGauges;
use touchstone_host::store::database::Database;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_host::telemetry::Metrics;

/// The version that this process announces.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How often a worker sets its gauges.
const MEASURED_EVERY: Duration = Duration::from_secs(5);

/// The connection of a host to its workers and, for signals, to the other replicas of its database;
/// `None` if it has none.
pub(super) fn join(
    settings: &ClusterSettings,
    store: &Database,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Option<Cluster> {
    settings.nats.as_ref()?;
    let bus = Arc::new(NatsBus::new(settings.clone(), Role::Host));
    let owner = Owner::new(bus.clone(), clock.clone(), ids.clone(), settings.hold())
        .with_access(settings.pools.clone(), settings.workers.clone())
        .with_content(settings.content());
    let signals = Arc::new(ReplicaSignals::new(bus.clone(), owner.replica().to_owned()));
    store.fan_out_by(signals.clone());
    let membership = Membership::new(bus.clone(), clock.clone(), Arc::clone(owner.contact()));
    Some(Cluster {
        owner: Arc::new(owner),
        signals,
        membership: Arc::new(membership),
        queues: bus,
        gauges: Arc::default(),
    })
}

/// Answers workers, and receives signals and heartbeats, until `stop` is cancelled.
pub(super) async fn serve(cluster: &Cluster, store: &Database, stop: &CancellationToken) {
    let owner = &cluster.owner;
    let presence = || Presence {
        version: VERSION.to_owned(),
        worker: None,
        replica: Some(cluster.state()),
    };
    let members = &cluster.membership;
    tokio::join!(
        owner.clone().serve(stop.clone()),
        cluster.signals.receive(store, stop),
        members.take_part(owner.replica(), presence, stop)
    );
}

/// A worker and its connection.
pub struct WorkerProcess {
    pub worker: Arc<Worker>,
    bus: Arc<NatsBus>,
    gauges: Option<ProcessGauges>,
}

impl WorkerProcess {
    /// Works until `stop` is cancelled, by an operator's order too, then finishes the tasks in flight.
    pub async fn run(&self, stop: &CancellationToken) {
        let presence = || Presence {
            version: VERSION.to_owned(),
            worker: Some(self.worker.state(stop.is_cancelled())),
            replica: None,
        };
        let metrics = Metrics::install();
        let (bus, name) = (&*self.bus, self.worker.name());
        // Replicas learn at once that it drains.
        let draining = async {
            stop.cancelled().await;
            announce(bus, name, presence).await;
        };
        tokio::select! {
            () = self.worker.clone().run(stop.clone()) => {}
            () = announce(bus, name, presence) => {}
            () = draining => {}
            () = follow_orders(bus, name, stop) => {}
            () = metrics.upkeep() => {}
            () = self.measure() => {}
        }
        announce_once(bus, name, &presence()).await;
        self.bus.flush().await;
    }

    /// Whether the worker is connected to NATS.
    pub fn is_connected(&self) -> bool {
        self.bus.is_connected()
    }

    /// Sets the gauges from time to time. Never returns.
    async fn measure(&self) {
        let mut every = tokio::time::interval(MEASURED_EVERY);
        loop {
            every.tick().await;
            self.worker.measure();
            if let Some(process) = &self.gauges {
                process.sample();
            }
        }
    }
}

/// A worker with the models of a configuration.
///
/// # Errors
/// A model cannot be used.
pub fn worker(
    config: &Config,
    name: Option<String>,
    pools: Vec<Pool>,
    labels: WorkerLabels,
    concurrency: usize,
    drain: Duration,
) -> Result<WorkerProcess, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    let environment = |name: &str| std::env::var(name).ok();
    let setup = Setup {
        environment: &environment,
        clock: &clock,
        prices: &config.prices,
        embeddings: None,
        user: config.simulated_user.as_ref(),
    };
    // Tasks are judged by their owner.
    let models = ModelCatalog::build(&config.models, Judges::default(), setup)?;
    let commands = config.worker.commands.iter();
    let commands = commands.map(WorkerCommand::binding).collect();
    let name = name.unwrap_or_else(|| ids.mint("worker"));
    let role = Role::Worker(name.clone());
    let bus = Arc::new(NatsBus::new(config.cluster.clone(), role));
    let settings = WorkerSettings {
        name,
        concurrency,
        drain,
        pools,
        labels,
        largest: config.cluster.max_task_bytes,
    };
    let worker = Worker::new(bus.clone(), clock, ids, &models, commands, settings);
    Ok(WorkerProcess {
        worker: Arc::new(worker),
        bus,
        gauges: ProcessGauges::new(),
    })
}
