//! Estimates of the cost of a model call: an upper bound before it is made, and its likely usage
//! where the provider reports none.

use serde_json::Value;

use crate::budget::Estimate;
use touchstone_kit::money::{NanoUsd, TokenPrice};

use super::message::{ModelReply, TokenUsage, ToolCall};

/// Output tokens reserved where the request sets no limit, and the limit sent to endpoints that
/// require one.
pub const ASSUMED_OUTPUT_TOKENS: u64 = 4096;
/// Bytes per token of running text, a rule of thumb.
const OCTETS_PER_TOKEN: u64 = 4;
/// Bytes counted for a message or a tool in addition to its texts.
pub(super) const OVERHEAD: usize = 16;

/// An upper bound: byte-level tokenizers use at most one token per byte, and an answer stops at its
/// limit. An unknown price counts as 0; no cost limit depends on it then.
pub fn estimate(
    request_octets: usize,
    max_tokens: Option<u64>,
    price: Option<TokenPrice>,
) -> Estimate {
    let input = request_octets as u64;
    let output = max_tokens.unwrap_or(ASSUMED_OUTPUT_TOKENS);
    Estimate {
        tokens: input.saturating_add(output),
        cost: price.map_or(NanoUsd::ZERO, |price| price.cost(input, output)),
    }
}

/// Likely usage by size, for endpoints that report none. Callers must mark it as estimated.
pub fn usage_from_size(request_octets: usize, reply: &ModelReply) -> TokenUsage {
    let calls: usize = reply.tool_calls.iter().map(octets_of_call).sum();
    let text = reply.text.as_ref().map_or(0, String::len);
    let reasoning = reply.reasoning.as_ref().map_or(0, String::len);
    TokenUsage {
        input: (request_octets as u64).div_ceil(OCTETS_PER_TOKEN),
        output: ((text + reasoning + calls) as u64).div_ceil(OCTETS_PER_TOKEN),
        cached_input: None,
    }
}

pub(super) fn octets_of_call(call: &ToolCall) -> usize {
    let arguments = match &call.arguments {
        Ok(value) => octets_of_json(value),
        Err(raw) => raw.len(),
    };
    call.id.len() + call.tool.len() + arguments + OVERHEAD
}

/// Approximate size in bytes of a document in compact form, computed without serializing it.
pub(super) fn octets_of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|i| octets_of_json(i) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            let inside = members
                .iter()
                .map(|(name, item)| name.len() + 4 + octets_of_json(item));
            inside.sum::<usize>() + 2
        }
    }
}
