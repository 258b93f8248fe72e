//! Samples of Inspect: `input`, `target` (an answer, or several equivalent ones), and `choices` for
//! multiple choice.

use serde_json::{Value, json};

use super::{Columns, Sample, Shape, answers, chat};
use crate::rules::eval::import::draft::Draft;
use crate::rules::eval::import::rows::Rows;
use crate::rules::eval::import::scoring::one_of;
use crate::rules::eval::import::table::structured;

pub const SHAPE: Shape = Shape {
    input: &["input"],
    expected: &["target"],
    id: &["id"],
};

const CHOICES: &str = "choices";

pub fn convert(rows: Rows, columns: &Columns, draft: &mut Draft) {
    super::convert(rows, &SHAPE, columns, draft, task);
}

/// Adds the task of a sample.
pub fn task(mut sample: Sample, draft: &mut Draft) {
    let choices = sample.rest.remove(CHOICES).map(structured);
    let choices = choices.filter(|choices| !choices.is_null());
    draft.report_unknown(&sample.place, "a sample", &sample.rest);
    let is_text = |answer: &Value| answer.as_str() != Some("");
    let mut targets = sample.answer.map(answers).unwrap_or_default();
    targets.retain(is_text);
    if choices.is_some() && targets.len() > 1 {
        // Inspect expects all of several letters, in one answer.
        let letters: Vec<&str> = targets.iter().filter_map(Value::as_str).collect();
        let all = letters.join(", ");
        draft.report_loss(
            &sample.place,
            "the order of several correct choices: the answer must be their letters, separated by \
             a comma",
        );
        targets = vec![json!(all)];
    }
    let Some(expectation) = one_of(draft.strategy, targets) else {
        draft.skip(
            &sample.place,
            "a sample without `target`, which only a custom scorer could judge",
        );
        return;
    };
    let chat = chat::read(draft, &sample.place, sample.input);
    let expectation = chat.applied(expectation).tagged(&sample.tags);
    let mut input = chat.input;
    if let Some(choices) = choices {
        draft.report_loss(
            &sample.place,
            "the presentation of choices: they are a member of the input now, and the target \
             still names one of them",
        );
        input = json!({"input": input, CHOICES: choices});
    }
    draft.add(&sample.place, sample.id.as_ref(), input, expectation);
}
