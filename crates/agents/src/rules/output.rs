//! From a model's last text to the agent's output.
//!
//! Without a return schema, the text is the output. With a schema, the candidates are, in order:
//! the text as a JSON document; the only fenced block in the text as a JSON document; the text
//! itself as a string, if the schema allows one. The first candidate that parses is the output,
//! valid or not: the schema never chooses between candidates.

use serde_json::Value;

use touchstone_kit::json::parse_written;
use touchstone_openwop::schema::CompiledSchema;

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Valid(Value),
    /// A document that violates the schema.
    Invalid(Value),
    /// The text is not a JSON document.
    NotJson(Value),
}

/// Reads a final answer by the agent's return schema (`handoff.returnSchemaRef`).
pub fn read_answer(text: &str, schema: &CompiledSchema) -> Answer {
    let text = text.trim();
    let document = parse_written(text).or_else(|| only_fenced_block(text).and_then(parse_written));
    match document {
        Some(value) if schema.is_valid(&value) => Answer::Valid(value),
        Some(value) => Answer::Invalid(value),
        None => {
            let value = Value::String(text.to_owned());
            if schema.is_valid(&value) {
                Answer::Valid(value)
            } else {
                Answer::NotJson(value)
            }
        }
    }
}

/// The content of the only fenced block of a text; `None` if there are several, since it is unclear
/// which one counts.
fn only_fenced_block(text: &str) -> Option<&str> {
    let mut parts = text.split("```");
    let (_before, block, _after) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (tag, inside) = block.split_once('\n')?;
    let tag = tag.trim();
    (tag.is_empty() || tag.eq_ignore_ascii_case("json")).then_some(inside)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use touchstone_openwop::schema::compile_untrusted;

    fn read(text: &str, schema: &Value) -> Answer {
        read_answer(text, &compile_untrusted(schema).unwrap())
    }

    #[rstest]
    #[case::plain(r#"{"a":1}"#, Answer::Valid(json!({"a": 1})))]
    #[case::padded("\n {\"a\":1}\n", Answer::Valid(json!({"a": 1})))]
    #[case::fenced("```json\n{\"a\":1}\n```", Answer::Valid(json!({"a": 1})))]
    #[case::fenced_in_prose("Here:\n```\n{\"a\":1}\n```\nDone.", Answer::Valid(json!({"a": 1})))]
    #[case::violates(r#"{"a":"x"}"#, Answer::Invalid(json!({"a": "x"})))]
    #[case::fenced_violates("```json\n{}\n```", Answer::Invalid(json!({})))]
    #[case::prose("a is 1", Answer::NotJson(json!("a is 1")))]
    #[case::two_blocks(
        "```json\n{\"a\":1}\n```\n```json\n{\"a\":2}\n```",
        Answer::NotJson(json!("```json\n{\"a\":1}\n```\n```json\n{\"a\":2}\n```"))
    )]
    #[case::other_language("```python\n{\"a\":1}\n```", Answer::NotJson(json!("```python\n{\"a\":1}\n```")))]
    #[case::trailing_text(r#"{"a":1} ok"#, Answer::NotJson(json!(r#"{"a":1} ok"#)))]
    fn an_object_schema_takes_a_document_or_one_fenced_block(
        #[case] text: &str,
        #[case] expected: Answer,
    ) {
        let schema =
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
        assert_eq!(read(text, &schema), expected);
    }

    #[rstest]
    #[case("billing", Answer::Valid(json!("billing")))]
    #[case("\"billing\"", Answer::Valid(json!("billing")))]
    #[case("other", Answer::NotJson(json!("other")))]
    #[case("17", Answer::Invalid(json!(17)))]
    fn a_string_schema_takes_plain_text(#[case] text: &str, #[case] expected: Answer) {
        assert_eq!(read(text, &json!({"enum": ["billing", "sales"]})), expected);
    }
}
