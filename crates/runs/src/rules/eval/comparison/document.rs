//! The document that a comparison returns.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::ids::{AgentId, RunId, TaskId};
use touchstone_kit::statistics::RegressionVerdict;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedRun {
    /// The named run.
    pub run_id: RunId,
    /// All trials of its experiment, in order, including the run.
    pub run_ids: Vec<RunId>,
    /// Number of missing trials of the experiment.
    pub missing_trials: usize,
    pub suite_id: String,
    pub suite_version: String,
    /// `sha256-<base64>` of its canonical document.
    pub suite_digest: String,
    pub agent_id: AgentId,
    /// The version of its pack.
    pub agent_version: String,
    /// The model that answered.
    pub model: String,
    /// The provider of the model.
    pub provider: String,
}

/// A difference between the two runs, other than their results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What differs.
    pub what: String,
    pub baseline: Value,
    /// The candidate's value; `null` where it has none.
    pub candidate: Value,
}

/// Why a task is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExclusionReason {
    /// It was not judged in both runs.
    Unjudged,
    OnlyBaseline,
    OnlyCandidate,
    /// Both suites have a task of this name, with different content.
    TaskChanged,
    /// The judge or its rubrics differ: scores of different judges are not comparable.
    JudgeChanged,
    /// The simulated user differs: answers to different users are not comparable.
    UserChanged,
}

/// A task that is excluded from the comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedTask {
    pub task_id: TaskId,
    pub reason: ExclusionReason,
}

/// Change of a mean over the compared tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeanChange {
    /// Number of tasks that have a value in both runs.
    pub n_tasks: usize,
    /// The baseline's mean.
    pub baseline: f64,
    /// The candidate's mean.
    pub candidate: f64,
    /// Candidate minus baseline.
    pub difference: f64,
    /// Lower limit of the paired difference, at 95 %; `null` for a single task, and for costs or
    /// latencies that all changed alike.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
}

/// How a task changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Passed before (in most trials), and does not now.
    Broke,
    /// A lower score, with the same outcome.
    Worse,
    /// Did not pass before, and does now.
    Fixed,
    /// A higher score, with the same outcome.
    Better,
}

/// Results of a task in one of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// Whether it passed in most trials.
    pub passes: bool,
    /// The mean score, 0.0..=1.0.
    pub score: f64,
    /// Number of judged trials.
    pub trials: usize,
    /// Number of passed trials.
    pub passed_trials: usize,
    /// Why it failed, as a label, from the first trial that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Mean cost, in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Mean latency, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

/// A task whose results changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskChange {
    pub task_id: TaskId,
    pub turn: ChangeKind,
    pub baseline: TaskResult,
    pub candidate: TaskResult,
}

/// A compared task with the same outcome and score in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct UnchangedTask {
    pub task_id: TaskId,
    pub passes: bool,
    pub score: f64,
}

/// Unchanged tasks in the order of the suite: 16 bytes each. Their ids are those of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnchangedTasks {
    ids: TaskIds,
    rows: Vec<UnchangedRow>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct UnchangedRow {
    place: u32,
    passes: bool,
    score: f64,
}

impl UnchangedTasks {
    /// Of these places of the suite `ids`, each whether it passes, and its score.
    pub fn of(ids: &TaskIds, tasks: impl Iterator<Item = (u32, bool, f64)>) -> Self {
        let mut rows = Vec::with_capacity(ids.len());
        rows.extend(tasks.map(|(place, passes, score)| UnchangedRow {
            place,
            passes,
            score,
        }));
        rows.shrink_to_fit();
        Self {
            ids: ids.clone(),
            rows,
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = UnchangedTask> {
        self.rows.iter().map(|row| UnchangedTask {
            task_id: self.ids.text(row.place as usize).into(),
            passes: row.passes,
            score: row.score,
        })
    }

    /// Their ids.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let places = self.rows.iter().map(|row| row.place as usize);
        places.map(|place| self.ids.text(place))
    }

    /// Estimated size in memory without the ids, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<UnchangedRow>()
    }
}

/// Whether the candidate is worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// The verdict of the interval.
    pub verdict: RegressionVerdict,
    /// The permitted decrease of the score.
    pub margin: f64,
    /// Confidence level of the two-sided interval, so that each side errs in 5 %.
    pub confidence: f64,
    /// Lower limit of the difference that was compared with the margin.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
}

/// The comparison of two runs. Contains no task content. `C` and `L` are the lists of the changed tasks
/// and of those that are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunComparison<C = Vec<TaskChange>, L = Vec<ExcludedTask>> {
    pub baseline: ComparedRun,
    pub candidate: ComparedRun,
    /// Other differences between the runs.
    pub differences: Vec<Difference>,
    /// Notes for readers of the numbers.
    pub notes: Vec<String>,
    /// Number of compared tasks.
    pub n_tasks: usize,
    pub left_out: L,
    /// The score; `null` if no task was compared.
    pub score: Option<MeanChange>,
    /// Cost per task, in USD.
    pub cost_usd: Option<MeanChange>,
    /// Latency per task, in milliseconds.
    pub latency_ms: Option<MeanChange>,
    /// The confidence level of these intervals.
    pub confidence: f64,
    /// Number of tasks that failed before and pass now.
    pub fixed: u64,
    /// Number of tasks that passed before and fail now.
    pub broke: u64,
    /// McNemar's exact test of these two numbers, two-sided; `null` with several trials per task.
    pub mcnemar_p: Option<f64>,
    pub regression: Regression,
    /// Changed tasks: broken ones first, each kind in the order of the suite.
    pub changes: C,
    /// The other compared tasks, in the order of the suite. Their answers can differ.
    #[serde(skip)]
    pub unchanged: UnchangedTasks,
    /// Path of the comparison of the two logs; empty if the host has only one of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff_ref: String,
}

/// The runs have no task in common.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the runs have no task in common: `{baseline}` and `{candidate}`; compare runs of the same \
     suite"
)]
pub struct NothingInCommon {
    pub(super) baseline: String,
    pub(super) candidate: String,
}

pub(super) fn is_whole(missing: usize, left_out: &[ExcludedTask]) -> bool {
    missing == 0
        && left_out
            .iter()
            .all(|task| task.reason != ExclusionReason::Unjudged)
}
