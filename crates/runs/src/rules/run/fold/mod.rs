//! The fold of a run's log: its status, its times, its eval facts.
//!
//! Every view of a run is computed from this state. The fold has no side effects: folding the same
//! log twice gives the same state, and folding a prefix gives the state at that event.

mod facts;
mod names;
#[cfg(test)]
mod reference;
mod row;
pub mod stored;
mod table;

pub use facts::{Cost, EvalFacts, TaskFacts};
pub(crate) use row::{read_number, write_number};
pub use table::{TaskTable, Totals};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rules::run::budget_extension;
use crate::rules::workflow::facts::FlowFacts;
use touchstone_agents::budget::Dimension;
use touchstone_agents::budget::watch::ReportedEvents;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::events::{
    DrainPolicy, EffectiveBudget, Event, EventDocument, InterruptKind, ProviderUsage, RunCancelled,
    RunError, ToolStatus,
};

/// Status of a run (OpenWOP run-snapshot `status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Recorded, not yet started.
    #[default]
    Pending,
    Running,
    /// Paused until someone resumes it.
    Paused,
    WaitingApproval,
    WaitingInput,
    WaitingExternal,
    Completed,
    /// Ended by an infrastructure error.
    Failed,
    /// Cancellation was requested.
    Cancelling,
    Cancelled,
}

impl RunStatus {
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::WaitingExternal,
        Self::Completed,
        Self::Failed,
        Self::Cancelling,
        Self::Cancelled,
    ];

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingApproval => "waiting-approval",
            Self::WaitingInput => "waiting-input",
            Self::WaitingExternal => "waiting-external",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The state of a run, computed from its log. A change of its members, or of what they are for the
/// same log, needs another [`stored::FORMAT`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub status: RunStatus,
    /// Sequence of the last event folded.
    pub sequence: u64,
    /// Time of the last event folded.
    pub last_at: Option<Timestamp>,
    /// Time of `run.started`.
    pub started_at: Option<Timestamp>,
    /// Time of the terminal event.
    pub completed_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<RunError>,
    /// Who cancelled it, and why.
    pub cancelled: Option<RunCancelled>,
    /// How often `budget.reserved` is recorded: at the start, and after each extension.
    pub budget_reserved: usize,
    pub budget_extensions: Vec<EffectiveBudget>,
    /// The runs that this run, or a run it replays, was found to diverge from.
    pub diverged_from: Vec<RunId>,
    /// The recorded budget events.
    pub budget_said: ReportedEvents,
    pub eval: EvalFacts,
    /// The nodes of a workflow.
    pub flow: FlowFacts,
    /// When it was paused, if it is.
    pub paused_at: Option<Timestamp>,
    /// Input and output tokens.
    pub tokens: (u64, u64),
    /// Provider and model of the last answer.
    pub model: Option<(String, String)>,
}

/// The log has content that this host never writes.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    #[error("event {0} of the log cannot be read")]
    Unreadable(u64, #[source] serde_json::Error),
    /// A gap, a repetition or a wrong order.
    #[error("event {found} follows event {after} in the log")]
    OutOfOrder { after: u64, found: u64 },
}

impl RunState {
    /// Folds one stored document.
    ///
    /// # Errors
    /// [`FoldError`] when the document is unreadable or out of order; the state is then unchanged.
    pub fn apply(&mut self, body: &[u8]) -> Result<(), FoldError> {
        let unreadable = |source| FoldError::Unreadable(self.sequence + 1, source);
        let document = EventDocument::read(body).map_err(unreadable)?;
        if document.sequence != self.sequence + 1 {
            return Err(FoldError::OutOfOrder {
                after: self.sequence,
                found: document.sequence,
            });
        }
        let event = document.event_without_outputs().map_err(unreadable)?;
        self.sequence = document.sequence;
        self.extend_span(document.node_id.as_ref());
        if let Some(event) = &event {
            self.fold(event, document.node_id.as_ref(), document.timestamp);
        }
        Ok(())
    }

