//! Stress tasks that an organization adds to the library (AAAF 5.2, step 4).
//!
//! The tasks of one dimension form a suite, which is built when an assessment is ordered and stored
//! with it. Removing a task therefore does not affect assessments in progress.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::rules::projection::Profile;
use crate::rules::scoring::dimension::{Axis, Dimension};
use crate::rules::stress_test::library::version_of;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_runs::rules::eval::suite_rules::check_suite;
use touchstone_runs::rules::kind::Kinds;

/// Maximum number of tasks of an organization.
pub const MAX_TASKS: usize = 100;
/// Maximum total size of an organization's tasks in bytes; every assessment with a stress test
/// stores a copy.
pub const MAX_OCTETS: usize = 256 << 10;
/// Maximum size of a task, in bytes.
const MAX_TASK_OCTETS: usize = 64 << 10;
const MAX_DOMAIN: usize = 128;
const LEVELS: std::ops::RangeInclusive<u64> = 1..=5;
/// The complexity level of a task that states none.
const USUAL_LEVEL: u64 = 2;
const FIELDS: &[&str] = &[
    "dimension",
    "complexity_level",
    "domain",
    "task_definition",
    "expected_outcome",
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTask {
    pub id: String,
    /// The dimension of capability that the task probes.
    pub dimension: Dimension,
    /// 1 to 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity_level: Option<u64>,
    /// Defaults to the agent's primary domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// `input`, and optionally `fixtures` of the suite schema and `profile` of an assessment
    /// profile.
    pub task_definition: Map<String, Value>,
    /// The match of a golden expectation.
    pub expected_outcome: Map<String, Value>,
}

impl OwnTask {
    pub fn parse(id: &str, body: &Value, taxonomy: &[String]) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", FIELDS, Nulls::Absent)?;
        let required = |name: &str| fields.invalid(name, "is required");
        let name = fields.text("dimension")?;
        let name = name.ok_or_else(|| required("dimension"))?;
        let dimension = Dimension::named(name).filter(|it| it.axis() == Axis::Capability);
        let dimension = dimension.ok_or_else(|| {
            let known = Dimension::CAPABILITY.map(Dimension::as_str).join(", ");
            fields.invalid("dimension", &format!("must be one of {known}"))
        })?;
        let complexity_level = fields.whole("complexity_level", 1)?;
        if complexity_level.is_some_and(|it| !LEVELS.contains(&it)) {
            return Err(fields.invalid("complexity_level", "must be between 1 and 5"));
        }
        let domain = fields.text_of("domain", 1..=MAX_DOMAIN)?;
        if domain.is_some_and(|it| !taxonomy.iter().any(|known| known == it)) {
            let known = taxonomy.join(", ");
            return Err(fields.invalid("domain", &format!("must be one of {known}")));
        }
        let object = |name: &str| fields.object(name)?.ok_or_else(|| required(name));
        let task = Self {
            id: id.to_owned(),
            dimension,
            complexity_level,
            domain: domain.map(str::to_owned),
            task_definition: object("task_definition")?,
            expected_outcome: object("expected_outcome")?,
        };
        task.check()?;
        Ok(task)
    }

    /// Size in bytes of JSON.
    pub fn octets(&self) -> usize {
        json!(self).to_string().len()
    }

    fn check(&self) -> Result<(), Problem> {
        let definition = Value::Object(self.task_definition.clone());
        let known = ["input", "fixtures", "profile"];
        let fields = Fields::closed(&definition, "task_definition", &known, Nulls::Wrong)?;
        if fields.get("input").is_none() {
            return Err(fields.invalid("input", "is required: the input given to the agent"));
        }
        let profile = fields.object("profile")?.unwrap_or_default();
        if let Some(name) = ["domain", "complexityLevel", "probe"]
            .into_iter()
            .find(|name| profile.contains_key(*name))
        {
            let message = format!(
                "must not have `{name}`: set the task's own `domain` or `complexity_level` \
                instead"
            );
            return Err(fields.invalid("profile", &message));
        }
        let (suite, profile) = suite_of("own", &[self]);
        if suite.to_string().len() > MAX_TASK_OCTETS {
            let message =
                format!("`task_definition` must have at most {MAX_TASK_OCTETS} bytes of JSON");
            return Err(Problem::validation("task_definition", message));
        }
        if let Err(fault) = Profile::read(&profile) {
            return Err(fields.invalid(
                "profile",
                &format!("is invalid for a stress task: {}", fault.reason),
            ));
        }
        check_suite(Kinds::NONE, &suite)
            .map(drop)
            .map_err(|faults| {
                let fault = faults.first();
                let place = fault.map_or("", |it| it.pointer.as_str());
                let reason = fault.map_or("it is not a task", |it| it.reason.as_str());
                let field = match place.contains("/expected") {
                    true => "expected_outcome",
                    false => "task_definition",
                };
                Problem::validation(field, format!("`{field}` is invalid: {place}: {reason}"))
            })
    }

    fn member(&self, name: &str) -> Option<&Value> {
        self.task_definition.get(name)
    }
}

