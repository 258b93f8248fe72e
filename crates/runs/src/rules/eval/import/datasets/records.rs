//! Rows with an input and an expected answer: dataset exports of Langfuse and Braintrust, and any
//! table.

use serde_json::Value;

use super::{Columns, Sample, Shape, chat};
use crate::rules::eval::import::draft::Draft;
use crate::rules::eval::import::rows::Rows;

pub const LANGFUSE: Shape = Shape {
    input: &["input"],
    expected: &["expectedOutput", "expected_output"],
    id: &["id"],
};

pub const BRAINTRUST: Shape = Shape {
    input: &["input"],
    expected: &["expected", "output"],
    id: &["id"],
};

/// Names that the columns of tables usually have.
pub const TABLE: Shape = Shape {
    input: &[
        "input",
        "question",
        "prompt",
        "query",
        "instruction",
        "user_input",
        "problem",
        "text",
        "message",
        "messages",
    ],
    expected: &[
        "expected",
        "expected_output",
        "expectedOutput",
        "expected_answer",
        "answer",
        "answers",
        "ideal",
        "target",
        "reference",
        "ground_truth",
        "label",
        "output",
        "completion",
        "response",
        "solution",
    ],
    id: &["id", "task_id", "name"],
};

/// The columns that are used: those the user names, else the usual ones.
pub fn chosen<'a>(
    rows: &'a Rows,
    shape: &'a Shape,
    columns: &'a Columns,
) -> (Option<&'a str>, Option<&'a str>) {
    let column = |named: &'a Option<String>, usual: &'a [&'static str]| match named {
        Some(name) => Some(name.as_str()),
        None => usual.iter().copied().find(|name| rows.has(name)),
    };
    (
        column(&columns.input, shape.input),
        column(&columns.expected, shape.expected),
    )
}

pub fn convert(rows: Rows, shape: &Shape, columns: &Columns, draft: &mut Draft) {
    super::convert(rows, shape, columns, draft, task);
}

/// A table uses the same columns for every row, so that a row with an empty cell is not filled from
/// another column.
pub fn convert_table(rows: Rows, columns: &Columns, draft: &mut Draft) {
    let (input, expected) = chosen(&rows, &TABLE, columns);
    let columns = Columns {
        input: input.map(str::to_owned),
        expected: expected.map(str::to_owned),
        id: columns.id.clone(),
    };
    super::convert(rows, &TABLE, &columns, draft, task);
}

fn task(mut sample: Sample, draft: &mut Draft) {
    let is_archived = sample
        .rest
        .get("status")
        .and_then(Value::as_str)
        .is_some_and(|status| status.eq_ignore_ascii_case("archived"));
    if is_archived {
        draft.skip(&sample.place, "an archived item");
        return;
    }
    sample.rest.retain(|_, value| {
        !(value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty))
    });
    draft.report_unknown(&sample.place, "a sample", &sample.rest);
    let Some(answer) = sample.answer else {
        draft.skip(&sample.place, "a sample without an expected answer");
        return;
    };
    let expectation = draft.golden(answer);
    let chat = chat::read(draft, &sample.place, sample.input);
    let expectation = chat.applied(expectation).tagged(&sample.tags);
    draft.add(&sample.place, sample.id.as_ref(), chat.input, expectation);
}
