//! Resolution of the agent version of a run (RFC 0082 §B): resolved when the run is created,
//! pinned, and never resolved again.

use std::sync::Arc;

use crate::rules::run::record::{BoundAgent, ChannelPin};
use crate::rules::run::request::CreateRun;
use crate::service::library::LoadedAgent;
use crate::service::runs::Runs;
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::reached_by::{ReachedBy, is_remote_provider};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, TenantId};
use touchstone_openwop::channel::{Channel, draw};
use touchstone_openwop::workflow::WorkflowDefinition;

impl Runs {
    /// The installed agent: the named version, else the highest.
    ///
    /// # Errors
    /// The store failed.
    pub async fn installed(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: Option<&str>,
    ) -> Result<Option<Arc<LoadedAgent>>, Problem> {
        let installed = self.library.installed_agent(tenant, agent, version);
        installed.await.map_err(|cause| internal(&cause))
    }

    /// Whether a remote agent answers for an installed one: it has its own tools, and is offered
    /// none.
    pub fn answered_remotely(&self, agent: &LoadedAgent) -> bool {
        let model = self.models.resolve(agent.definition.model_class);
        model.is_some_and(|it| is_remote_provider(&it.model.info().provider))
    }

    /// Binds a remote agent, within what this tenant may reach.
    ///
    /// # Errors
    /// `validation_error` that names the member of `reached_by`.
    pub fn reach(
        &self,
        tenant: &TenantId,
        reached_by: &ReachedBy,
    ) -> Result<ModelBinding, Problem> {
        self.models.reach(tenant, reached_by).map_err(|refusal| {
            let field = format!("reached_by.{}", refusal.field);
            Problem::validation(&field, refusal.to_string())
        })
    }

    /// Resolves the channel that a request names to its active version, and pins it.
    pub(super) async fn pin_channel(
        &self,
        tenant: &TenantId,
        request: &mut CreateRun,
    ) -> Result<(), Problem> {
        let Some(channel) = request.agent_channel.clone() else {
            return Ok(());
        };
        let (version, pin) = self
            .resolve_channel(tenant, &request.agent_id, channel, AGENT_CHANNEL)
            .await?;
        request.agent_version = Some(version);
        request.channel_pin = Some(pin);
        Ok(())
    }

    /// Pins the agents of a workflow's nodes. Nodes that name the same agent and channel get the
    /// same version.
    pub(super) async fn bind_agents(
        &self,
        tenant: &TenantId,
        definition: &WorkflowDefinition,
    ) -> Result<Vec<BoundAgent>, Problem> {
        const FIELD: &str = "workflowId";
        let mut bound: Vec<BoundAgent> = Vec::new();
        for node in &definition.nodes {
            let Some(agent) = &node.agent else { continue };
            let channel = agent
                .channel
                .as_deref()
                .map(str::parse::<Channel>)
                .transpose()
                .map_err(|fault| Problem::validation(FIELD, fault.to_string()))?;
            let known = bound.iter().find(|known| {
                let met = known.channel.as_ref().map(|pin| &pin.channel);
                known.agent_id == agent.agent_id && channel.is_some() && met == channel.as_ref()
            });
            let (version, channel) = match (known, channel) {
                (Some(known), _) => (known.version.clone(), known.channel.clone()),
                (None, None) => (agent.version.clone(), None),
                (None, Some(channel)) => {
                    let (version, pin) = self
                        .resolve_channel(tenant, &agent.agent_id, channel, FIELD)
                        .await?;
                    (Some(version), Some(pin))
                }
            };
            bound.push(BoundAgent {
                node_id: node.id.clone(),
                agent_id: agent.agent_id.clone(),
                version,
                channel,
            });
        }
        Ok(bound)
    }

    /// The active version on a channel, by the run's single draw on it.
    async fn resolve_channel(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        channel: Channel,
        field: &str,
    ) -> Result<(String, ChannelPin), Problem> {
        let draw = draw(&self.ids.mint("draw"), agent, &channel);
        let version = self
            .deployments
            .resolve(tenant, agent, &channel, draw, field)
            .await?;
        Ok((version, ChannelPin { channel, draw }))
    }
}

const AGENT_CHANNEL: &str = "configurable.agentChannel";
