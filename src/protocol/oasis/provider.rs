//! The messages between this host and an environment provider (OASIS SI provider guide 4; additions: D5).
//!
//! Requests are written as they stand here. Answers are read as their contract has them: members it knows must be there and of
//! their type, others are passed over. A [`Misfit`] says where, and quotes nothing: answers hold secrets and what an agent did.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use super::reading::{Literal, Misfit, Object, read};
use super::reading::{filled, filled_if_there, if_there, some};

/// `POST /v1/provision`: an isolated environment for one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProvisionRequest {
    /// The scenario.
    pub scenario_id: String,
    /// The claimed tier, 1 to 3.
    pub tier: u8,
    /// What the environment is.
    pub environment: EnvironmentRequest,
    /// Who will act in it.
    pub agent: AgentRequest,
    /// The scenario's containment entries, for the provider to resolve their references (D5).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub value_containment: Vec<ContainmentRequest>,
}

/// What an environment is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnvironmentRequest {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is in it at first: objects.
    pub state: Vec<Value>,
}

/// Who acts in an environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentRequest {
    /// `read-only`, `supervised` or `autonomous`.
    pub mode: String,
    /// Its tools.
    pub tools: Vec<String>,
    /// Its bounds.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub scope: Map<String, Value>,
}

/// A containment entry of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContainmentRequest {
    /// What is to be resolved.
    pub value_ref: String,
    /// Its other members, as the scenario has them.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The answer to [`ProvisionRequest`]. Its debug form shows no secret.
#[derive(Debug, Deserialize)]
pub struct ProvisionResponse {
    /// Whether there is an environment.
    pub status: ProvisionStatus,
    /// Why there is none, for people.
    #[serde(default, deserialize_with = "filled_if_there")]
    pub error: Option<String>,
    /// The environment.
    #[serde(default, deserialize_with = "filled_if_there")]
    pub environment_id: Option<String>,
    /// Where the agent's operations go.
    #[serde(default, deserialize_with = "filled_if_there")]
    pub agent_endpoint: Option<String>,
    /// With what they go there.
    #[serde(default, deserialize_with = "if_there")]
    pub agent_credentials: Option<Object<AgentCredentials>>,
    /// What the references of the request stand for.
    #[serde(default)]
    pub containment_values: Vec<Object<ContainmentValue>>,
}

/// Whether there is an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvisionStatus {
    /// There is.
    Ready,
    /// There is none.
    Error,
}

/// With what the agent's operations are sent.
#[derive(Debug, Deserialize)]
pub struct AgentCredentials {
    /// A bearer token.
    #[serde(default, deserialize_with = "if_there")]
    pub token: Option<Literal>,
    /// Under which name the environment records them.
    #[serde(default, deserialize_with = "if_there")]
    pub principal: Option<String>,
}

/// What a reference stands for.
#[derive(Debug, Deserialize)]
pub struct ContainmentValue {
    /// The reference.
    #[serde(deserialize_with = "filled")]
    pub value_ref: String,
    /// Every form of the value that must not be emitted, at least one.
    #[serde(deserialize_with = "some")]
    pub literals: Vec<Literal>,
}

/// `POST /v1/inject-state`: more state for an environment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InjectStateRequest<'a> {
    /// The environment.
    pub environment_id: &'a str,
    /// Objects.
    pub state: &'a [Value],
    /// When; at once without one (D5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
}

/// When state is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// At once.
    Now,
    /// When the agent has called a tool.
    AfterFirstToolCall,
    /// When the agent asks a second time.
    OnSecondQuery,
}

/// `POST /v1/state-snapshot`: what is in an environment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StateSnapshotRequest<'a> {
    /// The environment.
    pub environment_id: &'a str,
    /// Of what, as objects; of everything if there are none.
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    pub resources: &'a [Value],
}

/// The head of the answer to [`StateSnapshotRequest`]; resources have more members than these.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StateSnapshotResponse {
    /// The environment.
    #[serde(deserialize_with = "filled")]
    pub environment_id: String,
    /// When it was like this.
    pub timestamp: String,
    /// What is in it.
    pub resources: Vec<Object<Resource>>,
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Resource {
    /// Its kind.
    #[serde(deserialize_with = "filled")]
    pub kind: String,
    /// Its name.
    #[serde(deserialize_with = "filled")]
    pub name: String,
}

/// `POST /v1/observe`: evidence.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ObserveRequest<'a> {
    /// The environment.
    pub environment_id: &'a str,
    /// `audit_log`, `resource_state` or `state_diff`.
    pub observation_type: &'a str,
    /// Of what.
    pub parameters: &'a Map<String, Value>,
}

/// The answer to [`ObserveRequest`]. A source that is not named, and a status that is not there, are for the reader to judge (D6).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ObservationResponse {
    /// The environment.
    #[serde(deserialize_with = "filled")]
    pub environment_id: String,
    /// What was asked for.
    #[serde(deserialize_with = "filled")]
    pub observation_type: String,
    /// When it was observed.
    pub timestamp: String,
    /// What was observed.
    pub data: Value,
    /// Where it is from.
    #[serde(default)]
    pub evidence_source: Option<Object<EvidenceSource>>,
}

/// Where an observation is from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EvidenceSource {
    /// What it is.
    #[serde(rename = "type", deserialize_with = "filled")]
    pub kind: String,
    /// Whether it could be read.
    #[serde(default)]
    pub status: Option<EvidenceStatus>,
}

/// Whether a source could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceStatus {
    /// It could: the only status that makes an observation evidence.
    Available,
    /// It could not.
    Unreachable,
    /// In part; reserved.
    Partial,
    /// It has nothing of that time; reserved.
    EmptyWindow,
    /// A word this version does not know.
    #[serde(other)]
    Unknown,
}

/// `POST /v1/teardown`: the environment is no longer needed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TeardownRequest<'a> {
    /// The environment.
    pub environment_id: &'a str,
}

/// The answer to [`InjectStateRequest`] and [`TeardownRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StatusResponse {
    /// What became of it.
    pub status: Status,
    /// Why, for people.
    #[serde(default, deserialize_with = "filled_if_there")]
    pub error: Option<String>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The state is injected, or will be.
    Applied,
    /// The environment is gone.
    Destroyed,
    /// Nothing.
    Error,
}
