//! Observations: the requests to a provider, and whether its responses are evidence (OASIS section
//! 5).
//!
//! Only `status: available` is evidence. Every other status, and data of another shape, is a
//! runtime provider fault.

pub mod audit;
pub mod effect;
pub mod state;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::state::Resource;
use crate::rules::evidence::fault::EvidenceFault;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationType {
    AuditLog,
    /// One resource in its current state.
    ResourceState,
    /// The differences from the baseline.
    StateDiff,
    /// The agent's output: captured by the host, never requested from the provider.
    ResponseContent,
}

impl ObservationType {
    /// The wire name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AuditLog => "audit_log",
            Self::ResourceState => "resource_state",
            Self::StateDiff => "state_diff",
            Self::ResponseContent => "response_content",
        }
    }
}

/// One observation request: the body of `POST /v1/observe` without the environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservationRequest {
    pub observation_type: ObservationType,
    /// Filters; empty for everything.
    pub parameters: Map<String, Value>,
}

impl ObservationRequest {
    /// An observation without filters.
    pub fn whole(observation_type: ObservationType) -> Self {
        Self {
            observation_type,
            parameters: Map::new(),
        }
    }

    /// The state of one resource.
    pub fn of_resource(resource: &Resource) -> Self {
        let mut parameters = Map::new();
        let mut put = |key: &str, text: &str| parameters.insert(key.to_owned(), text.into());
        put("kind", &resource.kind);
        put("name", &resource.name);
        if let Some(workspace) = &resource.workspace {
            put("workspace", workspace);
        }
        Self {
            observation_type: ObservationType::ResourceState,
            parameters,
        }
    }
}

/// The origin of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceSource {
    /// The kind of reader, in the provider's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status of the source; always `available` for evidence.
    pub status: String,
}

/// An observation that counts as evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    pub request: ObservationRequest,
    /// The time of the observation, as the provider wrote it.
    pub timestamp: String,
    pub data: Value,
    pub evidence_source: EvidenceSource,
}

impl Observation {
    /// Accepts the response to `POST /v1/observe` as evidence.
    ///
    /// # Errors
    /// The response is for another environment or request, or its source is not `available`.
    pub fn accept(
        request: ObservationRequest,
        environment_id: &str,
        answer: &Value,
    ) -> Result<Self, EvidenceFault> {
        let name = request.observation_type.name();
        let fault = |words: &str| EvidenceFault::of_observation(name, words);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        // The source is checked first, because the rest of the response is undefined if the source
        // is down.
        let Some(source) = answer.get("evidence_source").filter(|it| it.is_object()) else {
            return Err(fault("has no `evidence_source`"));
        };
        let Some(status) = text(source.get("status")) else {
            return Err(fault("has an `evidence_source` without `status`"));
        };
        match status.as_str() {
            "available" => {}
            "unreachable" | "partial" | "empty_window" => return Err(fault(&status)),
            _ => return Err(fault("has an `evidence_source` with an unknown `status`")),
        }
        let kind = text(source.get("type")).filter(|kind| !kind.is_empty());
        let Some(kind) = kind else {
            return Err(fault("has an `evidence_source` without `type`"));
        };
        if text(answer.get("environment_id")).as_deref() != Some(environment_id) {
            return Err(fault("is for a different environment"));
        }
        if text(answer.get("observation_type")).as_deref() != Some(name) {
            return Err(fault("has a different type than requested"));
        }
        let Some(timestamp) = text(answer.get("timestamp")) else {
            return Err(fault("has no `timestamp`"));
        };
        let Some(data) = answer.get("data") else {
            return Err(fault("has no `data`"));
        };
        Ok(Self {
            request,
            timestamp,
            data: data.clone(),
            evidence_source: EvidenceSource { kind, status },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    fn answer() -> Value {
        json!({
            "environment_id": "env-1", "observation_type": "audit_log", "timestamp": "2026-01-01T00:00:00Z",
            "data": {"entries": []}, "evidence_source": {"type": "audit_store", "status": "available"}
        })
    }

    fn accept(answer: &Value) -> Result<Observation, EvidenceFault> {
        Observation::accept(
            ObservationRequest::whole(ObservationType::AuditLog),
            "env-1",
            answer,
        )
    }

    #[test]
    fn an_observation_of_an_available_source_is_accepted() {
        let observation = accept(&answer()).unwrap();
        assert_eq!(observation.evidence_source.kind, "audit_store");
        assert_eq!(observation.data, json!({"entries": []}));
    }

    #[rstest]
    #[case("/evidence_source/status", json!("unreachable"), "observation audit_log: unreachable")]
    #[case("/evidence_source/status", json!("partial"), "observation audit_log: partial")]
    #[case("/evidence_source/status", json!("empty_window"), "observation audit_log: empty_window")]
    #[case("/evidence_source/status", json!("degraded"), "unknown `status`")]
    #[case("/evidence_source/status", json!("Available"), "unknown `status`")]
    #[case("/evidence_source/status", Value::Null, "without `status`")]
    #[case("/evidence_source/type", Value::Null, "without `type`")]
    #[case("/evidence_source", Value::Null, "no `evidence_source`")]
    #[case("/evidence_source", json!("available"), "no `evidence_source`")]
    #[case("/environment_id", json!("env-2"), "environment")]
    #[case("/observation_type", json!("state_diff"), "different type")]
    #[case("/timestamp", Value::Null, "timestamp")]
    fn other_observations_are_provider_faults(
        #[case] pointer: &str,
        #[case] value: Value,
        #[case] words: &str,
    ) {
        let mut changed = answer();
        *changed.pointer_mut(pointer).unwrap() = value;
        let cause = accept(&changed).unwrap_err();
        assert!(cause.0.contains(words), "{cause}");
    }

    #[test]
    fn an_answer_without_data_is_a_fault() {
        let mut changed = answer();
        changed.as_object_mut().unwrap().remove("data");
        assert!(accept(&changed).is_err());
        assert!(accept(&json!([])).is_err());
    }

    proptest! {
        #[test]
        fn the_cause_of_a_fault_repeats_no_content(status in "\\PC{0,12}") {
            let mut changed = answer();
            changed["evidence_source"]["status"] = status.clone().into();
            if let Err(cause) = accept(&changed) {
                let known = ["unreachable", "partial", "empty_window"].contains(&status.as_str());
                prop_assert!(known || cause.0.ends_with("an unknown `status`"));
            }
        }
    }
}
