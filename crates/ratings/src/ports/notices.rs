//! Notices to organizations and their deliveries (AAAF S13).
//!
//! A notice is written in the transaction that causes it, together with one delivery for every
//! webhook that subscribes to its topic. One replica at a time serves a webhook, under a lease with
//! a fencing token. Deliveries have no guaranteed order.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use url::Url;

use crate::ports::Position;
use crate::ports::appeals::AppealRecord;
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::Kind;
use crate::rules::notice::schedule::{EndpointHealth, NextStep};
use crate::rules::notice::{Notice, Topic};
use touchstone_host::ports::run_log::Fence;

#[derive(Clone, Debug, PartialEq)]
pub struct NoticeWebhook {
    pub organization: OrganizationNumber,
    pub id: String,
    pub url: Url,
    /// The topics it subscribes to.
    pub events: Vec<Topic>,
    /// The signing secrets, encrypted.
    pub secrets: SealedSecrets,
    pub created_at: Timestamp,
    /// The endpoint's delivery health.
    pub health: EndpointHealth,
}

/// The encrypted secrets of a webhook; two during the overlap after a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecrets {
    pub current: String,
    /// The fingerprint of the current secret.
    pub fingerprint: String,
    /// The previous secret and until when it still signs.
    pub previous: Option<(String, Timestamp)>,
}

impl NoticeWebhook {
    /// The position of this record in a list.
    pub fn position(&self) -> Position {
        Position::new(self.created_at, self.id.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Waiting for an attempt.
    Pending,
    /// The endpoint accepted it.
    Delivered,
    /// The endpoint did not accept it, and automatic attempts have ended.
    Failed,
}

impl DeliveryState {
    pub const ALL: &'static [Self] = &[Self::Pending, Self::Delivered, Self::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRecord {
    pub id: String,
    /// The id of the message, the same for every webhook.
    pub message: String,
    pub topic: Topic,
    pub state: DeliveryState,
    /// Attempts since the delivery was last requested.
    pub attempts: u32,
    /// When the next attempt is due.
    pub due_at: Option<Timestamp>,
    /// Time and outcome of the last attempt; the outcome is a label from a closed list.
    pub last: Option<(Timestamp, String)>,
    /// When the message was written.
    pub created_at: Timestamp,
}

impl DeliveryRecord {
    /// The position of this record in a list.
    pub fn position(&self) -> Position {
        Position::new(self.created_at, self.id.clone())
    }
}

/// A delivery whose attempt is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDelivery {
    pub id: String,
    pub message: String,
    /// The body to sign and send.
    pub body: String,
    /// Attempts so far.
    pub attempts: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    pub id: String,
    pub at: Timestamp,
    /// A label from a closed list.
    pub outcome: String,
    /// Whether the delivery is done, due again or failed.
    pub next: NextStep,
}

/// A webhook that this replica may serve until its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticeClaim {
    pub webhook: NoticeWebhook,
    /// Increases with every claim; writes under an older fence are rejected.
    pub fence: Fence,
}

/// The result of requesting a redelivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Redelivery {
    /// The delivery is due now.
    Due(DeliveryRecord),
    Disabled,
    Unknown,
}

impl AppealRecord {
    /// The notice that an appeal was filed or decided; it does not contain the arguments.
    pub fn notice(&self) -> Notice {
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
    /// The notice that work on the assessment has started.
    pub fn started(&self, at: Timestamp) -> Notice {
        let data = self.notice_data("in_progress");
        self.notice(Topic::AssessmentStarted, data, at)
    }

    /// The notice of the assessment's outcome.
    pub fn ended(&self, outcome: &AssessmentOutcome, at: Timestamp) -> Notice {
        match outcome {
            AssessmentOutcome::Failed { code, .. } => {
                let mut data = self.notice_data("failed");
                data.insert("code".to_owned(), json!(code));
                self.notice(Topic::AssessmentFailed, data, at)
            }
            AssessmentOutcome::Scored {
                result,
                calibration,
                ..
            } => {
                let mut data = self.notice_data("completed");
                if matches!(self.request.assessment.kind, Kind::SingleDimension(_)) {
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
                self.notice(Topic::AssessmentCompleted, data, at)
            }
        }
    }

    fn notice_data(&self, status: &str) -> Map<String, Value> {
        let kind = self.request.assessment.kind;
        let mut notice_data = Map::new();
        for (name, value) in [
            ("assessment_id", json!(self.id)),
            ("agent_id", json!(self.agent)),
            ("assessment_type", json!(kind.as_str())),
            ("status", json!(status)),
        ] {
            notice_data.insert(name.to_owned(), value);
        }
        if let Some(dimension) = kind.dimension() {
            notice_data.insert("dimension".to_owned(), json!(dimension));
        }
        notice_data
    }

    fn notice(&self, topic: Topic, data: Map<String, Value>, at: Timestamp) -> Notice {
        Notice {
            topic,
            subject: self.id.clone(),
            data,
            at,
        }
    }
}
