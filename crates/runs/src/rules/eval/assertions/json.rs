//! Assertions about an answer that is JSON, or a text that contains nothing else.

use std::borrow::Cow;

use serde_json::Value;

use super::{Evaluator, Finding, NoResult, clipped, quoted, shown};
use crate::rules::eval::matching;
use crate::rules::eval::scoring_document::checks::{
    IsJson, JsonPath, JsonPointer, Operator, Quantifier,
};
use crate::rules::eval::scoring_document::path;
use touchstone_kit::json::parse_written;
use touchstone_openwop::schema::compile_untrusted;

/// Steps per byte of an answer that is parsed, or searched by a path or a schema.
const JSON_STEPS: usize = 32;

impl Evaluator<'_> {
    /// The answer as JSON; `None` for a text that is not JSON.
    pub(super) fn json(&self) -> Result<Option<Cow<'_, Value>>, NoResult> {
        match self.observed.answer {
            Value::String(text) => {
                self.spend(text.len().saturating_mul(JSON_STEPS))?;
                Ok(parse_written(text).map(Cow::Owned))
            }
            other => {
                self.spend(self.text()?.len().saturating_mul(JSON_STEPS))?;
                Ok(Some(Cow::Borrowed(other)))
            }
        }
    }

    fn no_json(&self, expected: String) -> Result<Finding, NoResult> {
        let found = format!("not JSON: {}", quoted(&self.text()?));
        Ok(Finding::new(false, expected, Some(found)))
    }

    pub(super) fn is_json(&self, it: &IsJson) -> Result<Finding, NoResult> {
        let expected = match &it.schema {
            Some(_) => "JSON that satisfies the schema",
            None => "JSON",
        };
        let Some(answer) = self.json()? else {
            return self.no_json(expected.to_owned());
        };
        let schema = it.schema.as_ref().map(compile_untrusted);
        let violation = match schema {
            None => return Ok(Finding::new(true, expected, Some(shown(&answer)))),
            Some(Err(fault)) => Some(fault.to_string()),
            Some(Ok(schema)) => schema
                .first_violation(&answer)
                .map(|it| format!("{}: {}", place(&it.pointer), it.reason)),
        };
        let holds = violation.is_none();
        let found = violation.unwrap_or_else(|| shown(&answer));
        Ok(Finding::new(holds, expected, Some(clipped(&found))))
    }

    pub(super) fn json_pointer(&self, it: &JsonPointer) -> Result<Finding, NoResult> {
        let what = wanted(place(&it.pointer), it.operator, it.value.as_ref());
        let Some(answer) = self.json()? else {
            return self.no_json(what);
        };
        let Some(selected) = answer.pointer(&it.pointer) else {
            return Ok(Finding::new(false, what, Some("no such value".to_owned())));
        };
        let holds = self.compares(selected, it.operator, it.value.as_ref())?;
        Ok(Finding::new(holds, what, Some(shown(selected))))
    }

    pub(super) fn json_path(&self, it: &JsonPath) -> Result<Finding, NoResult> {
        let scope = match it.quantifier {
            Quantifier::Any => it.path.clone(),
            Quantifier::All => format!("each of {}", it.path),
        };
        let what = wanted(&scope, it.operator, it.value.as_ref());
        let Some(answer) = self.json()? else {
            return self.no_json(what);
        };
        let path = match path::parse(&it.path) {
            Ok(path) => path,
            Err(reason) => return Ok(Finding::new(false, what, Some(reason))),
        };
        let selected = path.query(&answer).all();
        let mut held = 0;
        for value in &selected {
            held += usize::from(self.compares(value, it.operator, it.value.as_ref())?);
        }
        let holds = match it.quantifier {
            Quantifier::Any => held > 0,
            Quantifier::All => held > 0 && held == selected.len(),
        };
        let found = match selected.as_slice() {
            [] => "no such value".to_owned(),
            several => {
                let few: Vec<String> = several.iter().take(10).map(|it| shown(it)).collect();
                clipped(&few.join(", "))
            }
        };
        Ok(Finding::new(holds, what, Some(found)))
    }

    fn compares(
        &self,
        found: &Value,
        operator: Operator,
        wanted: Option<&Value>,
    ) -> Result<bool, NoResult> {
        let Some(wanted) = wanted else {
            return Ok(operator == Operator::Exists);
        };
        let order = || found.as_f64()?.partial_cmp(&wanted.as_f64()?);
        Ok(match operator {
            Operator::Exists => true,
            Operator::Equals => matching::equal(found, wanted),
            Operator::NotEquals => !matching::equal(found, wanted),
            Operator::Less => order().is_some_and(std::cmp::Ordering::is_lt),
            Operator::AtMost => order().is_some_and(std::cmp::Ordering::is_le),
            Operator::More => order().is_some_and(std::cmp::Ordering::is_gt),
            Operator::AtLeast => order().is_some_and(std::cmp::Ordering::is_ge),
            Operator::Contains => match (found, wanted) {
                (Value::String(text), Value::String(part)) => {
                    self.spend(text.len())?;
                    text.contains(part.as_str())
                }
                (Value::Array(items), wanted) => {
                    items.iter().any(|item| matching::equal(item, wanted))
                }
                _ => false,
            },
            Operator::Matches => match (found, wanted) {
                (Value::String(text), Value::String(pattern)) => {
                    self.matches(pattern, false, text)?
                }
                _ => false,
            },
        })
    }
}

fn place(pointer: &str) -> &str {
    match pointer {
        "" => "the answer",
        other => other,
    }
}

fn wanted(scope: &str, operator: Operator, value: Option<&Value>) -> String {
    let operator = operator.as_str().replace('-', " ");
    match value {
        Some(value) => clipped(&format!("{scope} {operator} {}", shown(value))),
        None => format!("{scope} {operator}"),
    }
}
