//! The fold of a run's log: its status, its times, its eval facts.
//!
//! Every view of a run is computed from this state. The fold has no side effects: folding the same
//! log twice gives the same state, and folding a prefix gives the state at that event.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::rules::run::budget_extension;
use crate::rules::workflow::facts::FlowFacts;
use touchstone_agents::budget::watch::ReportedEvents;
use touchstone_agents::budget::{Dimension, Spending};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{
    DrainPolicy, EffectiveBudget, Event, EventDocument, ExtensionEvent, InterruptKind,
    RunCancelled, RunError, ToolStatus,
};
use touchstone_openwop::summary::SafetyFinding;

/// Status of a run (OpenWOP run-snapshot `status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Recorded, not yet started.
    #[default]
    Pending,
    Running,
    /// Paused until someone resumes it.
    Paused,
    /// Waiting for an approval.
    WaitingApproval,
    /// Waiting for an answer.
    WaitingInput,
    /// Waiting for an external event.
    WaitingExternal,
    Completed,
    /// Ended by an infrastructure error.
    Failed,
    /// Cancellation was requested.
    Cancelling,
    Cancelled,
}

impl RunStatus {
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

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFacts {
    /// 0.0..=1.0; 0 until scored.
    pub score: f64,
    pub passed: bool,
    /// Whether `eval.scored` is recorded. A scored task is never judged again.
    pub scored: bool,
    /// Sum of its `provider.usage`, including attempts that were cut off.
    pub cost: NanoUsd,
    /// All its tokens, including attempts that were cut off.
    pub tokens: u64,
    /// Whether cost or tokens are partly estimated by size, because the endpoint reported no usage.
    pub usage_estimated: bool,
    /// All its tool calls, including attempts that were cut off.
    pub tool_calls: u64,
    /// All its retries, including attempts that were cut off.
    pub all_retries: u64,
    /// Wall-clock time of the invocation.
    pub latency_ms: Option<u64>,
    /// Whether the output satisfies the return schema.
    pub schema_valid: Option<bool>,
    /// The infrastructure error that left the task unjudged.
    pub unjudged: Option<String>,
    /// The agent's own failure, as a label.
    pub failed: Option<String>,
    /// Tools called without a response in the suite.
    pub fixture_missing: Vec<String>,
    /// Calls that were refused because the tool is not on the allowlist.
    pub forbidden_tools: Vec<String>,
    /// Calls of tools with side effects, made or about to be made.
    pub effects: u32,
    /// Retried model calls.
    pub retries: u32,
    /// The run that judged the task, if it was not this one.
    pub reused_from: Option<RunId>,
    /// An invocation that started and did not end, because its process was killed.
    pub open_invocation: Option<String>,
    /// Whether the agent's invocation has ended, so that later model calls are the judge's (OpenWOP
    /// agent-evaluation, order of events).
    pub before_judge: bool,
    /// The judge's part of the cost.
    pub judge_cost: NanoUsd,
    /// Whether each criterion of its rubric is met, in the rubric's order.
    pub criteria: Vec<bool>,
    /// Findings of the safety detectors; `None` if the task has no recorded check.
    pub safety_findings: Option<Vec<SafetyFinding>>,
}

/// The facts of an eval run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvalFacts {
    /// Whether `eval.started` is recorded.
    pub started: bool,
    /// The verdict of `eval.completed`, if it is recorded.
    pub completed: Option<bool>,
    /// By task.
    pub tasks: HashMap<TaskId, TaskFacts>,
    /// Tasks with an `eval.scored`.
    pub scored_count: usize,
    /// Sum of all `provider.usage`.
    pub total_cost: NanoUsd,
    /// Sum of all tokens.
    pub total_tokens: u64,
    /// The judge's part of the cost.
    pub judge_cost: NanoUsd,
    /// The events of the run's kind with their times, in order. The kind folds them.
    pub extension: Vec<(ExtensionEvent, Timestamp)>,
    /// Number of unreadable events in the log, without those that only the run's kind can read.
    /// Their content is unknown, so a run that has any never passes.
    pub unreadable: u64,
}

