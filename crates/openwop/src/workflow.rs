//! Workflow definitions (OpenWOP workflow-definition): the parts of the document that this host
//! reads and serves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use touchstone_kit::ids::{AgentId, NodeId};

/// A graph of typed nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowDefinition {
    /// The id that runs refer to.
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub version: String,
    pub nodes: Vec<WorkflowNode>,
    pub edges: Vec<WorkflowEdge>,
    /// What starts the workflow.
    pub triggers: Vec<WorkflowTrigger>,
    /// The inputs of a run.
    pub variables: Vec<WorkflowVariable>,
    /// Tags and similar data.
    pub metadata: Map<String, Value>,
    pub settings: Map<String, Value>,
    /// The JSON Schema for the `configurable` of runs; without it, any value is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configurable_schema: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowNode {
    /// The id, unique in the workflow.
    pub id: NodeId,
    /// The node type, such as `core.noop`.
    pub type_id: String,
    pub name: String,
    /// The position in a drawing.
    pub position: Position,
    /// Constants for the node type.
    pub config: Map<String, Value>,
    /// The sources of the inputs.
    pub inputs: Map<String, Value>,
    /// The agent that executes the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRef>,
}

/// A node's reference to an agent (OpenWOP agent-ref; RFC 0082 §A): by version, by channel, or as
/// the host resolves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRef {
    pub agent_id: AgentId,
    /// The exact version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The channel whose active version is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// The position of a node in a drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// To the right.
    pub x: f64,
    /// Down.
    pub y: f64,
}

/// An order between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowEdge {
    pub id: String,
    /// The first node.
    pub source_node_id: NodeId,
    /// The node that follows.
    pub target_node_id: NodeId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowTrigger {
    pub id: String,
    /// `manual`.
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VariableType {
    String,
    Number,
    Boolean,
    Object,
    Array,
}

impl VariableType {
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        }
    }

    /// The type with its article, for messages.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Object => "an object",
            Self::Array => "an array",
        }
    }
}

/// An input of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowVariable {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: VariableType,
    /// Whether a run must provide the variable.
    #[serde(default)]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
}
