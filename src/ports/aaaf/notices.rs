//! Whom organizations have told what, and how far that is (AAAF S13).
//!
//! A notice is written in the transaction that causes it, with a delivery for every webhook that wants it. One replica at a
//! time serves a webhook, under a lease with a fencing token; of its deliveries no order is promised.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use url::Url;

use super::{AppealRecord, AssessmentRecord, Finding, OrganizationNumber, Position};
use crate::domain::aaaf::Kind;
use crate::domain::aaaf::notice::schedule::{Health, Next};
use crate::domain::aaaf::notice::{Notice, Topic};
use crate::ports::{Fence, StoreError};

/// A webhook of an organization.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticeWebhook {
    /// Whose it is.
    pub organization: OrganizationNumber,
    /// A UUID.
    pub id: String,
    /// Where messages go.
    pub url: Url,
    /// What they are about.
    pub events: Vec<Topic>,
    /// What signs, sealed.
    pub secrets: SealedSecrets,
    /// When it was made.
    pub created_at: Timestamp,
    /// How deliveries have gone.
    pub health: Health,
}

/// The secrets of a webhook, sealed; after a rotation, two for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecrets {
    /// The newest one.
    pub current: String,
    /// What the newest one is called.
    pub fingerprint: String,
    /// The one before it, and until when it signs.
    pub previous: Option<(String, Timestamp)>,
}

impl NoticeWebhook {
    /// Where a list goes on after this one.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.id.clone(),
        }
    }
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It is to be attempted.
    Pending,
    /// The endpoint took it.
    Delivered,
    /// The endpoint did not, and it is not attempted again by itself.
    Failed,
}

impl DeliveryState {
    /// Every state.
    pub const ALL: &'static [Self] = &[Self::Pending, Self::Delivered, Self::Failed];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// The state with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

/// A message on its way to a webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRecord {
    /// A UUID.
    pub id: String,
    /// The id of the message, the same on its way to others.
    pub message: String,
    /// What it is about.
    pub topic: Topic,
    /// How far it is.
    pub state: DeliveryState,
    /// Attempts, since it was last asked for.
    pub attempts: u32,
    /// When the next one is due.
    pub due_at: Option<Timestamp>,
    /// When the last one was, and what came of it: a label from a closed list.
    pub last: Option<(Timestamp, String)>,
    /// When the message was written.
    pub created_at: Timestamp,
}

impl DeliveryRecord {
    /// Where a list goes on after this one.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.id.clone(),
        }
    }
}

/// A delivery that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDelivery {
    /// Its id.
    pub id: String,
    /// The id of the message.
    pub message: String,
    /// What is signed and sent.
    pub body: String,
    /// Attempts so far.
    pub attempts: u32,
}

/// An attempt that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// The delivery.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// A label from a closed list.
    pub outcome: String,
    /// What becomes of it.
    pub next: Next,
}

/// A webhook that this replica may serve until its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticeClaim {
    /// The webhook.
    pub webhook: NoticeWebhook,
    /// Grows with every claim; what is recorded under an older one is refused.
    pub fence: Fence,
}

/// What came of asking for a delivery once more.
#[derive(Clone, Debug, PartialEq)]
pub enum Redelivery {
    /// It is due now.
    Due(DeliveryRecord),
    /// The webhook is disabled.
    Disabled,
    /// There is no such delivery.
    Unknown,
}