impl EvalFacts {
    /// What this run itself has spent. The calls of reused tasks are charged to the run that made
    /// them.
    pub fn own_spending(&self) -> Spending {
        let own = self
            .tasks
            .values()
            .filter(|task| task.reused_from.is_none());
        own.fold(Spending::default(), |sum, task| Spending {
            tokens: sum.tokens.saturating_add(task.tokens),
            cost: sum.cost + task.cost,
            tool_calls: sum.tool_calls + task.tool_calls,
            retries: sum.retries + task.all_retries,
        })
    }

    /// The facts of a task, if it has been scored.
    pub fn scored(&self, task: &TaskId) -> Option<&TaskFacts> {
        self.tasks.get(task).filter(|facts| facts.scored)
    }
}

/// The state of a run, computed from its log.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Extensions of the budget.
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
        let event = document.event().map_err(unreadable)?;
        self.sequence = document.sequence;
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
        match document.event() {
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

    /// How often a replay of `source` was found to diverge from it.
    pub fn divergences(&self, source: &RunId) -> u64 {
        let of_source = |run: &&RunId| *run == source;
        self.diverged_from.iter().filter(of_source).count() as u64
    }

    /// Folds an event when it is recorded, with the same result as `apply` when it is read back.
    pub fn record(&mut self, sequence: u64, event: &Event, node: Option<&TaskId>, at: Timestamp) {
        self.sequence = sequence;
        self.fold(event, node, at);
    }

    fn fold(&mut self, event: &Event, node: Option<&TaskId>, at: Timestamp) {
        self.last_at = Some(at);
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
            Event::ReplayDiverged(diverged) => {
                self.diverged_from.push(diverged.source_run_id.clone());
            }
            Event::RunPaused(paused) => {
                self.paused_at = Some(at);
                if paused.drain_policy == DrainPolicy::Immediate {
                    self.flow.abandon();
                }
                self.stand();
            }
            Event::RunResumed(_) => {
                self.paused_at = None;
                self.stand();
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
                self.stand();
            }
            Event::BudgetReserved(_) => self.budget_reserved += 1,
            Event::BudgetConsumed(consumed) => {
                if let Some(dimension) = Dimension::parse(&consumed.dimension) {
                    let said = &mut self.budget_said;
                    said.consumed.insert(dimension, consumed.consumed);
                }
            }
            Event::BudgetThresholdCrossed(crossed) => {
                let dimension = Dimension::parse(&crossed.dimension);
                self.budget_said.crossed.extend(dimension);
            }
            Event::BudgetExhausted(exhausted) => {
                let dimension = Dimension::parse(&exhausted.dimension);
                self.budget_said.exhausted.extend(dimension);
            }
            Event::AgentToolCalled(_) => {
                if let Some(task) = self.task(node) {
                    task.tool_calls += 1;
                }
            }
            Event::EffectIntended(_) => {
                if let Some(task) = self.task(node) {
                    task.effects += 1;
                }
            }
            Event::Extension(event) => self.eval.extension.push((event.clone(), at)),
            Event::EvalStarted(_) => self.eval.started = true,
            Event::EvalCompleted(completed) => self.eval.completed = Some(completed.passed),
            Event::EvalScored(scored) => {
                let task = self.eval.tasks.entry(scored.task_id.clone()).or_default();
                if !task.scored {
                    self.eval.scored_count += 1;
                }
                task.scored = true;
                task.score = scored.score;
                task.passed = scored.passed;
                task.latency_ms = scored.latency_ms;
                task.schema_valid = scored.schema_valid;
            }
            Event::ProviderUsage(usage) => {
                // Endpoints may report any number; the fold must not overflow.
                let (input, output) = self.tokens;
                self.tokens = (
                    input.saturating_add(usage.input_tokens),
                    output.saturating_add(usage.output_tokens),
                );
                let judging = self.task(node).is_some_and(|task| task.before_judge);
                if !judging
                    && self.model.as_ref().is_none_or(|(provider, model)| {
                        *provider != usage.provider || *model != usage.model
                    })
                {
                    self.model = Some((usage.provider.clone(), usage.model.clone()));
                }
                self.eval.total_cost = self.eval.total_cost + usage.cost_estimate_usd;
                let total = self.eval.total_tokens;
                self.eval.total_tokens = total.saturating_add(usage.total_tokens);
                if let Some(task) = self.task(node) {
                    task.cost = task.cost + usage.cost_estimate_usd;
                    task.tokens = task.tokens.saturating_add(usage.total_tokens);
                    if judging {
                        task.judge_cost = task.judge_cost + usage.cost_estimate_usd;
                    }
                }
                if judging {
                    self.eval.judge_cost = self.eval.judge_cost + usage.cost_estimate_usd;
                }
            }
            Event::UsageEstimated(_) => {
                if let Some(task) = self.task(node) {
                    task.usage_estimated = true;
                }
            }
            Event::AgentInvocationStarted(started) => {
                if !started.is_of_worker()
                    && let Some(task) = self.task(node)
                {
                    task.open_invocation = Some(started.invocation_id.clone());
                    // Facts of an attempt that was cut off do not count for the judged attempt,
                    // except its cost.
                    task.fixture_missing.clear();
                    task.forbidden_tools.clear();
                    task.effects = 0;
                    task.retries = 0;
                    task.unjudged = None;
                    task.failed = None;
                    task.safety_findings = None;
                    task.before_judge = false;
                }
            }
            Event::AgentInvocationCompleted(completed) => {
                // A worker's invocation lies within the agent's invocation, which is still open.
                let ends = |open: &String| *open == completed.invocation_id;
                if let Some(task) = self.task(node)
                    && task.open_invocation.as_ref().is_none_or(ends)
                {
                    task.open_invocation = None;
                    task.before_judge = true;
                }
            }
            Event::AgentToolReturned(returned) => {
                if returned.status == ToolStatus::Forbidden
                    && let Some(task) = self.task(node)
                {
                    task.forbidden_tools.push(returned.tool_name.clone());
                }
            }
            Event::ModelRetried(_) => {
                if let Some(task) = self.task(node) {
                    task.retries += 1;
                    task.all_retries += 1;
                }
            }
            Event::FixtureMissing(missing) => {
                if let Some(task) = self.task(node) {
                    task.fixture_missing.push(missing.tool.clone());
                }
            }
            Event::TaskFailed(failed) => {
                self.eval
                    .tasks
                    .entry(failed.task_id.clone())
                    .or_default()
                    .failed = Some(failed.reason.clone());
            }
            Event::TaskUnjudged(unjudged) => {
                self.eval
                    .tasks
                    .entry(unjudged.task_id.clone())
                    .or_default()
                    .unjudged = Some(unjudged.reason.clone());
            }
            Event::TaskJudged(judged) => {
                self.eval
                    .tasks
                    .entry(judged.task_id.clone())
                    .or_default()
                    .criteria
                    .clone_from(&judged.met);
            }
            Event::TaskSafety(safety) => {
                let task = self.eval.tasks.entry(safety.task_id.clone()).or_default();
                task.safety_findings = Some(safety.findings.clone());
            }
            Event::TaskReused(reused) => {
                self.eval
                    .tasks
                    .entry(reused.task_id.clone())
                    .or_default()
                    .reused_from = Some(reused.source_run_id.clone());
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
            | Event::RunOrchestratorDecided(_)
            | Event::AgentDecided(_) => {}
        }
    }

    /// Derives the status of a run that has started and not ended.
    fn stand(&mut self) {
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

    fn task(&mut self, node: Option<&TaskId>) -> Option<&mut TaskFacts> {
        let node = node?;
        if !self.eval.tasks.contains_key(node) {
            self.eval.tasks.insert(node.clone(), TaskFacts::default());
        }
        self.eval.tasks.get_mut(node)
    }

    fn end(&mut self, status: RunStatus, at: Timestamp) {
        self.status = status;
        self.completed_at = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_openwop::events::ProviderUsage;

    #[test]
    fn an_endpoint_that_claims_absurd_numbers_breaks_no_sum() {
        let usage = Event::ProviderUsage(ProviderUsage {
            provider: "openai".to_owned(),
            model: "probe".to_owned(),
            input_tokens: u64::MAX,
            output_tokens: u64::MAX,
            total_tokens: u64::MAX,
            cost_estimate_usd: NanoUsd(u64::MAX),
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
}
