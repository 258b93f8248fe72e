//! The evidence of one scenario: the observations to request, and their results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::condition::pattern::Pattern;
use super::fault::EvidenceFault;
use super::observation::audit::{AuditEntry, AuditLog};
use super::observation::state::{Resource, ResourceState, StateDiff};
use super::observation::{Observation, ObservationRequest, ObservationType};
use crate::rules::format::Scenario;

/// The observations to request after the agent has answered, in this order: the audit log, each
/// resource that a state assertion names, the state diff. All of them must be available.
pub fn needed(scenario: &Scenario) -> Vec<ObservationRequest> {
    let mut requests = vec![ObservationRequest::whole(ObservationType::AuditLog)];
    for rule in &scenario.verification.state_assertions {
        let request = ObservationRequest::of_resource(&rule.resource);
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
    requests.push(ObservationRequest::whole(ObservationType::StateDiff));
    requests
}

/// The agent's output, captured by the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentOutput {
    /// The final answer; empty if the agent crashed, timed out or returned nothing (D15).
    pub answer: String,
    /// The agent's reasoning, if it exposes any.
    pub reasoning: String,
    /// The parameters of every call that the agent actually made, in order.
    pub calls: Vec<Value>,
    /// The agent's own account of its actions.
    pub trail: Vec<TrailItem>,
}

/// One item of the agent's own account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrailItem {
    #[serde(default)]
    pub verb: String,
    /// The resource, as `kind/name`.
    #[serde(default)]
    pub resource: String,
    #[serde(default)]
    pub workspace: Option<String>,
    /// The instruction or event that the agent gives as the reason.
    #[serde(default)]
    pub trigger: Option<String>,
}

impl TrailItem {
    /// The items of an agent's account. Malformed items become empty items, which name nothing.
    pub fn list(account: &Value) -> Vec<Self> {
        let text = |item: &Value, field: &str| {
            let found = item.get(field).and_then(Value::as_str);
            found.map(str::to_owned)
        };
        let items = account.as_array().map(Vec::as_slice).unwrap_or_default();
        items
            .iter()
            .map(|item| Self {
                verb: text(item, "verb").unwrap_or_default(),
                resource: text(item, "resource").unwrap_or_default(),
                workspace: text(item, "workspace"),
                trigger: text(item, "trigger"),
            })
            .collect()
    }
}

/// The provider's data from provisioning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProvisionedData {
    /// The principal under which the agent's operations are logged.
    pub principal: Option<String>,
    /// The literals that must not be disclosed, by `value_ref`.
    pub literals: BTreeMap<String, Vec<String>>,
}

/// Everything that was captured for one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    pub audit: AuditLog,
    /// Attempts of the agent that the environment refused and the log omits.
    pub refused: Vec<AuditEntry>,
    /// The differences from the baseline.
    pub diff: StateDiff,
    /// Resources that were observed individually.
    pub states: BTreeMap<Resource, ResourceState>,
    pub output: AgentOutput,
    /// The literals that must not be disclosed, by `value_ref`.
    pub literals: BTreeMap<String, Vec<String>>,
    /// The answer in lower case, for comparisons.
    folded: String,
}

impl Evidence {
    /// Combines the captured observations. [`HostRecord::check`](super::HostRecord::check) checks
    /// that they are plausible.
    ///
    /// # Errors
    /// Missing observations and observations of the wrong shape are faults of the provider.
    pub fn gather(
        scenario: &Scenario,
        setup: ProvisionedData,
        observations: &[Observation],
        output: AgentOutput,
    ) -> Result<Self, EvidenceFault> {
        let of = |request: &ObservationRequest| {
            observations
                .iter()
                .find(|observation| observation.request == *request)
                .map(|observation| &observation.data)
                .ok_or_else(|| {
                    EvidenceFault::of_observation(request.observation_type.name(), "is missing")
                })
        };
        let whole = |kind| of(&ObservationRequest::whole(kind));
        let audit = AuditLog::read(
            whole(ObservationType::AuditLog)?,
            setup.principal.as_deref(),
        )?;
        let mut states = BTreeMap::new();
        for rule in &scenario.verification.state_assertions {
            let data = of(&ObservationRequest::of_resource(&rule.resource))?;
            states.insert(
                rule.resource.clone(),
                ResourceState::read(data, &rule.resource)?,
            );
        }
        for entry in &scenario.verification.value_containment {
            let literals = setup.literals.get(&entry.value_ref);
            if literals.is_none_or(|all| all.is_empty() || all.iter().any(String::is_empty)) {
                let words = "a `value_ref` was not resolved to literals".to_owned();
                return Err(EvidenceFault(format!("provision: {words}")));
            }
        }
        Ok(Self {
            audit,
            refused: Vec::new(),
            diff: StateDiff::read(whole(ObservationType::StateDiff)?)?,
            states,
            folded: output.answer.to_lowercase(),
            output,
            literals: setup.literals,
        })
    }

    /// Whether the agent carried out or attempted a matching operation.
    pub fn performed(&self, pattern: &Pattern) -> bool {
        let mut entries = self.audit.of_agent().chain(&self.refused);
        entries.any(|entry| pattern.matches(entry))
    }

    /// Whether the answer contains a text, ignoring case.
    pub fn answer_contains(&self, text: &str) -> bool {
        self.folded.contains(&text.to_lowercase())
    }

    /// A resource's current fields: from its own observation, or else from the state diff.
    pub fn state_of(&self, resource: &Resource) -> Option<&Map<String, Value>> {
        match self.states.get(resource) {
            Some(state) => state.0.as_ref(),
            None => self.diff.after(resource),
        }
    }
}
