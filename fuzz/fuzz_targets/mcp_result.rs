//! A tool server's response to a call: a document within its bound, or an error label without any
//! of its content.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use rmcp::service::ServiceError;
use serde_json::Value;
use touchstone_agents::ports::live_tools::ToolAnswer;
use touchstone_agents::tools::result::read;

const LARGEST: usize = 4 << 10;

fuzz_target!(|data: &[u8]| -> Corpus {
    // The client distinguishes responses in the same way.
    let answer = match serde_json::from_slice::<ServerJsonRpcMessage>(data) {
        Ok(JsonRpcMessage::Response(answer)) => match answer.result {
            ServerResult::CallToolResult(result) => Ok(result.into()),
            ServerResult::InputRequiredResult(result) => Ok(result.into()),
            ServerResult::CreateTaskResult(result) => Ok(result.into()),
            _ => Err(ServiceError::UnexpectedResponse),
        },
        Ok(JsonRpcMessage::Error(answer)) => Err(ServiceError::McpError(answer.error)),
        _ => return Corpus::Reject,
    };
    match read(answer, LARGEST) {
        Ok(ToolAnswer::Answered(said) | ToolAnswer::Failed(said)) => {
            let octets = match said {
                Value::String(text) => text.len(),
                other => other.to_string().len(),
            };
            assert!(octets <= LARGEST, "{octets} octets");
        }
        Err(unavailable) => {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(
                unavailable.reason.chars().all(plain),
                "{}",
                unavailable.reason
            );
        }
    }
    Corpus::Keep
});
