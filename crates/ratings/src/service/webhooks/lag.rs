//! The gauge of notices that wait to be delivered.

use std::sync::Arc;

use metrics::Gauge;

use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::telemetry::{gauge, names};

pub struct DeliveryGauges {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    lag: Gauge,
}

impl DeliveryGauges {
    pub fn new(store: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        let lag = gauge(names::WEBHOOK_LAG, &[("events", "ratings")]);
        Self { store, clock, lag }
    }

    /// Reads the value. If the database does not answer, no value is exported in place of an old
    /// one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sample(&self) -> Result<(), StoreError> {
        let oldest = store::notices::oldest_undelivered(&self.store).await;
        let now = self.clock.now();
        self.lag.set(match &oldest {
            Ok(Some(since)) => now.duration_since(*since).as_secs_f64().max(0.0),
            Ok(None) => 0.0,
            Err(_) => f64::NAN,
        });
        oldest.map(|_| ())
    }
}
