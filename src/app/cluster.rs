//! Workers and their owners on NATS.

use std::sync::Arc;
use std::time::Duration;

use crate::app::Error;
use crate::config::Config;
use touchstone_agents::model::{Judges, ModelCatalog, Setup};
use touchstone_cluster::config::ClusterSettings;
use touchstone_cluster::nats::NatsBus;
use touchstone_cluster::service::owner::Owner;
use touchstone_cluster::service::worker::{Worker, WorkerSettings};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::system::{SystemClock, SystemIds};

/// The tasks that a host offers to workers; `None` if it has no workers.
pub(super) fn owner(
    settings: &ClusterSettings,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Option<Arc<Owner>> {
    settings.nats.as_ref()?;
    let bus = Arc::new(NatsBus::new(settings.clone(), "touchstone".to_owned()));
    let owner = Owner::new(bus, clock.clone(), ids.clone(), settings.hold());
    Some(Arc::new(owner))
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
