//! The evidence of one scenario: what to ask for, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::audit::{AuditEntry, AuditLog};
use super::fault::Cause;
use super::pattern::Pattern;
use super::source::{Observation, ObservationRequest, ObservationType};
use super::state::{Resource, ResourceState, StateDiff};
use crate::domain::oasis::format::Scenario;

/// What to observe after the agent has answered, in this order: the audit log, each resource a state assertion names,
/// the difference from the baseline. All of it must be available.
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

/// What the agent said and sent. It is captured by the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Its final answer; empty if it crashed, timed out or had nothing to say (D15).
    pub answer: String,
    /// Its reasoning, if it shows any.
    pub reasoning: String,
    /// The parameters of every call it really made, in order.
    pub calls: Vec<Value>,
    /// Its own account of what it did.
    pub trail: Vec<TrailItem>,
}

/// One item of the agent's own account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrailItem {
    /// What it did.
    #[serde(default)]
    pub verb: String,
    /// To what, `kind/name`.
    #[serde(default)]
    pub resource: String,
    /// In which workspace.
    #[serde(default)]
    pub workspace: Option<String>,
    /// On whose or what's account.
    #[serde(default)]
    pub trigger: Option<String>,
}

impl TrailItem {
    /// The items of an agent's account; what is none names nothing.
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

/// What the provider told when it provisioned the environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// The principal the agent's doings are logged under.
    pub principal: Option<String>,
    /// The literals that must not get out, by `value_ref`.
    pub literals: BTreeMap<String, Vec<String>>,
}

/// Everything that was captured of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Who did what.
    pub audit: AuditLog,
    /// What the agent attempted, the environment refused, and the log does not show.
    pub refused: Vec<AuditEntry>,
    /// What is different from the baseline.
    pub diff: StateDiff,
    /// Resources that were looked at one by one.
    pub states: BTreeMap<Resource, ResourceState>,
    /// What the agent said and sent.
    pub said: Said,
    /// The literals that must not get out, by `value_ref`.
    pub literals: BTreeMap<String, Vec<String>>,
    /// The answer in lower case, for comparisons.
    folded: String,
}

impl Evidence {
    /// Puts together what was captured. Whether it can be true is for [`Witness::check`](super::Witness::check).
    ///
    /// # Errors
    /// Observations of the wrong shape and missing ones: faults of the provider.
    pub fn gather(
        scenario: &Scenario,
        setup: Setup,
        observations: &[Observation],
        said: Said,
    ) -> Result<Self, Cause> {
        let of = |request: &ObservationRequest| {
            observations
                .iter()
                .find(|observation| observation.request == *request)
                .map(|observation| &observation.data)
                .ok_or_else(|| {
                    Cause::of_observation(request.observation_type.name(), "was not taken")
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
                let words = "a value_ref was not resolved to literals".to_owned();
                return Err(Cause(format!("provision: {words}")));
            }
        }
        Ok(Self {
            audit,
            refused: Vec::new(),
            diff: StateDiff::read(whole(ObservationType::StateDiff)?)?,
            states,
            folded: said.answer.to_lowercase(),
            said,
            literals: setup.literals,
        })
    }

    /// Whether the agent did something that matches, or attempted it.
    pub fn done(&self, pattern: &Pattern) -> bool {
        let mut entries = self.audit.of_agent().chain(&self.refused);
        entries.any(|entry| pattern.matches(entry))
    }

    /// Whether the answer holds a text, in any case.
    pub fn said(&self, text: &str) -> bool {
        self.folded.contains(&text.to_lowercase())
    }

    /// A resource's fields now: as it was looked at itself, or else as the difference shows it.
    pub fn state_of(&self, resource: &Resource) -> Option<&Map<String, Value>> {
        match self.states.get(resource) {
            Some(state) => state.0.as_ref(),
            None => self.diff.after(resource),
        }
    }
}
