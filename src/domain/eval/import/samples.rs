//! What the formats of samples share: a list of objects that each ask one thing.

use serde_json::{Map, Value};

use super::draft::Draft;

/// A sample that asks something.
pub struct Sample {
    /// Where it stands.
    pub place: String,
    /// Its name, if it has one.
    pub id: Option<Value>,
    /// What it asks: a text, or chat messages.
    pub input: Value,
    /// The answer that is expected; of several, the first.
    pub answer: Option<Value>,
    /// Those of its other members that the format knows.
    pub known: Map<String, Value>,
}

/// Takes every sample apart. What none of them is asked for is reported, and so are those that ask nothing.
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
            draft.leave_out(&place, "a sample that is no object");
            continue;
        };
        let mut take = |name: &str| sample.remove(name).filter(|value| !value.is_null());
        let (input, answer, id) = (take("input"), take(answer), take("id"));
        let known = known
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), take(name)?)))
            .collect();
        draft.lose_rest(&place, "a sample", &sample);
        let Some(input) = input else {
            draft.leave_out(&place, "a sample without `input`");
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
        draft.lose(
            place,
            "further answers that would be right, too; only the first one passes now",
        );
    }
    answers.into_iter().next().filter(|first| !first.is_null())
}

/// What the agent is asked by an `input`: a lone user's message is its text. An agent has instructions of its own, so others are said to
/// be data now.
pub fn without_the_chat(draft: &mut Draft, place: &str, input: Value) -> Value {
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
        draft.lose(
            place,
            "that messages are a conversation: they are the input now, as they stand, and instructions among them are data",
        );
    }
    input
}
