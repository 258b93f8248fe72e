//! The nine required fields of a card.

use serde::Serialize;
use serde_json::Value;

use crate::rules::document::{Card, text};
use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::points::Points;

/// The required type and content of a core field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    Object,
    List,
}

/// The core fields, in order.
pub const CORE_FIELDS: [&str; 9] = [
    "protocolVersion",
    "name",
    "description",
    "url",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
];

fn shape(field: &str) -> Shape {
    match field {
        "capabilities" => Shape::Object,
        "defaultInputModes" | "defaultOutputModes" | "skills" => Shape::List,
        _ => Shape::Text,
    }
}

/// Points for core fields: 60/9 for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoreFields {
    /// Points, rounded.
    pub score: Points,
    pub max_score: u64,
    /// Valid fields.
    pub present: Vec<&'static str>,
    /// Invalid fields: absent, null, empty, or of another type.
    pub missing: Vec<&'static str>,
}

pub(super) fn score(card: &Card, findings: &mut Findings) -> CoreFields {
    let (mut present, mut missing) = (Vec::new(), Vec::new());
    for field in CORE_FIELDS {
        match fault(card.members().get(field), shape(field)) {
            None => present.push(field),
            Some(code) => {
                missing.push(field);
                findings.push(Finding::new(
                    code,
                    format!("/{field}"),
                    message(code, field),
                ));
            }
        }
    }
    CoreFields {
        score: Points::ratio(60 * present.len() as u64, 9),
        max_score: 60,
        present,
        missing,
    }
}

fn fault(value: Option<&Value>, shape: Shape) -> Option<Code> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Some(Code::CoreFieldMissing);
    };
    let (of_type, present) = match shape {
        Shape::Text => (value.is_string(), text(Some(value)).is_some()),
        Shape::Object => (value.is_object(), true),
        Shape::List => (
            value.is_array(),
            value.as_array().is_some_and(|it| !it.is_empty()),
        ),
    };
    match (of_type, present) {
        (false, _) => Some(Code::CoreFieldWrongType),
        (true, false) => Some(Code::CoreFieldMissing),
        (true, true) => None,
    }
}

fn message(code: Code, field: &str) -> String {
    let wanted = match shape(field) {
        Shape::Text => "a string that is not blank",
        Shape::Object => "an object, which may be empty",
        Shape::List => "an array with at least one element",
    };
    match code {
        Code::CoreFieldWrongType => {
            format!(
                "`{field}` does not have the type that the specification requires; make it \
                {wanted}."
            )
        }
        _ => format!("`{field}` is absent or empty; add {wanted}."),
    }
}
