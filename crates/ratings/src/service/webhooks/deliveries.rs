//! Delivers notices to webhooks (AAAF S13, Standard Webhooks).
//!
//! One replica claims a webhook with due deliveries, makes several attempts at a time and records
//! their outcomes, so a slow endpoint delays only itself. If the process is killed in between,
//! messages are sent twice rather than lost; receivers recognize them by their ids.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::ports::notices::{Attempted, DueDelivery, NoticeClaim, NoticeWebhook};
use crate::rules::notice::schedule::{DeliveryOutcome, next};
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::jobs::{Failure, Leased};
use touchstone_host::service::vault::Vault;
use touchstone_host::store::database::Database;
use touchstone_kit::headers::retry_after::retry_after;
use touchstone_kit::sealing::owner;
use touchstone_kit::webhook::{Secret, Secrets, standard_headers};
use touchstone_runs::ports::webhooks::DeliveryError;
use touchstone_runs::service::metrics::RUN_METRICS;
use touchstone_runs::webhook_client::WebhookClient;

/// Maximum number of simultaneous attempts at one endpoint.
const MAX_CONCURRENT: u32 = 8;
/// Duration of a lease: much longer than any attempt. Recording outcomes extends it.
const LEASE: Duration = Duration::from_secs(60);
/// How long a webhook is served before others get their turn.
const TURN: Duration = Duration::from_secs(10);

/// The dependencies of a [`Deliverer`].
pub struct DelivererDeps {
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    /// Random numbers for the wait between attempts.
    pub ids: Arc<dyn Ids>,
    /// Sends the HTTP requests.
    pub notifier: Arc<WebhookClient>,
    /// Decrypts the signing secrets.
    pub vault: Arc<Vault>,
}

/// The worker that makes deliveries for one replica.
pub struct Deliverer {
    deps: DelivererDeps,
    owner: String,
    poll: Duration,
}

#[async_trait]
impl Leased for Deliverer {
    const NAME: &'static str = "notices";

    const AT_ONCE: usize = 32;

    type Claim = NoticeClaim;

    fn store(&self) -> &Database {
        &self.deps.store
    }

    fn poll(&self) -> Duration {
        self.poll
    }

    async fn claim(&self) -> Result<Option<NoticeClaim>, StoreError> {
        let DelivererDeps { store, clock, .. } = &self.deps;
        store::notices::claim_notice_webhook(store, &self.owner, LEASE, clock.now()).await
    }

    fn id(claim: &NoticeClaim) -> &str {
        &claim.webhook.id
    }

    async fn perform(
        &self,
        claim: NoticeClaim,
        shutdown: &CancellationToken,
    ) -> Result<(), Failure> {
        self.serve(&claim, shutdown).await?;
        store::notices::release_notice_webhook(&self.deps.store, &claim).await?;
        Ok(())
    }
}

impl Deliverer {
    /// Creates a worker that checks for due deliveries at least every `poll`; `owner` must be
    /// unique among all replicas and starts.
    pub fn new(deps: DelivererDeps, owner: String, poll: Duration) -> Arc<Self> {
        Arc::new(Self { deps, owner, poll })
    }

    /// Makes attempts until none is due, the endpoint is disabled or the turn is over.
    async fn serve(
        &self,
        claim: &NoticeClaim,
        shutdown: &CancellationToken,
    ) -> Result<(), Failure> {
        let store = &self.deps.store;
        let secrets = self.secrets(&claim.webhook)?;
        let mut health = claim.webhook.health;
        // After the machine was suspended, the turn is over, so no attempt is made under an expired
        // lease.
        let ends = self.deps.clock.uptime() + TURN;
        loop {
            let now = self.deps.clock.now();
            let due = store::notices::due_deliveries(store, claim, now, MAX_CONCURRENT).await?;
            if due.is_empty() {
                // The due deliveries may have been deleted. Recording no attempts updates the
                // webhook's due time.
                store::notices::attempted(store, claim, &[], &health, LEASE).await?;
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
            store::notices::attempted(store, claim, &attempted, &health, LEASE).await?;
            if let Some((why, _)) = health.disabled {
                warn!(
                    webhook_id = claim.webhook.id,
                    why = why.as_str(),
                    "a webhook was disabled"
                );
                return Ok(());
            }
            if shutdown.is_cancelled() || self.deps.clock.uptime() >= ends {
                return Ok(());
            }
        }
    }

    async fn attempt(
        &self,
        webhook: &NoticeWebhook,
        delivery: &DueDelivery,
        secrets: &Secrets,
    ) -> (Attempted, DeliveryOutcome) {
        let (clock, body) = (&self.deps.clock, delivery.body.as_bytes());
        let mut headers = vec![("content-type", "application/json".to_owned())];
        let signed = standard_headers(&delivery.message, secrets, body, clock.now());
        headers.extend(signed);
        let body = Bytes::from(delivery.body.clone());
        let answer = self
            .deps
            .notifier
            .notify(&webhook.url, &headers, body)
            .await;
        let at = clock.now();
        let (outcome, label) = match answer {
            Ok(answer) => {
                let header = answer.retry_after.as_deref();
                let wait = header.and_then(|value| retry_after(value, at));
                let wait = wait.and_then(|wait| SignedDuration::try_from(wait).ok());
                let outcome = DeliveryOutcome::of(answer.status, wait);
                (outcome, format!("status_{}", answer.status))
            }
            Err(DeliveryError::Failed(label)) => (DeliveryOutcome::Rejected(None), label),
            Err(DeliveryError::Refused(_)) => (
                DeliveryOutcome::Rejected(None),
                "address_not_allowed".to_owned(),
            ),
        };
        let accepted = outcome == DeliveryOutcome::Accepted;
        RUN_METRICS.delivered(accepted);
        let attempts = delivery.attempts.saturating_add(1);
        if !accepted {
            info!(
                webhook_id = webhook.id,
                delivery_id = delivery.id,
                attempts,
                outcome = label,
                "the endpoint did not accept a delivery"
            );
        }
        let attempted = Attempted {
            id: delivery.id.clone(),
            at,
            outcome: label,
            next: next(outcome, attempts, at, self.random()),
        };
        (attempted, outcome)
    }

    /// A random number from 0 to 1.
    fn random(&self) -> f64 {
        let [a, b, ..] = self.deps.ids.secret();
        f64::from(u16::from_be_bytes([a, b])) / f64::from(u16::MAX)
    }

    fn secrets(&self, webhook: &NoticeWebhook) -> Result<Secrets, Failure> {
        let current = self.decrypt(webhook, &webhook.secrets.current)?;
        let previous = match &webhook.secrets.previous {
            Some((sealed, until)) if self.deps.clock.now() < *until => {
                Some((self.decrypt(webhook, sealed)?, *until))
            }
            _ => None,
        };
        Ok(Secrets { current, previous })
    }

    fn decrypt(&self, webhook: &NoticeWebhook, sealed: &str) -> Result<Secret, Failure> {
        let owner = owner::notice_webhook(&webhook.id);
        let bytes = self.deps.vault.open(&owner, sealed)?;
        let text = String::from_utf8(bytes).map_err(|_| "the stored webhook secret is corrupt")?;
        Ok(Secret::kept(text))
    }
}