/// Webhooks of organizations and what is on its way to them.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Adds a webhook; `false` if the organization has `most` already.
    async fn add_notice_webhook(
        &self,
        webhook: &NoticeWebhook,
        most: u32,
    ) -> Result<bool, StoreError>;
    /// The one of this id.
    async fn notice_webhook(
        &self,
        organization: OrganizationNumber,
        id: &str,
    ) -> Result<Option<NoticeWebhook>, StoreError>;
    /// Those after a position, in the order in which they were made.
    async fn notice_webhooks(
        &self,
        organization: OrganizationNumber,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<NoticeWebhook>, StoreError>;
    /// Removes one with its deliveries; `false` if there is none.
    async fn remove_notice_webhook(
        &self,
        organization: OrganizationNumber,
        id: &str,
    ) -> Result<bool, StoreError>;
    /// Replaces the secrets of one that was read; [`StoreError::Stale`] if they have changed since, or it is gone.
    async fn rotate_notice_webhook(
        &self,
        webhook: &NoticeWebhook,
        secrets: &SealedSecrets,
    ) -> Result<(), StoreError>;
    /// Has a disabled one served again; `false` if there is none.
    async fn enable_notice_webhook(
        &self,
        organization: OrganizationNumber,
        id: &str,
    ) -> Result<bool, StoreError>;
    /// Deliveries to a webhook after a position, in the order of their messages.
    async fn deliveries(
        &self,
        organization: OrganizationNumber,
        webhook: &str,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<DeliveryRecord>, StoreError>;
    /// Has a delivery attempted anew, from now on, however it ended.
    async fn redeliver(
        &self,
        organization: OrganizationNumber,
        webhook: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Redelivery, StoreError>;

    /// Claims the webhook whose deliveries have been due longest, and whose lease is over by the store's clock.
    async fn claim_notice_webhook(
        &self,
        owner: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<NoticeClaim>, StoreError>;
    /// Deliveries to a claimed webhook that are due, those due longest first.
    async fn due_deliveries(
        &self,
        claim: &NoticeClaim,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError>;
    /// Records attempts and how the webhook stands after them, and holds the lease for `ttl` from now on; what waits for one
    /// that is disabled has failed. [`StoreError::Fenced`] if the claim is not the newest any more, or the webhook is gone.
    async fn attempted(
        &self,
        claim: &NoticeClaim,
        attempts: &[Attempted],
        health: &Health,
        ttl: Duration,
    ) -> Result<(), StoreError>;
    /// Gives a webhook back.
    async fn release_notice_webhook(&self, claim: &NoticeClaim) -> Result<(), StoreError>;
    /// Deletes deliveries that are over and older than `before`, and the notices that nobody needs any more: at most `limit` of
    /// each. How many there were.
    async fn forget_deliveries(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError>;
}

impl AppealRecord {
    /// That it was filed, or what was decided on it; nothing of what was argued.
    pub fn told(&self) -> Notice {
        let (topic, at) = match self.resolved_at {
            None => (Topic::AppealFiled, self.created_at),
            Some(at) => (Topic::AppealResolved, at),
        };
        let mut data = Map::new();
        data.insert("appeal_id".to_owned(), json!(self.id));
        data.insert("assessment_id".to_owned(), json!(self.assessment));
        data.insert("dimensions".to_owned(), json!(self.filing.dimensions));
        data.insert("status".to_owned(), json!(self.state));
        Notice {
            topic,
            subject: self.id.clone(),
            data,
            at,
        }
    }
}

impl AssessmentRecord {
    /// That somebody works on it.
    pub fn started(&self, at: Timestamp) -> Notice {
        let data = self.facts("in_progress");
        self.told(Topic::AssessmentStarted, data, at)
    }

    /// What came of it.
    pub fn ended(&self, finding: &Finding, at: Timestamp) -> Notice {
        match finding {
            Finding::Failed { code, .. } => {
                let mut data = self.facts("failed");
                data.insert("code".to_owned(), json!(code));
                self.told(Topic::AssessmentFailed, data, at)
            }
            Finding::Scored {
                result,
                calibration,
                ..
            } => {
                let mut data = self.facts("completed");
                if matches!(self.asked.assessment.kind, Kind::SingleDimension(_)) {
                    let score = result.pointer("/result/score");
                    data.insert("score".to_owned(), json!(score));
                } else {
                    for axis in ["performance", "capability"] {
                        let of = |name: &str| result.get(axis).and_then(|it| it.get(name));
                        let score = json!(of("composite_score"));
                        data.insert(format!("{axis}_score"), score);
                        data.insert(format!("{axis}_tier"), json!(of("tier")));
                    }
                }
                let review = calibration
                    .as_ref()
                    .is_some_and(|it| it.human_review_required);
                data.insert("review_required".to_owned(), json!(review));
                self.told(Topic::AssessmentCompleted, data, at)
            }
        }
    }

    fn facts(&self, status: &str) -> Map<String, Value> {
        let kind = self.asked.assessment.kind;
        let mut facts = Map::new();
        for (name, value) in [
            ("assessment_id", json!(self.id)),
            ("agent_id", json!(self.agent)),
            ("assessment_type", json!(kind.as_str())),
            ("status", json!(status)),
        ] {
            facts.insert(name.to_owned(), value);
        }
        if let Some(dimension) = kind.dimension() {
            facts.insert("dimension".to_owned(), json!(dimension));
        }
        facts
    }

    fn told(&self, topic: Topic, data: Map<String, Value>, at: Timestamp) -> Notice {
        Notice {
            topic,
            subject: self.id.clone(),
            data,
            at,
        }
    }
}
