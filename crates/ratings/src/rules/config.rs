//! The settings of an organization (AAAF configuration), with the framework's defaults. Unknown
//! keys are rejected, because a misspelt key would otherwise leave the default in force unnoticed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rules::evidence::Severity;
use crate::rules::scoring::dimension::Axis;
use crate::rules::scoring::recency::Recency;
use crate::rules::scoring::weights::{WeightFault, Weights};

/// A valid configuration. Its JSON is the snapshot that an assessment stores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    pub performance_weights: Weights,
    pub capability_weights: Weights,
    #[serde(flatten)]
    pub rules: Rules,
}

/// Everything except the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// The domains that an agent can qualify in.
    pub domain_taxonomy: Vec<String>,
    /// Length of the window for passive evidence, in days.
    pub assessment_window_days: u32,
    /// Validity of a badge, in days.
    pub validity_period_days: u32,
    /// Minimum number of task records for performance.
    pub minimum_tasks_performance: usize,
    /// Minimum number of tasks with any evidence for capability.
    pub minimum_tasks_capability: usize,
    /// Number of newly completed tasks after which a reassessment is due.
    pub reassessment_task_threshold: u64,
    /// Days after the last rating at which the host orders another assessment; `None` orders none.
    pub reassessment_interval_days: Option<u32>,
    /// Days before the agent's last badge expires at which the host orders another assessment;
    /// `None` orders none.
    pub reassessment_days_before_expiry: Option<u32>,
    /// Weight of evidence by age.
    pub recency_weights: Recency,
    /// How long an assigned task may stay open before it counts as unfinished, in seconds.
    pub open_task_grace_seconds: u32,
    /// Weight of an error by severity.
    pub error_severity_weights: Severities,
    /// Number of weighted errors in a task at which the error part of accuracy is 0.
    pub error_baseline_per_task: f64,
    /// Expected duration in seconds, by complexity level.
    pub baseline_seconds_by_complexity: BTreeMap<String, f64>,
    /// Expected duration in seconds, by domain and level; takes precedence over the level alone.
    pub baseline_seconds_by_domain: BTreeMap<String, BTreeMap<String, f64>>,
    /// Minimum number of tasks in a group for consistency.
    pub consistency_min_group_size: usize,
    /// The items of a review; if empty, the submitted ones count.
    pub review_checklist_items: Vec<String>,
    /// Number of passive tasks needed for a domain or a level.
    pub min_evidence_samples: usize,
    /// Mean credit needed to pass a level, 0..=1.
    pub level_pass_threshold: f64,
    /// Composite needed to qualify in a domain, 0..=1.
    pub domain_pass_threshold: f64,
    /// Minimum number of tasks in a group for the learning rate.
    pub learning_min_tasks: usize,
    /// The improvement that gives a full score.
    pub learning_full_improvement: f64,
    /// Minimum weight share of the available parts of delegation and orchestration, 0..=1.
    pub min_subscore_weight: f64,
    /// Minimum share of an axis's weights that must be assessed, 0..=1.
    pub min_axis_weight_coverage: f64,
    /// A larger move of a score needs a review.
    pub calibration_delta: f64,
    /// Which ratings need a review before a badge is issued.
    pub review_policy: ReviewPolicy,
    /// The best delegates, by domain.
    pub capability_matrix: BTreeMap<String, Vec<String>>,
}

/// Which ratings need a review before a badge is issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewPolicy {
    /// Ratings with a score that moved by more than `calibration_delta`.
    #[default]
    Anomalies,
    /// Every rating.
    Always,
}

/// Weight of an error by severity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Severities {
    pub critical: f64,
    pub major: f64,
    pub minor: f64,
}

impl Severities {
    pub const fn of(&self, severity: Severity) -> f64 {
        match severity {
            Severity::Critical => self.critical,
            Severity::Major => self.major,
            Severity::Minor => self.minor,
        }
    }
}

impl Default for Severities {
    fn default() -> Self {
        Self {
            critical: 1.0,
            major: 0.5,
            minor: 0.1,
        }
    }
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    #[error(transparent)]
    Weights(#[from] WeightFault),
    #[error("configuration: {field}: {reason}")]
    Field {
        field: String,
        /// The problem and the allowed values.
        reason: String,
    },
}

impl ConfigFault {
    /// The framework's error code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Weights(WeightFault::Sum { .. }) => "WEIGHT_SUM_INVALID",
            _ => "INVALID_REQUEST",
        }
    }

    fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Field {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            performance_weights: Weights::standard(Axis::Performance),
            capability_weights: Weights::standard(Axis::Capability),
            rules: Rules::default(),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        let domains = [
            "research",
            "code",
            "security",
            "testing",
            "design",
            "documentation",
            "communication",
            "orchestration",
            "analysis",
            "content",
            "infrastructure",
            "legal",
        ];
        let baselines = [
            ("1", 300.0),
            ("2", 900.0),
            ("3", 1800.0),
            ("4", 3600.0),
            ("5", 7200.0),
        ];
        Self {
            domain_taxonomy: domains.map(str::to_owned).to_vec(),
            assessment_window_days: 30,
            validity_period_days: 90,
            minimum_tasks_performance: 20,
            minimum_tasks_capability: 30,
            reassessment_task_threshold: 50,
            reassessment_interval_days: None,
            reassessment_days_before_expiry: None,
            recency_weights: Recency::default(),
            open_task_grace_seconds: 86_400,
            error_severity_weights: Severities::default(),
            error_baseline_per_task: 1.0,
            baseline_seconds_by_complexity: baselines
                .map(|(level, seconds)| (level.to_owned(), seconds))
                .into(),
            baseline_seconds_by_domain: BTreeMap::new(),
            consistency_min_group_size: 2,
            review_checklist_items: Vec::new(),
            min_evidence_samples: 3,
            level_pass_threshold: 0.70,
            domain_pass_threshold: 0.40,
            learning_min_tasks: 6,
            learning_full_improvement: 0.30,
            min_subscore_weight: 0.70,
            min_axis_weight_coverage: 0.60,
            calibration_delta: 0.15,
            review_policy: ReviewPolicy::default(),
            capability_matrix: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Reads a configuration; absent settings take the framework's defaults.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn read(document: &Value) -> Result<Self, ConfigFault> {
        let Value::Object(document) = document else {
            return Err(ConfigFault::field("document", "must be a JSON object"));
        };
        let mut rest = document.clone();
        let performance_weights = weights(&mut rest, Axis::Performance)?;
        let capability_weights = weights(&mut rest, Axis::Capability)?;
        let rules: Rules =
            serde_path_to_error::deserialize(Value::Object(rest)).map_err(|fault| {
                let path = fault.path().to_string();
                ConfigFault::field(path, fault.into_inner().to_string())
            })?;
        rules.check()?;
        Ok(Self {
            performance_weights,
            capability_weights,
            rules,
        })
    }

    pub const fn weights(&self, axis: Axis) -> &Weights {
        match axis {
            Axis::Performance => &self.performance_weights,
            Axis::Capability => &self.capability_weights,
        }
    }
}

