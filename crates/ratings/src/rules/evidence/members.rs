//! The members of an event's data that are read, as declared by its type.

use std::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::data::{
    DelegationDecision, DelegationOutcome, OrchestrationPlan, OrchestrationResult, TaskAssigned,
    TaskCompleted, TaskRevised, ToolInvoked,
};
use super::kinds::EventType;

/// Members that every type has.
const COMMON: [&str; 2] = ["task_id", "assessment_id"];

impl EventType {
    /// Whether a member of an event's data is ever read.
    pub fn reads(self, member: &str) -> bool {
        let own = match self {
            Self::TaskAssigned => members::<TaskAssigned>(),
            Self::TaskCompleted => members::<TaskCompleted>(),
            Self::TaskRevised => members::<TaskRevised>(),
            Self::ToolInvoked => members::<ToolInvoked>(),
            Self::DelegationDecision => members::<DelegationDecision>(),
            Self::DelegationOutcome => members::<DelegationOutcome>(),
            Self::OrchestrationPlan => members::<OrchestrationPlan>(),
            Self::OrchestrationResult => members::<OrchestrationResult>(),
        };
        COMMON.contains(&member) || own.contains(&member)
    }
}

/// The members that a struct asks for when it is deserialized. A second, handwritten list would
/// sooner or later differ.
fn members<T: DeserializeOwned>() -> &'static [&'static str] {
    match T::deserialize(MemberProbe) {
        Err(RequestedMembers(members)) => members,
        // No data type deserializes from nothing.
        Ok(_) => &[],
    }
}

/// A deserializer without input that reports the requested members.
struct MemberProbe;

/// The members that a struct asked for.
#[derive(Debug)]
struct RequestedMembers(&'static [&'static str]);

impl fmt::Display for RequestedMembers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for RequestedMembers {}

impl de::Error for RequestedMembers {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for MemberProbe {
    type Error = RequestedMembers;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, RequestedMembers> {
        Err(RequestedMembers(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        members: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, RequestedMembers> {
        Err(RequestedMembers(members))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_types_accept_their_required_and_optional_members() {
        for kind in EventType::ALL {
            for required in kind.required() {
                // Required of producers, but never scored.
                let scored = (kind, *required) != (EventType::TaskRevised, "changes");
                assert_eq!(kind.reads(required), scored, "{kind}.{required}");
            }
            assert!(kind.reads("assessment_id"));
            assert!(!kind.reads("completion_stats"));
        }
        assert!(EventType::TaskCompleted.reads("quality_score"));
        assert!(!EventType::ToolInvoked.reads("quality_score"));
    }
}
