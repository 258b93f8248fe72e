//! Compares two runs task by task: changes, other differences between the runs, and statistical
//! significance.
//!
//! A task is compared only if both runs judged it in the same way: its content must be identical in
//! both suites, and a rubric must have the same judge. All other tasks are excluded, each with a
//! reason. A run that is a trial represents its whole experiment.

pub mod attested;
mod comparability;
pub mod log_baseline;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::comparability::{differences, exclusion_rule};
use super::scoring::{EPSILON, tasks};
use super::scoring_document::ScoringDocument;
use super::statistics::{
    CONFIDENCE, Comparison, Evidence, REGRESSION_CONFIDENCE, Trials, TrialsByTask, by_task,
    difference, difference_interval,
};
use crate::rules::run::record::EvalSpec;
use touchstone_kit::ids::{AgentId, RunId, TaskId};
use touchstone_kit::statistics::{Interval, RegressionVerdict, mean, paired};
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode};

/// One of the two runs.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSide<'a> {
    /// The run, and the other trials of its experiment.
    pub evidence: Evidence<'a>,
    pub spec: &'a EvalSpec,
    /// The suite of the run.
    pub suite: &'a AgentEvalSuite,
    /// The suite's scoring document.
    pub scoring: Option<&'a ScoringDocument>,
}

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

/// The comparison of two runs. Contains no task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunComparison {
    pub baseline: ComparedRun,
    pub candidate: ComparedRun,
    /// Other differences between the runs.
    pub differences: Vec<Difference>,
    /// Notes for readers of the numbers.
    pub notes: Vec<String>,
    /// Number of compared tasks.
    pub n_tasks: usize,
    pub left_out: Vec<ExcludedTask>,
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
    pub changes: Vec<TaskChange>,
    /// The other compared tasks, in the order of the suite. Their answers can differ.
    #[serde(skip)]
    pub unchanged: Vec<UnchangedTask>,
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
    baseline: String,
    candidate: String,
}

impl RunComparison {
    /// Whether at least one task was compared, and none was excluded because it was not judged.
    pub fn is_whole(&self) -> bool {
        let missing = self.baseline.missing_trials + self.candidate.missing_trials;
        self.n_tasks > 0 && is_whole(missing, &self.left_out)
    }
}

fn is_whole(missing: usize, left_out: &[ExcludedTask]) -> bool {
    missing == 0
        && left_out
            .iter()
            .all(|task| task.reason != ExclusionReason::Unjudged)
}

/// Compares `candidate` with `baseline`. Both must have ended.
///
/// # Errors
/// [`NothingInCommon`].
pub fn compare(
    baseline: ComparisonSide<'_>,
    candidate: ComparisonSide<'_>,
) -> Result<RunComparison, NothingInCommon> {
    let (mut before, mut now) = (baseline.judged(), candidate.judged());
    let left_out = left_out(baseline, candidate, &before, &now);
    if nothing_in_common(candidate.spec, &left_out) {
        return Err(NothingInCommon {
            baseline: baseline.suite_ref(),
            candidate: candidate.suite_ref(),
        });
    }
    let left: HashSet<&TaskId> = left_out.iter().map(|task| &task.task_id).collect();
    before.retain(|task, _| !left.contains(task));
    now.retain(|task, _| !left.contains(task));
    let (was, is) = (baseline.compared_run(), candidate.compared_run());
    Ok(Comparable {
        diff_ref: format!("/v1/runs/{}:diff?against={}", is.run_id, was.run_id),
        reasons: [reasons(baseline.evidence), reasons(candidate.evidence)],
        order: &candidate.spec.tasks,
        differences: differences(baseline, candidate),
        notes: notes(baseline, candidate, now.len(), &left_out),
        runs: [was, is],
        before,
        now,
        left_out,
    }
    .concluded())
}

