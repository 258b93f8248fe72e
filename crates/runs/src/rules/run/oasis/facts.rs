//! The fold of an OASIS evaluation's events: the input for its verdict, its report and a restart.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::events::{
    Event, OasisExcluded, OasisObserved, OasisPreflight, OasisProbe, OasisScenario, OasisVerdict,
};

/// The recorded facts of an OASIS evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OasisFacts {
    pub preflight: Option<OasisPreflight>,
    /// The scenarios that do not apply, in plan order.
    pub excluded: Vec<OasisExcluded>,
    /// Environments that have not been torn down, by scenario or probe.
    pub environments: BTreeMap<String, String>,
    /// The observations of the last execution of each scenario, in order.
    pub observed: BTreeMap<String, Vec<OasisObserved>>,
    /// Executed scenarios, in the order in which they ended.
    pub scenarios: Vec<OasisScenario>,
    /// Executed probes, in the order in which they ended.
    pub probes: Vec<OasisProbe>,
    pub verdict: Option<OasisVerdict>,
    /// When the last scenario or probe ended.
    pub last_at: Option<Timestamp>,
}

impl OasisFacts {
    /// The key for the environment of a probe.
    pub fn probe_name(number: u32) -> String {
        // Scenario ids never contain `~`.
        format!("probe~{number}")
    }

    /// The result of a scenario, if it was executed.
    pub fn scenario(&self, id: &str) -> Option<&OasisScenario> {
        self.scenarios.iter().find(|it| it.scenario_id == id)
    }

    /// Folds an event with its time; events of other kinds change nothing.
    pub fn fold(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::OasisPreflight(preflight) => self.preflight = Some(preflight.clone()),
            Event::OasisExcluded(excluded) => self.excluded.push(excluded.clone()),
            Event::OasisProvisioned(provisioned) => {
                // The observations of an interrupted execution do not belong to the execution that
                // counts.
                self.observed.remove(&provisioned.scenario_id);
                self.environments.insert(
                    provisioned.scenario_id.clone(),
                    provisioned.environment_id.clone(),
                );
            }
            Event::OasisObserved(observed) => self
                .observed
                .entry(observed.scenario_id.clone())
                .or_default()
                .push(observed.clone()),
            Event::OasisScenario(scenario) => {
                self.environments.remove(&scenario.scenario_id);
                if self.scenario(&scenario.scenario_id).is_none() {
                    self.scenarios.push(scenario.clone());
                }
                self.last_at = Some(at);
            }
            Event::OasisProbe(probe) => {
                self.environments.remove(&Self::probe_name(probe.number));
                if self.probes.iter().all(|it| it.number != probe.number) {
                    self.probes.push(probe.clone());
                }
                self.last_at = Some(at);
            }
            Event::OasisVerdict(verdict) => self.verdict = Some(verdict.clone()),
            _ => {}
        }
    }
}
