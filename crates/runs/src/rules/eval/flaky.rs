//! Flaky tasks: those that both pass and fail although the suite, the agent version and the model
//! are the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::attempts::Attempt;
use crate::rules::run::listing::{AgentVersion, SuiteVersion};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::statistics::wilson;

/// Maximum number of runs that are compared.
pub const MAX_RUNS: usize = 20;
const CONFIDENCE: f64 = 0.95;

/// The flaky tasks of a suite.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlakyTasks {
    /// The suite of the runs; absent without runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<SuiteVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The compared runs, oldest first.
    pub runs: Vec<ComparedAttempt>,
    /// Number of tasks that at least two of the runs judged.
    pub measured_count: usize,
    /// The tasks that passed in some runs and failed in others, those that changed most often
    /// first.
    pub tasks: Vec<FlakyTask>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedAttempt {
    pub run_id: RunId,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlakyTask {
    pub task_id: TaskId,
    /// Number of runs in which it passed.
    pub passed_count: usize,
    /// Number of runs that judged it.
    pub run_count: usize,
    /// How often the outcome differs from that of the run before.
    pub flips: usize,
    /// 0.0..=1.0.
    pub pass_rate: f64,
    /// Wilson's 95 % interval of the pass rate.
    pub pass_rate_low: f64,
    pub pass_rate_high: f64,
    /// The runs that judged it, oldest first.
    pub outcomes: Vec<RunOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOutcome {
    pub run_id: RunId,
    pub passed: bool,
}

/// The flaky tasks of attempts in their order, oldest first, and the number of tasks that at least
/// two attempts judged.
pub fn flaky(attempts: &[Attempt]) -> (usize, Vec<FlakyTask>) {
    let mut outcomes: BTreeMap<TaskId, Vec<RunOutcome>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|it| it.voided.is_none()) {
        for task in attempt.tasks.iter() {
            outcomes.entry(task.task_id).or_default().push(RunOutcome {
                run_id: attempt.run_id.clone(),
                passed: task.passed,
            });
        }
    }
    outcomes.retain(|_, outcomes| outcomes.len() > 1);
    let measured = outcomes.len();
    let tasks = outcomes.into_iter();
    let mut tasks: Vec<FlakyTask> = tasks.filter_map(|(id, found)| task(id, found)).collect();
    // The order of ids stays for equal tasks.
    tasks.sort_by(|a, b| {
        let even = |task: &FlakyTask| (task.pass_rate - 0.5).abs();
        b.flips.cmp(&a.flips).then(even(a).total_cmp(&even(b)))
    });
    (measured, tasks)
}

/// `None` if all outcomes are the same.
fn task(id: TaskId, outcomes: Vec<RunOutcome>) -> Option<FlakyTask> {
    let (runs, passed) = (
        outcomes.len(),
        outcomes.iter().filter(|it| it.passed).count(),
    );
    let pairs = outcomes.iter().zip(outcomes.iter().skip(1));
    let flips = pairs.filter(|(a, b)| a.passed != b.passed).count();
    let rate = wilson(passed, runs, CONFIDENCE).filter(|_| flips > 0)?;
    Some(FlakyTask {
        task_id: id,
        passed_count: passed,
        run_count: runs,
        flips,
        pass_rate: rate.rate,
        pass_rate_low: rate.interval.low.max(0.0),
        pass_rate_high: rate.interval.high.min(1.0),
        outcomes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::eval::attempts::{AttemptedTask, Voided};

    /// Attempts that judge these tasks; `-` leaves a task out.
    fn attempts(tasks: &[(&str, &str)]) -> Vec<Attempt> {
        let runs = tasks.iter().map(|(_, outcomes)| outcomes.len()).max();
        let judged = |run: usize| {
            let tasks = tasks.iter().filter_map(move |(id, outcomes)| {
                let passed = match outcomes.as_bytes().get(run)? {
                    b'+' => true,
                    b'x' => false,
                    _ => return None,
                };
                Some(AttemptedTask {
                    task_id: (*id).into(),
                    score: f64::from(u8::from(passed)),
                    passed,
                    critical: Vec::new(),
                })
            });
            tasks.collect()
        };
        let attempt = |run: usize| Attempt {
            run_id: format!("run_{run}").as_str().into(),
            status: "completed".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            trial: None,
            retry_of: None,
            tasks: std::sync::Arc::new(judged(run)),
            voided: None,
        };
        (0..runs.unwrap_or_default()).map(attempt).collect()
    }

    #[test]
    fn a_task_is_flaky_if_its_outcome_changes() {
        let found = attempts(&[
            ("always", "++++"),
            ("never", "xxxx"),
            ("once", "+---"),
            ("turned", "xx++"),
            ("shaky", "+x+x"),
        ]);
        let (measured, tasks) = flaky(&found);
        assert_eq!(measured, 4);
        let seen: Vec<_> = tasks
            .iter()
            .map(|it| (it.task_id.as_str(), it.passed_count, it.run_count, it.flips))
            .collect();
        assert_eq!(seen, [("shaky", 2, 4, 3), ("turned", 2, 4, 1)]);
        for task in &tasks {
            assert!(task.pass_rate_low < task.pass_rate && task.pass_rate < task.pass_rate_high);
        }
    }

    #[test]
    fn a_run_that_did_not_judge_a_task_is_not_between_its_outcomes() {
        let (_, tasks) = flaky(&attempts(&[("gaps", "+-x-+")]));
        let [task] = tasks.as_slice() else {
            panic!("{tasks:?}");
        };
        assert_eq!((task.run_count, task.flips), (3, 2));
        let runs: Vec<&str> = task.outcomes.iter().map(|it| it.run_id.as_str()).collect();
        assert_eq!(runs, ["run_0", "run_2", "run_4"]);
    }

    #[test]
    fn void_runs_do_not_count() {
        let mut found = attempts(&[("task", "+x")]);
        found[1].voided = Some(Voided {
            at: Timestamp::UNIX_EPOCH,
            principal: "key_1".to_owned(),
            reason: "wrong endpoint".to_owned(),
        });
        assert_eq!(flaky(&found), (0, Vec::new()));
        assert_eq!(flaky(&[]), (0, Vec::new()));
    }

    #[test]
    fn equal_tasks_keep_the_order_of_their_ids_and_even_ones_come_first() {
        let (_, tasks) = flaky(&attempts(&[("c", "+++x"), ("b", "++xx"), ("a", "+++x")]));
        let ids: Vec<&str> = tasks.iter().map(|it| it.task_id.as_str()).collect();
        assert_eq!(ids, ["b", "a", "c"]);
    }
}
