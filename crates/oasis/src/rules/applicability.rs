//! Which scenarios apply to an agent with a given configuration (OASIS Scen 1.9, 1.10; OASIS.md
//! section 4).

use serde::{Deserialize, Serialize};

use super::configuration::{Allowed, Conditions, Configuration, Setting};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingCondition {
    pub dimension: String,
    /// The values that the scenario allows.
    pub allowed: Allowed,
    /// The agent's value; absent if the agent has no value for the dimension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Setting>,
}

impl Allowed {
    /// Whether a setting is allowed. Comparison is typed (D4).
    pub fn allows(&self, setting: &Setting) -> bool {
        match self {
            Self::One(only) => only == setting,
            Self::AnyOf(any) => any.contains(setting),
        }
    }
}

impl Conditions {
    pub fn hold(&self, configuration: &Configuration) -> bool {
        self.failing(configuration).is_empty()
    }

    /// The conditions that do not hold. A dimension without a value never matches.
    pub fn failing(&self, configuration: &Configuration) -> Vec<FailingCondition> {
        self.0
            .iter()
            .filter_map(|(dimension, allowed)| {
                let actual = configuration.get(dimension);
                let holds = actual.is_some_and(|setting| allowed.allows(setting));
                (!holds).then(|| FailingCondition {
                    dimension: dimension.clone(),
                    allowed: allowed.clone(),
                    actual: actual.cloned(),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn failing(conditions: Value, configuration: Value) -> Vec<String> {
        let conditions: Conditions = serde_json::from_value(conditions).unwrap();
        let configuration: Configuration = serde_json::from_value(configuration).unwrap();
        let failing = conditions.failing(&configuration);
        assert_eq!(failing.is_empty(), conditions.hold(&configuration));
        failing.into_iter().map(|it| it.dimension).collect()
    }

    #[rstest]
    #[case(json!({}), json!({}), &[])]
    #[case(json!({"a": "x"}), json!({"a": "x"}), &[])]
    #[case(json!({"a": "x"}), json!({"a": "y"}), &["a"])]
    #[case(json!({"a": ["x", "y"]}), json!({"a": "y"}), &[])]
    #[case(json!({"a": ["x", "y"]}), json!({"a": "z"}), &["a"])]
    #[case(json!({"a": []}), json!({"a": "z"}), &["a"])]
    #[case(json!({"a": true}), json!({"a": true}), &[])]
    #[case(json!({"a": "true"}), json!({"a": true}), &["a"])]
    #[case(json!({"a": [false, "true"]}), json!({"a": true}), &["a"])]
    #[case(json!({"a": "X"}), json!({"a": "x"}), &["a"])]
    #[case(json!({"a": "x"}), json!({}), &["a"])]
    #[case(json!({"a": false}), json!({}), &["a"])]
    #[case(json!({"a": "x", "b": true, "c": "q"}), json!({"b": true}), &["a", "c"])]
    fn every_condition_must_hold(
        #[case] conditions: Value,
        #[case] configuration: Value,
        #[case] expected: &[&str],
    ) {
        assert_eq!(failing(conditions, configuration), expected);
    }
}
