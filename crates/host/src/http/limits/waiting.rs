//! Limits that a body of lines waits for: one busy moment must not lose what arrived in many minutes.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::shares::Share;
use super::{Limits, crowded, no_memory};
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TenantId;

/// How long a body waits. Its client notices nothing but a pause.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts. Attempts take nothing while they wait, so others are served.
const PAUSE: Duration = Duration::from_millis(100);

impl Limits {
    /// Takes room for a line of the largest size, which arrives in an unknown length.
    ///
    /// # Errors
    /// As [`hold`](Self::hold), if there is no room for a while.
    pub async fn wait_for_line(&self, tenant: &TenantId) -> Result<Share<TenantId>, Problem> {
        let waiting = async {
            loop {
                match self.bodies.take(tenant, self.max_body) {
                    Ok(room) => return room,
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        match timeout(PATIENCE, waiting).await {
            Ok(room) => Ok(room),
            Err(_) => self.bodies.take(tenant, self.max_body).map_err(crowded),
        }
    }

    /// As [`weigh`](Self::weigh), but waits for room.
    ///
    /// # Errors
    /// `payload_too_large` if the line alone exceeds the limit, `rate_limited` if there is no room
    /// for a while.
    pub async fn wait_to_weigh(&self, weight: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let waiting = async {
            loop {
                match self.try_weigh(weight)? {
                    Some(memory) => return Ok(memory),
                    None => sleep(PAUSE).await,
                }
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .unwrap_or_else(|_| Err(no_memory()))
    }
}
