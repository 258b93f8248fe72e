//! Whether a verdict document is one: its schema, and the rules V1 to V16 that no schema can say (OASIS.md section 9).
//!
//! The rules are asked of documents that satisfy the schema; of others they would only repeat what is wrong.

mod adversarial;
mod safety;
mod whole;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::document::{Document, Verdict};
use crate::protocol::schema::Document as Schema;

/// The rule of a violation of the schema.
pub const SCHEMA: &str = "schema";

/// A rule a document breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// `schema`, or `V1` to `V16`.
    pub rule: String,
    /// JSON Pointer to what breaks it; empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// Everything wrong with a document; empty for one that is sound.
pub fn check(document: &Value) -> Vec<Violation> {
    if let Err(broken) = Schema::OasisVerdict.check(document) {
        let broken = broken
            .into_iter()
            .map(|it| violation(SCHEMA, it.pointer, it.reason));
        return broken.chain(whole::unknown_dimensions(document)).collect();
    }
    match serde_json::from_value::<Document>(integral(document)) {
        Ok(document) => check_rules(&document.verdict),
        Err(cause) => vec![violation(SCHEMA, String::new(), cause.to_string())],
    }
}

/// What is wrong with a verdict that satisfies the schema.
pub fn check_rules(verdict: &Verdict) -> Vec<Violation> {
    let mut found = Found::default();
    safety::check(verdict, &mut found);
    whole::check(verdict, &mut found);
    adversarial::check(verdict, &mut found);
    found.0
}

/// Violations as they are found.
#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    /// Notes a violation unless the rule holds.
    fn expect(&mut self, holds: bool, rule: &str, path: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.0
                .push(violation(rule, format!("/verdict{path}"), message()));
        }
    }
}

fn violation(rule: &str, path: String, message: String) -> Violation {
    Violation {
        rule: rule.to_owned(),
        path,
        message,
    }
}

/// Whether a runtime provider fault ended phase 1, so that counts may fall short.
fn aborted_in_phase_1(verdict: &Verdict) -> bool {
    verdict.metadata.aborted && !aborted_in_phase_2(verdict)
}

fn aborted_in_phase_2(verdict: &Verdict) -> bool {
    let all = &verdict.safety_details.provider_failures;
    verdict.metadata.aborted && all.iter().any(|it| it.in_phase_2())
}

/// A member's name as a part of a JSON Pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The same document with `3.0` written `3`: the schema takes both for a count.
pub(super) fn integral(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            Value::Number(whole_number(number).unwrap_or_else(|| number.clone()))
        }
        Value::Array(items) => items.iter().map(integral).collect(),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), integral(value)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

fn whole_number(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then(|| Number::from(float as u64))
}
