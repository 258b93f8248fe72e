//! The context of a measure: a text of the scoring document, a value in the task's input, or what
//! the agent's tools returned.

use serde_json::Value;

use crate::rules::eval::scoring_document::judged::OfContext;
use crate::rules::eval::scoring_document::limits::MAX_PARTS;
use touchstone_agents::rules::judging::prompt::quoted;

/// The parts of the context in their order, at most [`MAX_PARTS`]. Empty parts are left out.
pub fn parts(of: &OfContext, input: &Value, returned: &[Value]) -> Vec<String> {
    let all: Vec<String> = match (&of.context, &of.context_pointer) {
        (Some(context), _) => context.all().to_vec(),
        (None, Some(pointer)) => match input.pointer(pointer) {
            Some(Value::Array(parts)) => parts.iter().map(text).collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(part) => vec![text(part)],
        },
        (None, None) => returned.iter().map(text).collect(),
    };
    let mut parts: Vec<String> = all.into_iter().filter(|it| !it.trim().is_empty()).collect();
    parts.truncate(MAX_PARTS);
    parts
}

fn text(value: &Value) -> String {
    quoted(value).into_owned()
}

/// The sentences of the parts, at most [`MAX_PARTS`]. A sentence ends at a line break, or at `.`,
/// `!` or `?` before white space.
pub fn sentences(parts: &[String]) -> Vec<String> {
    let lines = parts.iter().flat_map(|part| part.lines());
    let mut found: Vec<String> = Vec::new();
    for line in lines {
        let mut start = 0;
        let mut after_end = false;
        for (at, c) in line.char_indices() {
            if after_end && c.is_whitespace() {
                found.extend(line.get(start..at).map(str::to_owned));
                start = at;
            }
            after_end = matches!(c, '.' | '!' | '?');
        }
        found.extend(line.get(start..).map(str::to_owned));
    }
    let trimmed = found.iter().map(|it| it.trim().to_owned());
    let mut sentences: Vec<String> = trimmed.filter(|it| !it.is_empty()).collect();
    sentences.truncate(MAX_PARTS);
    sentences
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{from_value, json};

    use super::*;

    #[rstest]
    #[case::tools(json!({}), &["r1", r#"{"r":2}"#])]
    #[case::pointer(json!({"contextPointer": "/docs"}), &["d1", "d2"])]
    #[case::pointer_to_a_text(json!({"contextPointer": "/question"}), &["q"])]
    #[case::pointer_to_nothing(json!({"contextPointer": "/other"}), &[])]
    #[case::literal(json!({"context": "c"}), &["c"])]
    #[case::literals(json!({"context": ["c", " ", "d"]}), &["c", "d"])]
    fn a_context_is_written_in_the_input_or_returned_by_tools(
        #[case] of: Value,
        #[case] expected: &[&str],
    ) {
        let of: OfContext = from_value(of).unwrap();
        let input = json!({"question": "q", "docs": ["d1", "d2"]});
        let returned = [json!("r1"), json!({"r": 2})];
        assert_eq!(parts(&of, &input, &returned), expected);
    }

    #[test]
    fn sentences_end_before_white_space_and_at_line_breaks() {
        let parts = ["Paris is in France. It has 2.1 million people! Is it old?\nYes".to_owned()];
        assert_eq!(
            sentences(&parts),
            [
                "Paris is in France.",
                "It has 2.1 million people!",
                "Is it old?",
                "Yes"
            ]
        );
    }
}
