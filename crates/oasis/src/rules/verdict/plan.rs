//! The plan of a run, computed before execution (OASIS.md sections 2 and 4): selection,
//! applicability, order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::applicability::FailingCondition;
use super::super::configuration::Configuration;
use super::super::profile::Profile;
use super::super::refusal::{Refusal, RefusalCode};
use super::super::request::Phases;
use super::super::scenario::{Classification, Descriptor};
use super::malformed;

/// The terms of a run, besides the profile and the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The claimed complexity tier, 1 to 3.
    pub tier: u8,
    pub phases: Phases,
    /// Whether a subset of the scenarios was requested.
    pub filtered: bool,
    /// The evaluating organization's tolerances, in percent by scenario.
    pub tolerance_overrides: BTreeMap<String, f64>,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub profile: Profile,
    /// The claimed tier.
    pub tier: u8,
    pub phases: Phases,
    /// Whether a subset was requested.
    pub filtered: bool,
    /// The effective configuration of the agent.
    pub configuration: Configuration,
    /// Every selected scenario, including those that do not apply: safety first, otherwise in the
    /// given order.
    pub scenarios: Vec<PlannedScenario>,
}

/// A selected scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedScenario {
    pub descriptor: Descriptor,
    /// The maximum deviation that passes, in percent, including overrides; 0 for capability.
    pub tolerance: f64,
    /// The conditions that do not hold; empty if the scenario applies.
    pub failing: Vec<FailingCondition>,
}

impl PlannedScenario {
    pub fn is_applicable(&self) -> bool {
        self.failing.is_empty()
    }

    /// The profile's own tolerance, if the evaluator changed it.
    pub fn overridden(&self) -> Option<f64> {
        let own = self.descriptor.safety_tolerance;
        (self.is_safety() && own != self.tolerance).then_some(own)
    }

    pub fn id(&self) -> &str {
        &self.descriptor.id
    }

    pub fn is_safety(&self) -> bool {
        self.descriptor.classification == Classification::Safety
    }
}

impl Plan {
    /// Plans a run of these scenarios, given in suite order, for an agent with this effective
    /// configuration.
    ///
    /// # Errors
    /// `oasis_scenario_malformed` with every scenario whose head breaks a rule;
    /// `oasis_no_applicable_safety_scenarios`.
    pub fn make(
        profile: &Profile,
        scenarios: &[Descriptor],
        terms: &Terms,
        configuration: &Configuration,
    ) -> Result<Self, Refusal> {
        let items = malformed::items(profile, scenarios, terms, configuration);
        if !items.is_empty() {
            let code = RefusalCode::ScenarioMalformed;
            return Err(Refusal { code, items });
        }
        // D1: a scenario above the claimed tier cannot be run.
        let mut selected: Vec<PlannedScenario> = scenarios
            .iter()
            .filter(|it| it.tier <= terms.tier)
            .map(|descriptor| PlannedScenario {
                descriptor: descriptor.clone(),
                tolerance: tolerance(descriptor, terms),
                failing: descriptor.applicability.failing(configuration),
            })
            .collect();
        // A stable sort: within a phase, the given order is kept.
        selected.sort_by_key(|it| it.descriptor.classification);
        let plan = Self {
            profile: profile.clone(),
            tier: terms.tier,
            phases: terms.phases,
            filtered: terms.filtered,
            configuration: configuration.clone(),
            scenarios: selected,
        };
        if plan.applicable(Classification::Safety).next().is_none() {
            return Err(Refusal {
                code: RefusalCode::NoApplicableSafetyScenarios,
                items: Vec::new(),
            });
        }
        Ok(plan)
    }

    /// The applicable scenarios of a phase, in the order in which they start.
    pub fn applicable(&self, phase: Classification) -> impl Iterator<Item = &PlannedScenario> {
        self.of(phase).filter(|it| it.is_applicable())
    }

    /// The selected scenarios of a phase.
    pub fn of(&self, phase: Classification) -> impl Iterator<Item = &PlannedScenario> {
        self.scenarios
            .iter()
            .filter(move |it| it.descriptor.classification == phase)
    }

    pub fn scenario(&self, id: &str) -> Option<&PlannedScenario> {
        self.scenarios.iter().find(|it| it.id() == id)
    }

    /// The number of scenarios that the requested phases execute if no fault ends the run:
    /// `taskCount` of `eval.started`.
    pub fn task_count(&self) -> usize {
        let phase_2 = match self.phases {
            Phases::Both => self.applicable(Classification::Capability).count(),
            Phases::Safety => 0,
        };
        self.applicable(Classification::Safety).count() + phase_2
    }
}

/// The maximum deviation that passes. An override replaces the scenario's own tolerance, upwards or
/// downwards; it has no effect on capability.
pub(super) fn tolerance(scenario: &Descriptor, terms: &Terms) -> f64 {
    match scenario.classification {
        Classification::Capability => 0.0,
        Classification::Safety => terms
            .tolerance_overrides
            .get(&scenario.id)
            .copied()
            .unwrap_or(scenario.safety_tolerance),
    }
}

/// The id of a scenario as a task of an OpenWOP suite (OASIS.md section 14): lower case, with `-`
/// for every character that is not an ASCII letter or digit.
pub fn task_id(scenario: &str) -> String {
    scenario
        .chars()
        .map(|it| match it.to_ascii_lowercase() {
            plain @ ('a'..='z' | '0'..='9') => plain,
            _ => '-',
        })
        .collect()
}
