//! The meaning of an endpoint's refusal, the same for every protocol.

use crate::rules::Rejection;

/// The subject of an endpoint's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request itself: the agent's own failure.
    Rejected(Rejection),
    /// `response_format` or its schema.
    ResponseFormat,
    /// `max_tokens`.
    MaxTokens,
    /// `temperature`: the model does not accept it.
    Temperature,
    /// The model does not support tools.
    NoTools,
    /// `stream`: the endpoint does not stream.
    Stream,
    /// The account has no credit: waiting does not help.
    QuotaExhausted,
    Other,
}

/// Maximum bytes of an error body that are examined.
const LOOKED_AT: usize = 16 * 1024;

/// Classifies an error body. Codes are few and servers many, so most refusals are recognized by
/// their text; the text is never passed on.
pub fn read_refusal(body: &[u8]) -> Refusal {
    let text = String::from_utf8_lossy(body.get(..LOOKED_AT).unwrap_or(body)).to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&[
        "context_length_exceeded",
        "exceed_context_size",
        "context length",
        "context window",
        "context size",
        "maximum context",
        "prompt is too long",
        "exceeds the maximum number of tokens",
        "exceed context limit",
        "request_too_large",
    ]) {
        Refusal::Rejected(Rejection::ContextOverflow)
    } else if says(&["content_filter", "content_policy_violation"]) {
        Refusal::Rejected(Rejection::ContentFilter)
    } else if says(&[
        "insufficient_quota",
        "billing_hard_limit",
        "credit balance is too low",
    ]) {
        Refusal::QuotaExhausted
    } else if says(&[
        "response_format",
        "json_schema",
        "json_object",
        "structured output",
        "output_config",
        "output_format",
        "grammar",
    ]) {
        Refusal::ResponseFormat
    } else if says(&["max_completion_tokens"]) {
        Refusal::MaxTokens
    } else if says(&["temperature"]) && says(&["deprecated", "unsupported", "not support"]) {
        Refusal::Temperature
    } else if says(&[
        "not support tools",
        "tool use is not supported",
        "tools are not supported",
        "tool choice requires",
    ]) {
        Refusal::NoTools
    } else if says(&[
        "stream_options",
        "'stream'",
        "`stream`",
        "not support stream",
        "streaming is not supported",
    ]) {
        Refusal::Stream
    } else {
        Refusal::Other
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::openai(r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#, Refusal::Rejected(Rejection::ContextOverflow))]
    #[case::llama_cpp(r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#, Refusal::Rejected(Rejection::ContextOverflow))]
    #[case::azure(
        r#"{"error":{"code":"content_filter"}}"#,
        Refusal::Rejected(Rejection::ContentFilter)
    )]
    #[case::quota(r#"{"error":{"code":"insufficient_quota"}}"#, Refusal::QuotaExhausted)]
    #[case::old_openai(r#"{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."}}"#, Refusal::ResponseFormat)]
    #[case::lm_studio(
        r#"{"error":"'response_format.type' must be 'json_schema' or 'text'"}"#,
        Refusal::ResponseFormat
    )]
    #[case::newer_openai(r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}"#, Refusal::MaxTokens)]
    #[case::ollama(
        r#"{"error":{"message":"gemma does not support tools"}}"#,
        Refusal::NoTools
    )]
    #[case::anthropic_overflow(r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#, Refusal::Rejected(Rejection::ContextOverflow))]
    #[case::anthropic_size(
        r#"{"type":"error","error":{"type":"request_too_large"}}"#,
        Refusal::Rejected(Rejection::ContextOverflow)
    )]
    #[case::anthropic_schema(r#"{"error":{"message":"output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"}}"#, Refusal::ResponseFormat)]
    #[case::anthropic_money(
        r#"{"error":{"message":"Your credit balance is too low to access the Anthropic API."}}"#,
        Refusal::QuotaExhausted
    )]
    #[case::no_sampling(
        r#"{"error":{"message":"`temperature` is deprecated for this model."}}"#,
        Refusal::Temperature
    )]
    #[case::reasoning_model(r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0 with this model."}}"#, Refusal::Temperature)]
    #[case::temperature_out_of_range(
        r#"{"error":{"message":"temperature: range: 0..1"}}"#,
        Refusal::Other
    )]
    #[case::no_stream(
        r#"{"error":{"message":"Unsupported value: 'stream' does not support true with this model."}}"#,
        Refusal::Stream
    )]
    #[case::no_stream_options(
        r#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
        Refusal::Stream
    )]
    #[case::other("<html>", Refusal::Other)]
    fn refusals_are_classified_by_the_error_body(#[case] body: &str, #[case] expected: Refusal) {
        assert_eq!(read_refusal(body.as_bytes()), expected);
    }
}
