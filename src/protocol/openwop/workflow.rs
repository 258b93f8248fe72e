//! Workflow definitions (OpenWOP workflow-definition): the part of the document this host reads and serves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::ids::{AgentId, NodeId};

/// A graph of typed nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowDefinition {
    /// Its id, which runs name.
    pub id: String,
    /// In words.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its version.
    pub version: String,
    /// The nodes.
    pub nodes: Vec<WorkflowNode>,
    /// What follows what.
    pub edges: Vec<WorkflowEdge>,
    /// What starts it.
    pub triggers: Vec<WorkflowTrigger>,
    /// What a run may or must give it.
    pub variables: Vec<WorkflowVariable>,
    /// Tags and the like.
    pub metadata: Map<String, Value>,
    /// Settings.
    pub settings: Map<String, Value>,
    /// The JSON Schema that the `configurable` of its runs satisfies; without one, any does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configurable_schema: Option<Value>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowNode {
    /// Its id, unique in the workflow.
    pub id: NodeId,
    /// Its type, such as `core.noop`.
    pub type_id: String,
    /// In words.
    pub name: String,
    /// Where it is drawn.
    pub position: Position,
    /// Constants for its type.
    pub config: Map<String, Value>,
    /// Where its inputs come from.
    pub inputs: Map<String, Value>,
    /// The agent that executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRef>,
}

/// An agent as a node names it (OpenWOP agent-ref; RFC 0082 §A): at a version, by a channel, or as the host resolves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRef {
    /// The agent.
    pub agent_id: AgentId,
    /// Exactly this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whichever version is active there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Where a node is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// To the right.
    pub x: f64,
    /// Down.
    pub y: f64,
}

/// One node follows another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowEdge {
    /// Its id.
    pub id: String,
    /// This one first.
    pub source_node_id: NodeId,
    /// Then this one.
    pub target_node_id: NodeId,
}

/// What starts a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowTrigger {
    /// Its id.
    pub id: String,
    /// `manual`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The type of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VariableType {
    /// Text.
    String,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// An object.
    Object,
    /// A list.
    Array,
}

impl VariableType {
    /// Whether a value is of this type.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        }
    }

    /// With its article, for messages.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::String => "a text",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Object => "an object",
            Self::Array => "a list",
        }
    }
}

/// An input of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowVariable {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: VariableType,
    /// Whether a run must give it.
    #[serde(default)]
    pub required: bool,
    /// What it is otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
}
