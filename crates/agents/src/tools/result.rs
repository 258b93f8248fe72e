//! Interprets the answers of tool servers.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorCode};
use rmcp::service::ServiceError;
use serde_json::Value;

use crate::ports::live_tools::{ToolAnswer, ToolsUnavailable};

/// The outcome of a call.
///
/// # Errors
/// The result is missing or too large.
pub fn read(
    answer: Result<CallToolResponse, ServiceError>,
    largest: usize,
) -> Result<ToolAnswer, ToolsUnavailable> {
    let result = match answer {
        Ok(CallToolResponse::Complete(result)) => result,
        // No one can answer a server's question, and tasks that outlast a call are not awaited.
        Ok(_) => return Err(ToolsUnavailable::because("tool_unfinished")),
        // Some servers report invalid arguments this way, which the agent should see.
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS => {
            CallToolResult::error(vec![ContentBlock::text(error.message)])
        }
        Err(error) => return Err(unavailable(&error)),
    };
    let failed = result.is_error == Some(true);
    let content = content_of(result).ok_or_else(|| ToolsUnavailable::because("tool_malformed"))?;
    if octets(&content) > largest {
        return Err(ToolsUnavailable::because("tool_too_large"));
    }
    Ok(if failed {
        ToolAnswer::Failed(content)
    } else {
        ToolAnswer::Answered(content)
    })
}

/// The error for a server that did not answer. The server's own text may be anything, so it is not
/// passed on.
pub fn unavailable(error: &ServiceError) -> ToolsUnavailable {
    ToolsUnavailable::because(match error {
        ServiceError::McpError(_) => "tool_error",
        ServiceError::UnexpectedResponse => "tool_malformed",
        ServiceError::Timeout { .. } => "tool_timeout",
        _ => "tool_closed",
    })
}

/// The structured result, else its texts, else the content blocks as they are.
fn content_of(result: CallToolResult) -> Option<Value> {
    if let Some(document) = result.structured_content {
        return Some(document);
    }
    let texts: Option<Vec<&str>> = result
        .content
        .iter()
        .map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    match texts {
        Some(texts) => Some(Value::String(texts.join("\n"))),
        None => serde_json::to_value(&result.content).ok(),
    }
}

fn octets(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    }
}
