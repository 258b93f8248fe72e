//! Agents with their versions, their channels and the approvals they wait for.

use std::collections::BTreeSet;

use crate::rules::{ChannelTraffic, Lifecycle};
use crate::service::deployments::Deployments;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_openwop::deployment::AgentDeployment;
use touchstone_packs::service::installed::{Installed, all_installed, installed};
use touchstone_runs::service::runs::interrupts::GateDecision;
use touchstone_runs::store as run_store;

/// An agent and what it serves.
pub struct AgentOverview {
    pub agent_id: AgentId,
    /// The record of each version, in ascending order.
    pub versions: Vec<AgentDeployment>,
    pub channels: Vec<ChannelTraffic>,
    pub waiting: Vec<WaitingApproval>,
}

/// A promotion that waits for people.
pub struct WaitingApproval {
    pub version: String,
    /// The run that asks.
    pub gate: RunId,
}

/// Some of the agents, by their ids.
pub struct OverviewPage {
    pub agents: Vec<AgentOverview>,
    /// Further ones come after this id.
    pub next: Option<AgentId>,
    /// Agents of the tenant.
    pub total: usize,
}

impl Deployments {
    /// At most `limit` agents that are installed or had a transition, with ids after `after`.
    ///
    /// # Errors
    /// An internal error.
    pub async fn overview(
        &self,
        tenant: &TenantId,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<OverviewPage, Problem> {
        let packs = all_installed(&self.store, tenant).await?;
        let stored = store::all_deployments(&self.store, tenant).await;
        let stored = stored.map_err(|cause| internal(&cause))?;
        let all: BTreeSet<&AgentId> = packs.keys().chain(stored.keys()).collect();
        let further = |agent: &&AgentId| after.is_none_or(|after| *agent > after);
        let mut rest = all.iter().copied().filter(further);
        let (no_pack, no_deployment) = (Installed::default(), Lifecycle::default());
        let mut agents = Vec::new();
        for agent in rest.by_ref().take(limit) {
            let versions = packs.get(agent).unwrap_or(&no_pack);
            let lifecycle = stored.get(agent).unwrap_or(&no_deployment);
            agents.push(self.agent_of(tenant, agent, versions, lifecycle).await?);
        }
        let more = rest.next().is_some();
        let next = agents.last().map(|last| last.agent_id.clone());
        Ok(OverviewPage {
            agents,
            next: next.filter(|_| more),
            total: all.len(),
        })
    }

    /// One agent.
    ///
    /// # Errors
    /// `not_found` for an agent that is not installed and had no transition, or is another
    /// tenant's.
    pub async fn agent(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
    ) -> Result<AgentOverview, Problem> {
        let stored = store::deployments(&self.store, tenant, agent).await;
        let (lifecycle, _) = stored.map_err(|cause| internal(&cause))?;
        let installed = match installed(self.store.as_ref(), tenant, agent).await {
            Err(problem)
                if problem.code == ErrorCode::NotFound && lifecycle != Lifecycle::default() =>
            {
                Installed::default()
            }
            found => found?,
        };
        self.agent_of(tenant, agent, &installed, &lifecycle).await
    }

    /// The newest finished eval run of a version.
    ///
    /// # Errors
    /// An internal error.
    pub async fn newest_evidence(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: &str,
    ) -> Result<Option<RunId>, Problem> {
        let newest = run_store::runs::newest_eval(&self.store, tenant, agent, version).await;
        newest.map_err(|cause| internal(&cause))
    }

    async fn agent_of(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        installed: &Installed,
        lifecycle: &Lifecycle,
    ) -> Result<AgentOverview, Problem> {
        let lifecycle = lifecycle.as_installed(|version| installed.integrity(version));
        let mut waiting = Vec::new();
        for (version, gate) in lifecycle.gates() {
            match self.gates.decision_of(tenant, gate).await {
                Ok(GateDecision::Pending) => waiting.push(WaitingApproval {
                    version: version.to_string(),
                    gate: gate.clone(),
                }),
                Ok(_) => {}
                // Deleted meanwhile.
                Err(problem) if problem.code == ErrorCode::NotFound => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(AgentOverview {
            agent_id: agent.clone(),
            versions: lifecycle.records(agent, installed.versions()),
            channels: lifecycle.traffic(),
            waiting,
        })
    }
}
