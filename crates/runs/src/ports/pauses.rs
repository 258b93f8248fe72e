//! Pausing runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use touchstone_openwop::events::DrainPolicy;

/// A request to pause, stored next to the run until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequest {
    pub paused_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How work in flight is handled.
    pub drain_policy: DrainPolicy,
    pub requested_at: Timestamp,
}
