//! One agent: its versions, its channels and its history.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::deployments::agent_page;
use crate::deployments::list::ChannelRow;
use crate::deployments::words::{Badge, outcome, reason, state, verb};
use crate::page::answer::{html, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::text::Time;
use crate::page::visit::Visit;
use touchstone_deployments::rules::next;
use touchstone_deployments::service::deployments::overview::WaitingApproval;
use touchstone_deployments::service::deployments::scope_of;
use touchstone_deployments::service::history::{TransitionRecord, concerns, transitions};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::AgentId;
use touchstone_openwop::deployment::{AgentDeployment, DeploymentState, TransitionKind};

/// Entries of the audit log that the history shows.
const HISTORY: usize = 100;

#[derive(Template)]
#[template(path = "deployments/agent.html")]
struct Page {
    chrome: Chrome,
    agent: String,
    may_answer: bool,
    waiting: Vec<Waiting>,
    channels: Vec<ChannelRow>,
    versions: Vec<VersionRow>,
    /// `None` without the right to read the audit log.
    history: Option<History>,
}

struct Waiting {
    version: String,
    gate: String,
}

struct VersionRow {
    version: String,
    state: Badge,
    share: String,
    channels: String,
    evidence: String,
    approval: String,
    replaced_by: String,
    actions: Vec<Action>,
}

struct Action {
    href: String,
    label: &'static str,
}

struct History {
    rows: Vec<HistoryRow>,
    is_cut: bool,
    audit: String,
}

struct HistoryRow {
    at: Time,
    principal: String,
    transition: String,
    version: String,
    outcome: Badge,
    placements: String,
    reason: String,
    refusals: Vec<String>,
    approvals: Vec<ApprovalRow>,
    run: String,
}

struct ApprovalRow {
    text: String,
    is_override: bool,
}

impl Waiting {
    fn of(waiting: &WaitingApproval) -> Self {
        Self {
            version: plain(&waiting.version),
            gate: waiting.gate.to_string(),
        }
    }
}

impl VersionRow {
    fn of(visit: &Visit, record: &AgentDeployment) -> Self {
        let base = agent_page(record.agent_id.as_str());
        let action = |kind: &TransitionKind| {
            let can = next(record.state, *kind, None).is_ok() && visit.may(scope_of(*kind));
            let version = segment(&record.version);
            let href = match kind {
                TransitionKind::Promote => format!("{base}/promote?version={version}"),
                kind => format!("{base}/change?transition={kind}&version={version}"),
            };
            let label = verb(*kind);
            (can && visit.may(Scope::RunsRead)).then_some(Action { href, label })
        };
        let text = |value: Option<&str>| value.map_or_else(String::new, plain);
        Self {
            version: plain(&record.version),
            state: state(record.state),
            // A version that was rolled back keeps its last share on record.
            share: record
                .canary_percent
                .filter(|_| record.state == DeploymentState::Active)
                .map_or_else(String::new, |it| format!("{it} %")),
            channels: plain(&record.channels.join(", ")),
            evidence: text(record.eval_run_id.as_ref().map(|it| it.as_str())),
            approval: text(record.approval_gate_id.as_deref()),
            replaced_by: text(record.rollback_pointer.as_deref()),
            actions: TransitionKind::ALL.iter().filter_map(action).collect(),
        }
    }
}

impl HistoryRow {
    fn of(record: TransitionRecord) -> Self {
        let approvals = record.approvals.iter().map(|answer| {
            let because = answer.reason.as_ref().map(|it| format!(": {it}"));
            let did = match answer.answer.as_str() {
                "override" => "overrode the gate",
                "reject" => "rejected",
                _ => "approved",
            };
            let because = because.unwrap_or_default();
            ApprovalRow {
                text: plain(&format!("{} {did}{because}", answer.principal)),
                is_override: answer.is_override(),
            }
        });
        let kind = TransitionKind::parse(&record.transition);
        Self {
            at: record.at.into(),
            principal: plain(&record.principal),
            transition: kind.map_or_else(|| plain(&record.transition), |it| verb(it).to_owned()),
            version: plain(&record.version),
            outcome: outcome(record.outcome),
            placements: plain(&record.placements.join(", ")),
            reason: plain(record.reason.as_deref().unwrap_or_default()),
            refusals: record.refusals.iter().map(|it| reason(it)).collect(),
            approvals: approvals.collect(),
            run: record.run_id.map_or_else(String::new, |it| it.to_string()),
        }
    }
}

/// `GET /console/deployments/{agentId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    parameters: PathParameters,
) -> Answer {
    let agent = AgentId::from(parameters.get("agentId"));
    let deployments = &api.deployments.deployments;
    let found = deployments.agent(visit.tenant(), &agent).await?;
    let history = match visit.may(Scope::AuditRead) {
        true => Some(history(&api, &visit, &agent).await?),
        false => None,
    };
    let versions = found.versions.iter().rev();
    html(&Page {
        chrome: visit.chrome(Section::Deployments),
        agent: plain(agent.as_str()),
        may_answer: visit.may(Scope::ApprovalsRespond),
        waiting: found.waiting.iter().map(Waiting::of).collect(),
        channels: found.channels.iter().map(ChannelRow::of).collect(),
        versions: versions.map(|it| VersionRow::of(&visit, it)).collect(),
        history,
    })
}

async fn history(api: &ConsoleApi, visit: &Visit, agent: &AgentId) -> Result<History, Problem> {
    let wanted = |entry: &_| concerns(agent, entry);
    let audit = &api.health.audit;
    let found = audit.search(visit.tenant(), None, HISTORY, wanted).await?;
    let is_cut = found.next.is_some();
    let entries: Vec<_> = found.entries.into_iter().map(|it| it.entry).collect();
    let records = transitions(agent, &entries).into_iter();
    Ok(History {
        rows: records.map(HistoryRow::of).collect(),
        is_cut,
        audit: format!(
            "/console/audit?action=deployment&resource={}%40",
            segment(agent.as_str())
        ),
    })
}
