//! Compares a run with a log of Inspect, task by task.
//!
//! The log is foreign: its scores come from Inspect's scorer, and nothing in it is evidence for a
//! gate. Samples and tasks are matched by the id that an import of the log gives each sample.

mod scores;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

pub use self::scores::{LogFault, LogSample, ScoredLog, read};
use super::change::{change_kind, flips_note, score_change};
use super::document::{
    ChangeKind, ComparedRun, ExcludedTask, ExclusionReason, MeanChange, Regression, RunComparison,
    TaskChange, TaskResult, UnchangedTasks, is_whole,
};
use super::short::ShortComparison;
use crate::rules::eval::report::RunTotals;
use crate::rules::eval::statistics::{
    CONFIDENCE, ListedRun, Pairs, REGRESSION_CONFIDENCE, TrialsByTask, by_task, difference,
};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::statistics::RegressionVerdict;

/// Facts about a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogFacts {
    /// The name of Inspect's task.
    pub task: String,
    pub model: String,
    /// When the evaluation began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The scorer whose scores are compared.
    pub scorer: String,
    /// The largest number of epochs of a sample.
    pub epochs: usize,
    /// Number of different samples.
    pub samples: usize,
}

/// The comparison of a run with a log. Contains no task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogComparison {
    pub baseline: LogFacts,
    pub candidate: ComparedRun,
    pub notes: Vec<String>,
    /// Number of compared tasks.
    pub n_tasks: usize,
    pub left_out: Vec<ExcludedTask>,
    /// The score; `null` if no task was compared.
    pub score: Option<MeanChange>,
    /// The confidence level of its interval.
    pub confidence: f64,
    pub fixed: u64,
    pub broke: u64,
    pub mcnemar_p: Option<f64>,
    pub regression: Regression,
    /// Changed tasks: broken ones first, each kind in the order of the run.
    pub changes: Vec<TaskChange>,
}

/// The run and the log have no task in common.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log and the run have no task in common: the log has {log}, the run {run}; import the log \
     with `suite import`, and evaluate that suite"
)]
pub struct NoCommonTask {
    log: String,
    run: String,
}

/// Compares a run, which must have ended, with a log.
///
/// # Errors
/// [`NoCommonTask`].
pub fn compare_with_log(log: &ScoredLog, run: &ListedRun) -> Result<LogComparison, NoCommonTask> {
    let samples = log.samples.iter();
    let scored = samples.filter(|sample| !sample.scores.is_empty());
    let before = TrialsByTask::of_scores(
        &scored
            .map(|sample| (&sample.task_id, sample.scores.as_slice()))
            .collect(),
    );
    let results = &run.run.results;
    let now = by_task(&[results]);
    let left_out = left_out(log, run, &before, &now);
    let left: HashSet<&str> = left_out.iter().map(|task| task.task_id.as_str()).collect();
    let in_run = run.order.texts();
    let only_run = |task: &&ExcludedTask| task.reason == ExclusionReason::OnlyCandidate;
    if left_out.iter().filter(only_run).count() == in_run.len() {
        let first = |id: Option<&str>| id.map_or_else(|| "none".to_owned(), |id| format!("`{id}`"));
        return Err(NoCommonTask {
            log: first(log.samples.first().map(|sample| sample.task_id.as_str())),
            run: first(in_run.clone().next()),
        });
    }
    let before = before.without(|task| left.contains(task));
    let now = now.without(|task| left.contains(task));
    // The id is only for results that name their baseline, and this one names a log.
    let tasks = Pairs::of(&before, &now);
    let tested = difference(&tasks, &RunId::from("log"));
    let changed = |task: &str| {
        let (was, is) = (before.get(task)?, now.get(task)?);
        let turn = change_kind(was, is)?;
        let task_id = TaskId::from(task);
        Some(TaskChange {
            turn,
            baseline: TaskResult::of(was, None),
            candidate: TaskResult::of(is, results.reason(&task_id)),
            task_id,
        })
    };
    let mut changes: Vec<TaskChange> = in_run.filter_map(changed).collect();
    changes.sort_by_key(|change| change.turn);
    let whole = is_whole(0, &left_out);
    let mut notes = notes(log, &left_out);
    notes.extend(flips_note(&tested));
    Ok(LogComparison {
        baseline: log.facts.clone(),
        candidate: compared_run(&run.run.report),
        notes,
        n_tasks: now.count(),
        score: score_change(&tasks),
        confidence: CONFIDENCE,
        fixed: tested.fixed,
        broke: tested.broken,
        mcnemar_p: tested.mcnemar_p,
        regression: Regression {
            verdict: match tested.verdict {
                // An unjudged task may be one that got worse.
                RegressionVerdict::NotWorse if !whole => RegressionVerdict::Inconclusive,
                verdict => verdict,
            },
            margin: tested.margin,
            confidence: REGRESSION_CONFIDENCE,
            low: tested.low,
            high: tested.high,
        },
        changes,
        left_out,
    })
}

