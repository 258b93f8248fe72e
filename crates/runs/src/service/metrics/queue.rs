//! Gauges of the queue and of webhooks, read from the database. Every replica exports the same
//! values, so dashboards take their maximum.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use metrics::Gauge;

use crate::service::metrics::RUN_METRICS;
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::telemetry::{gauge, names};

pub struct QueueGauges {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    executing: Gauge,
    queued: Gauge,
    parked: Gauge,
    paused: Gauge,
    oldest: Gauge,
    webhook_lag: Gauge,
}

impl QueueGauges {
    pub fn new(store: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        // Counters are exported before they count, so that their first increase is visible.
        LazyLock::force(&RUN_METRICS);
        let runs = |status| gauge(names::RUNS, &[("status", status)]);
        Self {
            store,
            clock,
            executing: runs("executing"),
            queued: runs("queued"),
            parked: runs("waiting"),
            paused: runs("paused"),
            oldest: gauge(names::QUEUE_AGE, &[]),
            webhook_lag: gauge(names::WEBHOOK_LAG, &[("events", "runs")]),
        }
    }

    /// Reads the values. If the database does not answer, no value is exported in place of an old
    /// one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sample(&self) -> Result<(), StoreError> {
        let sampled = self.read().await;
        if sampled.is_err() {
            let all = [
                &self.executing,
                &self.queued,
                &self.parked,
                &self.paused,
                &self.oldest,
                &self.webhook_lag,
            ];
            all.into_iter().for_each(|gauge| gauge.set(f64::NAN));
        }
        sampled
    }

    async fn read(&self) -> Result<(), StoreError> {
        let queue = store::work::queue(&self.store, None).await?;
        let now = self.clock.now();
        let undelivered = store::webhooks::oldest_undelivered(&self.store, now).await?;
        let set = |gauge: &Gauge, runs: u64| gauge.set(runs as f64);
        set(&self.executing, queue.running);
        set(&self.queued, queue.queued);
        set(&self.parked, queue.waiting.saturating_sub(queue.queued));
        set(&self.paused, queue.paused);
        self.oldest.set(age(queue.ready_since, now));
        self.webhook_lag.set(age(undelivered, now));
        Ok(())
    }
}

/// The seconds since then; 0 if there is nothing.
fn age(since: Option<Timestamp>, now: Timestamp) -> f64 {
    since.map_or(0.0, |it| now.duration_since(it).as_secs_f64().max(0.0))
}
