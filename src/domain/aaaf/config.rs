//! What an organization sets (AAAF configuration), with the framework's defaults. Unknown keys are refused: a misspelt one would
//! silently score by the default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::dimension::Axis;
use super::evidence::Severity;
use super::recency::Recency;
use super::weights::{WeightFault, Weights};

/// A configuration that scores can be computed by. Its JSON is the snapshot an assessment keeps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// Of the dimensions of performance.
    pub performance_weights: Weights,
    /// Of those of capability.
    pub capability_weights: Weights,
    /// Everything else.
    #[serde(flatten)]
    pub rules: Rules,
}

/// Everything but the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// The domains an agent can be good in.
    pub domain_taxonomy: Vec<String>,
    /// Days of passive evidence.
    pub assessment_window_days: u32,
    /// Days a badge is valid.
    pub validity_period_days: u32,
    /// Fewest task records for performance.
    pub minimum_tasks_performance: usize,
    /// Fewest tasks with any evidence for capability.
    pub minimum_tasks_capability: usize,
    /// Newly completed tasks after which another assessment is due.
    pub reassessment_task_threshold: u64,
    /// Days after the last rating at which the host orders another assessment; `None` orders none.
    pub reassessment_interval_days: Option<u32>,
    /// Days before the badge of the last rating ends at which the host orders another assessment; `None` orders none.
    pub reassessment_days_before_expiry: Option<u32>,
    /// What evidence counts for by its age.
    pub recency_weights: Recency,
    /// How long an open task may still be at work.
    pub open_task_grace_seconds: u32,
    /// How bad an error is.
    pub error_severity_weights: Severities,
    /// The errors of a task at which accuracy by errors is 0.
    pub error_baseline_per_task: f64,
    /// Expected seconds by complexity level.
    pub baseline_seconds_by_complexity: BTreeMap<String, f64>,
    /// Expected seconds by domain and level; they go before those by level alone.
    pub baseline_seconds_by_domain: BTreeMap<String, BTreeMap<String, f64>>,
    /// Fewest tasks of a group that can be consistent.
    pub consistency_min_group_size: usize,
    /// The items of a review; empty takes those submitted.
    pub review_checklist_items: Vec<String>,
    /// Passive tasks that are enough for a domain or a level.
    pub min_evidence_samples: usize,
    /// Mean credit that passes a level.
    pub level_pass_threshold: f64,
    /// Composite that qualifies in a domain.
    pub domain_pass_threshold: f64,
    /// Fewest tasks of a group in which learning shows.
    pub learning_min_tasks: usize,
    /// The improvement that is a full score.
    pub learning_full_improvement: f64,
    /// Share of the parts of delegation and orchestration that must be there.
    pub min_subscore_weight: f64,
    /// Share of an axis' weights that must be assessed.
    pub min_axis_weight_coverage: f64,
    /// A move beyond this is looked at by a person.
    pub calibration_delta: f64,
    /// Which ratings wait for a review before a badge is issued.
    pub review_policy: ReviewPolicy,
    /// Who is good at what, by domain.
    pub capability_matrix: BTreeMap<String, Vec<String>>,
}

/// Which ratings wait for a review before a badge is issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewPolicy {
    /// Those with a score that moved by more than `calibration_delta`.
    #[default]
    Anomalies,
    /// Every rating.
    Always,
}

/// What an error of each severity counts for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the names are the framework's own")]
pub struct Severities {
    pub critical: f64,
    pub major: f64,
    pub minor: f64,
}

impl Severities {
    /// Of one.
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

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// The weights.
    #[error(transparent)]
    Weights(#[from] WeightFault),
    /// A key, or its value.
    #[error("configuration: {field}: {reason}")]
    Field {
        /// Where.
        field: String,
        /// What is wrong, and what would not be.
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
    /// Reads a configuration; what it does not say is as the framework has it.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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

    /// Of an axis.
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
    /// Whether the host orders assessments by itself.
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
        for (field, days) in [
            ("assessment_window_days", self.assessment_window_days),
            ("validity_period_days", self.validity_period_days),
        ] {
            // Ten years: beyond it dates would run out of what they can say.
            if !(1..=3650).contains(&days) {
                return fault(field, "must be between 1 and 3650");
            }
        }
        if let Some(days) = self.reassessment_interval_days
            && !(1..=3650).contains(&days)
        {
            return fault("reassessment_interval_days", "must be between 1 and 3650");
        }
        // Otherwise a badge would be due for another assessment as soon as it is issued.
        if let Some(days) = self.reassessment_days_before_expiry
            && !(1..self.validity_period_days).contains(&days)
        {
            return fault(
                "reassessment_days_before_expiry",
                "must be at least 1 and less than `validity_period_days`",
            );
        }
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
