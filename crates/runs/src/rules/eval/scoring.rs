//! Scores from recorded facts (RFC 0081 §C, §D): aggregate, percentile, thresholds, summary.

use std::borrow::Cow;

use super::assertions::Expectation;
use super::matching::matches;
use super::rubric;
use super::safety::findings;
use super::tally::Tally;
use crate::rules::kind::{KindOutcome, Kinds};
use crate::rules::run::fold::{EvalFacts, TaskFacts};
use crate::rules::run::record::EvalSpec;
use serde_json::Value;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::{Task, Thresholds};
use touchstone_openwop::summary::{EvalSummary, Regression, TaskSummary};

/// Nearest-rank 95th percentile: the smallest value that at least 95 % of all values do not exceed.
/// `None` without values.
pub fn p95(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    p95_of_sorted(&values)
}

pub(super) fn p95_of_sorted(values: &[u64]) -> Option<u64> {
    let rank = (values.len() * 95).div_ceil(100);
    values.get(rank.saturating_sub(1)).copied()
}

/// One reason why a run does not pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Shortfall {
    /// Aggregate below `passScore`.
    Score { aggregate: f64, pass_score: f64 },
    /// Cost above `maxCostUsd`.
    Cost { total: NanoUsd, max: NanoUsd },
    /// There is a maximum cost, and the cost is unknown.
    UnknownCost { max: NanoUsd },
    /// p95 latency above `maxP95LatencyMs`.
    Latency { p95_ms: u64, max_ms: u64 },
    /// Unreadable events in the run's log.
    Unreadable { count: u64 },
    /// Tasks left unjudged by infrastructure errors.
    Unjudged { count: usize },
    /// Tasks that were never started.
    Incomplete { missing: usize },
    /// A reason of the run's kind, as a message.
    Kind(String),
}

impl std::fmt::Display for Shortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Score {
                aggregate,
                pass_score,
            } => {
                write!(
                    f,
                    "the score {aggregate:.3} is below the pass score {pass_score:.3}"
                )
            }
            Self::Cost { total, max } => {
                write!(
                    f,
                    "cost {:.6} USD is above the maximum of {:.6} USD",
                    total.usd(),
                    max.usd()
                )
            }
            Self::UnknownCost { max } => write!(
                f,
                "the cost is unknown, and the maximum is {:.6} USD",
                max.usd()
            ),
            Self::Latency { p95_ms, max_ms } => {
                write!(
                    f,
                    "p95 latency {p95_ms} ms is above the maximum of {max_ms} ms"
                )
            }
            Self::Unreadable { count: 1 } => f.write_str("1 event of the log cannot be read"),
            Self::Unreadable { count } => write!(f, "{count} events of the log cannot be read"),
            Self::Unjudged { count } => write!(f, "{} could not be judged", tasks(*count)),
            Self::Incomplete { missing: 1 } => f.write_str("1 task was not reached"),
            Self::Incomplete { missing } => write!(f, "{missing} tasks were not reached"),
            Self::Kind(reason) => f.write_str(reason),
        }
    }
}

/// A number of tasks, with the right plural.
pub fn tasks(count: usize) -> String {
    match count {
        1 => "1 task".to_owned(),
        n => format!("{n} tasks"),
    }
}

/// The default `passScore`: every task must score 1.
pub const DEFAULT_PASS_SCORE: f64 = 1.0;

/// Tolerance for floating-point errors in sums of scores: a score this close to the pass score has
/// reached it.
pub const EPSILON: f64 = 1e-9;

