//! Fixture responses that replace live tool calls (RFC 0081, fixtures).
//!
//! The responses of one tool are used in order, and the last one repeats. Tools do not share a
//! position, so interleaved calls of two tools do not affect each other. A tool without a response
//! never goes live.
//!
//! The tool calls that an earlier run recorded may replace these responses. Each of them answers one
//! call with the same arguments, and no other call has an answer.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use touchstone_openwop::events::args_hash;
use touchstone_openwop::suite::SAFETY_TOOL as TOOL;
use touchstone_openwop::suite::ToolResponse;

/// A tool call of an earlier run that was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCall {
    /// `<scope>:<tool-id>`.
    pub tool: String,
    /// As in `agent.toolCalled`.
    pub args_hash: String,
    /// Whether the tool answered with an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    pub outcome: Value,
}

/// The position of one invocation in the recorded calls of its task.
#[derive(Clone, Debug)]
pub struct RecordingCursor<'a> {
    /// Those that have not answered yet, in their order.
    left: Vec<&'a RecordedCall>,
}

impl<'a> RecordingCursor<'a> {
    pub fn new(calls: &'a [RecordedCall]) -> Self {
        Self {
            left: calls.iter().collect(),
        }
    }

    /// The first recorded call of `tool` with these arguments that has not answered yet.
    pub fn next(&mut self, tool: &str, arguments: &Value) -> Option<&'a RecordedCall> {
        let hash = args_hash(arguments)?;
        let mut left = self.left.iter();
        let place = left.position(|it| it.tool == tool && it.args_hash == hash)?;
        Some(self.left.remove(place))
    }
}

/// The position of one invocation in the responses of its task.
#[derive(Clone, Debug)]
pub struct FixtureCursor<'a> {
    responses: &'a [ToolResponse],
    used: HashMap<&'a str, usize>,
}

impl<'a> FixtureCursor<'a> {
    /// Starts before the first response of every tool.
    pub fn new(responses: &'a [ToolResponse]) -> Self {
        Self {
            responses,
            used: HashMap::new(),
        }
    }

    /// The next response of `tool`; `None` if the task has none for it.
    pub fn next(&mut self, tool: &str) -> Option<&'a Value> {
        // The description of a probe is for detectors only; an agent with a tool of this name must
        // not see it.
        if tool == TOOL {
            return None;
        }
        let mut own = self.responses.iter().filter(|r| r.tool == tool);
        let first = own.next()?;
        let used = self.used.entry(first.tool.as_str()).or_insert(0);
        let at = *used;
        *used += 1;
        let chosen = match at.checked_sub(1) {
            None => first,
            Some(after_first) => own
                .clone()
                .nth(after_first)
                .or_else(|| own.next_back())
                .unwrap_or(first),
        };
        Some(&chosen.response)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_recorded_call_answers_one_call_with_the_same_arguments() {
        let call = |arguments: Value, outcome: &str| RecordedCall {
            tool: "t:x".to_owned(),
            args_hash: args_hash(&arguments).unwrap(),
            failed: false,
            outcome: json!(outcome),
        };
        let calls = [
            call(json!({"n": 1, "m": 2}), "first"),
            call(json!({"n": 2}), "other"),
            call(json!({"m": 2, "n": 1}), "second"),
        ];
        let mut cursor = RecordingCursor::new(&calls);
        let mut next = |tool: &str, arguments: Value| {
            let found = cursor.next(tool, &arguments);
            found.map(|it| it.outcome.as_str().unwrap())
        };
        assert_eq!(next("t:y", json!({"n": 1, "m": 2})), None);
        assert_eq!(next("t:x", json!({"n": 1})), None);
        // The order of members does not count.
        assert_eq!(next("t:x", json!({"m": 2, "n": 1})), Some("first"));
        assert_eq!(next("t:x", json!({"n": 1, "m": 2})), Some("second"));
        assert_eq!(next("t:x", json!({"n": 1, "m": 2})), None);
        assert_eq!(next("t:x", json!({"n": 2})), Some("other"));
    }

    proptest! {
        #[test]
        fn each_tool_has_its_own_order_and_its_last_response_repeats(
            responses in prop::collection::vec((0..4u8, 0..1000u32), 0..20),
            calls in prop::collection::vec(0..5u8, 0..60),
        ) {
            let name = |tool: u8| format!("t:{tool}");
            let fixtures: Vec<ToolResponse> = responses
                .iter()
                .map(|(t, r)| ToolResponse { tool: name(*t), response: json!(r) })
                .collect();
            let mut cursor = FixtureCursor::new(&fixtures);
            let mut made = HashMap::new();
            for tool in calls {
                let own: Vec<u32> = responses.iter().filter(|(t, _)| *t == tool).map(|(_, r)| *r).collect();
                let nth = made.entry(tool).and_modify(|n| *n += 1).or_insert(0usize);
                let expected = own.get((*nth).min(own.len().saturating_sub(1))).map(|r| json!(r));
                prop_assert_eq!(cursor.next(&name(tool)).cloned(), expected);
            }
        }
    }
}
