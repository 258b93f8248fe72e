//! Delivers events to webhook subscriptions (OpenWOP webhooks, delivery semantics).
//!
//! The log is the queue: a subscription stores how far it has been served of each run it follows.
//! So a restart loses nothing, a slow endpoint takes no memory, and the next claim of a
//! subscription continues where the last one stopped. One replica at a time serves a subscription,
//! under a lease with a fencing token.
//!
//! An event that is not accepted is recorded as a retry, and the following events are not delayed.
//! After the last attempt it becomes a dead letter. Progress is recorded after each attempt: if the
//! process is killed in between, one event is delivered twice rather than never, and receivers
//! recognize it by its signed id.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::ports::webhooks::WebhookClaim;
use crate::service::webhooks::session::Session;
use crate::store;
use crate::webhook_client::WebhookClient;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::jobs::{Failure, Leased};
use touchstone_host::store::database::Database;

/// Much longer than the longest attempt; every recorded attempt extends it.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Maximum time to wait for a signal, in case one is lost. The pause after it is added.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest pause after a signal: events committed within it are served together.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause after a signal, however long a search takes.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Up to that limit, searching for work takes at most 1/`SHARE` of the time.
const SHARE: u32 = 20;

pub struct Dispatcher {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    notifier: Arc<WebhookClient>,
    owner: String,
}

impl Dispatcher {
    /// A dispatcher named `owner`, unique among all replicas and starts.
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        notifier: Arc<WebhookClient>,
        owner: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            notifier,
            owner,
        })
    }
}

#[async_trait]
impl Leased for Dispatcher {
    const NAME: &'static str = "webhooks";

    /// With fewer slow endpoints, the others are not delayed.
    const AT_ONCE: usize = 64;

    type Claim = WebhookClaim;

    fn store(&self) -> &Database {
        &self.store
    }

    fn poll(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn claim(&self) -> Result<Option<WebhookClaim>, StoreError> {
        store::webhooks::claim(&self.store, &self.owner, LEASE, self.clock.now()).await
    }

    fn id(claim: &WebhookClaim) -> &str {
        claim.webhook.id.as_str()
    }

    async fn perform(
        &self,
        claim: WebhookClaim,
        shutdown: &CancellationToken,
    ) -> Result<(), Failure> {
        let mut session = Session::new(
            self.store.clone(),
            self.clock.clone(),
            self.notifier.clone(),
            claim,
            shutdown.clone(),
        );
        let served = session.serve_all().await;
        let is_lost = match &served {
            Ok(()) => {
                let made = session.made.make_contiguous();
                !store::webhooks::release(&self.store, &session.claim, made).await?
            }
            Err(cause) => matches!(cause, StoreError::Fenced),
        };
        if is_lost {
            // A removal of the subscription waits for this.
            let id = &session.claim.webhook.id;
            store::webhooks::leave(&self.store, id, &self.owner).await?;
        }
        Ok(served?)
    }

    async fn idle(&self, search: Duration) {
        self.store.any_run_changed(POLL_INTERVAL).await;
        sleep(pause_after(search)).await;
    }
}

/// The pause after a search that took this long and found nothing.
fn pause_after(search: Duration) -> Duration {
    search.saturating_mul(SHARE).clamp(MIN_PAUSE, MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_proportional_to_the_search_within_limits() {
        let pause = |millis| pause_after(Duration::from_millis(millis)).as_millis();
        assert_eq!(
            [0, 2, 10, 250, 251, 60_000].map(pause),
            [50, 50, 200, 5000, 5000, 5000]
        );
    }
}