/// Every reason why the run does not pass; empty means `passed: true`. `outcome` is the result of
/// the run's kind.
pub(super) fn shortfalls(
    spec: &EvalSpec,
    thresholds: &Thresholds,
    facts: &EvalFacts,
    outcome: Option<&KindOutcome>,
    tally: &Tally,
) -> Vec<Shortfall> {
    let mut found = match outcome {
        Some(outcome) => outcome.shortfalls.clone(),
        None => score_shortfalls(spec, thresholds, tally),
    };
    let count = unreadable(facts, outcome);
    if count > 0 {
        found.insert(0, Shortfall::Unreadable { count });
    }
    if let Some(max) = thresholds.max_cost_usd.and_then(NanoUsd::from_usd) {
        let total = facts.total_cost.at_least;
        if total > max {
            found.push(Shortfall::Cost { total, max });
        } else if facts.total_cost.known().is_none() {
            found.push(Shortfall::UnknownCost { max });
        }
    }
    if let Some(max_ms) = thresholds.max_p95_latency_ms
        && let Some(p95_ms) = tally.p95_latency_ms()
        && p95_ms > max_ms
    {
        found.push(Shortfall::Latency { p95_ms, max_ms });
    }
    found
}

/// Number of unreadable events in the log.
pub(super) fn unreadable(facts: &EvalFacts, outcome: Option<&KindOutcome>) -> u64 {
    let of_kind = outcome.map_or(0, |outcome| outcome.unreadable);
    facts.unreadable.saturating_add(of_kind)
}

fn score_shortfalls(spec: &EvalSpec, thresholds: &Thresholds, tally: &Tally) -> Vec<Shortfall> {
    let mut found = Vec::new();
    // Reasons for a missing verdict come first.
    let count = tally.outcomes.unjudged;
    if count > 0 {
        found.push(Shortfall::Unjudged { count });
    }
    let missing = spec.tasks.len().saturating_sub(tally.scored());
    if missing > 0 {
        found.push(Shortfall::Incomplete { missing });
    }
    let aggregate = tally.score.value();
    let pass_score = thresholds.pass_score.unwrap_or(DEFAULT_PASS_SCORE);
    // If nothing was judged, there is no score that could be too low.
    let has_score = found.is_empty() || tally.outcomes.judged() > 0;
    if has_score && aggregate + EPSILON < pass_score {
        found.push(Shortfall::Score {
            aggregate,
            pass_score,
        });
    }
    found
}

/// The label of a task whose answer is too large for its assertions.
pub const TOO_LARGE: &str = "answer_too_large";

/// How an answer meets the suite's own expectation of a task. `met` has the judge's decisions about
/// its rubric.
pub fn expectation(
    task: &Task,
    answer: &Value,
    ignore: &[String],
    met: &[bool],
    thresholds: &Thresholds,
) -> Expectation {
    let Some(criteria) = rubric::rubric(task) else {
        let expected = task.expected.matching.as_ref();
        let passed = expected.is_some_and(|expected| matches(expected, answer, ignore));
        let score = if passed { 1.0 } else { 0.0 };
        return Expectation { score, passed };
    };
    let score = rubric::score(criteria, met);
    Expectation {
        score,
        passed: rubric::passes(score, thresholds),
    }
}

/// The numbers of a scored task.
pub fn task_summary(id: &TaskId, facts: &TaskFacts) -> TaskSummary {
    TaskSummary {
        task_id: id.clone(),
        score: facts.score,
        passed: facts.passed,
        cost_usd: facts.known_cost(),
        latency_ms: facts.latency_ms,
        schema_valid: facts.schema_valid,
        safety_findings: findings(facts),
    }
}

/// The scored tasks of a run, in suite order.
pub(super) fn scored_tasks<'a>(
    spec: &'a EvalSpec,
    facts: &'a EvalFacts,
) -> impl Iterator<Item = (TaskId, Cow<'a, TaskFacts>)> {
    let tasks = spec.tasks.iter();
    tasks.filter_map(|id| {
        let facts = facts.scored(&id)?;
        Some((id, facts))
    })
}

/// The numbers of the scored tasks of a run, in suite order.
pub fn task_summaries(spec: &EvalSpec, facts: &EvalFacts) -> Vec<TaskSummary> {
    let tasks = scored_tasks(spec, facts);
    tasks.map(|(id, task)| task_summary(&id, &task)).collect()
}

/// The summary of the tasks scored so far in `run`, in suite order.
pub fn summary(
    kinds: Kinds,
    run: &RunId,
    spec: &EvalSpec,
    thresholds: &Thresholds,
    facts: &EvalFacts,
) -> EvalSummary {
    let tasks = task_summaries(spec, facts);
    summary_of(kinds, run, spec, thresholds, facts, tasks)
}

