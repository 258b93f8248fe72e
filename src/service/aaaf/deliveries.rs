//! Delivers what organizations are told (AAAF S13, Standard Webhooks).
//!
//! A webhook with something due is claimed by one replica, which makes its attempts some at a time and writes down what came
//! of them: a slow endpoint holds up nobody but itself. A process that is killed in between leaves messages that come twice
//! rather than ones that never come, and their ids tell.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use jiff::SignedDuration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::domain::aaaf::notice::schedule::{Outcome, next};
use crate::domain::retry_after::retry_after;
use crate::domain::sealing::owner;
use crate::domain::webhook::{Secret, Secrets, standard_headers};
use crate::ports::aaaf::{Attempted, DueDelivery, NoticeClaim, NoticeWebhook};
use crate::ports::{Clock, Ids, Store, StoreError, Undelivered};
use crate::service::fault::{chain, note_outage};
use crate::service::vault::{Vault, VaultError};
use crate::telemetry::names;

/// Webhooks served at the same time by one replica.
const AT_ONCE: usize = 32;
/// Attempts at one endpoint at the same time.
const TOGETHER: u32 = 8;
/// A lease outlives the longest attempt by far; whatever is recorded extends it.
const LEASE: Duration = Duration::from_secs(60);
/// How long a webhook is served before others get their turn.
const TURN: Duration = Duration::from_secs(10);

/// What a replica delivers with.
pub struct Means {
    /// Where deliveries wait.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, for waits.
    pub ids: Arc<dyn Ids>,
    /// The way out.
    pub notifier: Arc<dyn crate::ports::Notifier>,
    /// Where secrets are sealed.
    pub vault: Arc<Vault>,
}

/// A replica's share of the deliveries.
pub struct Deliverer {
    means: Means,
    owner: String,
    poll: Duration,
    turns: TaskTracker,
    places: Arc<Semaphore>,
}

/// Why a turn ended early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("the stored webhook secret is corrupt")]
    NoSecret,
}

impl Deliverer {
    /// One named `owner`, unique among all replicas and starts, that looks for what is due at least every `poll`.
    pub fn new(means: Means, owner: String, poll: Duration) -> Arc<Self> {
        Arc::new(Self {
            means,
            owner,
            poll,
            turns: TaskTracker::new(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        })
    }

    /// Delivers until `shutdown`; attempts under way are let finish.
    pub async fn work(self: Arc<Self>, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            let place = tokio::select! {
                () = shutdown.cancelled() => break,
                place = self.places.clone().acquire_owned() => place,
            };
            let Ok(place) = place else { break };
            match self.claim().await {
                Ok(Some(claim)) => self.start(claim, place, &shutdown),
                nothing => {
                    if let Err(cause) = nothing {
                        note_outage(self.means.store.as_ref(), &cause);
                        error!(
                            cause = chain(&cause),
                            "cannot read the deliveries that are due"
                        );
                    }
                    drop(place);
                    tokio::select! {
                        () = shutdown.cancelled() => {}
                        () = self.means.store.work_waiting(self.poll) => {}
                    }
                }
            }
        }
        self.turns.close();
        self.turns.wait().await;
    }

    async fn claim(&self) -> Result<Option<NoticeClaim>, StoreError> {
        let now = self.means.clock.now();
        let store = &self.means.store;
        // A delivery that cannot be recorded would be made again and again.
        if !store.takes_writes().await {
            return Ok(None);
        }
        store.claim_notice_webhook(&self.owner, LEASE, now).await
    }

    fn start(
        self: &Arc<Self>,
        claim: NoticeClaim,
        place: OwnedSemaphorePermit,
        shutdown: &CancellationToken,
    ) {
        let (deliverer, shutdown) = (self.clone(), shutdown.clone());
        self.turns.spawn(async move {
            match deliverer.serve(&claim, &shutdown).await {
                Ok(()) => {
                    let released = deliverer.means.store.release_notice_webhook(&claim).await;
                    if let Err(cause) = released {
                        warn!(
                            webhook_id = claim.webhook.id,
                            cause = chain(&cause),
                            "cannot release a webhook's lease; it will expire"
                        );
                    }
                }
                // Another replica serves it now, or it is gone.
                Err(Ended::Store(StoreError::Fenced)) => {}
                // The lease runs out by itself: whoever tries again should not do so at once.
                Err(cause) => {
                    if let Ended::Store(cause) = &cause {
                        note_outage(deliverer.means.store.as_ref(), cause);
                    }
                    error!(
                        webhook_id = claim.webhook.id,
                        cause = chain(&cause),
                        "cannot deliver to a webhook"
                    );
                }
            }
            drop(place);
        });
    }