fn compared_run(run: &RunTotals) -> ComparedRun {
    let evaluated = run.evaluated.as_ref();
    ComparedRun {
        run_id: run.run_id.clone(),
        run_ids: vec![run.run_id.clone()],
        missing_trials: 0,
        suite_id: run.suite.suite_id.clone(),
        suite_version: run.suite.version.clone(),
        suite_digest: run.suite.digest.clone(),
        agent_id: run.agent.agent_id.clone(),
        agent_version: run.agent.version.clone(),
        model: evaluated.map_or_else(String::new, |it| it.model.clone()),
        provider: evaluated.map_or_else(String::new, |it| it.provider.clone()),
    }
}

fn left_out(
    log: &ScoredLog,
    run: &ListedRun,
    before: &TrialsByTask,
    now: &TrialsByTask,
) -> Vec<ExcludedTask> {
    let had: HashSet<&str> = log.samples.iter().map(|it| it.task_id.as_str()).collect();
    let of_run = run.order.texts().filter_map(|id| {
        let reason = if !had.contains(id) {
            ExclusionReason::OnlyCandidate
        } else if !before.contains(id) || !now.contains(id) {
            ExclusionReason::Unjudged
        } else {
            return None;
        };
        Some((TaskId::from(id), reason))
    });
    let of_log = log
        .samples
        .iter()
        .map(|sample| &sample.task_id)
        .filter(|id| !run.run.results.contains(id))
        .map(|id| (id.clone(), ExclusionReason::OnlyBaseline));
    of_run
        .chain(of_log)
        .map(|(task_id, reason)| ExcludedTask { task_id, reason })
        .collect()
}

fn notes(log: &ScoredLog, left_out: &[ExcludedTask]) -> Vec<String> {
    let mut notes = vec![
        "the baseline is a log of Inspect: its scores come from Inspect's scorer, tasks are \
         matched by their ids, and their content is not compared"
            .to_owned(),
    ];
    if log.without_id > 0 {
        notes.push(format!(
            "{} without an id that a task can have were left out",
            match log.without_id {
                1 => "1 sample".to_owned(),
                n => format!("{n} samples"),
            }
        ));
    }
    let unjudged = left_out
        .iter()
        .filter(|task| task.reason == ExclusionReason::Unjudged);
    if unjudged.count() > 0 {
        notes.push(
            "tasks that are not judged in both were left out; an unjudged task may be one that \
             got worse"
                .to_owned(),
        );
    }
    notes
}

impl LogComparison {
    /// Whether at least one task was compared, and none was excluded because it was not judged.
    pub fn is_whole(&self) -> bool {
        self.n_tasks > 0 && is_whole(0, &self.left_out)
    }

    pub fn broken(&self) -> impl Iterator<Item = &TaskId> {
        let broken = |change: &&TaskChange| change.turn == ChangeKind::Broke;
        self.changes.iter().filter(broken).map(|it| &it.task_id)
    }

    /// The results in the form of a comparison of runs, for views that show only results.
    pub fn results(&self) -> ShortComparison {
        let whole = RunComparison {
            baseline: self.candidate.clone(),
            candidate: self.candidate.clone(),
            differences: Vec::new(),
            notes: self.notes.clone(),
            n_tasks: self.n_tasks,
            left_out: self.left_out.clone(),
            score: self.score,
            cost_usd: None,
            latency_ms: None,
            confidence: self.confidence,
            fixed: self.fixed,
            broke: self.broke,
            mcnemar_p: self.mcnemar_p,
            regression: self.regression,
            changes: self.changes.clone(),
            unchanged: UnchangedTasks::default(),
            diff_ref: String::new(),
        };
        whole.short()
    }
}
