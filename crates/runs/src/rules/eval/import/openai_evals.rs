//! Samples of OpenAI evals: `input` (a string or chat messages) and `ideal` (an answer, or several
//! equivalent ones).

use serde_json::Value;

use super::draft::Draft;
use super::samples::{take, user_message};

pub fn convert(samples: Vec<Value>, draft: &mut Draft) {
    take(samples, "ideal", &[], draft, |sample, draft| {
        let Some(answer) = sample.answer else {
            draft.skip(
                &sample.place,
                "a sample without an `ideal` answer, which only a custom grader could score",
            );
            return;
        };
        let input = user_message(draft, &sample.place, sample.input);
        let expected = draft.golden(answer);
        draft.add(&sample.place, sample.id.as_ref(), input, expected);
    });
}
