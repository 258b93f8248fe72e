//! What runs ask about the deployments of agents.

use async_trait::async_trait;

use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_openwop::channel::Channel;

/// The deployments of agents. The feature of this name implements it.
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

    /// Whether a version in service, or one that may return to service, was promoted with this run
    /// as evidence.
    ///
    /// # Errors
    /// An internal error.
    async fn rests_on(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        run: &RunId,
    ) -> Result<bool, Problem>;
}
