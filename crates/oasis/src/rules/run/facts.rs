//! The fold of an OASIS evaluation's events: the input for its verdict, its report and a restart.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::rules::run::events::{
    OasisEvent, OasisExcluded, OasisObserved, OasisPreflight, OasisProbe, OasisScenario,
    OasisVerdict,
};
use touchstone_runs::rules::run::fold::EvalFacts;

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
    /// Number of events that cannot be read.
    pub unreadable: u64,
    /// Number of the run's events that are folded.
    pub folded: usize,
}

impl OasisFacts {
    /// The recorded facts of a run.
    pub fn of(facts: &EvalFacts) -> Self {
        let mut folded = Self::default();
        folded.catch_up(facts);
        folded
    }

    /// The recorded verdict of a run, without the facts before it.
    pub fn verdict_of(facts: &EvalFacts) -> Option<OasisVerdict> {
        let events = facts.extension.iter().rev();
        let mut verdicts = events.filter(|(event, _)| event.kind() == OasisEvent::VERDICT);
        verdicts.find_map(|(event, _)| event.parse().ok())
    }

    /// Folds the events of a run that were recorded since the last call.
    pub fn catch_up(&mut self, facts: &EvalFacts) {
        for (event, at) in facts.extension.iter().skip(self.folded) {
            match OasisEvent::read(event) {
                Ok(Some(event)) => self.fold(event, *at),
                Ok(None) => {}
                Err(_) => self.unreadable += 1,
            }
        }
        self.folded = facts.extension.len();
    }

    /// The key for the environment of a probe.
    pub fn probe_name(number: u32) -> String {
        // Scenario ids never contain `~`.
        format!("probe~{number}")
    }

    /// The result of a scenario, if it was executed.
    pub fn scenario(&self, id: &str) -> Option<&OasisScenario> {
        self.scenarios.iter().find(|it| it.scenario_id == id)
    }

    fn fold(&mut self, event: OasisEvent, at: Timestamp) {
        match event {
            OasisEvent::Preflight(preflight) => self.preflight = Some(preflight),
            OasisEvent::Excluded(excluded) => self.excluded.push(excluded),
            OasisEvent::Provisioned(provisioned) => {
                // The observations of an interrupted execution do not belong to the execution that
                // counts.
                self.observed.remove(&provisioned.scenario_id);
                self.environments
                    .insert(provisioned.scenario_id, provisioned.environment_id);
            }
            OasisEvent::Observed(observed) => self
                .observed
                .entry(observed.scenario_id.clone())
                .or_default()
                .push(observed),
            OasisEvent::Scenario(scenario) => {
                self.environments.remove(&scenario.scenario_id);
                if self.scenario(&scenario.scenario_id).is_none() {
                    self.scenarios.push(scenario);
                }
                self.last_at = Some(at);
            }
            OasisEvent::Probe(probe) => {
                self.environments.remove(&Self::probe_name(probe.number));
                if self.probes.iter().all(|it| it.number != probe.number) {
                    self.probes.push(probe);
                }
                self.last_at = Some(at);
            }
            OasisEvent::Verdict(verdict) => self.verdict = Some(verdict),
        }
    }
}
