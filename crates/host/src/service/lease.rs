//! A process's view of its lease on a run.
//!
//! A lease holds for certain until its duration has passed since the start of the last successful
//! renewal. A process that was stopped, or a machine that slept, finds the lease expired when it
//! wakes, and makes no further call before it has been renewed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::ports::clock::Clock;

/// The holder's side of a lease.
#[derive(Debug)]
pub struct LeaseTerm(watch::Sender<Duration>);

impl LeaseTerm {
    /// A lease of this length, requested when [`Clock::uptime`] was `asked_at`.
    pub fn new(asked_at: Duration, length: Duration) -> Self {
        Self(watch::Sender::new(asked_at.saturating_add(length)))
    }

    /// Records a successful renewal.
    pub fn renew(&self, asked_at: Duration, length: Duration) {
        self.0.send_replace(asked_at.saturating_add(length));
    }

    /// The view for work done under the lease.
    pub fn lease(&self, clock: Arc<dyn Clock>) -> Lease {
        Lease {
            until: self.0.subscribe(),
            clock,
        }
    }
}

/// A read-only view of a lease, for work done under it.
#[derive(Clone)]
pub struct Lease {
    until: watch::Receiver<Duration>,
    clock: Arc<dyn Clock>,
}

impl Lease {
    /// Whether it holds for certain now.
    pub fn holds(&self) -> bool {
        self.clock.uptime() < *self.until.borrow()
    }

    /// Waits until it holds for certain; forever if it is not renewed.
    pub async fn held(&self) {
        let mut until = self.until.clone();
        while self.clock.uptime() >= *until.borrow_and_update() {
            if until.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