    /// Folds the event stored at `sequence`. An unreadable event is counted and skipped; only its
    /// own content is lost. Events missing between the last folded event and this one are counted
    /// in the same way.
    pub fn apply_stored(&mut self, sequence: u64, body: &[u8]) {
        if sequence <= self.sequence {
            return;
        }
        let missing = sequence - self.sequence - 1;
        self.eval.unreadable = self.eval.unreadable.saturating_add(missing);
        self.sequence = sequence;
        let read = EventDocument::read(body).ok();
        let Some(document) = read.filter(|document| document.sequence == sequence) else {
            self.eval.unreadable = self.eval.unreadable.saturating_add(1);
            return;
        };
        self.extend_span(document.node_id.as_ref());
        match document.event_without_outputs() {
            Ok(Some(event)) => self.fold(&event, document.node_id.as_ref(), document.timestamp),
            Ok(None) => {}
            Err(_) => {
                self.eval.unreadable = self.eval.unreadable.saturating_add(1);
                // The type alone shows that the run has ended, even if the payload is unreadable.
                let status = match document.kind.as_ref() {
                    "run.completed" => RunStatus::Completed,
                    "run.failed" => RunStatus::Failed,
                    "run.cancelled" => RunStatus::Cancelled,
                    _ => return,
                };
                self.last_at = Some(document.timestamp);
                self.end(status, document.timestamp);
            }
        }
    }

