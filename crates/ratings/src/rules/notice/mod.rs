//! Notices to organizations (AAAF S13): ids, states, tiers and scores, never content.

pub mod registration;
pub mod schedule;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub use registration::Registration;

macro_rules! topics {
    ($( $(#[$doc:meta])* $variant:ident = $wire:literal; )*) => {
        /// The topic of a notice.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Topic { $( $(#[$doc])* $variant, )* }

        impl Topic {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name of the event.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The topic with this event name.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($wire => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

topics! {
    /// Work on an assessment has started.
    AssessmentStarted = "assessment.started";
    /// An assessment has ended with scores.
    AssessmentCompleted = "assessment.completed";
    /// An assessment has ended without scores.
    AssessmentFailed = "assessment.failed";
    /// A badge expires within two weeks.
    BadgeExpiring = "badge.expiring";
    /// A badge has expired.
    BadgeExpired = "badge.expired";
    /// An appeal against a score was filed.
    AppealFiled = "appeal.filed";
    /// An appeal was decided.
    AppealResolved = "appeal.resolved";
    /// There is enough new evidence for another assessment.
    EvidenceThresholdReached = "evidence.threshold_reached";
    /// An assessment was ordered by schedule.
    ReassessmentOrdered = "reassessment.ordered";
    /// An assessment was due by schedule and could not be ordered.
    ReassessmentFailed = "reassessment.failed";
    /// A score of an agent card dropped to a lower band.
    AgentCardScoreDropped = "agent_card.score_dropped";
    /// A score of a watched agent card is below its threshold.
    AgentCardBelowThreshold = "agent_card.below_threshold";
}

/// A notice, which an organization gets once.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    pub topic: Topic,
    /// The id of the event's subject; there is one notice per topic and subject.
    pub subject: String,
    pub data: Map<String, Value>,
    pub at: Timestamp,
}

impl Notice {
    /// The id of the message, the same for every webhook and attempt.
    pub fn id(&self) -> Uuid {
        let all = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"aaaf.notice");
        let name = format!("{}:{}", self.topic.as_str(), self.subject);
        Uuid::new_v5(&all, name.as_bytes())
    }

    /// The message body, as it is signed and sent.
    pub fn body(&self) -> String {
        let name = self.topic.as_str();
        json!({"type": name, "event": name, "timestamp": self.at, "data": self.data}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_id_depends_only_on_topic_and_subject() {
        let notice = |topic, subject: &str, seconds| Notice {
            topic,
            subject: subject.to_owned(),
            data: Map::new(),
            at: Timestamp::from_second(seconds).unwrap(),
        };
        let first = notice(Topic::AssessmentStarted, "a", 1);
        assert_eq!(first.id(), notice(Topic::AssessmentStarted, "a", 2).id());
        assert_ne!(first.id(), notice(Topic::AssessmentStarted, "b", 1).id());
        assert_ne!(first.id(), notice(Topic::AssessmentFailed, "a", 1).id());
        let body: Value = serde_json::from_str(&first.body()).unwrap();
        let name = "assessment.started";
        assert_eq!(
            body,
            json!({"type": name, "event": name, "timestamp": "1970-01-01T00:00:01Z", "data": {}})
        );
        for topic in Topic::ALL {
            assert_eq!(Topic::parse(topic.as_str()), Some(*topic));
        }
    }
}
