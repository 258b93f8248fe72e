//! Preflight: whether a provider meets the contract of a profile (OASIS PC 3.8; OASIS.md section
//! 3). It runs once, before anything else.
//!
//! A gap found here means that the set-up must be fixed. It is never combined with faults during
//! scenarios.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::profile::Profile;
use super::refusal::{Refusal, RefusalCode, RefusalItem};
use super::version_range::VersionRange;

/// The key of the gap if the provider returned no usable answer.
pub const ENDPOINT: &str = "conformance_endpoint";
const CORE_VERSIONS: &str = "oasis_core_spec_versions";
const UNMET: &str = "unmet_requirements";
/// The requirement for the type of environment that a provider stages (OASIS PC 3).
const ENVIRONMENT_TYPE: &str = "environment_type";

/// The requirements of a profile's provider contract, by key.
pub type Requirements = BTreeMap<String, Requirement>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The JSON type of the answer.
    #[serde(rename = "type")]
    pub kind: RequirementKind,
    /// Whether an answer is required. An optional answer must match the expectation as well, if
    /// present.
    #[serde(default)]
    pub required: bool,
    /// The expected answer, in the form for its type; any answer if absent.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub expected: Value,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// How answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementKind {
    /// Equal.
    String,
    /// Equal.
    Boolean,
    /// At least the expected value; `requested` is the claimed tier.
    Integer,
    /// A superset of the expected list.
    Array,
    /// At least one element lies in the range.
    SemverList,
}

/// The type of environment that every provider must declare, if the contract requires one.
pub fn environment_type(requirements: &Requirements) -> Option<&str> {
    let requirement = requirements.get(ENVIRONMENT_TYPE)?;
    if requirement.required && requirement.kind == RequirementKind::String {
        requirement.expected.as_str()
    } else {
        None
    }
}

/// One requirement with the provider's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequirementCheck {
    pub key: String,
    /// The profile's expectation, as written in the profile.
    pub expected: Value,
    /// The provider's declaration; `null` if absent.
    pub answer: Value,
    /// Whether the answer meets the expectation.
    pub satisfied: bool,
}

/// The result of asking a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preflight {
    /// Every requirement, in key order.
    pub requirements: Vec<RequirementCheck>,
    /// Everything that prevents the evaluation, each key once.
    pub gaps: Vec<RefusalItem>,
}

impl Preflight {
    /// The result for a provider that returned no usable answer, with the reason.
    pub fn unanswered(requirements: &Requirements, reason: &str) -> Self {
        let mut preflight = Self::default();
        for (key, requirement) in requirements {
            preflight.record(key, requirement, &Value::Null, false);
        }
        preflight.gap(ENDPOINT, reason);
        preflight
    }

    /// The result for an answer with status 200.
    pub fn of(profile: &Profile, requirements: &Requirements, tier: u8, answer: &Value) -> Self {
        if !answer.is_object() {
            return Self::unanswered(requirements, "the provider's response is not a JSON object");
        }
        let mut preflight = Self::default();
        preflight.check_core_versions(profile, &answer[CORE_VERSIONS]);
        preflight.check_same("profile", &profile.identifier, &answer["profile"]);
        preflight.check_same(
            "profile_version",
            &profile.version,
            &answer["profile_version"],
        );
        for (key, requirement) in requirements {
            let all = &answer["requirements"];
            let declared = all.get(key).unwrap_or(&Value::Null);
            let problem = requirement.problem(declared, tier);
            preflight.record(key, requirement, declared, problem.is_none());
            if let Some(problem) = problem {
                preflight.gap(key, &problem);
            }
        }
        preflight.check_unmet(&answer[UNMET]);
        if answer["supported"] != Value::Bool(true) && preflight.gaps.is_empty() {
            preflight.gap(
                "supported",
                "the provider does not declare support for the profile and does not give a reason",
            );
        }
        preflight
    }

    /// Why the evaluation does not start, if it does not.
    pub fn refusal(&self) -> Option<Refusal> {
        let code = RefusalCode::PreflightFailed;
        let items = self.gaps.clone();
        (!items.is_empty()).then_some(Refusal { code, items })
    }

    fn record(&mut self, key: &str, requirement: &Requirement, answer: &Value, satisfied: bool) {
        self.requirements.push(RequirementCheck {
            key: key.to_owned(),
            expected: requirement.expected.clone(),
            answer: answer.clone(),
            satisfied,
        });
    }