    /// Estimated bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.eval.bytes() + self.flow.bytes()
    }

    /// How often a replay of `source` was found to diverge from it.
    pub fn divergences(&self, source: &RunId) -> u64 {
        let of_source = |run: &&RunId| *run == source;
        self.diverged_from.iter().filter(of_source).count() as u64
    }

    /// Folds an event when it is recorded, with the same result as `apply` when it is read back.
    pub fn record(&mut self, sequence: u64, event: &Event, node: Option<&TaskId>, at: Timestamp) {
        self.sequence = sequence;
        self.extend_span(node);
        self.fold(event, node, at);
    }

    /// The last event belongs to this node.
    fn extend_span(&mut self, node: Option<&TaskId>) {
        if let Some(node) = node {
            self.eval.tasks.extend_span(node, self.sequence);
        }
    }

    /// The part of the log with all events of these tasks; `None` if any event may belong to them,
    /// because one cannot be read.
    pub fn span_of<'a>(&self, tasks: impl Iterator<Item = &'a TaskId>) -> Option<(u64, u64)> {
        if self.eval.unreadable > 0 {
            return None;
        }
        self.eval.tasks.span_of(tasks)
    }

    fn fold(&mut self, event: &Event, node: Option<&TaskId>, at: Timestamp) {
        self.last_at = Some(at);
        match event {
            Event::RunStarted(_)
            | Event::RunCompleted(_)
            | Event::RunFailed(_)
            | Event::RunCancelled(_)
            | Event::RunPaused(_)
            | Event::RunResumed(_) => self.fold_lifecycle(event, at),
            Event::ReplayDiverged(diverged) => {
                self.diverged_from.push(diverged.source_run_id.clone());
            }
            Event::NodeStarted(_)
            | Event::NodeCompleted(_)
            | Event::NodeFailed(_)
            | Event::NodeSuspended(_)
            | Event::NodeResumed(_)
            | Event::InterruptRequested(_)
            | Event::InterruptResolved(_)
            | Event::ApprovalGranted(_)
            | Event::MessageChunk(_) => {
                if let Event::InterruptResolved(resolved) = event {
                    self.budget_extensions
                        .extend(budget_extension::added(resolved));
                }
                self.flow.fold(event, at);
                self.update_status();
            }
            Event::BudgetReserved(_)
            | Event::BudgetConsumed(_)
            | Event::BudgetThresholdCrossed(_)
            | Event::BudgetExhausted(_) => self.fold_budget(event),
            Event::ProviderUsage(usage) => self.add_usage(usage, node),
            Event::Extension(event) => self.eval.extension.push((event.clone(), at)),
            Event::EvalStarted(_)
            | Event::EvalCompleted(_)
            | Event::EvalScored(_)
            | Event::TaskFailed(_)
            | Event::TaskUnjudged(_)
            | Event::TaskJudged(_)
            | Event::TaskMeasured(_)
            | Event::AssertionsDecided(_)
            | Event::TaskSafety(_)
            | Event::TaskReused(_) => self.eval.fold(event),
            Event::AgentInvocationStarted(started) if started.is_of_worker() => {}
            Event::AgentToolReturned(returned) if returned.status != ToolStatus::Forbidden => {}
            Event::AgentInvocationStarted(_)
            | Event::AgentInvocationCompleted(_)
            | Event::AgentToolCalled(_)
            | Event::AgentToolReturned(_)
            | Event::EffectIntended(_)
            | Event::FixtureMissing(_)
            | Event::ModelRetried(_)
            | Event::UsageEstimated(_)
            | Event::AnswerCached(_)
            | Event::TurnAnswered(_)
            | Event::UserOpens(_)
            | Event::UserSaid(_)
            | Event::UserStopped(_) => {
                if let Some(node) = node {
                    self.eval.tasks.update(node, |task| task.fold(event));
                }
            }
            Event::ApprovalRequested(_)
            | Event::ApprovalReceived(_)
            | Event::ApprovalRejected(_)
            | Event::ApprovalOverridden(_)
            | Event::ClarificationRequested(_)
            | Event::ClarificationResolved(_)
            | Event::AuthorizationDecided(_)
            | Event::CapBreached(_)
            | Event::DeploymentPromoted(_)
            | Event::DeploymentRolledBack(_)
            | Event::DeploymentCanaryAdjusted(_)
            | Event::DeploymentStateChanged(_)
            | Event::AgentReasoned(_)
            | Event::AgentHandoff(_)
            | Event::JudgeReasoned(_)
            | Event::ReplyRejected(_)
            | Event::AssertionsReasoned(_)
            | Event::RunOrchestratorDecided(_)
            | Event::TaskAttached(_)
            | Event::AgentDecided(_) => {}
        }
    }

    fn fold_lifecycle(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::RunStarted(_) => {
                self.status = RunStatus::Running;
                self.started_at = Some(at);
            }
            Event::RunCompleted(_) => self.end(RunStatus::Completed, at),
            Event::RunFailed(failed) => {
                self.error = Some(failed.error.clone());
                self.end(RunStatus::Failed, at);
            }
            Event::RunCancelled(cancelled) => {
                self.cancelled = Some(cancelled.clone());
                self.end(RunStatus::Cancelled, at);
            }
            Event::RunPaused(paused) => {
                self.paused_at = Some(at);
                if paused.drain_policy == DrainPolicy::Immediate {
                    self.flow.abandon();
                }
                self.update_status();
            }
            Event::RunResumed(_) => {
                self.paused_at = None;
                self.update_status();
            }
            _ => {}
        }
    }

    fn fold_budget(&mut self, event: &Event) {
        let recorded = &mut self.budget_said;
        match event {
            Event::BudgetReserved(_) => self.budget_reserved += 1,
            Event::BudgetConsumed(consumed) => {
                if let Some(dimension) = Dimension::parse(&consumed.dimension) {
                    recorded.consumed.insert(dimension, consumed.consumed);
                }
            }
            Event::BudgetThresholdCrossed(crossed) => {
                recorded
                    .crossed
                    .extend(Dimension::parse(&crossed.dimension));
            }
            Event::BudgetExhausted(exhausted) => {
                recorded
                    .exhausted
                    .extend(Dimension::parse(&exhausted.dimension));
            }
            _ => {}
        }
    }

    /// Adds the usage of a model call. Endpoints may report any number; no sum may overflow.
    fn add_usage(&mut self, usage: &ProviderUsage, node: Option<&TaskId>) {
        let (input, output) = self.tokens;
        self.tokens = (
            input.saturating_add(usage.input_tokens),
            output.saturating_add(usage.output_tokens),
        );
        let cost = usage.cost_estimate_usd;
        let eval = &mut self.eval;
        eval.total_cost.count(cost);
        eval.total_tokens = eval.total_tokens.saturating_add(usage.total_tokens);
        let add_to_task = |task: &mut TaskFacts| {
            let of_judge = task.before_judge;
            let of_user = task.before_user && !of_judge;
            task.answers += 1;
            task.cost.count(cost);
            task.tokens = task.tokens.saturating_add(usage.total_tokens);
            if of_judge {
                task.judge_cost.count(cost);
            } else if of_user {
                task.user_cost.count(cost);
            } else {
                task.attempt_cost.count(cost);
                task.attempt_tokens = task.attempt_tokens.saturating_add(usage.total_tokens);
            }
            (of_judge, of_user)
        };
        let (of_judge, of_user) = match node {
            Some(node) => eval.tasks.update(node, add_to_task),
            None => (false, false),
        };
        if of_judge {
            self.eval.judge_cost.count(cost);
        } else if of_user {
            self.eval.user_cost.count(cost);
        } else if self
            .model
            .as_ref()
            .is_none_or(|(provider, model)| *provider != usage.provider || *model != usage.model)
        {
            self.model = Some((usage.provider.clone(), usage.model.clone()));
        }
    }

    /// Derives the status of a run that has started and not ended.
    fn update_status(&mut self) {
        if self.status.is_terminal() {
            return;
        }
        self.status = match (self.paused_at, self.flow.waits_for()) {
            (Some(_), _) => RunStatus::Paused,
            (None, None) => RunStatus::Running,
            (None, Some(InterruptKind::Approval)) => RunStatus::WaitingApproval,
            (None, Some(InterruptKind::ExternalEvent)) => RunStatus::WaitingExternal,
            (None, Some(InterruptKind::Clarification | InterruptKind::Custom)) => {
                RunStatus::WaitingInput
            }
        };
    }

    fn end(&mut self, status: RunStatus, at: Timestamp) {
        self.status = status;
        self.completed_at = Some(at);
        self.eval.tasks.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_kit::money::NanoUsd;

    #[test]
    fn huge_reported_usage_does_not_overflow_the_totals() {
        let usage = Event::ProviderUsage(ProviderUsage {
            provider: "openai".to_owned(),
            model: "probe".to_owned(),
            input_tokens: u64::MAX,
            output_tokens: u64::MAX,
            total_tokens: u64::MAX,
            cost_estimate_usd: Some(NanoUsd(u64::MAX)),
            currency: "USD".to_owned(),
            cache_read_tokens: None,
            node_id: None,
        });
        let mut state = RunState::default();
        for (n, task) in [(1, "a"), (2, "a"), (3, "b")] {
            state.record(n, &usage, Some(&task.into()), Timestamp::UNIX_EPOCH);
        }
        let spent = state.eval.own_spending();
        assert_eq!((spent.tokens, spent.cost), (u64::MAX, NanoUsd(u64::MAX)));
        assert_eq!(state.eval.total_tokens, u64::MAX);
        assert_eq!(state.tokens, (u64::MAX, u64::MAX));
    }

    #[test]
    fn the_span_of_tasks_covers_all_their_events() {
        let usage = Event::ProviderUsage(ProviderUsage {
            provider: "openai".to_owned(),
            model: "probe".to_owned(),
            input_tokens: 1,
            output_tokens: 1,
            total_tokens: 2,
            cost_estimate_usd: None,
            currency: "USD".to_owned(),
            cache_read_tokens: None,
            node_id: None,
        });
        let mut state = RunState::default();
        for (n, task) in [(2, "a"), (3, "b"), (5, "a"), (7, "c")] {
            state.record(n, &usage, Some(&task.into()), Timestamp::UNIX_EPOCH);
        }
        let span = |state: &RunState, ids: &[&str]| {
            let ids: Vec<TaskId> = ids.iter().map(|id| TaskId::from(*id)).collect();
            state.span_of(ids.iter())
        };
        assert_eq!(span(&state, &["a"]), Some((2, 5)));
        assert_eq!(span(&state, &["b", "c", "unknown"]), Some((3, 7)));
        assert_eq!(span(&state, &["unknown"]), None);
        state.eval.unreadable = 1;
        assert_eq!(
            span(&state, &["a"]),
            None,
            "an unreadable event may belong to it"
        );
    }

    #[test]
    fn a_sum_with_an_unknown_cost_is_unknown() {
        let usage = |cost: Option<u64>| {
            Event::ProviderUsage(ProviderUsage {
                provider: "probe".to_owned(),
                model: "probe".to_owned(),
                input_tokens: 1,
                output_tokens: 1,
                total_tokens: 2,
                cost_estimate_usd: cost.map(NanoUsd),
                currency: "USD".to_owned(),
                cache_read_tokens: None,
                node_id: None,
            })
        };
        let mut state = RunState::default();
        for (n, cost, task) in [(1, Some(3), "a"), (2, Some(0), "a"), (3, None, "b")] {
            state.record(n, &usage(cost), Some(&task.into()), Timestamp::UNIX_EPOCH);
        }
        let cost = |task: &str| state.eval.tasks.get(&task.into()).unwrap().cost.known();
        assert_eq!((cost("a"), cost("b")), (Some(NanoUsd(3)), None));
        assert_eq!(state.eval.total_cost.known(), None);
        assert_eq!(state.eval.own_spending().cost, NanoUsd(3));
    }
}
