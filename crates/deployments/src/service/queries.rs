//! What features below the deployments ask about them.

use std::sync::Arc;

use async_trait::async_trait;
use semver::Version;

use crate::rules::{Channel, Lifecycle, TransitionRequest};
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_openwop::deployment::TransitionKind;
use touchstone_packs::ports::host::AgentDeployments;
use touchstone_packs::ports::inventory::Revision;
use touchstone_runs::fixtures::CHANNEL_AGENT;

pub struct DeploymentQueries {
    pub store: Arc<Database>,
    /// Whether the agent of the conformance workflows is deployed.
    pub fixtures: bool,
}

#[async_trait]
impl AgentDeployments for DeploymentQueries {
    async fn resolve(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        channel: &Channel,
        draw: u8,
        field: &str,
    ) -> Result<String, Problem> {
        let lifecycle = self.deployments_of(tenant, agent).await?;
        let version = lifecycle.resolve(channel, draw).map_err(|none| {
            Problem::new(
                ErrorCode::NoActiveDeployment,
                format!(
                    "{none}; promote a version on it, or name one in `configurable.agentVersion`"
                ),
            )
            .with("field", field)
        })?;
        Ok(version.to_string())
    }

    async fn rests_on(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        run: &RunId,
    ) -> Result<bool, StoreError> {
        let (lifecycle, _) = store::deployments(&self.store, tenant, agent).await?;
        Ok(lifecycle.rests_on(run))
    }

    async fn in_service(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &Version,
    ) -> Result<(bool, Revision), StoreError> {
        let (lifecycle, revision) = store::deployments(&self.store, tenant, agent).await?;
        Ok((lifecycle.is_in_service(version), revision))
    }
}

impl DeploymentQueries {
    async fn deployments_of(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
    ) -> Result<Lifecycle, Problem> {
        if let Some(lifecycle) = self.fixtures.then(|| deployed(agent)).flatten() {
            return Ok(lifecycle);
        }
        let (lifecycle, _) = store::deployments(&self.store, tenant, agent)
            .await
            .map_err(|cause| internal(&cause))?;
        Ok(lifecycle)
    }
}

/// The deployment state of a fixture's agent, reached by the same transitions as for any agent.
#[expect(
    clippy::expect_used,
    reason = "the transitions are constants, and a test applies them"
)]
fn deployed(agent: &AgentId) -> Option<Lifecycle> {
    if agent.as_str() != CHANNEL_AGENT {
        return None;
    }
    let promote = |channel: Option<Channel>| TransitionRequest {
        version: Version::new(1, 0, 0),
        transition: TransitionKind::Promote,
        to_state: None,
        channel,
        share: None,
        evidence: None,
        approval_gate: None,
        pack_integrity: None,
        reason: None,
    };
    let stable: Channel = "stable".parse().expect("it is a channel name");
    let steps = [promote(None), promote(None), promote(Some(stable))];
    let apply = |before: Lifecycle, step: &TransitionRequest| {
        let applied = before.apply(agent, step);
        applied.expect("a new version can be promoted").0
    };
    Some(steps.iter().fold(Lifecycle::default(), apply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_fixture_agent_serves_on_the_stable_channel() {
        let agent = AgentId::from(CHANNEL_AGENT);
        let stable: Channel = "stable".parse().unwrap();
        let lifecycle = deployed(&agent).unwrap();
        assert_eq!(
            lifecycle.resolve(&stable, 99).unwrap(),
            &Version::new(1, 0, 0)
        );
        assert_eq!(deployed(&"vendor.acme.triage.default".into()), None);
    }
}
