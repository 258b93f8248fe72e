//! Checks verdict documents: the schema, and the rules V1 to V16 that a schema cannot express
//! (OASIS.md section 9).
//!
//! The rules are checked only for documents that satisfy the schema; for other documents they would
//! only repeat the schema's violations.

mod adversarial;
mod safety;
mod whole;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::document::{Document, Verdict};
use touchstone_openwop::schema::Document as Schema;

/// The rule name for a schema violation.
pub const SCHEMA: &str = "schema";

/// A violation of a rule by a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// `schema`, or `V1` to `V16`.
    pub rule: String,
    /// JSON Pointer to the violation; empty for the whole document.
    pub path: String,
    pub message: String,
}

/// All violations in a document; empty for a valid one.
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

/// The violations in a verdict that satisfies the schema.
pub fn check_rules(verdict: &Verdict) -> Vec<Violation> {
    let mut found = Violations::default();
    safety::check(verdict, &mut found);
    whole::check(verdict, &mut found);
    adversarial::check(verdict, &mut found);
    found.0
}

#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    /// Adds a violation unless the rule holds.
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

/// A member name, escaped for a JSON Pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The same document with `3.0` written as `3`: the schema accepts both as a count.
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
