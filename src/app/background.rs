//! The work of a host besides answering requests: runs, assessments, webhooks and periodic jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::cluster;
use crate::app::parts::worker_settings;
use crate::config::Config;
use crate::services::{Parts, Services};
use touchstone_agent_cards::service::rescoring::Rescorer;
use touchstone_cluster::service::Cluster;
use touchstone_host::audit::checkpoint::INTERVAL_SECONDS;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::audit::checkpointer::Checkpointer;
use touchstone_host::service::gauges::{DatabaseGauges, ProcessGauges};
use touchstone_host::service::jobs;
use touchstone_host::service::jobs::{Periodic, Replica};
use touchstone_host::service::sessions::Sessions;
use touchstone_host::store::database::Database;
use touchstone_host::telemetry::Metrics;
use touchstone_kit::keys::SecretKey;
use touchstone_ratings::service::assessments::assessor::{Assessor, AssessorSettings};
use touchstone_ratings::service::assessments::schedule::Scheduler;
use touchstone_ratings::service::housekeeping::Housekeeper;
use touchstone_ratings::service::stress_tests::StressTestRunner;
use touchstone_ratings::service::webhooks::deliveries::{Deliverer, DelivererDeps};
use touchstone_ratings::service::webhooks::lag::DeliveryGauges;
use touchstone_runs::service::archive::retention::Retention;
use touchstone_runs::service::metrics::queue::QueueGauges;
use touchstone_runs::service::runs::Runs;
use touchstone_runs::service::storage::Storage;
use touchstone_runs::service::webhooks::Webhooks;
use touchstone_runs::service::webhooks::dispatcher::Dispatcher;
use touchstone_runs::service::worker::Worker;

/// Idempotency records are kept for a day (OpenWOP idempotency, layer 1); an hourly job deletes
/// expired ones.
const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Polling interval for notices whose wake-up was missed.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How often a replica checks whether a periodic job is due.
const JOBS_EVERY: Duration = Duration::from_secs(60);
/// How often expired records are deleted.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);
/// How often gauges are read from the database and the process.
const SAMPLE_EVERY: Duration = Duration::from_secs(15);
/// Half of the advertised interval; the other half is for the work itself.
const CHECKPOINTS_EVERY: Duration = Duration::from_secs(INTERVAL_SECONDS / 2);

/// The background work of one replica.
pub struct Background {
    /// Whether this is a host; a command only assesses what its arguments name.
    for_host: bool,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    runs: Arc<Runs>,
    storage: Arc<Storage>,
    retention: Retention,
    sessions: Arc<Sessions>,
    webhooks: Arc<Webhooks>,
    worker: Arc<Worker>,
    cluster: Option<Cluster>,
    dispatcher: Arc<Dispatcher>,
    deliverer: Arc<Deliverer>,
    assessor: Arc<Assessor>,
    housekeeper: Housekeeper,
    scheduler: Scheduler,
    rescorer: Rescorer,
    checkpointer: Checkpointer,
    process_gauges: Option<ProcessGauges>,
    database_gauges: DatabaseGauges,
    queue_gauges: QueueGauges,
    delivery_gauges: DeliveryGauges,
}

impl Background {
    pub fn new(config: &Config, services: &Services, audit_key: SecretKey) -> Self {
        let Parts {
            store, clock, ids, ..
        } = services.parts();
        let (notifier, vault) = (&services.parts().notifier, &services.parts().vault);
        let command = &services.parts().command;
        let replica = Replica {
            store: store.clone(),
            clock: clock.clone(),
            owner: ids.mint("replica"),
        };
        Self {
            for_host: command.is_none(),
            store: store.clone(),
            clock: clock.clone(),
            runs: services.runs.clone(),
            storage: services.storage.clone(),
            retention: services.retention(),
            sessions: services.parts().sessions.clone(),
            webhooks: services.webhooks.clone(),
            worker: Worker::new(
                store.clone(),
                clock.clone(),
                services.executor.clone(),
                ids.mint("replica"),
                worker_settings(config),
                command.clone(),
            ),
            cluster: services.parts().cluster.clone(),
            dispatcher: Dispatcher::new(
                store.clone(),
                clock.clone(),
                notifier.clone(),
                ids.mint("replica"),
            ),
            deliverer: Deliverer::new(
                DelivererDeps {
                    store: store.clone(),
                    clock: clock.clone(),
                    ids: ids.clone(),
                    notifier: notifier.clone(),
                    vault: vault.clone(),
                },
                ids.mint("replica"),
                POLL_EVERY,
            ),
            assessor: Assessor::new(
                store.clone(),
                clock.clone(),
                services.issuer.clone(),
                ids.mint("replica"),
                AssessorSettings::default(),
                StressTestRunner::new(store.clone(), clock.clone(), services.runs.clone()),
            ),
            housekeeper: Housekeeper::new(replica.clone()),
            scheduler: Scheduler::new(services.ratings.clone(), ids.mint("replica")),
            rescorer: Rescorer::new(services.cards.clone(), replica),
            checkpointer: Checkpointer::new(store.clone(), clock.clone(), ids.clone(), audit_key),
            // A command has no endpoint for scrapers.
            process_gauges: command.is_none().then(ProcessGauges::new).flatten(),
            database_gauges: DatabaseGauges::new(store),
            queue_gauges: QueueGauges::new(store.clone(), clock.clone()),
            delivery_gauges: DeliveryGauges::new(store.clone(), clock.clone()),
        }
    }