/// The suite and the profile of these tasks. The version is derived from the content.
pub fn suite_of(test: &str, tasks: &[&OwnTask]) -> (Value, Value) {
    let suite_id = format!("organization.aaaf.evals.{test}");
    let contents: Vec<String> = tasks.iter().map(|it| json!(it).to_string()).collect();
    let version = version_of(&contents);
    let task = |it: &&OwnTask| {
        let mut task = json!({
            "taskId": it.id,
            "input": it.member("input"),
            "expected": {"kind": "golden", "match": it.expected_outcome},
        });
        if let (Some(fixtures), Some(members)) = (it.member("fixtures"), task.as_object_mut()) {
            members.insert("fixtures".to_owned(), fixtures.clone());
        }
        task
    };
    let described = |it: &&OwnTask| {
        let mut profile = it.member("profile").cloned().unwrap_or_else(|| json!({}));
        if let Some(members) = profile.as_object_mut() {
            members.insert("domain".to_owned(), json!(it.domain));
            members.insert("complexityLevel".to_owned(), json!(it.complexity_level));
        }
        (it.id.clone(), profile)
    };
    let suite = json!({"suiteId": suite_id, "version": version, "modes": ["golden"],
        "tasks": tasks.iter().map(task).collect::<Vec<_>>()});
    let profile = json!({"suiteId": suite_id, "suiteVersion": version,
        "defaults": {"complexityLevel": USUAL_LEVEL, "probe": test},
        "tasks": tasks.iter().map(described).collect::<Map<_, _>>()});
    (suite, profile)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ID: &str = "6f0c2f4e-6d3b-4c51-9a52-0d6c1e7c8a11";

    fn parse(body: &Value) -> Result<OwnTask, Problem> {
        OwnTask::parse(ID, body, &["legal".to_owned()])
    }

    fn body() -> Value {
        json!({"dimension": "complexity", "complexity_level": 3, "domain": "legal",
            "task_definition": {"input": {"task": "Name the clause."}, "profile": {"autonomyLevel": 2}},
            "expected_outcome": {"strategy": "contains", "value": "CLAUSE=9"}})
    }

    #[test]
    fn a_stress_task_becomes_a_valid_suite_with_a_profile() {
        let task = parse(&body()).unwrap();
        let (suite, profile) = suite_of("own-complexity-ceiling", &[&task]);
        let (checked, profile) = (
            check_suite(Kinds::NONE, &suite).unwrap(),
            Profile::read(&profile).unwrap(),
        );
        assert_eq!(
            profile.suite(),
            format!("{}@{}", checked.suite_id, checked.version)
        );
        let it = profile.of_task(ID);
        assert_eq!(it.domain.as_deref(), Some("legal"));
        assert_eq!(it.complexity_level.unwrap().get(), 3);
        assert!(it.autonomy_level.is_some());
        let mut other = task.clone();
        other.domain = None;
        let (other, _) = suite_of("own-complexity-ceiling", &[&other]);
        assert_ne!(suite["version"], other["version"]);
    }

    #[rstest]
    #[case("/dimension", json!("speed"), "dimension")]
    #[case("/dimension", json!("charm"), "dimension")]
    #[case("/complexity_level", json!(6), "complexity_level")]
    #[case("/domain", json!("knitting"), "domain")]
    #[case("/task_definition", json!("do it"), "task_definition")]
    #[case("/task_definition", json!({}), "task_definition.input")]
    #[case("/task_definition/profile", json!({"domain": "legal"}), "task_definition.profile")]
    #[case("/task_definition/profile", json!({"autonomyLevel": 9}), "task_definition.profile")]
    #[case("/expected_outcome", json!({"strategy": "guess", "value": 1}), "expected_outcome")]
    #[case("/expected_outcome", json!(null), "expected_outcome")]
    fn invalid_stress_tasks_are_rejected_by_field(
        #[case] place: &str,
        #[case] value: Value,
        #[case] field: &str,
    ) {
        let mut body = body();
        *body.pointer_mut(place).unwrap() = value;
        let refused = parse(&body).unwrap_err();
        assert_eq!(refused.details["field"], field, "{}", refused.message);
    }
}