fn weights(document: &mut Map<String, Value>, axis: Axis) -> Result<Weights, ConfigFault> {
    let key = format!("{axis}_weights");
    let Some(given) = document.remove(&key) else {
        return Ok(Weights::standard(axis));
    };
    let given: BTreeMap<String, f64> = serde_json::from_value(given).map_err(|_| {
        ConfigFault::field(key, "must be an object with a number for each dimension")
    })?;
    Ok(Weights::read(axis, &given)?)
}

impl Rules {
    /// Whether the host orders assessments by schedule.
    pub const fn has_schedule(&self) -> bool {
        self.reassessment_interval_days.is_some() || self.reassessment_days_before_expiry.is_some()
    }

    fn check(&self) -> Result<(), ConfigFault> {
        let fault = |field: &str, reason: &str| Err(ConfigFault::field(field, reason));
        let severities = &self.error_severity_weights;
        let shares = [
            ("error_severity_weights.critical", severities.critical),
            ("error_severity_weights.major", severities.major),
            ("error_severity_weights.minor", severities.minor),
            ("level_pass_threshold", self.level_pass_threshold),
            ("domain_pass_threshold", self.domain_pass_threshold),
            ("min_subscore_weight", self.min_subscore_weight),
            ("min_axis_weight_coverage", self.min_axis_weight_coverage),
            ("calibration_delta", self.calibration_delta),
        ];
        if let Some((field, _)) = shares.iter().find(|(_, it)| !(0.0..=1.0).contains(it)) {
            return fault(field, "must be between 0 and 1");
        }
        for (field, value) in [
            ("error_baseline_per_task", self.error_baseline_per_task),
            ("learning_full_improvement", self.learning_full_improvement),
        ] {
            if value <= 0.0 {
                return fault(field, "must be greater than 0");
            }
        }
        if self.domain_taxonomy.is_empty() {
            return fault("domain_taxonomy", "must name at least one domain");
        }
        for (place, domain) in self.domain_taxonomy.iter().enumerate() {
            if domain.is_empty()
                || self
                    .domain_taxonomy
                    .iter()
                    .take(place)
                    .any(|it| it == domain)
            {
                return fault(
                    "domain_taxonomy",
                    "must not repeat a domain or contain an empty name",
                );
            }
        }
        check_baselines(
            "baseline_seconds_by_complexity",
            &self.baseline_seconds_by_complexity,
        )?;
        for (domain, levels) in &self.baseline_seconds_by_domain {
            check_baselines(&format!("baseline_seconds_by_domain.{domain}"), levels)?;
        }
        self.check_days()?;
        if self.learning_min_tasks < 3 {
            return fault(
                "learning_min_tasks",
                "must be at least 3, because thirds of the group are compared",
            );
        }
        if self.consistency_min_group_size < 2 {
            return fault(
                "consistency_min_group_size",
                "must be at least 2, because a single task is always consistent",
            );
        }
        Ok(())
    }

    fn check_days(&self) -> Result<(), ConfigFault> {
        let fault = |field: &str, reason: &str| Err(ConfigFault::field(field, reason));
        for (field, days) in [
            ("assessment_window_days", self.assessment_window_days),
            ("validity_period_days", self.validity_period_days),
        ] {
            // The limit of ten years keeps dates within their range.
            if !(1..=3650).contains(&days) {
                return fault(field, "must be between 1 and 3650");
            }
        }
        if let Some(days) = self.reassessment_interval_days
            && !(1..=3650).contains(&days)
        {
            return fault("reassessment_interval_days", "must be between 1 and 3650");
        }
        // Otherwise every new badge would be due for a reassessment immediately.
        if let Some(days) = self.reassessment_days_before_expiry
            && !(1..self.validity_period_days).contains(&days)
        {
            return fault(
                "reassessment_days_before_expiry",
                "must be at least 1 and less than `validity_period_days`",
            );
        }
        Ok(())
    }
}

fn check_baselines(field: &str, levels: &BTreeMap<String, f64>) -> Result<(), ConfigFault> {
    for (level, seconds) in levels {
        if !matches!(level.as_str(), "1" | "2" | "3" | "4" | "5") {
            let reason = "must have the levels 1 to 5 as keys";
            return Err(ConfigFault::field(field, reason));
        }
        if *seconds <= 0.0 {
            let field = format!("{field}.{level}");
            return Err(ConfigFault::field(field, "must be greater than 0 seconds"));
        }
    }
    Ok(())
}
