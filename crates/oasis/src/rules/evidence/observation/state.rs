//! Resources and their states: the current state, and its difference from the baseline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ObservationType;
use crate::rules::evidence::fault::EvidenceFault;

/// A resource in an environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resource {
    pub kind: String,
    pub name: String,
    /// The workspace, if the resource is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

impl Resource {
    /// Parses `kind/name`.
    pub fn parse(text: &str, workspace: Option<String>) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        (!kind.is_empty() && !name.is_empty()).then(|| Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            workspace: workspace.filter(|workspace| !workspace.is_empty()),
        })
    }
}

/// The label of the resource in a state diff.
impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.name)?;
        match &self.workspace {
            Some(workspace) => write!(formatter, "@{workspace}"),
            None => Ok(()),
        }
    }
}

/// The current state of one resource: its fields, or `None` if it does not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceState(pub Option<Map<String, Value>>);

impl ResourceState {
    /// Reads the data of an observation of this resource.
    ///
    /// # Errors
    /// The data has the wrong shape, or describes another resource.
    pub fn read(data: &Value, of: &Resource) -> Result<Self, EvidenceFault> {
        let fault =
            |words| EvidenceFault::of_observation(ObservationType::ResourceState.name(), words);
        let is_other = |member: &str, asked: &str| {
            let told = data.get(member).and_then(Value::as_str);
            told.is_some_and(|told| told != asked)
        };
        let workspace = of.workspace.as_deref().unwrap_or_default();
        if is_other("kind", &of.kind)
            || is_other("name", &of.name)
            || is_other("workspace", workspace)
        {
            return Err(fault("describes a different resource"));
        }
        match (data.get("exists"), data.get("fields")) {
            (Some(Value::Bool(false)), _) => Ok(Self(None)),
            (Some(Value::Bool(true)), Some(Value::Object(fields))) => {
                Ok(Self(Some(fields.clone())))
            }
            (Some(Value::Bool(true)), None) => Ok(Self(Some(Map::new()))),
            (Some(Value::Bool(true)), Some(_)) => Err(fault("has `fields` that are not an object")),
            _ => Err(fault("has no boolean `exists`")),
        }
    }
}

/// The fields of every existing resource, by label.
type Fields = BTreeMap<String, Map<String, Value>>;

/// The differences from the baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDiff {
    before: Fields,
    after: Fields,
    /// Labels that the diff states did not exist at the baseline or do not exist now.
    null_before: BTreeSet<String>,
    null_after: BTreeSet<String>,
    changed: BTreeSet<String>,
}

impl StateDiff {
    /// Reads the data of an observation.
    ///
    /// # Errors
    /// The data has the wrong shape.
    pub fn read(data: &Value) -> Result<Self, EvidenceFault> {
        let fault =
            |words: &str| EvidenceFault::of_observation(ObservationType::StateDiff.name(), words);
        let fields = |name: &str| -> Result<Fields, EvidenceFault> {
            let Some(all) = data.get(name).and_then(Value::as_object) else {
                return Err(fault(&format!("has no `{name}` object")));
            };
            let mut read = Fields::new();
            for (label, value) in all {
                match value {
                    Value::Object(fields) => {
                        read.insert(label.clone(), fields.clone());
                    }
                    Value::Null => {}
                    _ => return Err(fault(&format!("has a resource in `{name}` without fields"))),
                }
            }
            Ok(read)
        };
        let nulls = |name: &str| -> BTreeSet<String> {
            let all = data.get(name).and_then(Value::as_object);
            let nulls = all.into_iter().flatten().filter(|(_, it)| it.is_null());
            nulls.map(|(label, _)| label.clone()).collect()
        };
        let (before, after) = (fields("before")?, fields("after")?);
        let Some(changes) = data.get("changes").and_then(Value::as_array) else {
            return Err(fault("has no `changes` array"));
        };
        let mut changed = BTreeSet::new();
        for change in changes {
            match change.get("resource") {
                Some(Value::String(label)) => changed.insert(label.clone()),
                _ => return Err(fault("has a change without `resource`")),
            };
        }
        // A change that appears only in the states counts as a change too.
        for label in before.keys().chain(after.keys()) {
            let same = match (before.get(label), after.get(label)) {
                (Some(before), Some(after)) => same_fields(before, after),
                _ => false,
            };
            if !same {
                changed.insert(label.clone());
            }
        }
        Ok(Self {
            before,
            after,
            null_before: nulls("before"),
            null_after: nulls("after"),
            changed,
        })
    }

    pub fn before(&self, resource: &Resource) -> Option<&Map<String, Value>> {
        self.before.get(&resource.to_string())
    }

    /// A resource's current fields.
    pub fn after(&self, resource: &Resource) -> Option<&Map<String, Value>> {
        self.after.get(&resource.to_string())
    }

    /// Whether the diff states that a resource did not exist at the baseline.
    pub fn denies_before(&self, resource: &Resource) -> bool {
        self.null_before.contains(&resource.to_string())
    }

    /// Whether the diff states that a resource does not exist now.
    pub fn denies_after(&self, resource: &Resource) -> bool {
        let label = resource.to_string();
        let left_out = self.before.contains_key(&label) && !self.after.contains_key(&label);
        left_out || self.null_after.contains(&label)
    }

    /// The labels of all resources that were created, modified or deleted.
    pub fn changes(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().map(String::as_str)
    }

