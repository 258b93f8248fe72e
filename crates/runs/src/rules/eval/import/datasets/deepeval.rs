//! Goldens of DeepEval: `input`, `expected_output`, and the tools that the agent should call.

use serde_json::{Value, json};

use super::{Columns, Sample, Shape, chat};
use crate::rules::eval::import::draft::Draft;
use crate::rules::eval::import::rows::Rows;
use crate::rules::eval::import::scoring::{Expectation, any_answer};
use crate::rules::eval::import::table::structured;

pub const SHAPE: Shape = Shape {
    input: &["input"],
    expected: &["expected_output", "expectedOutput"],
    id: &["id", "name"],
};

const TOOLS: [&str; 2] = ["expected_tools", "expectedTools"];

pub fn convert(rows: Rows, columns: &Columns, draft: &mut Draft) {
    for row in rows.rows {
        let is_conversation =
            row.value.get("scenario").is_some() || row.value.get("turns").is_some();
        if is_conversation && row.value.get("input").is_none() {
            draft.skip(
                &row.place,
                "a conversational golden: it describes a scenario for a simulated user",
            );
        } else if let Some(sample) = super::sample(row, &SHAPE, columns, draft) {
            task(sample, draft);
        }
    }
}

fn task(mut sample: Sample, draft: &mut Draft) {
    let tools = TOOLS
        .iter()
        .find_map(|name| sample.rest.remove(*name))
        .map(structured);
    let is_empty = |value: &Value| {
        value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty)
    };
    sample.rest.retain(|_, value| !is_empty(value));
    draft.report_unknown(&sample.place, "a golden", &sample.rest);
    let calls = tools.map_or_else(Vec::new, |tools| called(&tools, &sample.place, draft));
    let expectation = match (sample.answer, calls.is_empty()) {
        (Some(answer), true) => draft.golden(answer),
        (Some(answer), false) => {
            let expected = draft.golden(answer).expected;
            let mut assertions = vec![json!({"type": "expected"})];
            assertions.extend(calls);
            Expectation::scored(expected, assertions)
        }
        (None, false) => Expectation::scored(any_answer(), calls),
        (None, true) => {
            draft.skip(
                &sample.place,
                "a golden without `expected_output` or `expected_tools`",
            );
            return;
        }
    };
    let chat = chat::read(draft, &sample.place, sample.input);
    let expectation = chat.applied(expectation).tagged(&sample.tags);
    draft.add(&sample.place, sample.id.as_ref(), chat.input, expectation);
}

/// Assertions that these tools are called.
fn called(tools: &Value, place: &str, draft: &mut Draft) -> Vec<Value> {
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut calls = Vec::new();
    for tool in tools {
        let name = tool.as_str().or_else(|| tool.get("name")?.as_str());
        match name.filter(|name| !name.is_empty()) {
            Some(name) => {
                if tool.as_object().is_some_and(|tool| tool.len() > 1) {
                    draft.report_loss(
                        place,
                        "details of an expected tool (arguments, output): only its name is compared",
                    );
                }
                calls.push(json!({"type": "tool-called", "name": name}));
            }
            None => draft.report_loss(place, "an expected tool without a name"),
        }
    }
    calls
}
