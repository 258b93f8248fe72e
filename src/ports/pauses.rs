//! Pausing runs.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Fence, StoreError};
use crate::domain::ids::RunId;
use crate::protocol::openwop::events::DrainPolicy;

/// A request to pause, recorded beside the run until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequest {
    /// Who asked.
    pub paused_by: String,
    /// Why, if said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do with work in flight.
    pub drain_policy: DrainPolicy,
    /// When.
    pub requested_at: Timestamp,
}

/// Requests to pause runs. One that came into force is over with the event that the run goes on
/// ([`Beside::Resumed`](super::Beside::Resumed)).
#[async_trait]
pub trait Pauses: Send + Sync {
    /// Records a pause request for an unfinished run; a parked run may be claimed at once then. `false` if there is one
    /// already, or the run has ended.
    async fn request_pause(&self, run: &RunId, request: &PauseRequest) -> Result<bool, StoreError>;
    /// The recorded pause request of a run.
    async fn pause_requested(&self, run: &RunId) -> Result<Option<PauseRequest>, StoreError>;
    /// Lets the recorded request come into force, for whoever holds the run; from then on it is not withdrawn any more.
    /// `None` if there is none, or the run is held by somebody else by now.
    async fn take_pause(
        &self,
        run: &RunId,
        fence: Fence,
    ) -> Result<Option<PauseRequest>, StoreError>;
    /// Takes a request back. `false` if there is none, or it was taken before.
    async fn withdraw_pause(&self, run: &RunId) -> Result<bool, StoreError>;
}
