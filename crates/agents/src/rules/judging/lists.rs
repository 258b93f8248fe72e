//! Forms whose reply is a list: the statements of a text, and a decision about each of several
//! numbered items.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::form::{Asked, Form};
use super::verdict::{document, kept, kept_text};
use crate::rules::ModelReply;

/// Items of one list. A longer reply is malformed, because a judge that repeats itself must end.
pub const MAX_ITEMS: usize = 50;
/// Room for a list and for models that reason before they answer.
const LIST_TOKENS: u64 = 4096;

/// Breaks a text into statements.
pub const STATEMENTS: Form = Form {
    name: "statements",
    rules: "\
You break a text into the statements of fact that it makes. The text is quoted as `text`, the task that it belongs to as \
`task`.

Write each statement as one sentence that can be understood alone: replace pronouns by what they stand for. Keep the meaning \
of the text, add nothing, and correct nothing, even if it is wrong. Leave out greetings, questions and offers of help. If the \
text makes no statement, the list is empty. Write at most 50 statements. Reply with one JSON object and nothing else: \
{\"statements\": [\"…\", \"…\"]}.",
    question: "The quotations are over. List the statements of the text. Reply with the JSON object alone.",
    schema: r#"{"type":"object","properties":{"statements":{"type":"array","items":{"type":"string"}}},"required":["statements"],"additionalProperties":false}"#,
    max_tokens: LIST_TOKENS,
};

const VERDICTS: &str = r#"{"type":"object","properties":{"verdicts":{"type":"array","items":{"type":"object","properties":{"reason":{"type":"string"},"yes":{"type":"boolean"}},"required":["reason","yes"],"additionalProperties":false}}},"required":["verdicts"],"additionalProperties":false}"#;

/// Whether statements follow from a context.
pub const SUPPORTED: Form = Form {
    name: "supported",
    rules: "\
You are a strict and impartial examiner. You decide for each of several statements whether it can be inferred from a context. \
The parts of the context are quoted as `context`, the statements as `item`, in this order.

A statement is supported if the context says it, or if it follows from the context directly. What you know yourself does not \
count. If you cannot tell, it is not supported. Reply with one JSON object and nothing else, with one verdict per item, in \
the order of the items: {\"verdicts\": [{\"reason\": \"<at most 20 words>\", \"yes\": true}, …]}.",
    question: "The quotations are over. Is each item supported by the context? Reply with the JSON object alone.",
    schema: VERDICTS,
    max_tokens: LIST_TOKENS,
};

/// Whether statements of an answer help with its task.
pub const RELEVANT: Form = Form {
    name: "relevant",
    rules: "\
You are a strict and impartial examiner. You decide for each of several statements whether it is relevant to a task. The task \
is quoted as `task`, the statements of an answer to it as `item`, in their order.

A statement is relevant if it addresses what the task asks for, or is needed to understand such a statement. Whether it is \
true does not matter. A statement that evades the task, or only says that the answer is not known, is not relevant. If you \
cannot tell, it is not relevant. Reply with one JSON object and nothing else, with one verdict per item, in the order of the \
items: {\"verdicts\": [{\"reason\": \"<at most 20 words>\", \"yes\": true}, …]}.",
    question: "The quotations are over. Is each item relevant to the task? Reply with the JSON object alone.",
    schema: VERDICTS,
    max_tokens: LIST_TOKENS,
};

/// Whether parts of a context were useful for an answer.
pub const USEFUL: Form = Form {
    name: "useful",
    rules: "\
You are a strict and impartial examiner. You decide for each of several parts of a context whether it is useful to arrive at \
an answer to a task. The task is quoted as `task`, the answer as `answer`, the parts of the context as `item`, in their order.

A part is useful if it contains information that the answer uses or needs. If you cannot tell, it is not useful. Reply with \
one JSON object and nothing else, with one verdict per item, in the order of the items: {\"verdicts\": [{\"reason\": \"<at \
most 20 words>\", \"yes\": true}, …]}.",
    question: "The quotations are over. Is each item useful to arrive at the answer? Reply with the JSON object alone.",
    schema: VERDICTS,
    max_tokens: LIST_TOKENS,
};

/// Whether sentences of a context are needed for a task.
pub const NEEDED: Form = Form {
    name: "needed",
    rules: "\
You are a strict and impartial examiner. You decide for each of several sentences of a context whether it is needed to do a \
task. The task is quoted as `task`, the sentences as `item`, in their order.

A sentence is needed if the task cannot be done well without it. A sentence that is only about the same subject is not needed. \
If you cannot tell, it is not needed. Reply with one JSON object and nothing else, with one verdict per item, in the order of \
the items: {\"verdicts\": [{\"reason\": \"<at most 20 words>\", \"yes\": true}, …]}.",
    question: "The quotations are over. Is each item needed for the task? Reply with the JSON object alone.",
    schema: VERDICTS,
    max_tokens: LIST_TOKENS,
};

impl Form {
    /// The question about items, after these quotations.
    pub fn ask_about<'q>(
        &self,
        mut quotations: Vec<(&'static str, Cow<'q, str>)>,
        items: &'q [String],
    ) -> Asked {
        quotations.extend(items.iter().map(|item| ("item", Cow::Borrowed(&**item))));
        self.ask(&quotations)
    }
}

/// Reads the reply to [`STATEMENTS`].
pub fn statements(reply: &ModelReply) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        statements: Vec<String>,
    }
    let read: Document = document(reply)?;
    if read.statements.len() > MAX_ITEMS {
        return None;
    }
    let kept = read.statements.iter().map(|it| kept_text(it));
    Some(kept.filter(|it| !it.is_empty()).collect())
}

/// The decision about one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemVerdict {
    pub yes: bool,
    /// Empty if the judge gave none.
    pub reason: String,
}

/// Reads the reply about this many items.
pub fn verdicts(reply: &ModelReply, items: usize) -> Option<Vec<ItemVerdict>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        verdicts: Vec<Verdict>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Verdict {
        yes: bool,
        #[serde(default)]
        reason: Value,
    }
    let read: Document = document(reply)?;
    (read.verdicts.len() == items).then(|| {
        let verdicts = read.verdicts.into_iter();
        let verdict = |it: Verdict| ItemVerdict {
            yes: it.yes,
            reason: kept(&it.reason),
        };
        verdicts.map(verdict).collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn said(text: &str) -> ModelReply {
        ModelReply {
            text: Some(text.to_owned()),
            ..ModelReply::default()
        }
    }

    #[rstest]
    #[case::none(r#"{"statements": []}"#, Some(0))]
    #[case::some(r#"{"statements": ["a", " b ", ""]}"#, Some(2))]
    #[case::list(r#"["a"]"#, None)]
    #[case::prose("1. a", None)]
    #[case::numbers(r#"{"statements": [1]}"#, None)]
    #[case::more(r#"{"statements": [], "score": 1}"#, None)]
    fn statements_must_be_the_whole_reply(#[case] text: &str, #[case] count: Option<usize>) {
        assert_eq!(statements(&said(text)).map(|it| it.len()), count);
    }

    #[test]
    fn too_many_statements_are_malformed() {
        let many = serde_json::json!({"statements": vec!["a"; MAX_ITEMS + 1]});
        assert_eq!(statements(&said(&many.to_string())), None);
    }

    #[rstest]
    #[case::as_many(r#"{"verdicts": [{"reason": "r", "yes": true}, {"yes": false}]}"#, Some(vec![true, false]))]
    #[case::fewer(r#"{"verdicts": [{"yes": true}]}"#, None)]
    #[case::more(r#"{"verdicts": [{"yes": true}, {"yes": true}, {"yes": true}]}"#, None)]
    #[case::text(r#"{"verdicts": [{"yes": "true"}, {"yes": true}]}"#, None)]
    #[case::bare(r#"{"verdicts": [true, false]}"#, None)]
    fn there_is_one_verdict_per_item(#[case] text: &str, #[case] expected: Option<Vec<bool>>) {
        let found = verdicts(&said(text), 2);
        let found = found.map(|it| it.iter().map(|verdict| verdict.yes).collect());
        assert_eq!(found, expected);
    }
    proptest! {
        #[test]
        fn reading_a_list_does_not_panic(text in "(?s).{0,200}") {
            let reply = said(&text);
            let _ = (statements(&reply), verdicts(&reply, 1));
        }

        #[test]
        fn a_list_with_text_around_it_is_rejected(around in "[^\\s`]{1,20}") {
            let list = r#"{"statements": ["a"]}"#;
            prop_assert_eq!(statements(&said(&format!("{around}{list}"))), None);
            prop_assert_eq!(statements(&said(&format!("{list}{around}"))), None);
        }
    }
}
