//! Payloads of what happens in a workflow and to a run that waits (OpenWOP run-event-payloads; interrupts: OpenWOP interrupt,
//! gates: RFC 0051).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::run::RunError;
use crate::domain::ids::{NodeId, RunId};

/// What to do with work in flight when a run is paused (OpenWOP `runs.pauseResume`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPolicy {
    /// It is abandoned, and begun anew after the resume.
    Immediate,
    /// It ends first.
    #[default]
    DrainCurrentNode,
}

impl DrainPolicy {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Immediate, Self::DrainCurrentNode];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::DrainCurrentNode => "drain-current-node",
        }
    }
}

/// `run.paused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPaused {
    /// Why, if said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What became of work in flight.
    pub drain_policy: DrainPolicy,
    /// Key id of who asked.
    pub paused_by: String,
}

/// `run.resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResumed {
    /// Key id of who asked.
    pub resumed_by: String,
}

/// `node.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStarted {
    /// The node.
    pub node_id: NodeId,
    /// Its type.
    pub type_id: String,
    /// From 1.
    pub attempt: u32,
}

/// `node.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCompleted {
    /// The node.
    pub node_id: NodeId,
    /// What it came to.
    #[serde(default)]
    pub outputs: Map<String, Value>,
}

/// `node.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFailed {
    /// The node.
    pub node_id: NodeId,
    /// Why.
    pub error: RunError,
}

/// Why a node waits for somebody (OpenWOP interrupt, `kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptKind {
    /// A decision.
    Approval,
    /// Answers to questions.
    Clarification,
    /// Something outside happens.
    ExternalEvent,
    /// Something else.
    Custom,
}

/// `node.suspended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSuspended {
    /// The node.
    pub node_id: NodeId,
    /// The interrupt.
    pub interrupt_id: String,
    /// Its kind.
    pub kind: InterruptKind,
    /// Its key, the same whenever this point of this run is reached again.
    pub key: String,
}

/// `node.resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResumed {
    /// The node.
    pub node_id: NodeId,
    /// The interrupt.
    pub interrupt_id: String,
}

/// `interrupt.requested`. Closed: the node stands in the envelope, the id in `node.suspended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested {
    /// Its kind.
    pub kind: InterruptKind,
    /// Its key.
    pub key: String,
    /// What an answer must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_schema: Option<Value>,
    /// How long it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What is asked.
    pub data: Value,
}

/// `interrupt.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptResolved {
    /// The node.
    pub node_id: NodeId,
    /// The interrupt.
    pub interrupt_id: String,
    /// Its kind.
    pub kind: InterruptKind,
    /// The answer.
    pub resume_value: Value,
    /// Who gave it.
    pub resolved_by: String,
}

/// `approval.requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    /// The node.
    pub node_id: NodeId,
    /// The interrupt.
    pub interrupt_id: String,
    /// What is to be approved.
    pub artifact_id: String,
    /// What kind of thing that is.
    pub artifact_type: String,
    /// In words.
    pub title: String,
    /// What may be answered.
    pub actions: Vec<String>,
    /// How many must agree.
    pub required_approvals: u32,
}

/// `approval.received`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReceived {
    /// The node.
    pub node_id: NodeId,
    /// `accept`, `reject` or `timeout`.
    pub action: String,
    /// Who decided; the last one of a quorum.
    pub decided_by: String,
    /// When.
    pub decided_at: Timestamp,
    /// What they said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// `approval.granted` (RFC 0051). Closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalGranted {
    /// The gate.
    pub gate_id: String,
    /// Who.
    pub principal: String,
    /// How far the quorum is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_progress: Option<QuorumProgress>,
}

/// How far a quorum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumProgress {
    /// How many have agreed.
    pub granted: u32,
    /// How many must.
    pub required: u32,
}

/// `approval.rejected` (RFC 0051). Closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRejected {
    /// The gate.
    pub gate_id: String,
    /// Who.
    pub principal: String,
    /// Why, if said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `approval.overridden` (RFC 0051). Closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOverridden {
    /// The gate.
    pub gate_id: String,
    /// Who.
    pub principal: String,
    /// Why.
    pub reason: String,
}

/// `clarification.requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationRequested {
    /// The node.
    pub node_id: NodeId,
    /// The interrupt.
    pub interrupt_id: String,
    /// The questions.
    pub questions: Vec<Question>,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its id, the key of its answer.
    pub id: String,
    /// In words.
    pub question: String,
}

/// `clarification.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationResolved {
    /// The node.
    pub node_id: NodeId,
    /// The answers by question.
    pub answers: Map<String, Value>,
    /// Who gave them.
    pub answered_by: String,
}

/// `ai.message.chunk`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageChunk {
    /// The node.
    pub node_id: NodeId,
    /// The run.
    pub run_id: RunId,
    /// The text.
    pub chunk: String,
    /// Whether it is the last one.
    pub is_last: bool,
    /// Said with the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<ChunkMeta>,
}

/// What is known of a message once it is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkMeta {
    /// Why it ended.
    pub finish_reason: String,
    /// The model.
    pub model: String,
    /// What it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
}

/// Tokens of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkUsage {
    /// Of the prompt.
    pub prompt_tokens: u64,
    /// Of the answer.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
}
