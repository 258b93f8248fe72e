//! Datasets: rows that each ask one question.

pub mod chat;
pub mod deepeval;
pub mod inspect;
pub mod inspect_log;
pub mod openai_evals;
pub mod records;

use serde_json::{Map, Value};

use super::draft::Draft;
use super::rows::{Row, Rows, take};
use super::table::structured;
use super::tags;

/// The columns that hold the parts of a task, in order of preference.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub input: &'static [&'static str],
    pub expected: &'static [&'static str],
    pub id: &'static [&'static str],
}

/// Columns that hold the tags of a sample.
const TAGS: [&str; 4] = [
    "tags",
    "metadata.tags",
    "additional_metadata.tags",
    "additionalMetadata.tags",
];

/// Columns that the user names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub input: Option<String>,
    pub expected: Option<String>,
    pub id: Option<String>,
}

impl Columns {
    /// Whether the user names no column.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The flag and name of every column that the user names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("--input", &self.input),
            ("--expected", &self.expected),
            ("--id", &self.id),
        ]
        .into_iter()
        .filter_map(|(flag, name)| Some((flag, name.as_deref()?)))
    }
}

/// A row with an input.
#[derive(Debug)]
pub struct Sample {
    pub place: String,
    pub id: Option<Value>,
    /// The question: a string, chat messages, or an object.
    pub input: Value,
    /// The expected answer or answers.
    pub answer: Option<Value>,
    pub tags: Vec<String>,
    /// Its other members.
    pub rest: Map<String, Value>,
}

/// Takes the parts of a row. Rows without input are reported.
pub fn sample(row: Row, shape: &Shape, columns: &Columns, draft: &mut Draft) -> Option<Sample> {
    let place = row.place;
    let Value::Object(mut members) = row.value else {
        draft.skip(&place, "a sample that is not an object");
        return None;
    };
    let mut column = |named: &Option<String>, usual: &[&str]| match named {
        Some(name) => take(&mut members, name),
        None => usual.iter().find_map(|name| take(&mut members, name)),
    };
    let input = column(&columns.input, shape.input);
    let answer = column(&columns.expected, shape.expected);
    let id = column(&columns.id, shape.id);
    let Some(input) = input.map(structured) else {
        draft.report_unknown(&place, "a sample", &members);
        let name = columns
            .input
            .as_deref()
            .or_else(|| shape.input.first().copied());
        draft.skip(
            &place,
            &format!("a sample without `{}`", name.unwrap_or("input")),
        );
        return None;
    };
    let tags = tags::take(&mut members, &TAGS, &place, draft);
    Some(Sample {
        tags,
        id,
        input,
        answer: answer.map(structured),
        place,
        rest: members,
    })
}

/// Converts every row. `each` takes the members that its format knows; the others are reported.
pub fn convert(
    rows: Rows,
    shape: &Shape,
    columns: &Columns,
    draft: &mut Draft,
    mut each: impl FnMut(Sample, &mut Draft),
) {
    for row in rows.rows {
        if let Some(sample) = sample(row, shape, columns, draft) {
            each(sample, draft);
        }
    }
}

/// The answers of a sample that may have several equivalent ones.
pub fn answers(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(answers) => answers.into_iter().filter(|it| !it.is_null()).collect(),
        one => vec![one],
    }
}
