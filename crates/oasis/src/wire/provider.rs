//! The messages between this host and an environment provider (OASIS SI provider guide 4;
//! additions: D5).
//!
//! Requests serialize exactly as declared here. Responses are read by their contract: known members
//! must be present and have the right type, and unknown members are ignored. A
//! [`ContractViolation`] names the position and quotes nothing, because responses contain secrets
//! and agent actions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use super::reading::{ContractViolation, Literal, Object, read};
use super::reading::{filled, filled_if_there, if_there, some};

/// `POST /v1/provision`: an isolated environment for one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProvisionRequest {
    pub scenario_id: String,
    /// The claimed tier, 1 to 3.
    pub tier: u8,
    pub environment: EnvironmentRequest,
    /// The agent that will act in the environment.
    pub agent: AgentRequest,
    /// The scenario's containment entries, whose references the provider resolves (D5).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub value_containment: Vec<ContainmentRequest>,
}

/// The environment to provision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnvironmentRequest {
    #[serde(rename = "type")]
    pub kind: String,
    /// The initial state: objects.
    pub state: Vec<Value>,
}

/// The agent that acts in an environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentRequest {
    /// `read-only`, `supervised` or `autonomous`.
    pub mode: String,
    pub tools: Vec<String>,
    /// The resources that the agent may access.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub scope: Map<String, Value>,
}

/// A containment entry of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContainmentRequest {
    /// The reference to resolve.
    pub value_ref: String,
    /// The entry's other members, as in the scenario.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The response to [`ProvisionRequest`]. Its debug form hides secrets.
#[derive(Debug, Deserialize)]
pub struct ProvisionResponse {
    pub status: ProvisionStatus,
    /// Why provisioning failed, for people.
    #[serde(default, deserialize_with = "filled_if_there")]
    pub error: Option<String>,
    #[serde(default, deserialize_with = "filled_if_there")]
    pub environment_id: Option<String>,
    /// The URL for the agent's operations.
    #[serde(default, deserialize_with = "filled_if_there")]
    pub agent_endpoint: Option<String>,
    /// The credentials for the agent's operations.
    #[serde(default, deserialize_with = "if_there")]
    pub agent_credentials: Option<Object<AgentCredentials>>,
    /// The values behind the references in the request.
    #[serde(default)]
    pub containment_values: Vec<Object<ContainmentValue>>,
}

/// The result of provisioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvisionStatus {
    /// The environment is ready.
    Ready,
    /// Provisioning failed.
    Error,
}

/// The credentials for the agent's operations.
#[derive(Debug, Deserialize)]
pub struct AgentCredentials {
    /// A bearer token.
    #[serde(default, deserialize_with = "if_there")]
    pub token: Option<Literal>,
    /// The principal under which the environment logs the agent's operations.
    #[serde(default, deserialize_with = "if_there")]
    pub principal: Option<String>,
}

/// The value behind a reference.
#[derive(Debug, Deserialize)]
pub struct ContainmentValue {
    #[serde(deserialize_with = "filled")]
    pub value_ref: String,
    /// Every form of the value that must not be emitted, at least one.
    #[serde(deserialize_with = "some")]
    pub literals: Vec<Literal>,
}

/// `POST /v1/inject-state`: additional state for an environment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InjectStateRequest<'a> {
    pub environment_id: &'a str,
    /// Objects.
    pub state: &'a [Value],
    /// When the state is injected; immediately if absent (D5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
}

/// When state is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Immediately.
    Now,
    /// After the agent's first tool call.
    AfterFirstToolCall,
    /// With the agent's second query.
    OnSecondQuery,
}

/// `POST /v1/state-snapshot`: the state of an environment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StateSnapshotRequest<'a> {
    pub environment_id: &'a str,
    /// Resources to return, as objects; all resources if empty.
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    pub resources: &'a [Value],
}

/// The head of the response to [`StateSnapshotRequest`]; resources have more members than these.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StateSnapshotResponse {
    #[serde(deserialize_with = "filled")]
    pub environment_id: String,
    /// The time of the snapshot.
    pub timestamp: String,
    pub resources: Vec<Object<Resource>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Resource {
    #[serde(deserialize_with = "filled")]
    pub kind: String,
    #[serde(deserialize_with = "filled")]
    pub name: String,
}

/// `POST /v1/observe`: evidence.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ObserveRequest<'a> {
    pub environment_id: &'a str,
    /// `audit_log`, `resource_state` or `state_diff`.
    pub observation_type: &'a str,
    /// Filters.
    pub parameters: &'a Map<String, Value>,
}

/// The response to [`ObserveRequest`]. The caller judges a missing source or status (D6).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ObservationResponse {
    #[serde(deserialize_with = "filled")]
    pub environment_id: String,
    #[serde(deserialize_with = "filled")]
    pub observation_type: String,
    pub timestamp: String,
    pub data: Value,
    #[serde(default)]
    pub evidence_source: Option<Object<EvidenceSource>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EvidenceSource {
    /// The kind of reader.
    #[serde(rename = "type", deserialize_with = "filled")]
    pub kind: String,
    #[serde(default)]
    pub status: Option<EvidenceStatus>,
}

/// Whether a source could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceStatus {
    /// The source could be read: the only status that makes an observation evidence.
    Available,
    /// The source could not be read.
    Unreachable,
    /// The source could be read in part; reserved.
    Partial,
    /// The source has no data for the time; reserved.
    EmptyWindow,
    /// A status that this version does not define.
    #[serde(other)]
    Unknown,
}

/// `POST /v1/teardown`: the environment is no longer needed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TeardownRequest<'a> {
    pub environment_id: &'a str,
}

/// The response to [`InjectStateRequest`] and [`TeardownRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StatusResponse {
    pub status: Status,
    /// The reason, for people.
    #[serde(default, deserialize_with = "filled_if_there")]
    pub error: Option<String>,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The state is injected, or will be.
    Applied,
    /// The environment is gone.
    Destroyed,
    /// The request failed.
    Error,
}
