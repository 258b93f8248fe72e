//! Samples of Inspect: `input`, `target`, and `choices` for multiple choice.

use serde_json::{Value, json};

use super::draft::Draft;
use super::samples::{take, user_message};

const CHOICES: &str = "choices";

pub fn convert(samples: Vec<Value>, draft: &mut Draft) {
    take(samples, "target", &[CHOICES], draft, |mut sample, draft| {
        let is_text = |answer: &Value| answer.as_str() != Some("");
        let Some(answer) = sample.answer.filter(is_text) else {
            draft.skip(
                &sample.place,
                "a sample without `target`, which only a custom scorer could judge",
            );
            return;
        };
        let mut input = user_message(draft, &sample.place, sample.input);
        if let Some(choices) = sample.known.remove(CHOICES) {
            draft.report_loss(
                &sample.place,
                "the presentation of choices: they are a member of the input now, and the target \
                 still names one of them",
            );
            input = json!({"input": input, CHOICES: choices});
        }
        let expected = draft.golden(answer);
        draft.add(&sample.place, sample.id.as_ref(), input, expected);
    });
}
