//! The facts of an eval run and of its tasks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::table::TaskTable;
use touchstone_agents::budget::Spending;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{AssertionDecision, Event, ExtensionEvent, JudgeVote};
use touchstone_openwop::summary::SafetyFinding;

/// A sum of costs. It is unknown if the cost of any call is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Cost {
    /// The sum of the known ones.
    pub at_least: NanoUsd,
    /// Number of calls whose cost is unknown.
    pub unknown: u64,
}

impl Cost {
    pub(super) fn count(&mut self, cost: Option<NanoUsd>) {
        match cost {
            Some(cost) => self.at_least = self.at_least + cost,
            None => self.unknown = self.unknown.saturating_add(1),
        }
    }

    /// The whole sum, if it is known.
    pub fn known(self) -> Option<NanoUsd> {
        (self.unknown == 0).then_some(self.at_least)
    }
}

/// In nano-dollars, because a number of US dollars is not exact for large sums.
impl From<(u64, u64)> for Cost {
    fn from((at_least, unknown): (u64, u64)) -> Self {
        Self {
            at_least: NanoUsd(at_least),
            unknown,
        }
    }
}

impl From<Cost> for (u64, u64) {
    fn from(cost: Cost) -> Self {
        (cost.at_least.0, cost.unknown)
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            at_least: self.at_least + other.at_least,
            unknown: self.unknown.saturating_add(other.unknown),
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
    pub cost: Cost,
    /// All its tokens, including attempts that were cut off.
    pub tokens: u64,
    /// Cost and tokens of the attempt that counts, without the judge's.
    pub attempt_cost: Cost,
    pub attempt_tokens: u64,
    /// Whether cost or tokens are partly estimated by size, because the endpoint reported no usage.
    pub usage_estimated: bool,
    /// All model answers, including those of attempts that were cut off and of the judge.
    pub answers: u64,
    /// Those that came from the cache of model answers.
    pub cached_answers: u64,
    /// Those of the agent's own model.
    pub cached_of_agent: u64,
    /// What those would have cost.
    pub cost_saved: Cost,
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
    pub judge_cost: Cost,
    /// Whether the agent has answered, or has yet to be addressed, and the user is next, so that
    /// model calls are those of the simulated user.
    pub before_user: bool,
    /// The simulated user's part of the cost.
    pub user_cost: Cost,
    /// Whether each of its assertions holds, in the order of the scoring document.
    pub assertions: Vec<bool>,
    /// Number of assertions that do not count.
    pub assertions_left_out: u32,
    /// The values of the named metrics of its assertions, 0.0..=1.0.
    pub metrics: BTreeMap<String, f64>,
    /// What judges, models or commands said about its assertions.
    pub decisions: Vec<AssertionDecision>,
    /// Whether each criterion of its rubric is met, in the rubric's order.
    pub criteria: Vec<bool>,
    /// The decisions of each of several judges about them.
    pub votes: Vec<JudgeVote>,
    /// Findings of the safety detectors; `None` if the task has no recorded check.
    pub safety_findings: Option<Vec<SafetyFinding>>,
}

impl TaskFacts {
    /// What the task cost. `None` if no call of an unjudged task is recorded: calls that were cut off
    /// may have cost something.
    pub fn known_cost(&self) -> Option<NanoUsd> {
        let is_judged = self.scored && self.unjudged.is_none();
        let known = self.cost.known();
        known.filter(|cost| is_judged || *cost > NanoUsd::ZERO)
    }

    /// Folds an event of the agent's invocation.
    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            Event::AgentInvocationStarted(started) => {
                self.open_invocation = Some(started.invocation_id.clone());
                // Facts of an attempt that was cut off do not count for the judged attempt, except
                // its cost.
                self.fixture_missing.clear();
                self.forbidden_tools.clear();
                self.effects = 0;
                self.retries = 0;
                self.unjudged = None;
                self.failed = None;
                self.decisions.clear();
                self.safety_findings = None;
                self.attempt_cost = Cost::default();
                self.attempt_tokens = 0;
                self.before_judge = false;
                self.before_user = false;
            }
            Event::TurnAnswered(_) | Event::UserOpens(_) => self.before_user = true,
            Event::UserSaid(_) | Event::UserStopped(_) => self.before_user = false,
            Event::AgentInvocationCompleted(completed) => {
                // A worker's invocation lies within the agent's invocation, which is still open.
                let ends = |open: &String| *open == completed.invocation_id;
                if self.open_invocation.as_ref().is_none_or(ends) {
                    self.open_invocation = None;
                    self.before_judge = true;
                }
            }
            Event::AgentToolCalled(_) => self.tool_calls += 1,
            Event::AgentToolReturned(returned) => {
                self.forbidden_tools.push(returned.tool_name.clone());
            }
            Event::EffectIntended(_) => self.effects += 1,
            Event::FixtureMissing(missing) => self.fixture_missing.push(missing.tool.clone()),
            Event::ModelRetried(_) => {
                self.retries += 1;
                self.all_retries += 1;
            }
            Event::UsageEstimated(_) => self.usage_estimated = true,
            Event::AnswerCached(cached) => {
                self.cached_answers += 1;
                self.cached_of_agent += u64::from(!self.before_judge && !self.before_user);
                self.cost_saved.count(cached.cost_saved_usd);
            }
            _ => {}
        }
    }
}

