//! Fixture responses that replace live tool calls (RFC 0081, fixtures).
//!
//! The responses of one tool are used in order, and the last one repeats. Tools do not share a
//! position, so interleaved calls of two tools do not affect each other. A tool without a response
//! never goes live.

use std::collections::HashMap;

use serde_json::Value;

use touchstone_openwop::suite::SAFETY_TOOL as TOOL;
use touchstone_openwop::suite::ToolResponse;

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
