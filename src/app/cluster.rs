//! Workers and their owners on NATS.

use std::sync::Arc;
use std::time::Duration;

use crate::app::Error;
use crate::config::Config;
use touchstone_agents::model::{Judges, ModelCatalog, Setup};
use touchstone_cluster::config::ClusterSettings;
use touchstone_cluster::nats::NatsBus;
use touchstone_cluster::service::Cluster;
use touchstone_cluster::service::owner::Owner;
use touchstone_cluster::service::signals::ReplicaSignals;
use touchstone_cluster::service::worker::{Worker, WorkerSettings};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::store::database::Database;
use touchstone_host::system::{SystemClock, SystemIds};

/// The connection of a host to its workers and, for signals, to the other replicas of its database;
/// `None` if it has none.
pub(super) fn join(
    settings: &ClusterSettings,
    store: &Database,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Option<Cluster> {
    settings.nats.as_ref()?;
    let bus = Arc::new(NatsBus::new(settings.clone(), "touchstone".to_owned()));
    let owner = Owner::new(bus.clone(), clock.clone(), ids.clone(), settings.hold());
    let signals = Arc::new(ReplicaSignals::new(bus, owner.replica().to_owned()));
    store.fan_out_by(signals.clone());
    Some(Cluster {
        owner: Arc::new(owner),
        signals,
    })
}

/// A worker with the models of a configuration.
///
/// # Errors
/// A model cannot be used.
pub fn worker(
    config: &Config,
    name: Option<String>,
    concurrency: usize,
    drain: Duration,
) -> Result<Worker, Error> {
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
    let name = name.unwrap_or_else(|| ids.mint("worker"));
    let bus = NatsBus::new(config.cluster.clone(), format!("touchstone worker {name}"));
    let settings = WorkerSettings {
        name,
        concurrency,
        drain,
    };
    Ok(Worker::new(Arc::new(bus), clock, ids, &models, settings))
}
