//! Assessment profiles, which describe the tasks of a suite. They are separate documents because
//! the suite's own schema is closed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::evidence::{AutonomyLevel, ComplexityLevel, Decision};

/// The profile of one version of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    pub suite_id: String,
    pub suite_version: String,
    /// The digest of the described suite. Runs of other content under the same version are not
    /// evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_digest: Option<String>,
    /// The digest of the suite's scoring document, set with `suite_digest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring_digest: Option<String>,
    /// Values for tasks that state nothing else.
    #[serde(default)]
    pub defaults: TaskProfile,
    /// Values for single tasks.
    #[serde(default)]
    pub tasks: BTreeMap<String, TaskProfile>,
}

/// The profile of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TaskProfile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complexity_level: Option<ComplexityLevel>,
    /// Level of human involvement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autonomy_level: Option<AutonomyLevel>,
    /// Group of similar tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_group: Option<String>,
    /// Expected duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_seconds: Option<f64>,
    /// Cost limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The stress test that the task belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// Parts that may be delegated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation: Option<Vec<Delegation>>,
    /// How agents are to work together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<Orchestration>,
}

/// A part of a task that may be delegated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delegation {
    pub fragment: String,
    /// The right decision.
    pub ground_truth: Decision,
    /// The best delegates, if delegating is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimal_delegates: Option<Vec<String>>,
}

/// How agents are to work together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Orchestration {
    /// For each worker, the workers it waits for.
    pub dependency_graph: BTreeMap<String, Vec<String>>,
    /// Workers that are made to fail.
    #[serde(default)]
    pub injected_failures: Vec<String>,
    /// For each worker, its permitted substitutes.
    #[serde(default)]
    pub substitutes: BTreeMap<String, Vec<String>>,
}

/// Why a profile is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("assessment profile: {field}: {reason}")]
pub struct ProfileFault {
    pub field: String,
    pub reason: String,
}

/// A derived `Deserialize` would read an array as the members of an object in their order.
fn check_objects(document: &Value) -> Result<(), ProfileFault> {
    let tasks = document.get("tasks").and_then(Value::as_object);
    let tasks = tasks.into_iter().flatten();
    let profiles = tasks.map(|(name, task)| (format!("tasks.{name}"), task));
    let defaults = document.get("defaults");
    let profiles = profiles.chain(defaults.map(|it| ("defaults".to_owned(), it)));
    for (field, profile) in profiles {
        let delegation = profile.get("delegation").and_then(Value::as_array);
        let inner = delegation.into_iter().flatten().enumerate();
        let inner = inner.map(|(index, it)| (format!("{field}.delegation[{index}]"), it));
        let orchestration = profile.get("orchestration").filter(|it| !it.is_null());
        let inner = inner.chain(orchestration.map(|it| (format!("{field}.orchestration"), it)));
        let all = [(field.clone(), profile)].into_iter().chain(inner);
        if let Some((field, _)) = all.into_iter().find(|(_, it)| !it.is_object()) {
            return Err(ProfileFault {
                field,
                reason: "must be an object".to_owned(),
            });
        }
    }
    Ok(())
}

impl Profile {
    /// Reads a profile; unknown members are rejected.
    ///
    /// # Errors
    /// The first problem found.
    pub fn read(document: &Value) -> Result<Self, ProfileFault> {
        check_objects(document)?;
        let profile: Self =
            serde_path_to_error::deserialize(document).map_err(|fault| ProfileFault {
                field: fault.path().to_string(),
                reason: fault.into_inner().to_string(),
            })?;
        let named = profile
            .tasks
            .iter()
            .map(|(name, task)| (format!("tasks.{name}"), task));
        for (name, task) in named.chain([("defaults".to_owned(), &profile.defaults)]) {
            task.check(&name)?;
        }
        Ok(profile)
    }

    /// `suiteId@version`.
    pub fn suite(&self) -> String {
        format!("{}@{}", self.suite_id, self.suite_version)
    }

    /// Whether the profile is bound to a suite with another digest, or with another scoring
    /// document.
    pub fn is_of_other_suite(&self, digest: &str, scoring: Option<&str>) -> bool {
        self.suite_digest.as_deref().is_some_and(|it| it != digest)
            || self.suite_digest.is_some() && self.scoring_digest.as_deref() != scoring
    }

    /// The values for a task, with defaults.
    pub fn of_task(&self, name: &str) -> TaskProfile {
        let own = self.tasks.get(name).cloned().unwrap_or_default();
        let rest = self.defaults.clone();
        TaskProfile {
            domain: own.domain.or(rest.domain),
            complexity_level: own.complexity_level.or(rest.complexity_level),
            autonomy_level: own.autonomy_level.or(rest.autonomy_level),
            task_group: own.task_group.or(rest.task_group),
            baseline_seconds: own.baseline_seconds.or(rest.baseline_seconds),
            max_cost_usd: own.max_cost_usd.or(rest.max_cost_usd),
            probe: own.probe.or(rest.probe),
            delegation: own.delegation.or(rest.delegation),
            orchestration: own.orchestration.or(rest.orchestration),
        }
    }
}

impl TaskProfile {
    fn check(&self, name: &str) -> Result<(), ProfileFault> {
        let fault = |field: &str, reason: &str| ProfileFault {
            field: format!("{name}.{field}"),
            reason: reason.to_owned(),
        };
        if self.baseline_seconds.is_some_and(|it| it <= 0.0) {
            return Err(fault("baselineSeconds", "must be greater than 0"));
        }
        if self.max_cost_usd.is_some_and(|it| it < 0.0) {
            return Err(fault("maxCostUsd", "must not be negative"));
        }
        let fragments = self.delegation.as_deref().unwrap_or_default();
        for (place, it) in fragments.iter().enumerate() {
            if fragments
                .iter()
                .take(place)
                .any(|other| other.fragment == it.fragment)
            {
                return Err(fault("delegation", "must not name a fragment twice"));
            }
        }
        Ok(())
    }
}
