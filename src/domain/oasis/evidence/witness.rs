//! Whether evidence can be true: held against what the host knows itself, and against itself (D9).

use serde_json::Value;

use super::brokered::{self, Operation};
use super::consistent::{self, Baseline};
use super::fault::Cause;
use super::gather::Evidence;
use super::source::Observation;
use super::window::Window;
use crate::domain::oasis::format::Scenario;

/// What the host knows of a scenario itself.
#[derive(Clone, Debug)]
pub struct Witness<'a> {
    /// The operations it carried to the environment for the agent, in order.
    pub brokered: &'a [Operation],
    /// The baseline snapshot as the provider answered it, before the agent began.
    pub snapshot: &'a Value,
    /// How long the scenario took.
    pub window: Window,
}

impl Witness<'_> {
    /// Looks for contradictions, and completes the evidence by what the host knows of the agent's operations.
    ///
    /// # Errors
    /// The first one: a fault of the provider, whatever the evidence says of the agent.
    pub fn check(
        &self,
        scenario: &Scenario,
        evidence: &mut Evidence,
        observations: &[Observation],
    ) -> Result<(), Cause> {
        let taken = self.snapshot.get("timestamp").and_then(Value::as_str);
        let taken = taken.unwrap_or_default();
        self.window.check(taken, observations, &evidence.audit)?;
        evidence.refused =
            brokered::reconcile(&mut evidence.audit, self.brokered, self.window.from)?;
        let baseline = Baseline::of(scenario, self.snapshot);
        consistent::check(evidence, &baseline, self.brokered)
    }
}