/// The facts of an eval run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvalFacts {
    /// Whether `eval.started` is recorded.
    pub started: bool,
    /// The verdict of `eval.completed`, if it is recorded.
    pub completed: Option<bool>,
    /// By task, with the spans of tasks and nodes. Stored in parts of its own.
    #[serde(skip)]
    pub tasks: TaskTable,
    /// Tasks with an `eval.scored`.
    pub scored_count: usize,
    /// Sum of all `provider.usage`.
    pub total_cost: Cost,
    /// Sum of all tokens.
    pub total_tokens: u64,
    /// The judge's part of the cost.
    pub judge_cost: Cost,
    /// The simulated users' part of the cost.
    pub user_cost: Cost,
    /// The events of the run's kind with their times, in order. The kind folds them.
    pub extension: Vec<(ExtensionEvent, Timestamp)>,
    /// Number of unreadable events in the log, without those that only the run's kind can read.
    /// Their content is unknown, so a run that has any never passes.
    pub unreadable: u64,
}

impl EvalFacts {
    /// What the run cost. A sum of 0 is known only if the cost of every task is.
    pub fn known_cost(&self) -> Option<NanoUsd> {
        let are_known = || self.scored_count > 0 && self.tasks.costs_are_known();
        let known = self.total_cost.known();
        known.filter(|cost| *cost > NanoUsd::ZERO || are_known())
    }

    /// What this run itself has spent. The calls of reused tasks are charged to the run that made
    /// them.
    pub fn own_spending(&self) -> Spending {
        self.tasks.own_spending()
    }

    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            Event::EvalStarted(_) => self.started = true,
            Event::EvalCompleted(completed) => self.completed = Some(completed.passed),
            Event::EvalScored(scored) => {
                let first = self.tasks.update(&scored.task_id, |task| {
                    task.score = scored.score;
                    task.passed = scored.passed;
                    // Earlier versions recorded a latency of 0 for invocations that did not end.
                    let is_unjudged = task.unjudged.is_some();
                    task.latency_ms = scored.latency_ms.filter(|ms| *ms > 0 || !is_unjudged);
                    task.schema_valid = scored.schema_valid;
                    !std::mem::replace(&mut task.scored, true)
                });
                self.scored_count += usize::from(first);
            }
            Event::TaskFailed(failed) => self.tasks.update(&failed.task_id, |task| {
                task.failed = Some(failed.reason.clone());
            }),
            Event::TaskUnjudged(unjudged) => self.tasks.update(&unjudged.task_id, |task| {
                task.unjudged = Some(unjudged.reason.clone());
            }),
            Event::TaskJudged(judged) => self.tasks.update(&judged.task_id, |task| {
                task.criteria.clone_from(&judged.met);
                task.votes.clone_from(&judged.votes);
            }),
            Event::TaskMeasured(measured) => self.tasks.update(&measured.task_id, |task| {
                task.assertions.clone_from(&measured.assertions);
                task.assertions_left_out = measured.left_out;
                task.metrics.clone_from(&measured.metrics);
            }),
            Event::AssertionsDecided(decided) => self.tasks.update(&decided.task_id, |task| {
                task.decisions.clone_from(&decided.decisions);
            }),
            Event::TaskSafety(safety) => self.tasks.update(&safety.task_id, |task| {
                task.safety_findings = Some(safety.findings.clone());
            }),
            Event::TaskReused(reused) => self.tasks.update(&reused.task_id, |task| {
                task.reused_from = Some(reused.source_run_id.clone());
            }),
            _ => {}
        }
    }

    /// Estimated bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let extension = self.extension.iter().map(|(event, _)| {
            size_of::<(ExtensionEvent, Timestamp)>() + event.payload().get().len()
        });
        self.tasks.bytes() + extension.sum::<usize>()
    }

    /// The facts of a task, if it has been scored.
    pub fn scored(&self, task: &TaskId) -> Option<Cow<'_, TaskFacts>> {
        self.scored_task(task.as_str())
    }

    /// As [`scored`](Self::scored), by the text of the id.
    pub fn scored_task(&self, id: &str) -> Option<Cow<'_, TaskFacts>> {
        self.tasks.find(id).filter(|facts| facts.scored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::run::fold::RunState;
    use touchstone_openwop::events::{EvalScored, TaskUnjudged};

    /// The log of a call that was cut off has no usage.
    #[test]
    fn a_task_that_was_cut_off_has_no_cost_of_0_and_no_latency_of_0() {
        let scored = |task: &str| {
            Event::EvalScored(EvalScored {
                task_id: task.into(),
                score: 0.0,
                passed: false,
                cost_usd: Some(NanoUsd::ZERO),
                latency_ms: Some(0),
                schema_valid: None,
                safety_finding_count: None,
            })
        };
        let mut state = RunState::default();
        assert_eq!(state.eval.known_cost(), None);
        let record = |state: &mut RunState, event: Event, task: &str| {
            let n = state.sequence + 1;
            state.record(n, &event, Some(&task.into()), Timestamp::UNIX_EPOCH);
        };
        record(&mut state, scored("judged"), "judged");
        assert_eq!(state.eval.known_cost(), Some(NanoUsd::ZERO));
        let unjudged = TaskUnjudged {
            task_id: "cut-off".into(),
            reason: "timeout".to_owned(),
        };
        record(&mut state, Event::TaskUnjudged(unjudged), "cut-off");
        record(&mut state, scored("cut-off"), "cut-off");
        let numbers = |task: &str| {
            let facts = state.eval.tasks.get(&task.into()).unwrap();
            (facts.known_cost(), facts.latency_ms)
        };
        assert_eq!(numbers("judged"), (Some(NanoUsd::ZERO), Some(0)));
        assert_eq!(numbers("cut-off"), (None, None));
        assert_eq!(state.eval.known_cost(), None);
    }
}