    /// Makes attempts until none is due, the endpoint is given up or the time is over.
    async fn serve(&self, claim: &NoticeClaim, shutdown: &CancellationToken) -> Result<(), Ended> {
        let store = &self.means.store;
        let secrets = self.secrets(&claim.webhook)?;
        let mut health = claim.webhook.health;
        // A machine that slept finds its turn over, and makes no attempt under a lease that may be gone.
        let ends = self.means.clock.uptime() + TURN;
        loop {
            let now = self.means.clock.now();
            let due = store.due_deliveries(claim, now, TOGETHER).await?;
            if due.is_empty() {
                // What was due may have been taken back: then the webhook is not due either.
                store.attempted(claim, &[], &health, LEASE).await?;
                return Ok(());
            }
            let attempts = due
                .iter()
                .map(|delivery| self.attempt(&claim.webhook, delivery, &secrets));
            let mut attempted = Vec::with_capacity(due.len());
            for (attempt, outcome) in join_all(attempts).await {
                health = health.after(outcome, attempt.at);
                attempted.push(attempt);
            }
            store.attempted(claim, &attempted, &health, LEASE).await?;
            if let Some((why, _)) = health.disabled {
                warn!(
                    webhook_id = claim.webhook.id,
                    why = why.as_str(),
                    "a webhook was disabled"
                );
                return Ok(());
            }
            if shutdown.is_cancelled() || self.means.clock.uptime() >= ends {
                return Ok(());
            }
        }
    }

    async fn attempt(
        &self,
        webhook: &NoticeWebhook,
        delivery: &DueDelivery,
        secrets: &Secrets,
    ) -> (Attempted, Outcome) {
        let (clock, body) = (&self.means.clock, delivery.body.as_bytes());
        let mut headers = vec![("content-type", "application/json".to_owned())];
        let signed = standard_headers(&delivery.message, secrets, body, clock.now());
        headers.extend(signed);
        let body = Bytes::from(delivery.body.clone());
        let answer = self
            .means
            .notifier
            .notify(&webhook.url, &headers, body)
            .await;
        let at = clock.now();
        let (outcome, label) = match answer {
            Ok(answer) => {
                let asked = answer.retry_after.as_deref();
                let asked = asked.and_then(|value| retry_after(value, at));
                let asked = asked.and_then(|wait| SignedDuration::try_from(wait).ok());
                let outcome = Outcome::of(answer.status, asked);
                (outcome, format!("status_{}", answer.status))
            }
            Err(Undelivered::Failed(label)) => (Outcome::Refused(None), label),
            Err(Undelivered::Refused(_)) => {
                (Outcome::Refused(None), "address_not_allowed".to_owned())
            }
        };
        let taken = outcome == Outcome::Taken;
        let label_of = if taken { "taken" } else { "not_taken" };
        metrics::counter!(names::WEBHOOK_DELIVERIES, "outcome" => label_of).increment(1);
        let attempts = delivery.attempts.saturating_add(1);
        if !taken {
            info!(
                webhook_id = webhook.id,
                delivery_id = delivery.id,
                attempts,
                outcome = label,
                "a message was not accepted"
            );
        }
        let attempted = Attempted {
            id: delivery.id.clone(),
            at,
            outcome: label,
            next: next(outcome, attempts, at, self.chance()),
        };
        (attempted, outcome)
    }

    /// A number from 0 to 1.
    fn chance(&self) -> f64 {
        let [a, b, ..] = self.means.ids.secret();
        f64::from(u16::from_be_bytes([a, b])) / f64::from(u16::MAX)
    }

    fn secrets(&self, webhook: &NoticeWebhook) -> Result<Secrets, Ended> {
        let current = self.opened(webhook, &webhook.secrets.current)?;
        let previous = match &webhook.secrets.previous {
            Some((sealed, until)) if self.means.clock.now() < *until => {
                Some((self.opened(webhook, sealed)?, *until))
            }
            _ => None,
        };
        Ok(Secrets { current, previous })
    }

    fn opened(&self, webhook: &NoticeWebhook, sealed: &str) -> Result<Secret, Ended> {
        let owner = owner::notice_webhook(&webhook.id);
        let octets = self.means.vault.open(&owner, sealed)?;
        let text = String::from_utf8(octets).map_err(|_| Ended::NoSecret)?;
        Ok(Secret::kept(text))
    }
}
