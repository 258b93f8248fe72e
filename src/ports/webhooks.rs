//! Webhook subscriptions: their records, how far each has been served, and who brings deliveries out.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use url::Url;

use super::{Fence, IdempotencyCompletion, StoreError, StoredEvent};
use crate::domain::ids::{RunId, TenantId, WebhookId};
use crate::domain::run::record::RunRecord;
use crate::domain::webhook::{Circuit, Secrets};

/// A subscription as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookRecord {
    /// Its id.
    pub id: WebhookId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Where deliveries go.
    pub url: Url,
    /// Event types it wants.
    pub events: Vec<String>,
    /// Tags of runs it wants; empty for all.
    pub tags: Vec<String>,
    /// Whether the headers of Standard Webhooks were asked for.
    pub standard: bool,
    /// What signs.
    pub secrets: Secrets,
    /// Key id of who registered it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// How deliveries have gone.
    pub circuit: Circuit,
}

/// A subscription one replica may serve until its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookClaim {
    /// The subscription.
    pub webhook: WebhookRecord,
    /// Grows with every claim; progress under an older one is refused.
    pub fence: Fence,
}

/// How far a subscription has been served of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The run.
    pub run: RunId,
    /// The last sequence that needs no more attention.
    pub after: u64,
    /// Where the run's log ends.
    pub head: u64,
}

/// A stretch of a log: after the one sequence, up to and with the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Sequences above this one.
    pub after: u64,
    /// Sequences up to this one.
    pub upto: u64,
}

/// Webhook subscriptions and their progress.
///
/// A subscription follows every run of its tenant that has not ended when it is made, from where the log is then, and every
/// run that is created later, from its beginning. It stops following a run once it has been served the whole log.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Adds a subscription; `false` if the tenant has `most` already.
    async fn add_webhook(&self, webhook: &WebhookRecord, most: u32) -> Result<bool, StoreError>;
    /// Records a new run as [`RunLog::create`](super::RunLog::create) does, and with it a subscription of its own: it follows
    /// this run only, is served once the run has ended, and is gone then. None of the methods on a tenant's subscriptions
    /// knows it.
    async fn create_calling_back(
        &self,
        run: &RunRecord,
        callback: &WebhookRecord,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    /// One subscription.
    async fn webhook(
        &self,
        tenant: &TenantId,
        id: &WebhookId,
    ) -> Result<Option<WebhookRecord>, StoreError>;
    /// All subscriptions of a tenant, oldest first.
    async fn webhooks(&self, tenant: &TenantId) -> Result<Vec<WebhookRecord>, StoreError>;
    /// Removes a subscription with its progress; `false` if there is none.
    async fn remove_webhook(&self, tenant: &TenantId, id: &WebhookId) -> Result<bool, StoreError>;
    /// Replaces the secrets, if they still are `known`; `false` if not, or if there is no such subscription.
    async fn rotate_webhook(
        &self,
        tenant: &TenantId,
        id: &WebhookId,
        known: &Secrets,
        new: &Secrets,
    ) -> Result<bool, StoreError>;

    /// Claims the subscription that has waited longest among those with something to be served and a lease that is free or
    /// over. Raises its fence. Leases are told by the store's own clock.
    async fn claim_webhook(
        &self,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<WebhookClaim>, StoreError>;
    /// Runs whose logs have grown since the subscription was last served of them, oldest first.
    async fn grown(&self, id: &WebhookId, limit: u32) -> Result<Vec<Followed>, StoreError>;
    /// Events of these types within a stretch of a log, in order.
    async fn events_of(
        &self,
        run: &RunId,
        window: Window,
        kinds: &[String],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Records that a run has been served up to `upto`, and how that went; holds the lease for `ttl` from now on.
    /// [`StoreError::Fenced`] if the claim is not the newest any more, or the subscription is gone.
    async fn served(
        &self,
        claim: &WebhookClaim,
        run: &RunId,
        upto: u64,
        circuit: &Circuit,
        ttl: Duration,
    ) -> Result<(), StoreError>;
    /// Passes over whatever there is now, in every run. [`StoreError::Fenced`] as in [`served`](Self::served).
    async fn pass_over(&self, claim: &WebhookClaim) -> Result<(), StoreError>;
    /// Ends the subscription's following, for a run or (`None`) for good.
    async fn unfollow(&self, claim: &WebhookClaim, run: Option<&RunId>) -> Result<(), StoreError>;
    /// Gives the subscription back, behind all others that wait.
    async fn release_webhook(&self, claim: &WebhookClaim) -> Result<(), StoreError>;
}

/// Why a delivery was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undelivered {
    /// The URL may not be delivered to; says which rule, never what it resolved to.
    #[error("{0}")]
    Refused(&'static str),
    /// No success; a label from a closed list (`timeout`, `connect`, `status_500`, …).
    #[error("not taken: {0}")]
    Failed(String),
}

/// What an endpoint answered, without what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The status.
    pub status: u16,
    /// `Retry-After`, as it came.
    pub retry_after: Option<String>,
}

/// Brings deliveries out, to places strangers have named: every address is judged where it is used.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Whether `url` may be delivered to at all. Names are resolved; one that resolves to nothing may come to life later
    /// and is judged again at every delivery.
    async fn admit(&self, url: &Url) -> Result<(), Undelivered>;
    /// Delivers once, within five seconds; anything but 2xx is a failure, a redirect too.
    async fn deliver(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<(), Undelivered>;
    /// Delivers once, within fifteen seconds, to an endpoint that may say when it wants to be asked again. Redirects are not
    /// followed: they are answers like any other.
    async fn notify(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<Acknowledged, Undelivered>;
    /// Asks an endpoint something and reads its short answer, within ten seconds; only a 2xx is one.
    async fn ask(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<Bytes, Undelivered>;
}