    /// Adds a gap. The host's check and the provider's statement about the same key are combined
    /// into one item.
    fn gap(&mut self, key: &str, reason: &str) {
        if let Some(known) = self.gaps.iter_mut().find(|it| it.key == key) {
            known.reason = format!("{}; {reason}", known.reason);
            return;
        }
        self.gaps.push(RefusalItem {
            key: key.to_owned(),
            reason: reason.to_owned(),
        });
    }

    fn check_core_versions(&mut self, profile: &Profile, declared: &Value) {
        let Some(dependency) = &profile.oasis_core_dependency else {
            return;
        };
        if let Some(problem) = no_version_in(dependency, declared) {
            self.gap(CORE_VERSIONS, &problem);
        }
    }

    fn check_same(&mut self, key: &str, expected: &str, declared: &Value) {
        if declared.as_str() != Some(expected) {
            self.gap(
                key,
                &format!("must be \"{expected}\", the provider declares {declared}"),
            );
        }
    }

    fn check_unmet(&mut self, unmet: &Value) {
        let entries = match unmet {
            Value::Null => return,
            Value::Array(entries) => entries,
            _ => return self.gap(UNMET, "must be an array"),
        };
        for entry in entries {
            let key = entry["requirement"].as_str().or(entry.as_str());
            let reason = entry["reason"].as_str().unwrap_or("no reason given");
            self.gap(
                key.unwrap_or(UNMET),
                &format!("the provider says: {reason}"),
            );
            // A requirement that the provider reports as unmet is not satisfied, even if the
            // declared value matches.
            for known in &mut self.requirements {
                known.satisfied &= key != Some(known.key.as_str());
            }
        }
    }
}

impl Requirement {
    /// The problem with an answer, where `null` means no answer.
    fn problem(&self, declared: &Value, tier: u8) -> Option<String> {
        if declared.is_null() {
            let missing = || "is required, and the provider declares nothing".to_owned();
            return self.required.then(missing);
        }
        let wrong_type =
            |name: &str| Some(format!("must be {name}, the provider declares {declared}"));
        let expected = &self.expected;
        let (is_met, wanted) = match self.kind {
            RequirementKind::String if !declared.is_string() => return wrong_type("a string"),
            RequirementKind::Boolean if !declared.is_boolean() => return wrong_type("a boolean"),
            RequirementKind::Array if !declared.is_array() => return wrong_type("an array"),
            RequirementKind::SemverList if !declared.is_array() => {
                return wrong_type("an array of versions");
            }
            RequirementKind::Integer if whole(declared).is_none() => {
                return wrong_type("an integer");
            }
            _ if expected.is_null() => return None,
            RequirementKind::String | RequirementKind::Boolean => {
                (declared == expected, format!("{expected}"))
            }
            RequirementKind::Integer => {
                let Some(least) = least(expected, tier) else {
                    return Some("could not read the profile's expectation".to_owned());
                };
                (whole(declared) >= Some(least), format!("at least {least}"))
            }
            RequirementKind::Array => {
                let has =
                    |wanted: &Value| declared.as_array().is_some_and(|all| all.contains(wanted));
                let all = expected
                    .as_array()
                    .map_or(has(expected), |all| all.iter().all(has));
                (all, format!("an array with all of {expected}"))
            }
            RequirementKind::SemverList => {
                return no_version_in(expected.as_str().unwrap_or_default(), declared);
            }
        };
        (!is_met).then(|| format!("must be {wanted}, the provider declares {declared}"))
    }
}

/// An integer in any notation: `2` and `2.0` are the same in JSON.
fn whole(value: &Value) -> Option<i64> {
    let integral = |number: &f64| number.fract() == 0.0 && number.abs() < 9e15;
    value
        .as_i64()
        .or_else(|| value.as_f64().filter(integral).map(|number| number as i64))
}

fn least(expected: &Value, tier: u8) -> Option<i64> {
    let value = match &expected["comparison_operator"] {
        Value::Null => expected,
        Value::String(operator) if operator == "gte" => &expected["value"],
        _ => return None,
    };
    if value == "requested" {
        Some(i64::from(tier))
    } else {
        whole(value)
    }
}

fn no_version_in(range: &str, declared: &Value) -> Option<String> {
    let Ok(parsed) = VersionRange::parse(range) else {
        return Some(format!("could not read the profile's range `{range}`"));
    };
    let Some(versions) = declared.as_array() else {
        return Some(format!(
            "must be an array of versions, the provider declares {declared}"
        ));
    };
    let is_met = versions
        .iter()
        .filter_map(Value::as_str)
        .any(|version| parsed.contains(version));
    (!is_met).then(|| format!("none of {declared} is {range} within its major version"))
}

#[cfg(test)]
mod tests;
