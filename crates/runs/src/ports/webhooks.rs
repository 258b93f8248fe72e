//! Webhook subscriptions: their records, their progress per run, and the delivery of events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

use touchstone_host::ports::run_log::Fence;
use touchstone_kit::ids::{RunId, TenantId, WebhookId};
use touchstone_kit::webhook::schedule::dead_letter_expiry;
use touchstone_kit::webhook::{Circuit, Secrets, delivery_id};
use touchstone_openwop::wire::Major;

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
    /// The major that it was registered under: deliveries have its form.
    pub contract: Major,
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

/// A delivery that failed, and `Retry-After` of the response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Undelivered {
    pub cause: DeliveryError,
    pub retry_after: Option<String>,
}

impl From<DeliveryError> for Undelivered {
    fn from(cause: DeliveryError) -> Self {
        Self {
            cause,
            retry_after: None,
        }
    }
}

/// An event whose delivery failed and that is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub run: RunId,
    /// The event's place in the run's log.
    pub sequence: u64,
    /// The stored type.
    pub kind: String,
    pub event_id: String,
    /// Attempts that were made.
    pub attempts: u32,
    pub due_at: Timestamp,
    /// The HTTP status of the last attempt, if the endpoint responded.
    pub last_status: Option<u16>,
}

impl Retry {
    /// The dead letter of this event.
    pub fn given_up(self, webhook: &WebhookId, reason: GivenUp, at: Timestamp) -> DeadLetter {
        DeadLetter {
            delivery_id: delivery_id(webhook, &self.run, self.sequence),
            webhook_id: webhook.clone(),
            run_id: self.run,
            event_id: self.event_id,
            event_type: self.kind,
            attempts: self.attempts,
            dead_lettered_at: at,
            expires_at: dead_letter_expiry(at),
            reason,
            last_status: self.last_status,
        }
    }
}

/// Why a delivery was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GivenUp {
    /// The endpoint accepted none of the attempts.
    RetriesExhausted,
    /// The event has no form under the major of the subscription.
    PayloadUnprojectable,
}

impl GivenUp {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetriesExhausted => "retries_exhausted",
            Self::PayloadUnprojectable => "payload_unprojectable",
        }
    }
}

/// A delivery that was given up, without the event's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    pub delivery_id: String,
    pub webhook_id: WebhookId,
    pub run_id: RunId,
    pub event_id: String,
    /// The stored type.
    pub event_type: String,
    pub attempts: u32,
    pub dead_lettered_at: Timestamp,
    pub expires_at: Timestamp,
    pub reason: GivenUp,
    /// The HTTP status of the last attempt, if the endpoint responded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
}

/// What becomes of an event after an attempt to deliver it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// It was delivered, or it was deleted.
    Done,
    Retry(Retry),
    GiveUp(DeadLetter),
}

/// An endpoint's response, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointResponse {
    pub status: u16,
    /// The raw `Retry-After` header.
    pub retry_after: Option<String>,
}

/// How an attempt to deliver an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    Delivered,
    /// The endpoint did not accept it.
    Failed,
    /// The host may not send to the address.
    Refused,
}

impl DeliveryState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// One attempt to deliver an event, without the event's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryRecord {
    /// Increases with every attempt of a webhook; 0 until it is stored.
    pub number: u64,
    pub run_id: RunId,
    /// The event's sequence number in the run's log.
    pub sequence: u64,
    pub event_type: String,
    pub state: DeliveryState,
    /// The HTTP status, if the endpoint responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there was no accepted response: a label from a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often the event has been sent, with this attempt.
    pub attempts: u32,
    pub at: Timestamp,
    pub took_ms: u64,
    /// Whether a person asked for it.
    pub replay: bool,
}

impl DeliveryRecord {
    /// The record of an attempt.
    pub fn of(
        run: &RunId,
        (sequence, kind): (u64, &str),
        attempts: u32,
        outcome: &Result<u16, DeliveryError>,
        (at, took_ms): (Timestamp, u64),
    ) -> Self {
        let (state, status, error) = match outcome {
            Ok(status) => (DeliveryState::Delivered, Some(*status), None),
            Err(DeliveryError::Refused(_)) => {
                let error = "address_not_allowed".to_owned();
                (DeliveryState::Refused, None, Some(error))
            }
            Err(DeliveryError::Failed(label)) => {
                let status = label.strip_prefix("status_");
                let status = status.and_then(|status| status.parse().ok());
                let error = status.is_none().then(|| label.clone());
                (DeliveryState::Failed, status, error)
            }
        };
        Self {
            number: 0,
            run_id: run.clone(),
            sequence,
            event_type: kind.to_owned(),
            state,
            status,
            error,
            attempts,
            at,
            took_ms,
            replay: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Ok(204), DeliveryState::Delivered, Some(204), None)]
    #[case(failed("status_503"), DeliveryState::Failed, Some(503), None)]
    #[case(failed("timeout"), DeliveryState::Failed, None, Some("timeout"))]
    #[case(
        Err(DeliveryError::Refused("no")),
        DeliveryState::Refused,
        None,
        Some("address_not_allowed")
    )]
    fn a_record_has_the_status_or_the_kind_of_error(
        #[case] outcome: Result<u16, DeliveryError>,
        #[case] state: DeliveryState,
        #[case] status: Option<u16>,
        #[case] error: Option<&str>,
    ) {
        let run = RunId::from("run_1");
        let at = Timestamp::UNIX_EPOCH;
        let record = DeliveryRecord::of(&run, (3, "run.completed"), 2, &outcome, (at, 7));
        let found = (record.state, record.status, record.error.as_deref());
        assert_eq!(found, (state, status, error));
        assert_eq!((record.attempts, record.replay), (2, false));
    }

    fn failed(label: &str) -> Result<u16, DeliveryError> {
        Err(DeliveryError::Failed(label.to_owned()))
    }
}