/// Two runs and their comparable tasks. Pairs are baseline and candidate.
struct Comparable<'a> {
    runs: [ComparedRun; 2],
    /// Why tasks failed.
    reasons: [HashMap<TaskId, String>; 2],
    /// The candidate's tasks.
    order: &'a [TaskId],
    before: TrialsByTask,
    now: TrialsByTask,
    left_out: Vec<ExcludedTask>,
    differences: Vec<Difference>,
    notes: Vec<String>,
    diff_ref: String,
}

impl Comparable<'_> {
    fn concluded(mut self) -> RunComparison {
        let [was, is] = &self.runs;
        let over = |of: fn(&Trials) -> Option<f64>| change(&self.before, &self.now, of);
        let tested = difference(&self.now, &self.before, &was.run_id);
        self.notes.extend(flips_note(&tested));
        let is_whole = is_whole(was.missing_trials + is.missing_trials, &self.left_out);
        RunComparison {
            n_tasks: self.now.len(),
            score: score_change(&self.before, &self.now),
            cost_usd: over(Trials::mean_cost),
            latency_ms: over(Trials::mean_latency),
            confidence: CONFIDENCE,
            fixed: tested.fixed,
            broke: tested.broken,
            mcnemar_p: tested.mcnemar_p,
            regression: Regression {
                verdict: match tested.verdict {
                    // An unjudged task may be one that got worse.
                    RegressionVerdict::NotWorse if !is_whole => RegressionVerdict::Inconclusive,
                    // A run is identical to itself, so there is no sampling error.
                    RegressionVerdict::Inconclusive if was.run_ids == is.run_ids && is_whole => {
                        RegressionVerdict::NotWorse
                    }
                    verdict => verdict,
                },
                margin: tested.margin,
                confidence: REGRESSION_CONFIDENCE,
                low: tested.low,
                high: tested.high,
            },
            changes: self.changes(),
            unchanged: self.unchanged(),
            baseline: was.clone(),
            candidate: is.clone(),
            differences: self.differences,
            notes: self.notes,
            left_out: self.left_out,
            diff_ref: self.diff_ref,
        }
    }

    fn changes(&self) -> Vec<TaskChange> {
        let [was_for, is_for] = &self.reasons;
        let changed = |task: &TaskId| {
            let (was, is) = (self.before.get(task)?, self.now.get(task)?);
            Some(TaskChange {
                task_id: task.clone(),
                turn: change_kind(was, is)?,
                baseline: TaskResult::of(was, was_for.get(task)),
                candidate: TaskResult::of(is, is_for.get(task)),
            })
        };
        let mut changes: Vec<TaskChange> = self.order.iter().filter_map(changed).collect();
        changes.sort_by_key(|change| change.turn);
        changes
    }

    fn unchanged(&self) -> Vec<UnchangedTask> {
        let same = |task: &TaskId| {
            let (was, is) = (self.before.get(task)?, self.now.get(task)?);
            change_kind(was, is).is_none().then(|| UnchangedTask {
                task_id: task.clone(),
                passes: is.passes(),
                score: is.mean_score().unwrap_or_default(),
            })
        };
        self.order.iter().filter_map(same).collect()
    }
}

/// Why tasks failed: the first label of each task.
fn reasons(evidence: Evidence<'_>) -> HashMap<TaskId, String> {
    let mut reasons = HashMap::new();
    for task in evidence.trials().iter().flat_map(|run| &run.tasks) {
        if let Some(reason) = &task.reason {
            reasons
                .entry(task.task_id.clone())
                .or_insert_with(|| reason.clone());
        }
    }
    reasons
}

