//! Signals between the replicas of a database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use touchstone_host::ports::fanout::{Fanout, Undelivered};
use touchstone_host::store::database::Database;
use tracing::{debug, warn};

use crate::ports::announcements::{Announced, Announcements};
use crate::rules::announcements::{MAX_SIGNALS, Signals, Topic};
use crate::rules::wire;

/// Pause after a fault of the bus.
const AFTER_FAULT: Duration = Duration::from_secs(1);

/// Sends the signals of this replica and receives those of the others.
pub struct ReplicaSignals {
    bus: Arc<dyn Announcements>,
    replica: String,
}

#[async_trait]
impl Fanout for ReplicaSignals {
    async fn send(&self, signals: &[String]) -> Result<(), Undelivered> {
        for part in signals.chunks(MAX_SIGNALS) {
            let signals = part.to_vec();
            let message = wire::write(&Signals { signals });
            let message = message.map_err(|cause| Undelivered(cause.to_string()))?;
            let sent = self.bus.announce(Topic::Signals, &self.replica, message);
            sent.await.map_err(|cause| Undelivered(cause.to_string()))?;
        }
        Ok(())
    }
}

impl ReplicaSignals {
    pub fn new(bus: Arc<dyn Announcements>, replica: String) -> Self {
        Self { bus, replica }
    }

    /// Passes signals of other replicas to the store until `stop` is cancelled.
    pub async fn receive(&self, store: &Database, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.bus.listen(Topic::Signals).await {
                Ok(announced) => tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.receive_all(announced, store) => {}
                },
                Err(cause) => {
                    warn!(%cause, "cannot receive signals of other replicas over NATS");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AFTER_FAULT) => {}
            }
        }
    }

    async fn receive_all(&self, mut announced: mpsc::Receiver<Announced>, store: &Database) {
        while let Some(announced) = announced.recv().await {
            match announced {
                Announced::Reconnected => store.signals_missed(),
                Announced::Message { sender, .. } if sender == self.replica => {}
                Announced::Message { message, .. } => match wire::read::<Signals>(&message) {
                    Ok(Signals { signals }) => {
                        signals.iter().for_each(|it| store.receive_signal(it));
                    }
                    Err(cause) => {
                        debug!(%cause, "signals of another replica could not be read");
                        store.signals_missed();
                    }
                },
            }
        }
    }
}
