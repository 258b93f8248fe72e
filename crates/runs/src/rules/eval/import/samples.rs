//! Common parts of sample formats: a list of objects that each ask one question.

use serde_json::{Map, Value};

use super::draft::Draft;

/// A sample with an input.
pub struct Sample {
    /// Its place in the document.
    pub place: String,
    pub id: Option<Value>,
    /// The question: a string, or chat messages.
    pub input: Value,
    /// The expected answer; the first one of several.
    pub answer: Option<Value>,
    /// Its other members that the format knows.
    pub known: Map<String, Value>,
}

/// Parses every sample. Samples without input and unknown members are reported.
pub fn take(
    samples: Vec<Value>,
    answer: &str,
    known: &[&str],
    draft: &mut Draft,
    mut each: impl FnMut(Sample, &mut Draft),
) {
    for (index, sample) in samples.into_iter().enumerate() {
        let place = format!("sample {}", index + 1);
        let Value::Object(mut sample) = sample else {
            draft.skip(&place, "a sample that is not an object");
            continue;
        };
        let mut take = |name: &str| sample.remove(name).filter(|value| !value.is_null());
        let (input, answer, id) = (take("input"), take(answer), take("id"));
        let known = known
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), take(name)?)))
            .collect();
        draft.report_unknown(&place, "a sample", &sample);
        let Some(input) = input else {
            draft.skip(&place, "a sample without `input`");
            continue;
        };
        let sample = Sample {
            answer: answer.and_then(|answer| one_answer(draft, &place, answer)),
            input,
            place,
            id,
            known,
        };
        each(sample, draft);
    }
}

fn one_answer(draft: &mut Draft, place: &str, answer: Value) -> Option<Value> {
    let Value::Array(answers) = answer else {
        return Some(answer);
    };
    if answers.len() > 1 {
        draft.report_loss(
            place,
            "further correct answers; only the first one passes now",
        );
    }
    answers.into_iter().next().filter(|first| !first.is_null())
}

/// The agent's input for an `input`: the text of a single user message. An agent has its own
/// instructions, so other messages are reported as data.
pub fn user_message(draft: &mut Draft, place: &str, input: Value) -> Value {
    let Value::Array(messages) = &input else {
        return input;
    };
    let role = |message: &Value| {
        message
            .get("role")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if let [message] = messages.as_slice()
        && role(message).as_deref() == Some("user")
        && let Some(text) = message.get("content").filter(|content| content.is_string())
    {
        return text.clone();
    }
    if messages.iter().any(|message| role(message).is_some()) {
        draft.report_loss(
            place,
            "the roles of messages: the input is a conversation now, unchanged, and instructions \
             in it are data",
        );
    }
    input
}