impl ComparisonSide<'_> {
    fn judged(&self) -> TrialsByTask {
        by_task(&self.evidence.trials())
    }

    fn suite_ref(&self) -> String {
        format!("{}@{}", self.spec.suite_id, self.spec.suite_version)
    }

    fn compared_run(&self) -> ComparedRun {
        let (run, spec) = (self.evidence.run, self.spec);
        let runs = self.evidence.trials();
        ComparedRun {
            run_id: run.run_id.clone(),
            run_ids: runs.iter().map(|run| run.run_id.clone()).collect(),
            missing_trials: self.evidence.missing,
            suite_id: spec.suite_id.clone(),
            suite_version: spec.suite_version.clone(),
            suite_digest: spec.suite_digest.clone(),
            agent_id: spec.agent_id.clone(),
            agent_version: spec.agent_version.clone(),
            model: spec.model.model.clone(),
            provider: spec.model.provider.clone(),
        }
    }
}

/// The excluded tasks: the candidate's tasks in its order, then tasks that it does not have.
fn left_out(
    baseline: ComparisonSide<'_>,
    candidate: ComparisonSide<'_>,
    before: &TrialsByTask,
    now: &TrialsByTask,
) -> Vec<ExcludedTask> {
    let had: HashSet<&TaskId> = baseline.spec.tasks.iter().collect();
    let has: HashSet<&TaskId> = candidate.spec.tasks.iter().collect();
    let unlike = exclusion_rule(baseline, candidate);
    let of_candidate = candidate.spec.tasks.iter().filter_map(|task| {
        let reason = match unlike(task) {
            _ if !had.contains(task) => ExclusionReason::OnlyCandidate,
            Some(why) => why,
            None if !before.contains_key(task) || !now.contains_key(task) => {
                ExclusionReason::Unjudged
            }
            None => return None,
        };
        Some((task, reason))
    });
    let of_baseline = baseline
        .spec
        .tasks
        .iter()
        .filter(|task| !has.contains(task))
        .map(|task| (task, ExclusionReason::OnlyBaseline));
    of_candidate
        .chain(of_baseline)
        .map(|(task, reason)| ExcludedTask {
            task_id: task.clone(),
            reason,
        })
        .collect()
}

/// Why the interval shows a regression although the exact test of the flips does not.
fn flips_note(tested: &Comparison) -> Option<String> {
    let p = tested.mcnemar_p.filter(|p| *p >= 1.0 - CONFIDENCE)?;
    (tested.verdict == RegressionVerdict::Regressed).then(|| {
        format!(
            "the score is significantly worse because its 90 % interval lies below the margin; the \
             exact test of the flips (p = {p:.3}) is two-sided and needs more flips to decide"
        )
    })
}

fn nothing_in_common(candidate: &EvalSpec, left_out: &[ExcludedTask]) -> bool {
    let incomparable = |task: &&ExcludedTask| {
        matches!(
            task.reason,
            ExclusionReason::OnlyCandidate | ExclusionReason::TaskChanged
        )
    };
    left_out.iter().filter(incomparable).count() == candidate.tasks.len()
}

/// Change of the score, with the interval that also decides about a regression.
fn score_change(before: &TrialsByTask, now: &TrialsByTask) -> Option<MeanChange> {
    let pairs = pairs(before, now, Trials::mean_score);
    mean_change(&pairs, difference_interval(&pairs, CONFIDENCE))
}

/// Change of a cost or latency, with Student's interval if the differences vary.
fn change(
    before: &TrialsByTask,
    now: &TrialsByTask,
    of: impl Fn(&Trials) -> Option<f64>,
) -> Option<MeanChange> {
    let pairs = pairs(before, now, of);
    let found = paired(&pairs, CONFIDENCE)?;
    let varies = found.p_two_sided.is_some();
    mean_change(&pairs, found.interval.filter(|_| varies))
}

/// The values of the tasks that have one in both runs.
fn pairs(
    before: &TrialsByTask,
    now: &TrialsByTask,
    of: impl Fn(&Trials) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let both = |(task, now): (&TaskId, &Trials)| Some((of(before.get(task)?)?, of(now)?));
    now.iter().filter_map(both).collect()
}

