//! Size limits of an event. They apply to new events only; stored events are always readable.

use super::data::DelegationDecision;
use super::read::{Data, Event, MAX_NAME};
use super::values::Node;

/// Maximum number of entries in all lists of an event together.
const MAX_ENTRIES: usize = 500;
/// Maximum size of the stored data of an event, in bytes.
const MAX_OCTETS: usize = 16 * 1024;

/// The stored part of an event: ids, counts and scores. Members that are not scored may contain
/// content (AAAF S15) and are dropped.
///
/// # Errors
/// The member that exceeds a limit.
pub fn stored_document(event: &Event) -> Result<String, String> {
    if event.id.as_deref() == Some("") {
        return Err("id".to_owned());
    }
    if event.task_id.is_empty() {
        return Err("data.task_id".to_owned());
    }
    let mut extent = Extent::default();
    extent.of(&event.data);
    if let Some(member) = extent.exceeded {
        return Err(format!("data.{member}"));
    }
    let document = event.document();
    let data = document.get("data").map(ToString::to_string);
    data.filter(|data| data.len() <= MAX_OCTETS)
        .ok_or_else(|| "data".to_owned())
}

/// Counts list entries before the data is built, because a short document can expand to a large
/// one.
#[derive(Default)]
struct Extent {
    entries: usize,
    /// The first member that exceeds the limit.
    exceeded: Option<&'static str>,
}

impl Extent {
    fn of(&mut self, data: &Data) {
        match data {
            Data::TaskAssigned(it) => {
                self.name("domain", [&it.domain]);
                self.name("task_group", it.task_group.iter());
            }
            Data::TaskCompleted(it) => {
                self.name("domain", it.domain.iter());
                self.name("task_group", it.task_group.iter());
                self.list("errors", it.errors.len());
                self.list("tools_used", it.tools_used.len());
                self.name("tools_used", it.tools_used.iter().map(|it| &it.tool));
                let checks = it.review_checklist.iter().flatten();
                self.list("review_checklist", checks.clone().count());
                self.name("review_checklist", checks.map(|(name, _)| name));
                self.list("delegation_decisions", it.delegation_decisions.len());
                for decision in &it.delegation_decisions {
                    self.decision(decision);
                }
            }
            Data::DelegationDecision(it) => self.decision(it),
            Data::DelegationOutcome(it) => self.name("delegate_agent_id", [&it.delegate_agent_id]),
            Data::OrchestrationPlan(it) => {
                self.nodes("agents_involved", &it.agents_involved);
                self.list("dependency_graph", it.dependency_graph.len());
                self.name("dependency_graph", it.dependency_graph.keys());
                for nodes in it.dependency_graph.values() {
                    self.nodes("dependency_graph", nodes);
                }
                self.list("parallel_groups", it.parallel_groups.len());
                for nodes in &it.parallel_groups {
                    self.nodes("parallel_groups", nodes);
                }
            }
            Data::ToolInvoked(it) => self.name("tool", [&it.tool]),
            Data::TaskRevised(_) | Data::OrchestrationResult(_) => {}
        }
    }

    fn decision(&mut self, it: &DelegationDecision) {
        self.name("task_fragment", [&it.task_fragment]);
        self.name("delegate_to", it.delegate_to.iter());
        self.name("domain", it.domain.iter());
        let delegates = it.optimal_delegates.iter().flatten();
        self.list("optimal_delegates", delegates.clone().count());
        self.name("optimal_delegates", delegates);
    }

    fn nodes(&mut self, member: &'static str, nodes: &[Node]) {
        self.list(member, nodes.len());
        self.name(member, nodes.iter().map(|it| &it.0));
    }

    fn list(&mut self, member: &'static str, entries: usize) {
        self.entries = self.entries.saturating_add(entries);
        self.require(member, self.entries <= MAX_ENTRIES);
    }

    fn name<'a>(&mut self, member: &'static str, names: impl IntoIterator<Item = &'a String>) {
        let long = |name: &String| name.chars().nth(MAX_NAME).is_some();
        let fit = !names.into_iter().any(long);
        self.require(member, fit);
    }

    fn require(&mut self, member: &'static str, holds: bool) {
        if !holds {
            self.exceeded.get_or_insert(member);
        }
    }
}
