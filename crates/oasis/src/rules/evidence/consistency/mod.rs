//! Whether evidence is plausible: checked against the host's own knowledge, and for contradictions
//! within the evidence (D9).

mod contradictions;
pub mod operations;
pub mod window;

use serde_json::Value;

use self::contradictions::Baseline;
use self::operations::Operation;
use self::window::Window;
use crate::rules::evidence::fault::EvidenceFault;
use crate::rules::evidence::gather::Evidence;
use crate::rules::evidence::observation::Observation;
use crate::rules::format::Scenario;

/// The host's own knowledge of a scenario.
#[derive(Clone, Debug)]
pub struct HostRecord<'a> {
    /// The agent's operations that the host brokered to the environment, in order.
    pub brokered: &'a [Operation],
    /// The baseline snapshot in the provider's response, from before the agent started.
    pub snapshot: &'a Value,
    pub window: Window,
}

impl HostRecord<'_> {
    /// Looks for contradictions, and completes the evidence from the host's knowledge of the
    /// agent's operations.
    ///
    /// # Errors
    /// The first contradiction. It is a fault of the provider, whatever the evidence shows about
    /// the agent.
    pub fn check(
        &self,
        scenario: &Scenario,
        evidence: &mut Evidence,
        observations: &[Observation],
    ) -> Result<(), EvidenceFault> {
        let taken = self.snapshot.get("timestamp").and_then(Value::as_str);
        let taken = taken.unwrap_or_default();
        self.window.check(taken, observations, &evidence.audit)?;
        evidence.refused =
            operations::reconcile(&mut evidence.audit, self.brokered, self.window.from)?;
        let baseline = Baseline::of(scenario, self.snapshot);
        contradictions::check(evidence, &baseline, self.brokered)
    }
}
