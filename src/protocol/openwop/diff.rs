//! `RunDiffResponse` (RFC 0054): what two runs did differently.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::ids::RunId;

/// The differences of two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDiff {
    /// The run the request is about.
    pub a: RunId,
    /// The run it is compared with.
    pub b: RunId,
    /// Sequence of the first difference; `null` where there is none.
    pub diverged_at_seq: Option<u64>,
    /// By sequence.
    pub event_diffs: Vec<EventDiff>,
    /// What differs in the two snapshots, by member: `{"a": …, "b": …}`.
    pub state_diff: Map<String, Value>,
    /// Only a beginning was compared or is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// How the two logs differ at one sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDiff {
    /// The sequence.
    pub seq: u64,
    /// What is different.
    pub op: DiffOp,
    /// The event of `a`; absent for `added`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_event: Option<Value>,
    /// The event of `b`; absent for `removed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_event: Option<Value>,
}

/// What is different at a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffOp {
    /// Only `b` has it.
    Added,
    /// Only `a` has it.
    Removed,
    /// Both have it, and it differs.
    Changed,
}
