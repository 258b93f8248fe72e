//! Parses the reply of a simulated user, which must be one JSON object and nothing else.

use serde::Deserialize;

use crate::rules::ModelReply;
use crate::rules::judging::verdict::document;

/// The schema of a reply, for endpoints that enforce one. The decision comes first, so that a model
/// does not write a farewell and then has to stop.
pub const SCHEMA: &str = r#"{"type":"object","properties":{"done":{"type":"boolean"},"message":{"type":"string"}},"required":["done","message"],"additionalProperties":false}"#;

/// The label of a task whose simulated user gave no valid reply, even when asked again.
pub const MALFORMED: &str = "user_malformed";
/// The label of a task whose simulated user cost more than its own budget allows.
pub const OWN_BUDGET: &str = "user_budget_exhausted";

/// Longest message, in bytes; a longer one is not what a person types.
const MAX_MESSAGE: usize = 16 * 1024;

/// The user's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserReply {
    Says(String),
    /// Ends the conversation, with a note about why.
    Stops(String),
}

impl UserReply {
    pub const fn is_stop(&self) -> bool {
        matches!(self, Self::Stops(_))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    done: bool,
    #[serde(default)]
    message: Option<String>,
}

/// The reply; `None` if it is not a valid one.
pub fn read(reply: &ModelReply) -> Option<UserReply> {
    let document: Document = document(reply)?;
    let message = document.message.unwrap_or_default();
    let message = message.trim();
    if message.len() > MAX_MESSAGE {
        return None;
    }
    match (document.done, message.is_empty()) {
        (true, _) => Some(UserReply::Stops(message.to_owned())),
        (false, true) => None,
        (false, false) => Some(UserReply::Says(message.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn reply(text: &str) -> ModelReply {
        ModelReply {
            text: Some(text.to_owned()),
            ..ModelReply::default()
        }
    }

    fn says(text: &str) -> Option<UserReply> {
        Some(UserReply::Says(text.to_owned()))
    }

    fn stops(text: &str) -> Option<UserReply> {
        Some(UserReply::Stops(text.to_owned()))
    }

    #[rstest]
    #[case::message(r#"{"done": false, "message": "Order 17."}"#, says("Order 17."))]
    #[case::end(r#"{"done": true, "message": "refunded"}"#, stops("refunded"))]
    #[case::end_without_a_note(r#"{"done": true}"#, stops(""))]
    #[case::fenced("```json\n{\"done\": false, \"message\": \"Hi\"}\n```", says("Hi"))]
    #[case::nothing_said(r#"{"done": false, "message": "  "}"#, None)]
    #[case::no_message(r#"{"done": false}"#, None)]
    #[case::no_decision(r#"{"message": "Hi"}"#, None)]
    #[case::text("Order 17.", None)]
    #[case::text_around("Sure: {\"done\": true}", None)]
    #[case::list(r#"[true, "Hi"]"#, None)]
    #[case::more(r#"{"done": false, "message": "Hi", "role": "assistant"}"#, None)]
    fn a_reply_must_be_the_whole_answer(#[case] text: &str, #[case] expected: Option<UserReply>) {
        assert_eq!(read(&reply(text)), expected);
    }

    #[test]
    fn a_refusal_a_truncated_reply_or_a_very_long_message_is_not_a_reply() {
        let valid = || reply(r#"{"done": true}"#);
        let refused = ModelReply {
            refused: true,
            ..valid()
        };
        let truncated = ModelReply {
            truncated: true,
            ..valid()
        };
        let long = format!(r#"{{"done": false, "message": "{}"}}"#, "a".repeat(20_000));
        for reply in [refused, truncated, reply(&long), ModelReply::default()] {
            assert_eq!(read(&reply), None);
        }
    }

    proptest! {
        #[test]
        fn reading_a_reply_does_not_panic(text in "(?s).{0,200}") {
            let _ = read(&reply(&text));
        }
    }
}
