//! The deployments of agents beside their scores.

use crate::api::ConsoleApi;
use crate::compare::chart::Mark;
use crate::page::answer::segment;
use crate::page::text::Time;
use crate::page::visit::Visit;
use touchstone_deployments::service::history::{TransitionRecord, concerns, transitions};
use touchstone_host::access::Scope;
use touchstone_host::audit::Outcome;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::AgentId;
use touchstone_openwop::deployment::TransitionKind;

/// Entries of the audit log that are read.
const ENTRIES: usize = 200;
/// Deployments that are shown, the newest.
const MOST: usize = 20;

/// The deployments of the agents.
pub struct Releases {
    /// Whether the person may read the audit log, which has them.
    pub may_read: bool,
    pub rows: Vec<Row>,
    /// Whether there are older ones.
    pub is_cut: bool,
}

pub struct Row {
    pub number: usize,
    pub at: Time,
    pub change: &'static str,
    pub agent: String,
    pub placements: String,
    pub principal: String,
    pub reason: String,
    pub href: String,
    mark: jiff::Timestamp,
}

impl Releases {
    /// The newest promotions and rollbacks that were made, oldest first.
    pub async fn of(api: &ConsoleApi, visit: &Visit, agents: &[String]) -> Result<Self, Problem> {
        let may_read = visit.may(Scope::AuditRead);
        let (mut rows, mut is_cut) = (Vec::new(), false);
        if may_read && !agents.is_empty() {
            let agents: Vec<AgentId> = agents.iter().map(|it| AgentId::from(it.as_str())).collect();
            let wanted = |entry: &_| agents.iter().any(|agent| concerns(agent, entry));
            let audit = &api.health.audit;
            let found = audit.search(visit.tenant(), None, ENTRIES, wanted).await?;
            is_cut = found.next.is_some();
            let entries: Vec<_> = found.entries.into_iter().map(|it| it.entry).collect();
            for agent in &agents {
                let records = transitions(agent, &entries).into_iter();
                rows.extend(records.filter_map(|record| Row::of(agent, &record)));
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.mark));
        is_cut |= rows.len() > MOST;
        rows.truncate(MOST);
        rows.reverse();
        for (number, row) in rows.iter_mut().enumerate() {
            row.number = number + 1;
        }
        Ok(Self {
            may_read,
            rows,
            is_cut,
        })
    }

    pub fn marks(&self) -> Vec<Mark> {
        let mark = |row: &Row| Mark {
            at: row.mark,
            number: row.number,
            title: format!("{}: {} {}", row.at.shown, row.change, row.agent),
        };
        self.rows.iter().map(mark).collect()
    }
}

impl Row {
    /// `None` for a transition that was not made, or that changes no version that serves.
    fn of(agent: &AgentId, record: &TransitionRecord) -> Option<Self> {
        let change = match TransitionKind::parse(&record.transition)? {
            TransitionKind::Promote => "Promoted",
            TransitionKind::Rollback => "Rolled back",
            _ => return None,
        };
        (record.outcome == Outcome::Done).then(|| Self {
            number: 0,
            at: record.at.into(),
            change,
            agent: plain(&format!("{agent}@{}", record.version)),
            placements: plain(&record.placements.join(", ")),
            principal: plain(&record.principal),
            reason: plain(record.reason.as_deref().unwrap_or_default()),
            href: format!("/console/deployments/{}", segment(agent.as_str())),
            mark: record.at,
        })
    }
}
