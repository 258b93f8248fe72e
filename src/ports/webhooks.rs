//! Webhook subscriptions: their records, their progress per run, and the delivery of events.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use url::Url;

use super::{Fence, IdempotencyCompletion, StoreError, StoredEvent};
use crate::domain::ids::{RunId, TenantId, WebhookId};
use crate::domain::run::record::RunRecord;
use crate::domain::webhook::{Circuit, Secrets};

/// A stored subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookRecord {
    pub id: WebhookId,
    pub tenant: TenantId,
    /// The target of deliveries.
    pub url: Url,
    /// The requested event types.
    pub events: Vec<String>,
    /// The requested tags of runs; empty for all.
    pub tags: Vec<String>,
    /// Whether the headers of Standard Webhooks were requested.
    pub standard: bool,
    /// The secrets that sign deliveries.
    pub secrets: Secrets,
    /// The key id of the registering caller.
    pub created_by: String,
    pub created_at: Timestamp,
    /// The state of its deliveries.
    pub circuit: Circuit,
}

/// A subscription that one replica may serve until its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookClaim {
    pub webhook: WebhookRecord,
    /// Increases with every claim; progress with an older one is refused.
    pub fence: Fence,
}

/// A subscription's progress in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub run: RunId,
    /// The last sequence that is done.
    pub after: u64,
    /// The end of the run's log.
    pub head: u64,
}

/// A range of a log: after one sequence, up to and including another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Exclusive lower bound.
    pub after: u64,
    /// Inclusive upper bound.
    pub upto: u64,
}

/// Webhook subscriptions and their progress.
///
/// A subscription follows every unfinished run of its tenant from the current end of the run's log,
/// and every run created later from the start. It stops following a run once it has been served the
/// whole log.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Adds a subscription; `false` if the tenant already has `most`.
    async fn add_webhook(&self, webhook: &WebhookRecord, most: u32) -> Result<bool, StoreError>;
    /// Records a new run as [`RunLog::create`](super::RunLog::create) does, and with it a dedicated
    /// subscription: it follows only this run, is served once the run has ended, and is removed
    /// then. The methods for a tenant's subscriptions do not return it.
    async fn create_calling_back(
        &self,
        run: &RunRecord,
        callback: &WebhookRecord,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    async fn webhook(
        &self,
        tenant: &TenantId,
        id: &WebhookId,
    ) -> Result<Option<WebhookRecord>, StoreError>;
    /// All subscriptions of a tenant, oldest first.
    async fn webhooks(&self, tenant: &TenantId) -> Result<Vec<WebhookRecord>, StoreError>;
    /// Removes a subscription with its progress; `false` if it does not exist.
    async fn remove_webhook(&self, tenant: &TenantId, id: &WebhookId) -> Result<bool, StoreError>;
    /// Replaces the secrets, if they still are `known`; `false` if not, or if the subscription does
    /// not exist.
    async fn rotate_webhook(
        &self,
        tenant: &TenantId,
        id: &WebhookId,
        known: &Secrets,
        new: &Secrets,
    ) -> Result<bool, StoreError>;

    /// Claims the subscription that has waited longest among those with pending events and a lease
    /// that is free or expired. Increases its fence. Leases use the store's own clock.
    async fn claim_webhook(
        &self,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<WebhookClaim>, StoreError>;
    /// Runs whose logs have grown since the subscription was last served, oldest first.
    async fn grown(&self, id: &WebhookId, limit: u32) -> Result<Vec<Followed>, StoreError>;
    /// Events of these types within a range of a log, in order.
    async fn events_of(
        &self,
        run: &RunId,
        window: Window,
        kinds: &[String],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Records that a run has been served up to `upto`, and the state of deliveries; renews the
    /// lease for `ttl` from now. [`StoreError::Fenced`] if the claim is no longer the newest, or
    /// the subscription is gone.
    async fn served(
        &self,
        claim: &WebhookClaim,
        run: &RunId,
        upto: u64,
        circuit: &Circuit,
        ttl: Duration,
    ) -> Result<(), StoreError>;
    /// Skips all pending events of every run. [`StoreError::Fenced`] as in
    /// [`served`](Self::served).
    async fn pass_over(&self, claim: &WebhookClaim) -> Result<(), StoreError>;
    /// Stops following a run, or (`None`) all runs.
    async fn unfollow(&self, claim: &WebhookClaim, run: Option<&RunId>) -> Result<(), StoreError>;
    /// Gives the subscription back, after all others that wait.
    async fn release_webhook(&self, claim: &WebhookClaim) -> Result<(), StoreError>;
}

/// Why a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undelivered {
    /// Deliveries to the URL are forbidden; names the rule, never the resolved address.
    #[error("{0}")]
    Refused(&'static str),
    /// The delivery failed; a label from a closed list (`timeout`, `connect`, `status_500`, …).
    #[error("not taken: {0}")]
    Failed(String),
}

/// An endpoint's response, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    pub status: u16,
    /// The raw `Retry-After` header.
    pub retry_after: Option<String>,
}

/// Sends deliveries to untrusted URLs: the address of every connection is checked.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Whether deliveries to `url` are allowed. Resolves the name; a name that does not resolve may
    /// do so later and is checked again at every delivery.
    async fn admit(&self, url: &Url) -> Result<(), Undelivered>;
    /// Delivers once, within five seconds; any status but 2xx is a failure, redirects included.
    async fn deliver(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<(), Undelivered>;
    /// Delivers once, within fifteen seconds, to an endpoint that may send `Retry-After`. Redirects
    /// are not followed: they are responses like any other.
    async fn notify(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<Acknowledged, Undelivered>;
    /// Sends a request and reads its short response, within ten seconds; any status but 2xx is a
    /// failure.
    async fn ask(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<Bytes, Undelivered>;
}
