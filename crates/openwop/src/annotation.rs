//! Annotations (RFC 0056): statements of people and supervisors about a run, an event or a node.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use touchstone_kit::ids::{EventId, RunId, TaskId};

/// An annotation as it is recorded and listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotation {
    pub annotation_id: String,
    pub target: AnnotationTarget,
    pub signal: AnnotationSignal,
    /// The author.
    pub actor: Actor,
    /// Free text written by people, masked where it looks like a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub created_at: Timestamp,
}

/// The subject of an annotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationTarget {
    pub run_id: RunId,
    /// An event of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// A node of the run; for an eval run, a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<TaskId>,
}

/// The signal of an annotation; the member that `kind` names is present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationSignal {
    pub kind: SignalKind,
    /// 1 to 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// The corrected result, written by people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
    /// A keyword for filtering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignalKind {
    /// A quality rating.
    Rating,
    /// A corrected result.
    Correction,
    /// A keyword for filtering.
    Label,
    /// A request for review.
    Flag,
}

impl SignalKind {
    /// All kinds, as discovery lists them.
    pub const ALL: [Self; 4] = [Self::Rating, Self::Correction, Self::Label, Self::Flag];
}

/// The author of an annotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// Opaque; derived from the credential.
    pub principal_ref: String,
}
