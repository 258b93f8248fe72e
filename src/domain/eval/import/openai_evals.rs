//! Samples of OpenAI evals: `input` (a text or chat messages) and `ideal` (an answer, or several that are as good).

use serde_json::Value;

use super::draft::Draft;

pub fn convert(samples: Vec<Value>, draft: &mut Draft) {
    for (index, sample) in samples.into_iter().enumerate() {
        let place = format!("sample {}", index + 1);
        let Value::Object(mut sample) = sample else {
            draft.lose(&place, "a sample that is no object");
            continue;
        };
        let (input, ideal) = (sample.remove("input"), sample.remove("ideal"));
        let id = sample.remove("id");
        draft.lose_rest(&place, "a sample", &sample);
        let Some(input) = input.filter(|input| !input.is_null()) else {
            draft.lose(&place, "a sample without `input`, left out");
            continue;
        };
        let Some(answer) = ideal.and_then(|ideal| one_answer(draft, &place, ideal)) else {
            draft.lose(
                &place,
                "a sample without an `ideal` answer, left out: only a grader of its own could score it",
            );
            continue;
        };
        let input = without_the_chat(draft, &place, input);
        let expected = draft.golden(answer);
        draft.add(&place, id.as_ref(), input, expected);
    }
}

/// The answer that is expected; of several, the first.
pub fn one_answer(draft: &mut Draft, place: &str, answer: Value) -> Option<Value> {
    match answer {
        Value::Null => None,
        Value::Array(answers) => {
            if answers.len() > 1 {
                draft.lose(
                    place,
                    "further answers that would be right, too; only the first one passes now",
                );
            }
            answers.into_iter().next().filter(|first| !first.is_null())
        }
        answer => Some(answer),
    }
}

/// What the agent is asked: a lone user's message is its text. An agent has instructions of its own, so others are said to
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
