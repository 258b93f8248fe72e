//! Pausing runs.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Fence, StoreError};
use crate::domain::ids::RunId;
use crate::protocol::openwop::events::DrainPolicy;

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

/// Requests to pause runs. A request in force ends with the event that resumes the run
/// ([`Beside::Resumed`](super::Beside::Resumed)).
#[async_trait]
pub trait Pauses: Send + Sync {
    /// Records a pause request for an unfinished run; a parked run may then be claimed at once.
    /// `false` if there is one already, or the run has ended.
    async fn request_pause(&self, run: &RunId, request: &PauseRequest) -> Result<bool, StoreError>;
    /// The recorded pause request of a run.
    async fn pause_requested(&self, run: &RunId) -> Result<Option<PauseRequest>, StoreError>;
    /// Puts the recorded request into force, for the holder of the run; afterwards it cannot be
    /// withdrawn. `None` without a request, or if another process holds the run by now.
    async fn take_pause(
        &self,
        run: &RunId,
        fence: Fence,
    ) -> Result<Option<PauseRequest>, StoreError>;
    /// Withdraws a request. `false` without a request, or if it is in force.
    async fn withdraw_pause(&self, run: &RunId) -> Result<bool, StoreError>;
}
