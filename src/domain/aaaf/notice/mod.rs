//! What organizations are told of (AAAF S13): ids, states, tiers and scores, never content.

pub mod registration;
pub mod schedule;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub use registration::Registration;

macro_rules! topics {
    ($( $(#[$doc:meta])* $variant:ident = $wire:literal; )*) => {
        /// What there is to be told of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Topic { $( $(#[$doc])* $variant, )* }

        impl Topic {
            /// Every topic.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The event's name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The topic with this name.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($wire => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

topics! {
    /// Somebody works on an assessment.
    AssessmentStarted = "assessment.started";
    /// An assessment has found scores.
    AssessmentCompleted = "assessment.completed";
    /// An assessment has not.
    AssessmentFailed = "assessment.failed";
    /// A badge ends within two weeks.
    BadgeExpiring = "badge.expiring";
    /// A badge has ended.
    BadgeExpired = "badge.expired";
    /// Somebody contests a score.
    AppealFiled = "appeal.filed";
    /// It was decided on that.
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

/// Something an organization is told of, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What it is about.
    pub topic: Topic,
    /// The id of what happened: of one subject there is one notice of a topic.
    pub subject: String,
    /// Facts.
    pub data: Map<String, Value>,
    /// When it happened.
    pub at: Timestamp,
}

impl Notice {
    /// The id of the message, the same for whoever is told, however often.
    pub fn id(&self) -> Uuid {
        let all = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"aaaf.notice");
        let name = format!("{}:{}", self.topic.as_str(), self.subject);
        Uuid::new_v5(&all, name.as_bytes())
    }

    /// The message, as it is signed and sent.
    pub fn body(&self) -> String {
        let name = self.topic.as_str();
        json!({"type": name, "event": name, "timestamp": self.at, "data": self.data}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_subject_has_one_notice_of_a_topic() {
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
