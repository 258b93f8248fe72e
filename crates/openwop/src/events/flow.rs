//! Payloads of workflow nodes and waiting runs (OpenWOP run-event-payloads; interrupts: OpenWOP
//! interrupt, gates: RFC 0051).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::run::RunError;
use touchstone_kit::ids::{NodeId, RunId};

/// What to do with work in flight when a run is paused (OpenWOP `runs.pauseResume`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPolicy {
    /// Abandon the work and restart it after the resume.
    Immediate,
    /// Let the current work finish first.
    #[default]
    DrainCurrentNode,
}

impl DrainPolicy {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How work in flight is treated.
    pub drain_policy: DrainPolicy,
    /// Key id of the caller.
    pub paused_by: String,
}

/// `run.resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResumed {
    /// Key id of the caller.
    pub resumed_by: String,
}

/// `node.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStarted {
    pub node_id: NodeId,
    pub type_id: String,
    /// From 1.
    pub attempt: u32,
}

/// `node.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCompleted {
    pub node_id: NodeId,
    #[serde(default)]
    pub outputs: Map<String, Value>,
}

/// `node.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFailed {
    pub node_id: NodeId,
    pub error: RunError,
}

/// Why a node waits (OpenWOP interrupt, `kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptKind {
    /// For a decision.
    Approval,
    /// For answers to questions.
    Clarification,
    ExternalEvent,
    /// For another reason.
    Custom,
}

/// `node.suspended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSuspended {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub kind: InterruptKind,
    /// The key of the interrupt; the same whenever the run reaches this point again.
    pub key: String,
}

/// `node.resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResumed {
    pub node_id: NodeId,
    pub interrupt_id: String,
}

/// `interrupt.requested`. The set of members is closed: the node is in the envelope, the interrupt
/// id in `node.suspended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested {
    pub kind: InterruptKind,
    pub key: String,
    /// The JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_schema: Option<Value>,
    /// How long the interrupt waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The request.
    pub data: Value,
}

/// `interrupt.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptResolved {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub kind: InterruptKind,
    /// The answer.
    pub resume_value: Value,
    /// The principal that answered.
    pub resolved_by: String,
}

/// `approval.requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    pub node_id: NodeId,
    pub interrupt_id: String,
    /// The artifact to approve.
    pub artifact_id: String,
    pub artifact_type: String,
    pub title: String,
    /// The permitted answers.
    pub actions: Vec<String>,
    /// The number of approvals required.
    pub required_approvals: u32,
}

/// `approval.received`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReceived {
    pub node_id: NodeId,
    /// `accept`, `reject` or `timeout`.
    pub action: String,
    /// The principal that decided; for a quorum, the last one.
    pub decided_by: String,
    pub decided_at: Timestamp,
    /// The approver's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// `approval.granted` (RFC 0051). The set of members is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalGranted {
    pub gate_id: String,
    pub principal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_progress: Option<QuorumProgress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumProgress {
    /// Approvals so far.
    pub granted: u32,
    /// Approvals required.
    pub required: u32,
}

/// `approval.rejected` (RFC 0051). The set of members is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRejected {
    pub gate_id: String,
    pub principal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `approval.overridden` (RFC 0051). The set of members is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOverridden {
    pub gate_id: String,
    pub principal: String,
    pub reason: String,
}

/// `clarification.requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationRequested {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub questions: Vec<Question>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The id of the question and the key of its answer.
    pub id: String,
    pub question: String,
}

/// `clarification.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationResolved {
    pub node_id: NodeId,
    /// The answers by question.
    pub answers: Map<String, Value>,
    /// The principal that answered.
    pub answered_by: String,
}

/// `ai.message.chunk`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageChunk {
    pub node_id: NodeId,
    pub run_id: RunId,
    pub chunk: String,
    /// Whether this is the last chunk.
    pub is_last: bool,
    /// Present in the last chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<ChunkMeta>,
}

/// Facts about a complete message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkMeta {
    /// Why the message ended.
    pub finish_reason: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
}

/// Tokens of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// Prompt and completion tokens.
    pub total_tokens: u64,
}
