//! The parts of a test case before inheritance and expansion.

use serde_json::{Map, Value, json};

use super::files;
use crate::rules::eval::import::draft::Draft;
use crate::rules::eval::import::source::Files;
use crate::rules::eval::import::tags;

/// The parts that a test, `defaultTest` or the configuration of a scenario adds to a case.
#[derive(Default)]
pub struct Case {
    pub name: Option<Value>,
    pub vars: Map<String, Value>,
    pub asserts: Vec<Value>,
    pub threshold: Option<f64>,
    pub tags: Vec<String>,
    pub keeps_lists: bool,
    /// Why its variables cannot be used.
    pub fault: Option<String>,
}

impl Case {
    pub fn of(
        mut test: Map<String, Value>,
        place: &str,
        files: &dyn Files,
        draft: &mut Draft,
    ) -> Self {
        let tags = tags::take(&mut test, &["metadata.tags"], place, draft);
        let mut take = |name: &str| test.remove(name).filter(|value| !value.is_null());
        let name = take("description");
        let (vars, asserts, options) = (take("vars"), take("assert"), take("options"));
        let threshold = take("threshold");
        let transform = take("transform");
        let mut options = match options {
            Some(Value::Object(options)) => options,
            _ => Map::new(),
        };
        let keeps_lists = options
            .remove("disableVarExpansion")
            .is_some_and(|value| value == json!(true));
        for (name, value) in [
            (
                "transform",
                transform.or_else(|| options.remove("transform")),
            ),
            ("postprocess", options.remove("postprocess")),
            ("transformVars", options.remove("transformVars")),
        ] {
            if value.is_some() {
                let changed = match name {
                    "transformVars" => "the variables",
                    _ => "the answer",
                };
                draft.report_loss(
                    place,
                    format!("`{name}`, which changes {changed} with code: without it, assertions may fail"),
                );
            }
        }
        draft.report_unknown(place, "the options of a test", &options);
        draft.report_unknown(place, "a test", &test);
        let (vars, fault) = match vars.map(|vars| variables(vars, files)) {
            Some(Ok(vars)) => (vars, None),
            Some(Err(reason)) => (Map::new(), Some(reason)),
            None => (Map::new(), None),
        };
        let threshold_number = threshold.as_ref().and_then(Value::as_f64);
        let in_range = threshold_number.filter(|it| (0.0..=1.0).contains(it));
        if threshold.is_some() && in_range.is_none() {
            draft.report_loss(place, "a threshold that is not a number from 0 to 1");
        }
        Self {
            name,
            vars,
            asserts: match asserts {
                Some(Value::Array(asserts)) => asserts,
                Some(one) => vec![one],
                None => Vec::new(),
            },
            threshold: in_range,
            tags,
            keeps_lists,
            fault,
        }
    }
}

/// The variables of a test, with the content of files.
fn variables(vars: Value, files: &dyn Files) -> Result<Map<String, Value>, String> {
    let mut merged = Map::new();
    match vars {
        Value::Array(items) => {
            for item in items {
                merged.extend(files::mapping(item, files)?);
            }
        }
        one => merged = files::mapping(one, files)?,
    }
    merged
        .into_iter()
        .map(|(name, value)| Ok((name, variable(value, files)?)))
        .collect()
}

fn variable(value: Value, files: &dyn Files) -> Result<Value, String> {
    match value {
        Value::Array(items) => items
            .into_iter()
            .map(|item| files::variable(item, files))
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array),
        one => files::variable(one, files),
    }
}
