//! `RunDiffResponse` (RFC 0054): the differences between two runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use touchstone_kit::ids::RunId;

/// The differences between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDiff {
    /// The requested run.
    pub a: RunId,
    /// The run it is compared with.
    pub b: RunId,
    /// Sequence number of the first difference; `null` if none was found.
    pub diverged_at_seq: Option<u64>,
    /// By sequence number.
    pub event_diffs: Vec<EventDiff>,
    /// Differences between the two snapshots, by member: `{"a": …, "b": …}`.
    pub state_diff: Map<String, Value>,
    /// Only the first part of the logs was compared or is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The difference at one sequence number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDiff {
    pub seq: u64,
    pub op: DiffOp,
    /// The event of `a`; absent for `added`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_event: Option<Value>,
    /// The event of `b`; absent for `removed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_event: Option<Value>,
}

/// The kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffOp {
    /// Only `b` has the event.
    Added,
    /// Only `a` has the event.
    Removed,
    /// Both have the event, and the events differ.
    Changed,
}