    /// The labels of all resources that exist now.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        self.after.keys().map(String::as_str)
    }

    /// Whether a resource was created, modified or deleted.
    pub fn has_changed(&self, resource: &Resource) -> bool {
        self.changed.contains(&resource.to_string())
    }

    /// The labels of the resources that existed at the baseline, and whether each was modified or
    /// deleted since.
    pub fn baseline(&self) -> impl Iterator<Item = (&str, bool)> {
        self.before
            .keys()
            .map(|label| (label.as_str(), self.changed.contains(label)))
    }
}

/// Whether every expected field is present with the same value of the same type.
pub fn holds_fields(wanted: &Map<String, Value>, fields: &Map<String, Value>) -> bool {
    wanted
        .iter()
        .all(|(name, value)| fields.get(name).is_some_and(|found| same(value, found)))
}

pub fn same_fields(left: &Map<String, Value>, right: &Map<String, Value>) -> bool {
    left.len() == right.len() && holds_fields(left, right)
}

/// Equality of JSON values: typed, but `1` and `1.0` are the same number.
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => same_fields(a, b),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(json!(1), json!(1), true)]
    #[case(json!(1), json!(1.0), true)]
    #[case(json!(1), json!("1"), false)]
    #[case(json!(true), json!("true"), false)]
    #[case(json!(null), json!(false), false)]
    #[case(json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64), false)]
    #[case(json!([1, {"a": 2}]), json!([1.0, {"a": 2}]), true)]
    #[case(json!([1, 2]), json!([2, 1]), false)]
    #[case(json!({"a": 1}), json!({"a": 1, "b": 2}), false)]
    fn values_of_different_types_are_not_equal(
        #[case] left: Value,
        #[case] right: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(same(&left, &right), expected);
        assert_eq!(same(&right, &left), expected);
    }

    #[rstest]
    #[case("record/A", None, Some("record/A"))]
    #[case("record/A", Some("w"), Some("record/A@w"))]
    #[case("record/A", Some(""), Some("record/A"))]
    #[case("record/A/b", None, Some("record/A/b"))]
    #[case("record", None, None)]
    #[case("/A", None, None)]
    #[case("record/", None, None)]
    fn resource_labels_are_parsed(
        #[case] text: &str,
        #[case] workspace: Option<&str>,
        #[case] label: Option<&str>,
    ) {
        let resource = Resource::parse(text, workspace.map(str::to_owned));
        assert_eq!(resource.map(|it| it.to_string()).as_deref(), label);
    }

    #[rstest]
    #[case(json!({"exists": false}), Some(None))]
    #[case(json!({"exists": true, "fields": {"a": 1}}), Some(Some(json!({"a": 1}))))]
    #[case(json!({"exists": true}), Some(Some(json!({}))))]
    #[case(json!({"exists": true, "kind": "record", "name": "A"}), Some(Some(json!({}))))]
    #[case(json!({"exists": true, "kind": "record", "name": "B"}), None)]
    #[case(json!({"exists": false, "kind": "memo", "name": "A"}), None)]
    #[case(json!({"exists": false, "workspace": "w"}), None)]
    #[case(json!({"exists": false, "workspace": null}), Some(None))]
    #[case(json!({"exists": false, "workspace": ""}), Some(None))]
    #[case(json!({"exists": true, "fields": []}), None)]
    #[case(json!({"exists": "yes"}), None)]
    #[case(json!({}), None)]
    #[case(json!(null), None)]
    fn malformed_resource_states_are_a_fault(
        #[case] data: Value,
        #[case] expected: Option<Option<Value>>,
    ) {
        let resource = Resource::parse("record/A", None).unwrap();
        let read = ResourceState::read(&data, &resource)
            .ok()
            .map(|state| state.0.map(Value::Object));
        assert_eq!(read, expected);
    }

    #[test]
    fn changes_are_found_in_snapshots_and_in_the_change_list() {
        let diff = StateDiff::read(&json!({
            "before": {"r/same": {"a": 1}, "r/told": {"a": 1}, "r/silent": {"a": 1}, "r/gone": {"a": 1}, "r/new": null},
            "after": {"r/same": {"a": 1}, "r/told": {"a": 1}, "r/silent": {"a": 2}, "r/gone": null, "r/new": {}},
            "changes": [{"resource": "r/told", "path": "a", "before": 1, "after": 1}]
        }))
        .unwrap();
        let changed = |name: &str| diff.has_changed(&Resource::parse(name, None).unwrap());
        assert!(!changed("r/same") && !changed("r/never"));
        assert!(changed("r/told") && changed("r/silent") && changed("r/gone") && changed("r/new"));
        let there: Vec<_> = diff.baseline().collect();
        assert_eq!(
            there,
            [
                ("r/gone", true),
                ("r/same", false),
                ("r/silent", true),
                ("r/told", true)
            ]
        );
    }

    #[rstest]
    #[case(json!({}))]
    #[case(json!({"before": {}, "after": {}}))]
    #[case(json!({"before": {}, "after": {}, "changes": {}}))]
    #[case(json!({"before": [], "after": {}, "changes": []}))]
    #[case(json!({"before": {"a": 1}, "after": {}, "changes": []}))]
    #[case(json!({"before": {}, "after": {}, "changes": [{"path": "a"}]}))]
    fn a_diff_of_another_shape_is_a_fault(#[case] data: Value) {
        assert!(StateDiff::read(&data).is_err());
    }
}
