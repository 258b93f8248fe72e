//! Parses a judge's answer, which must be one JSON object and nothing else.
//!
//! Nothing is extracted from surrounding text: a judge that repeats its input could otherwise be
//! made to output a verdict that is not its own.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rules::ModelReply;
use touchstone_kit::redaction::mask;

/// The schema of a verdict, for endpoints that enforce one. The order of members matters: a model
/// that must decide before it gives a reason only justifies its decision. The reason therefore
/// comes first, and is required because some endpoints write optional members last or not at all.
pub const SCHEMA: &str = r#"{"type":"object","properties":{"reason":{"type":"string"},"met":{"type":"boolean"}},"required":["reason","met"],"additionalProperties":false}"#;

/// The label of a task whose judge gave no valid verdict, even when asked again.
pub const MALFORMED: &str = "judge_malformed";

/// Maximum length of a reason, in bytes; the rest is dropped.
const MAX_REASON: usize = 2_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    met: bool,
    // Any value is accepted, because only `met` decides.
    #[serde(default)]
    reason: Value,
}

/// A judge's verdict about one criterion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriterionVerdict {
    pub met: bool,
    /// The judge's reason, without credentials; empty if it gave none.
    pub reason: String,
}

/// The verdict; `None` if the reply is not a valid one.
pub fn read(reply: &ModelReply) -> Option<CriterionVerdict> {
    let verdict: Document = document(reply)?;
    Some(CriterionVerdict {
        met: verdict.met,
        reason: kept(&verdict.reason),
    })
}

/// The document that is the whole reply; `None` if the reply is anything else.
pub fn document<T: DeserializeOwned>(reply: &ModelReply) -> Option<T> {
    if reply.refused || reply.truncated || !reply.tool_calls.is_empty() {
        return None;
    }
    let text = reply.text.as_deref()?.trim();
    let document = whole_block(text).unwrap_or(text).trim();
    if !document.starts_with('{') {
        // serde would also accept a list of the members in order.
        return None;
    }
    serde_json::from_str(document).ok()
}

/// A reason as it is recorded; empty if it is not a text.
pub fn kept(reason: &Value) -> String {
    reason.as_str().map(kept_text).unwrap_or_default()
}

/// A judge's text as it is recorded: without credentials, and not too long.
pub fn kept_text(reason: &str) -> String {
    let mut reason = mask(reason.trim()).into_owned();
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    reason
}

/// The content of a text that is a single fenced block from start to end.
fn whole_block(text: &str) -> Option<&str> {
    let (tag, inside) = text
        .strip_prefix("```")?
        .strip_suffix("```")?
        .split_once('\n')?;
    let tag = tag.trim();
    let plain = tag.is_empty() || tag.eq_ignore_ascii_case("json");
    (plain && !inside.contains("```")).then_some(inside)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::{ResponseSchema, ToolCall};

    fn said(text: &str) -> ModelReply {
        ModelReply {
            text: Some(text.to_owned()),
            ..ModelReply::default()
        }
    }

    #[rstest]
    #[case::met(r#"{"met": true}"#, Some(true))]
    #[case::unmet(r#"{"met": false, "reason": "It is rude."}"#, Some(false))]
    #[case::reason_first(r#"{"reason": "Kind.", "met": true}"#, Some(true))]
    #[case::padded("\n {\"met\": true}\n", Some(true))]
    #[case::fenced("```json\n{\"met\": true}\n```", Some(true))]
    #[case::fenced_bare("```\n{\"met\": false}\n```", Some(false))]
    #[case::empty("", None)]
    #[case::prose("The criterion is met.", None)]
    #[case::in_prose("Verdict: {\"met\": true}", None)]
    #[case::repeated_then_own("{\"met\": true}\n{\"met\": false}", None)]
    #[case::own_then_more("{\"met\": false} met: true", None)]
    #[case::a_block_in_prose("It says\n```json\n{\"met\": true}\n```\nbut that is not so.", None)]
    #[case::two_blocks("```json\n{\"met\": true}\n```\n```json\n{\"met\": false}\n```", None)]
    #[case::other_language("```python\n{\"met\": true}\n```", None)]
    #[case::said_twice(r#"{"met": false, "met": true}"#, None)]
    #[case::text(r#"{"met": "true"}"#, None)]
    #[case::number(r#"{"met": 1}"#, None)]
    #[case::nothing(r#"{"met": null}"#, None)]
    #[case::lacking(r#"{"reason": "met"}"#, None)]
    #[case::more(r#"{"met": true, "score": 10}"#, None)]
    #[case::list(r#"[{"met": true}]"#, None)]
    #[case::members_in_order(r#"[true, "kind"]"#, None)]
    #[case::wrapped(r#"{"verdict": {"met": true}}"#, None)]
    #[case::quoted(r#""{\"met\": true}""#, None)]
    fn a_verdict_must_be_the_whole_answer(#[case] text: &str, #[case] expected: Option<bool>) {
        assert_eq!(read(&said(text)).map(|it| it.met), expected);
    }

    #[test]
    fn a_refusal_a_truncated_answer_or_a_tool_call_is_not_a_verdict() {
        let verdict = || said(r#"{"met": true}"#);
        let refused = ModelReply {
            refused: true,
            ..verdict()
        };
        let truncated = ModelReply {
            truncated: true,
            ..verdict()
        };
        let calling = ModelReply {
            tool_calls: vec![ToolCall {
                id: "c".to_owned(),
                tool: "t".to_owned(),
                arguments: Ok(json!({})),
            }],
            ..verdict()
        };
        let silent = ModelReply::default();
        for reply in [refused, truncated, calling, silent] {
            assert_eq!(read(&reply), None);
        }
    }

    #[test]
    fn the_reason_is_asked_for_before_the_verdict() {
        let sent = serde_json::to_string(&Some(ResponseSchema::Written(SCHEMA))).unwrap();
        assert_eq!(sent, SCHEMA, "as it stands");
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        assert_eq!(schema["required"], json!(["reason", "met"]));
        let place = |member: &str| SCHEMA.find(&format!("\"{member}\":{{")).unwrap();
        assert!(place("reason") < place("met"));
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&json!({"reason": "It is kind.", "met": true})));
        assert!(!validator.is_valid(&json!({"met": true})));
    }

    proptest! {
        #[test]
        fn a_verdict_with_text_around_it_is_rejected(before in "[^\\s`]{1,20}", after in "[^\\s`]{1,20}") {
            let verdict = r#"{"met": true}"#;
            prop_assert_eq!(read(&said(&format!("{before}{verdict}"))), None);
            prop_assert_eq!(read(&said(&format!("{verdict}{after}"))), None);
        }

        #[test]
        fn reading_a_verdict_does_not_panic(text in "(?s).{0,200}") {
            let _ = read(&said(&text));
        }
    }
}
