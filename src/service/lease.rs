//! What a process knows of its lease on a run.
//!
//! A lease surely holds until its duration has passed since the last renewal was asked for that succeeded. A process that was
//! stopped, or a machine that slept, finds it over when it wakes, and makes no further call before it has been renewed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::ports::Clock;

/// A lease as its holder keeps it.
#[derive(Debug)]
pub struct LeaseTerm(watch::Sender<Duration>);

impl LeaseTerm {
    /// A lease of this length that was asked for when [`Clock::uptime`] was `asked_at`.
    pub fn new(asked_at: Duration, length: Duration) -> Self {
        Self(watch::Sender::new(asked_at.saturating_add(length)))
    }

    /// It was renewed.
    pub fn renew(&self, asked_at: Duration, length: Duration) {
        self.0.send_replace(asked_at.saturating_add(length));
    }

    /// For those who work under it.
    pub fn lease(&self, clock: Arc<dyn Clock>) -> Lease {
        Lease {
            until: self.0.subscribe(),
            clock,
        }
    }
}

/// A lease as those see it who work under it.
#[derive(Clone)]
pub struct Lease {
    until: watch::Receiver<Duration>,
    clock: Arc<dyn Clock>,
}

impl Lease {
    /// Whether it surely holds now.
    pub fn holds(&self) -> bool {
        self.clock.uptime() < *self.until.borrow()
    }

    /// Waits until it surely holds; for ever if it is not renewed.
    pub async fn held(&self) {
        let mut until = self.until.clone();
        while self.clock.uptime() >= *until.borrow_and_update() {
            if until.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