fn mean_change(pairs: &[(f64, f64)], limits: Option<Interval>) -> Option<MeanChange> {
    let found = paired(pairs, CONFIDENCE)?;
    let (were, are): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    Some(MeanChange {
        n_tasks: found.n,
        baseline: mean(&were, CONFIDENCE)?.value,
        candidate: mean(&are, CONFIDENCE)?.value,
        difference: found.mean,
        low: limits.map(|limits| limits.low),
        high: limits.map(|limits| limits.high),
    })
}

/// How a task changed; `None` if it did not.
fn change_kind(was: &Trials, is: &Trials) -> Option<ChangeKind> {
    let by = is.mean_score()? - was.mean_score()?;
    match (was.passes(), is.passes()) {
        (true, false) => Some(ChangeKind::Broke),
        (false, true) => Some(ChangeKind::Fixed),
        _ if by < -EPSILON => Some(ChangeKind::Worse),
        _ if by > EPSILON => Some(ChangeKind::Better),
        _ => None,
    }
}

impl TaskResult {
    fn of(trials: &Trials, reason: Option<&String>) -> Self {
        Self {
            passes: trials.passes(),
            score: trials.mean_score().unwrap_or_default(),
            trials: trials.attempts().trials,
            passed_trials: trials.attempts().passed,
            reason: reason.cloned(),
            cost_usd: trials.mean_cost(),
            latency_ms: trials.mean_latency(),
        }
    }
}

const SAFETY_DIFFERS: &str = "safety findings count differently in the two runs, or come from \
    different judges: the same action may fail a task in only one of them";
const IGNORE_DIFFERS: &str = "the ignore lists differ: the same answer may be right in one run and \
    wrong in the other";

fn notes(
    baseline: ComparisonSide<'_>,
    candidate: ComparisonSide<'_>,
    compared: usize,
    left_out: &[ExcludedTask],
) -> Vec<String> {
    let mut notes = Vec::new();
    let (was, is) = (baseline.spec, candidate.spec);
    if was.suite_digest != is.suite_digest {
        notes.push(format!(
            "the suites differ: of {} and {}, only identical tasks were compared ({})",
            tasks(was.tasks.len()),
            tasks(is.tasks.len()),
            tasks(compared)
        ));
    }
    if was.scoring_digest != is.scoring_digest {
        notes.push(
            "the scoring documents differ: only tasks with the same assertions were compared"
                .to_owned(),
        );
    }
    let hostile = |spec: &EvalSpec| spec.modes.contains(&EvalMode::Adversarial);
    if hostile(was) != hostile(is) || was.safety_judge != is.safety_judge {
        notes.push(SAFETY_DIFFERS.to_owned());
    }
    if was.ignore != is.ignore {
        notes.push(IGNORE_DIFFERS.to_owned());
    }
    notes.extend(result_notes(
        [baseline.evidence, candidate.evidence],
        left_out,
    ));
    notes
}

/// Notes on excluded tasks and missing trials.
fn result_notes(
    [baseline, candidate]: [Evidence<'_>; 2],
    left_out: &[ExcludedTask],
) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |why| left_out.iter().filter(|task| task.reason == why).count();
    if count(ExclusionReason::JudgeChanged) > 0 {
        notes.push(format!(
            "the judges, or what else decides assertions, differ: {} excluded",
            tasks(count(ExclusionReason::JudgeChanged))
        ));
    }
    if count(ExclusionReason::UserChanged) > 0 {
        notes.push(format!(
            "the simulated users differ: {} with a simulated user excluded",
            tasks(count(ExclusionReason::UserChanged))
        ));
    }
    for (name, evidence) in [("baseline", baseline), ("candidate", candidate)] {
        let missing = evidence.missing;
        if missing > 0 {
            let planned = evidence.trials().len() + missing;
            notes.push(format!(
                "{} of {planned} trials of the {name} are available",
                planned - missing
            ));
        }
    }
    if count(ExclusionReason::Unjudged) > 0 {
        notes.push(format!(
            "{} not judged in both runs; an unjudged task may be one that got worse",
            tasks(count(ExclusionReason::Unjudged))
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
