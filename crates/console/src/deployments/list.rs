//! Every agent with its channels.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::deployments::agent_page;
use crate::deployments::words::{Badge, state};
use crate::page::answer::{html, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::text::count;
use crate::page::visit::Visit;
use touchstone_deployments::rules::ChannelTraffic;
use touchstone_deployments::service::deployments::overview::AgentOverview;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_kit::ids::AgentId;
use touchstone_openwop::deployment::DeploymentState;

#[derive(Template)]
#[template(path = "deployments/list.html")]
struct Page {
    chrome: Chrome,
    may_answer: bool,
    waiting: usize,
    rows: Vec<Row>,
    total: String,
    is_first: bool,
    next: Option<String>,
}

/// Agents of a page.
const AGENTS: usize = 50;

struct Row {
    href: String,
    agent: String,
    channels: Vec<ChannelRow>,
    states: Vec<(usize, Badge)>,
    waiting: usize,
}

/// The versions that share a channel.
pub struct ChannelRow {
    pub name: String,
    pub shares: Vec<Share>,
}

pub struct Share {
    pub version: String,
    pub percent: u8,
}

impl ChannelRow {
    pub fn of(traffic: &ChannelTraffic) -> Self {
        let share = |(version, percent): &(_, u8)| Share {
            version: plain(&ToString::to_string(version)),
            percent: *percent,
        };
        Self {
            name: plain(traffic.channel.as_str()),
            shares: traffic.shares.iter().map(share).collect(),
        }
    }
}

impl Row {
    fn of(agent: &AgentOverview) -> Self {
        let count = |wanted: &DeploymentState| {
            let all = agent.versions.iter();
            let found = all.filter(|it| it.state == *wanted).count();
            (found > 0).then(|| (found, state(*wanted)))
        };
        Self {
            href: agent_page(agent.agent_id.as_str()),
            agent: plain(agent.agent_id.as_str()),
            channels: agent.channels.iter().map(ChannelRow::of).collect(),
            states: DeploymentState::ALL.iter().filter_map(count).collect(),
            waiting: agent.waiting.len(),
        }
    }
}

/// `GET /console/deployments`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let deployments = &api.deployments.deployments;
    let after = query.filled().get("after").map(AgentId::from);
    let found = deployments.overview(visit.tenant(), after.as_ref(), AGENTS);
    let found = found.await?;
    let agents = &found.agents;
    let next = found.next.as_ref();
    html(&Page {
        chrome: visit.chrome(Section::Deployments),
        may_answer: visit.may(Scope::ApprovalsRespond),
        waiting: agents.iter().map(|agent| agent.waiting.len()).sum(),
        rows: agents.iter().map(Row::of).collect(),
        total: count(found.total),
        is_first: after.is_none(),
        next: next.map(|it| format!("/console/deployments?after={}", segment(it.as_str()))),
    })
}
