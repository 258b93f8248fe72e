//! Annotations (RFC 0056): what people and supervisors say about a run, an event or a node.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::ids::{EventId, RunId, TaskId};

/// An annotation as it is recorded and listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotation {
    /// Its id.
    pub annotation_id: String,
    /// What it is about.
    pub target: AnnotationTarget,
    /// What it says.
    pub signal: AnnotationSignal,
    /// Who said it.
    pub actor: Actor,
    /// In words; content of people, masked where it looks like a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When.
    pub created_at: Timestamp,
}

/// What an annotation is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationTarget {
    /// The run.
    pub run_id: RunId,
    /// One of its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// One of its nodes; a task of an eval run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<TaskId>,
}

/// What an annotation says; the member its kind names is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationSignal {
    /// What kind of signal it is.
    pub kind: SignalKind,
    /// 1 to 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// What it should have been; content of people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
    /// A word to sort by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// The kinds of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignalKind {
    /// How good it is.
    Rating,
    /// What it should have been.
    Correction,
    /// A word to sort by.
    Label,
    /// That somebody should look at it.
    Flag,
}

impl SignalKind {
    /// All of them, as discovery lists them.
    pub const ALL: [Self; 4] = [Self::Rating, Self::Correction, Self::Label, Self::Flag];
}

/// Who said it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// Opaque; derived from the credential.
    pub principal_ref: String,
}
