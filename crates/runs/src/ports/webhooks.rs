//! Webhook subscriptions: their records, their progress per run, and the delivery of events.

use jiff::Timestamp;
use url::Url;

use touchstone_host::ports::run_log::Fence;
use touchstone_kit::ids::{RunId, TenantId, WebhookId};
use touchstone_kit::webhook::{Circuit, Secrets};

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

/// Why a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// Deliveries to the URL are forbidden; names the rule, never the resolved address.
    #[error("{0}")]
    Refused(&'static str),
    /// The delivery failed; a label from a closed list (`timeout`, `connect`, `status_500`, …).
    #[error("not taken: {0}")]
    Failed(String),
}

/// An endpoint's response, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointResponse {
    pub status: u16,
    /// The raw `Retry-After` header.
    pub retry_after: Option<String>,
}