    /// Works until `shutdown`, then drains. `assesses` is whether assessments are executed too.
    pub async fn run_until(&self, shutdown: &CancellationToken, assesses: bool) {
        let assessments = async {
            if assesses {
                jobs::perform(self.assessor.clone(), shutdown.clone()).await;
            }
        };
        let calibrations = async {
            shutdown.cancelled().await;
            self.runs.stop_calibrating().await;
        };
        let metrics = Metrics::install();
        tokio::join!(
            shutdown.run_until_cancelled(metrics.upkeep()),
            self.execute_runs(shutdown),
            jobs::perform(self.dispatcher.clone(), shutdown.clone()),
            jobs::perform(self.deliverer.clone(), shutdown.clone()),
            assessments,
            self.repeat_jobs(shutdown),
            calibrations
        );
        // Content that is not retained must not outlive the command that produced it: later
        // commands may do no background work.
        if !self.for_host
            && let Err(cause) = self.storage.delete_content(&CancellationToken::new()).await
        {
            tracing::warn!(%cause, "task content could not be deleted; the next run deletes it");
        }
    }

    /// Executes runs. Workers are answered until the runs are drained.
    async fn execute_runs(&self, shutdown: &CancellationToken) {
        let drained = CancellationToken::new();
        let answering = async {
            if let Some(cluster) = &self.cluster {
                cluster::serve(cluster, &self.store, &drained).await;
            }
        };
        let executing = async {
            self.worker.clone().work(shutdown.clone()).await;
            drained.cancel();
        };
        tokio::join!(executing, answering);
    }

    async fn repeat_jobs(&self, shutdown: &CancellationToken) {
        let after = |every, name| Periodic {
            name,
            first: every,
            every,
        };
        let at_once_then = |every, name| Periodic {
            name,
            first: Duration::ZERO,
            every,
        };
        let at_once = |name| at_once_then(CLEAN_EVERY, name);
        let (minute, store) = (JOBS_EVERY, self.store.as_ref());
        let schedule = async {
            // A command only assesses what its arguments name.
            if self.for_host {
                let job = after(minute, "schedule");
                job.run(store, shutdown, || self.scheduler.run(shutdown))
                    .await;
            }
        };
        let samples = async {
            // A command has no endpoint for scrapers.
            if self.for_host {
                let job = at_once_then(SAMPLE_EVERY, "metrics");
                job.run(store, shutdown, || self.sample()).await;
            }
        };
        tokio::join!(
            schedule,
            samples,
            after(minute, "notices")
                .run(store, shutdown, || self.housekeeper.send_notices(shutdown)),
            after(minute, "deletion").run(store, shutdown, || self.housekeeper.delete(shutdown)),
            after(minute, "agent_cards")
                .run(store, shutdown, || self.rescorer.look_again(shutdown)),
            after(CHECKPOINTS_EVERY, "audit_checkpoints")
                .run(store, shutdown, || self.checkpoint()),
            at_once("retention").run(store, shutdown, || self.retention.sweep(shutdown)),
            at_once_then(minute, "content")
                .run(store, shutdown, || self.storage.delete_content(shutdown)),
            at_once("idempotency").run(store, shutdown, || self.expire()),
            at_once("dead_letters").run(store, shutdown, || self.webhooks.clean()),
            at_once("sessions").run(store, shutdown, || self.sessions.forget()),
        );
    }

    async fn checkpoint(&self) -> Result<u64, StoreError> {
        match self.store.takes_writes().await {
            true => self.checkpointer.sign_all().await,
            false => Ok(0),
        }
    }

    /// Reads the gauges; each even if another one fails.
    async fn sample(&self) -> Result<(), StoreError> {
        if let Some(process) = &self.process_gauges {
            process.sample();
        }
        if let Some(cluster) = &self.cluster {
            cluster.measure();
        }
        let database = self.database_gauges.sample(&self.store).await;
        let queue = self.queue_gauges.sample().await;
        let deliveries = self.delivery_gauges.sample().await;
        database.and(queue).and(deliveries)
    }

    async fn expire(&self) -> Result<u64, StoreError> {
        match self.clock.now().checked_sub(IDEMPOTENCY_RETENTION) {
            Ok(oldest) => self.store.expire(oldest).await,
            Err(_) => Ok(0),
        }
    }
}
