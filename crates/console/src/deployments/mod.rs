//! Deployments of agents, the approvals that promotions wait for, and the audit log.

mod agent;
pub mod approvals;
mod audit;
mod gates;
mod list;
mod step;
mod transition;
mod words;

use crate::page::answer::segment;
use crate::routes::Pages;
use touchstone_host::access::Scope;

pub fn routes(pages: Pages) -> Pages {
    pages
        .page("/console/deployments", Scope::ManifestRead, list::page)
        .page(
            "/console/deployments/{agentId}",
            Scope::ManifestRead,
            agent::page,
        )
        .page(
            "/console/deployments/{agentId}/promote",
            Scope::RunsRead,
            step::promote,
        )
        .page(
            "/console/deployments/{agentId}/change",
            Scope::RunsRead,
            step::change,
        )
        .form(
            "/console/deployments/{agentId}/transition",
            None::<Scope>,
            transition::send,
        )
        .page(
            "/console/approvals",
            Scope::ApprovalsRespond,
            approvals::page,
        )
        .form(
            "/console/approvals/{runId}/{nodeId}",
            Scope::ApprovalsRespond,
            approvals::answer,
        )
        .page("/console/gates", Scope::ManifestRead, gates::page)
        .page("/console/gates/edit", Scope::GatesWrite, gates::edit)
        .form("/console/gates", Scope::GatesWrite, gates::set)
        .form("/console/gates/remove", Scope::GatesWrite, gates::remove)
        .page("/console/audit", Scope::AuditRead, audit::page)
        .page("/console/audit/verify", Scope::AuditRead, audit::verify)
}

/// The address of an agent's page.
fn agent_page(agent: &str) -> String {
    format!("/console/deployments/{}", segment(agent))
}
