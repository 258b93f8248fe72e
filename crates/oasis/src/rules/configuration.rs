//! The configuration that an agent reports, and the conditions that scenarios place on it (OASIS
//! Scen 1.9, 1.10; Prof 2.16).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::refusal::{Refusal, RefusalCode, RefusalItem};

/// A value of one dimension. Comparison is typed: `"true"` is not `true` (D4).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// The value of a `boolean` dimension.
    Flag(bool),
    /// The value of an `enum` dimension.
    Text(String),
}

/// Values by dimension. A verdict contains the effective values: defaults are filled in, and a
/// dimension that has neither a reported value nor a default is absent.
pub type Configuration = BTreeMap<String, Setting>;

/// The dimensions that a profile defines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationSchema {
    /// In the profile's order; identifiers are unique.
    #[serde(default)]
    pub dimensions: Vec<Dimension>,
}

/// One dimension of an agent's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// The dimension's name in reports and conditions.
    pub identifier: String,
    #[serde(flatten)]
    pub kind: DimensionKind,
    /// The value for an agent that does not report the dimension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Setting>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The type of a dimension's values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DimensionKind {
    Enum {
        /// The allowed values, at least one.
        values: Vec<String>,
    },
    Boolean,
}

/// Conditions on a configuration: all must hold. An empty set always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(pub BTreeMap<String, Allowed>);

/// The values that one condition allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Allowed {
    One(Setting),
    AnyOf(Vec<Setting>),
}

impl ConfigurationSchema {
    /// Describes the first condition that no agent can meet. It is a mistake in the scenario that
    /// would exclude every agent.
    pub fn unmeetable<'a>(
        &'a self,
        conditions: &'a Conditions,
    ) -> impl Iterator<Item = String> + 'a {
        conditions.0.iter().filter_map(|(name, allowed)| {
            let Some(known) = self.dimensions.iter().find(|it| it.identifier == *name) else {
                return Some(format!("`{name}` is not a dimension of the profile"));
            };
            let values = match allowed {
                Allowed::One(only) => std::slice::from_ref(only),
                Allowed::AnyOf(any) => any.as_slice(),
            };
            if values.is_empty() {
                return Some(format!("`{name}` allows no value"));
            }
            let is_none = |value: &&Setting| match (&known.kind, value) {
                (DimensionKind::Boolean, Setting::Flag(_)) => false,
                (DimensionKind::Enum { values }, Setting::Text(text)) => !values.contains(text),
                _ => true,
            };
            let wrong = values.iter().find(is_none);
            wrong.map(|_| format!("`{name}` has a value that the profile does not define"))
        })
    }

    /// The effective configuration: the reported values, and the defaults for dimensions that were
    /// not reported.
    ///
    /// # Errors
    /// `oasis_agent_configuration_invalid` with every dimension that is unknown or has an invalid
    /// value.
    pub fn effective(&self, reported: &Map<String, Value>) -> Result<Configuration, Refusal> {
        let mut effective: Configuration = self
            .dimensions
            .iter()
            .filter_map(|it| Some((it.identifier.clone(), it.default.clone()?)))
            .collect();
        let mut items = Vec::new();
        for (key, value) in reported {
            let dimension = self.dimensions.iter().find(|it| it.identifier == *key);
            match dimension.map(|it| it.kind.read(value)) {
                Some(Ok(setting)) => {
                    effective.insert(key.clone(), setting);
                }
                Some(Err(expected)) => items.push(RefusalItem {
                    key: key.clone(),
                    reason: format!("the agent's adapter reports a value other than {expected}"),
                }),
                None => items.push(RefusalItem {
                    key: key.clone(),
                    reason:
                        "the profile has no such dimension; remove it from the adapter's report"
                            .to_owned(),
                }),
            }
        }
        if items.is_empty() {
            return Ok(effective);
        }
        let code = RefusalCode::AgentConfigurationInvalid;
        Err(Refusal { code, items })
    }
}

impl DimensionKind {
    /// The value, or a description of the expected value.
    fn read(&self, value: &Value) -> Result<Setting, String> {
        match (self, value) {
            (Self::Boolean, Value::Bool(flag)) => Ok(Setting::Flag(*flag)),
            (Self::Boolean, _) => Err("`true` or `false`".to_owned()),
            (Self::Enum { values }, Value::String(text)) if values.contains(text) => {
                Ok(Setting::Text(text.clone()))
            }
            (Self::Enum { values }, _) => Err(format!("one of the words {}", values.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn schema() -> ConfigurationSchema {
        serde_json::from_value(json!({"dimensions": [
            {"identifier": "reach", "type": "enum", "values": ["near", "far"]},
            {"identifier": "guarded", "type": "boolean"},
            {"identifier": "voice", "type": "enum", "values": ["soft", "loud"], "default": "soft"},
            {"identifier": "dry", "type": "boolean", "default": false}
        ]}))
        .unwrap()
    }

    fn effective(reported: Value) -> Result<Configuration, Refusal> {
        schema().effective(reported.as_object().unwrap())
    }

    #[test]
    fn defaults_fill_absent_fields_and_others_stay_absent() {
        let found = effective(json!({"reach": "far"})).unwrap();
        let told = serde_json::to_value(found).unwrap();
        assert_eq!(told, json!({"reach": "far", "voice": "soft", "dry": false}));
    }

    #[test]
    fn reported_values_override_defaults() {
        let found = effective(json!({"voice": "loud", "dry": true, "guarded": false})).unwrap();
        let told = serde_json::to_value(found).unwrap();
        assert_eq!(
            told,
            json!({"voice": "loud", "dry": true, "guarded": false})
        );
    }

    #[rstest]
    #[case(json!({"colour": "red"}), &["colour"])]
    #[case(json!({"reach": "beyond"}), &["reach"])]
    #[case(json!({"reach": true}), &["reach"])]
    #[case(json!({"guarded": "true"}), &["guarded"])]
    #[case(json!({"guarded": 1}), &["guarded"])]
    #[case(json!({"dry": null}), &["dry"])]
    #[case(json!({"colour": 1, "reach": 2, "voice": "soft", "guarded": []}), &["colour", "guarded", "reach"])]
    fn all_invalid_configuration_values_are_listed(#[case] reported: Value, #[case] keys: &[&str]) {
        let refused = effective(reported).unwrap_err();
        assert_eq!(refused.code, RefusalCode::AgentConfigurationInvalid);
        let mut found: Vec<&str> = refused.items.iter().map(|it| it.key.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, keys);
    }
}
