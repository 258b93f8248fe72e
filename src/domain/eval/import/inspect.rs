//! Samples of Inspect: `input`, `target`, and `choices` where one is to be picked.

use serde_json::{Value, json};

use super::draft::Draft;
use super::openai_evals::{one_answer, without_the_chat};

pub fn convert(samples: Vec<Value>, draft: &mut Draft) {
    for (index, sample) in samples.into_iter().enumerate() {
        let place = format!("sample {}", index + 1);
        let Value::Object(mut sample) = sample else {
            draft.lose(&place, "a sample that is no object");
            continue;
        };
        let (input, target) = (sample.remove("input"), sample.remove("target"));
        let (id, choices) = (sample.remove("id"), sample.remove("choices"));
        draft.lose_rest(&place, "a sample", &sample);
        let Some(input) = input.filter(|input| !input.is_null()) else {
            draft.lose(&place, "a sample without `input`, left out");
            continue;
        };
        let is_text = |answer: &Value| answer.as_str() != Some("");
        let answer = target.and_then(|target| one_answer(draft, &place, target));
        let Some(answer) = answer.filter(is_text) else {
            draft.lose(
                &place,
                "a sample without `target`, left out: only a scorer of its own could judge it",
            );
            continue;
        };
        let mut input = without_the_chat(draft, &place, input);
        if let Some(choices) = choices.filter(|choices| !choices.is_null()) {
            draft.lose(
                &place,
                "how choices are shown: they are a member of the input now, and the target names one of them as before",
            );
            input = json!({"input": input, "choices": choices});
        }
        let expected = draft.golden(answer);
        draft.add(&place, id.as_ref(), input, expected);
    }
}
