//! Channels of agents.

use async_trait::async_trait;

use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, TenantId};
use touchstone_openwop::channel::Channel;

/// Resolves channels to versions. Deployments implement it.
#[async_trait]
pub trait Channels: Send + Sync {
    /// The active version of an agent on a channel, for a run with this draw. `field` of the
    /// request names the channel.
    ///
    /// # Errors
    /// `no_active_deployment`.
    async fn resolve(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        channel: &Channel,
        draw: u8,
        field: &str,
    ) -> Result<String, Problem>;
}