/// Maximum number of tasks in the outputs of `run.completed`. Every reader of the log and every
/// webhook holds an event as a whole.
pub const TASKS_IN_OUTPUTS: usize = 10_000;

/// The outputs of a run that has ended: its summary, without the list of tasks if there are more
/// than [`TASKS_IN_OUTPUTS`].
pub fn outputs(
    kinds: Kinds,
    run: &RunId,
    spec: &EvalSpec,
    thresholds: &Thresholds,
    facts: &EvalFacts,
) -> EvalSummary {
    let tasks = match facts.scored_count <= TASKS_IN_OUTPUTS {
        true => task_summaries(spec, facts),
        false => Vec::new(),
    };
    summary_of(kinds, run, spec, thresholds, facts, tasks)
}

/// As [`summary()`], with the counts and the score of all tasks, and these tasks.
pub fn summary_of<T>(
    kinds: Kinds,
    run: &RunId,
    spec: &EvalSpec,
    thresholds: &Thresholds,
    facts: &EvalFacts,
    tasks: T,
) -> EvalSummary<T> {
    summary_from(
        kinds,
        run,
        spec,
        thresholds,
        facts,
        &Tally::of(spec, facts),
        tasks,
    )
}

/// As [`summary_of`], from the sums over the tasks. `facts` needs none of their facts.
pub fn summary_from<T>(
    kinds: Kinds,
    run: &RunId,
    spec: &EvalSpec,
    thresholds: &Thresholds,
    facts: &EvalFacts,
    tally: &Tally,
    tasks: T,
) -> EvalSummary<T> {
    let kind = kinds.of(spec);
    let outcome = kind.map(|kind| kind.outcome(spec, thresholds, facts));
    let missing = shortfalls(spec, thresholds, facts, outcome.as_ref(), tally);
    let score = outcome.map_or_else(|| tally.score.value(), |it| it.aggregate_score);
    let totals = SummaryTotals {
        aggregate_score: score,
        passed: missing.is_empty(),
        tally,
    };
    summary_with(run, spec, facts, totals, tasks)
}

/// The numbers of a summary that all tasks have in common.
pub(super) struct SummaryTotals<'a> {
    pub aggregate_score: f64,
    pub passed: bool,
    pub tally: &'a Tally,
}

pub(super) fn summary_with<T>(
    run: &RunId,
    spec: &EvalSpec,
    facts: &EvalFacts,
    totals: SummaryTotals<'_>,
    tasks: T,
) -> EvalSummary<T> {
    let SummaryTotals {
        aggregate_score,
        passed,
        tally,
    } = totals;
    EvalSummary {
        suite_id: spec.suite_id.clone(),
        suite_version: spec.suite_version.clone(),
        evaluated_model_class: Some(spec.model_class),
        aggregate_score,
        passed,
        task_count: tally.scored(),
        passed_count: tally.passed,
        total_cost_usd: facts.known_cost(),
        tasks,
        regression: spec.baseline.as_ref().map(|baseline| Regression {
            baseline_run_id: baseline.run_id.clone(),
            score_delta: aggregate_score - baseline.aggregate_score,
            diff_ref: Some(format!("/v1/runs/{run}:diff?against={}", baseline.run_id)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(vec![], None)]
    #[case(vec![7], Some(7))]
    #[case((1..=20).collect(), Some(19))]
    #[case((1..=21).collect(), Some(20))]
    #[case((1..=100).collect(), Some(95))]
    fn p95_is_nearest_rank(#[case] values: Vec<u64>, #[case] expected: Option<u64>) {
        assert_eq!(p95(values), expected);
    }

    proptest! {
        #[test]
        fn p95_is_one_of_the_values(values in prop::collection::vec(0_u64..10_000, 1..200)) {
            let p = p95(values.clone());
            prop_assert!(p.is_some_and(|p| values.contains(&p)));
            let below = values.iter().filter(|&&v| Some(v) <= p).count();
            prop_assert!(below * 100 >= values.len() * 95);
        }
    }
}
