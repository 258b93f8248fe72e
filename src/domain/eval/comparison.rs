//! Two runs side by side, task by task: what changed, what else is different about them, and what of it chance explains.
//!
//! A task says something about a change only if both runs judged it, and judged it alike: its words must be the same in both
//! suites, and a rubric's judge the same one. Every other task is left out, and named with its reason. Runs that are trials of
//! an experiment stand for all of it.

mod likeness;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::likeness::{differences, likeness};
use super::scoring::{EPSILON, tasks};
use super::statistics::{
    CONFIDENCE, Evidence, REGRESSION_CONFIDENCE, Trials, TrialsByTask, by_task, difference,
};
use crate::domain::ids::{AgentId, RunId, TaskId};
use crate::domain::run::record::EvalSpec;
use crate::domain::statistics::{RegressionVerdict, mean, paired};
use crate::protocol::openwop::suite::{AgentEvalSuite, EvalMode};

/// One of the two.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// The run, and the other trials of its experiment.
    pub evidence: Evidence<'a>,
    /// What it was asked to do.
    pub spec: &'a EvalSpec,
    /// The tasks it was given.
    pub suite: &'a AgentEvalSuite,
}

/// Which run it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Party {
    /// The run that was named.
    pub run_id: RunId,
    /// It, and the other trials of its experiment, in order.
    pub run_ids: Vec<RunId>,
    /// Trials of the experiment that are not there.
    pub missing_trials: usize,
    /// The suite.
    pub suite_id: String,
    /// Its version.
    pub suite_version: String,
    /// `sha256-<base64>` of its canonical document.
    pub suite_digest: String,
    /// The agent.
    pub agent_id: AgentId,
    /// The version of its pack.
    pub agent_version: String,
    /// The model that answered.
    pub model: String,
    /// Its provider.
    pub provider: String,
}

/// Something about the two runs that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What.
    pub what: String,
    /// As the baseline has it; `null` where it has none.
    pub baseline: Value,
    /// As the candidate has it.
    pub candidate: Value,
}

/// Why a task is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// One of the runs, or both, did not judge it.
    Unjudged,
    /// The candidate has no such task.
    OnlyBaseline,
    /// The baseline has no such task.
    OnlyCandidate,
    /// Both suites have a task of this name, and it is not the same.
    TaskChanged,
    /// Another judge, or the same one with other rubrics: scores of two judges are not comparable.
    JudgeChanged,
}

/// A task that says nothing about a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// The task.
    pub task_id: TaskId,
    /// Why.
    pub reason: Why,
}

/// How the mean of something changed over the tasks that were compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Tasks that have it on both sides.
    pub n_tasks: usize,
    /// The baseline's mean.
    pub baseline: f64,
    /// The candidate's.
    pub candidate: f64,
    /// Candidate minus baseline.
    pub difference: f64,
    /// Lower limit of the difference, paired, at 95 %; `null` of a single task.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// Passed before (most trials did), does not now.
    Broke,
    /// A lower score, without that.
    Worse,
    /// Did not pass before, does now.
    Fixed,
    /// A higher score, without that.
    Better,
}

/// A task in one of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Whether it passed, in most trials.
    pub passes: bool,
    /// The mean score, 0.0..=1.0.
    pub score: f64,
    /// Trials that judged it.
    pub trials: usize,
    /// Those that passed.
    pub passed_trials: usize,
    /// Why it failed, as a label: of the first trial that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Mean cost, in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Mean latency, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

/// A task that did not stay as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskChange {
    /// The task.
    pub task_id: TaskId,
    /// What became of it.
    pub turn: Turn,
    /// As it was.
    pub baseline: Standing,
    /// As it is.
    pub candidate: Standing,
}

/// Whether the candidate is worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// What the interval says.
    pub verdict: RegressionVerdict,
    /// By how much it may be worse.
    pub margin: f64,
    /// How sure that is: two-sided, so that one side errs in 5 %.
    pub confidence: f64,
    /// Lower limit of the difference that was held against the margin.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
}

/// The two, compared. Free of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunComparison {
    /// What was.
    pub baseline: Party,
    /// What is.
    pub candidate: Party,
    /// What else is not the same about them.
    pub differences: Vec<Difference>,
    /// What a reader must know beside the numbers, in words.
    pub notes: Vec<String>,
    /// Tasks that were compared.
    pub n_tasks: usize,
    /// Tasks that were not.
    pub left_out: Vec<LeftOut>,
    /// The score; `null` where nothing was compared.
    pub score: Option<Change>,
    /// Cost of a task in USD.
    pub cost_usd: Option<Change>,
    /// Latency of a task in milliseconds.
    pub latency_ms: Option<Change>,
    /// The confidence of these intervals.
    pub confidence: f64,
    /// Tasks that did not pass and do now.
    pub fixed: u64,
    /// Tasks that passed and do not now.
    pub broke: u64,
    /// McNemar's exact test of these two numbers, two-sided; `null` with several trials a task.
    pub mcnemar_p: Option<f64>,
    /// Whether it is worse.
    pub regression: Regression,
    /// Tasks that did not stay as they were: broken ones first, each kind in the order of the suite.
    pub changes: Vec<TaskChange>,
    /// Where the logs of the two can be read side by side.
    pub diff_ref: String,
}

/// Two runs that have no task in common.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the runs have no task in common: `{baseline}` and `{candidate}`; compare runs of one suite"
)]
pub struct NothingInCommon {
    baseline: String,
    candidate: String,
}

impl RunComparison {
    /// Whether something was compared, and nothing that could have been was not judged.
    pub fn is_whole(&self) -> bool {
        let missing = self.baseline.missing_trials + self.candidate.missing_trials;
        self.n_tasks > 0 && is_whole(missing, &self.left_out)
    }
}

fn is_whole(missing: usize, left_out: &[LeftOut]) -> bool {
    missing == 0 && left_out.iter().all(|task| task.reason != Why::Unjudged)
}

/// Compares `candidate` with `baseline`. Both have ended.
///
/// # Errors
/// [`NothingInCommon`].
pub fn compare(
    baseline: Compared<'_>,
    candidate: Compared<'_>,
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
    let over = |of: fn(&Trials) -> Option<f64>| change(&before, &now, of);
    let tested = difference(&now, &before, &baseline.evidence.run.run_id);
    let notes = notes(baseline, candidate, now.len(), &left_out);
    let missing = baseline.evidence.missing + candidate.evidence.missing;
    let (was, is) = (baseline.party(), candidate.party());
    Ok(RunComparison {
        diff_ref: format!("/v1/runs/{}:diff?against={}", is.run_id, was.run_id),
        differences: differences(baseline, candidate),
        notes,
        n_tasks: now.len(),
        score: over(Trials::mean_score),
        cost_usd: over(Trials::mean_cost),
        latency_ms: over(Trials::mean_latency),
        confidence: CONFIDENCE,
        fixed: tested.fixed,
        broke: tested.broken,
        mcnemar_p: tested.mcnemar_p,
        regression: Regression {
            verdict: match tested.verdict {
                // What was not judged may be what got worse.
                RegressionVerdict::NotWorse if !is_whole(missing, &left_out) => {
                    RegressionVerdict::Inconclusive
                }
                // Nothing was sampled twice: there is no chance at work between a run and itself.
                RegressionVerdict::Inconclusive
                    if was.run_ids == is.run_ids && is_whole(missing, &left_out) =>
                {
                    RegressionVerdict::NotWorse
                }
                verdict => verdict,
            },
            margin: tested.margin,
            confidence: REGRESSION_CONFIDENCE,
            low: tested.low,
            high: tested.high,
        },
        changes: changes(baseline, candidate, &before, &now),
        baseline: was,
        candidate: is,
        left_out,
    })
}

impl Compared<'_> {
    fn judged(&self) -> TrialsByTask {
        by_task(&self.evidence.trials())
    }

    fn suite_ref(&self) -> String {
        format!("{}@{}", self.spec.suite_id, self.spec.suite_version)
    }

    fn party(&self) -> Party {
        let (run, spec) = (self.evidence.run, self.spec);
        let runs = self.evidence.trials();
        Party {
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

    /// Why tasks failed: the first label there is for each.
    fn reasons(&self) -> HashMap<TaskId, String> {
        let mut reasons = HashMap::new();
        for task in self.evidence.trials().iter().flat_map(|run| &run.tasks) {
            if let Some(reason) = &task.reason {
                reasons
                    .entry(task.task_id.clone())
                    .or_insert_with(|| reason.clone());
            }
        }
        reasons
    }
}

/// The tasks that say nothing about a change: the candidate's in its order, then those it does not have.
fn left_out(
    baseline: Compared<'_>,
    candidate: Compared<'_>,
    before: &TrialsByTask,
    now: &TrialsByTask,
) -> Vec<LeftOut> {
    let had: HashSet<&TaskId> = baseline.spec.tasks.iter().collect();
    let has: HashSet<&TaskId> = candidate.spec.tasks.iter().collect();
    let unlike = likeness(baseline, candidate);
    let of_candidate = candidate.spec.tasks.iter().filter_map(|task| {
        let reason = match unlike(task) {
            _ if !had.contains(task) => Why::OnlyCandidate,
            Some(why) => why,
            None if !before.contains_key(task) || !now.contains_key(task) => Why::Unjudged,
            None => return None,
        };
        Some((task, reason))
    });
    let of_baseline = baseline
        .spec
        .tasks
        .iter()
        .filter(|task| !has.contains(task))
        .map(|task| (task, Why::OnlyBaseline));
    of_candidate
        .chain(of_baseline)
        .map(|(task, reason)| LeftOut {
            task_id: task.clone(),
            reason,
        })
        .collect()
}

fn nothing_in_common(candidate: &EvalSpec, left_out: &[LeftOut]) -> bool {
    let strange = |task: &&LeftOut| matches!(task.reason, Why::OnlyCandidate | Why::TaskChanged);
    left_out.iter().filter(strange).count() == candidate.tasks.len()
}

fn change(
    before: &TrialsByTask,
    now: &TrialsByTask,
    of: impl Fn(&Trials) -> Option<f64>,
) -> Option<Change> {
    let both = |(task, now): (&TaskId, &Trials)| Some((of(before.get(task)?)?, of(now)?));
    let pairs: Vec<(f64, f64)> = now.iter().filter_map(both).collect();
    let found = paired(&pairs, CONFIDENCE)?;
    let (were, are): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    Some(Change {
        n_tasks: found.n,
        baseline: mean(&were, CONFIDENCE)?.value,
        candidate: mean(&are, CONFIDENCE)?.value,
        difference: found.mean,
        low: found.interval.map(|limits| limits.low),
        high: found.interval.map(|limits| limits.high),
    })
}

fn changes(
    baseline: Compared<'_>,
    candidate: Compared<'_>,
    before: &TrialsByTask,
    now: &TrialsByTask,
) -> Vec<TaskChange> {
    let (was_for, is_for) = (baseline.reasons(), candidate.reasons());
    let changed = |task: &TaskId| {
        let (was, is) = (before.get(task)?, now.get(task)?);
        Some(TaskChange {
            task_id: task.clone(),
            turn: turn(was, is)?,
            baseline: Standing::of(was, was_for.get(task)),
            candidate: Standing::of(is, is_for.get(task)),
        })
    };
    let mut changes: Vec<TaskChange> = candidate.spec.tasks.iter().filter_map(changed).collect();
    changes.sort_by_key(|change| change.turn);
    changes
}

/// What became of a task; `None` if it stayed as it was.
fn turn(was: &Trials, is: &Trials) -> Option<Turn> {
    let by = is.mean_score()? - was.mean_score()?;
    match (was.passes(), is.passes()) {
        (true, false) => Some(Turn::Broke),
        (false, true) => Some(Turn::Fixed),
        _ if by < -EPSILON => Some(Turn::Worse),
        _ if by > EPSILON => Some(Turn::Better),
        _ => None,
    }
}

impl Standing {
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

fn notes(
    baseline: Compared<'_>,
    candidate: Compared<'_>,
    compared: usize,
    left_out: &[LeftOut],
) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |why| left_out.iter().filter(|task| task.reason == why).count();
    let (was, is) = (baseline.spec, candidate.spec);
    if was.suite_digest != is.suite_digest {
        notes.push(format!(
            "the suites are not the same: of {} and {} only what stands in both in the same words was compared, {}",
            tasks(was.tasks.len()),
            tasks(is.tasks.len()),
            tasks(compared)
        ));
    }
    if count(Why::JudgeChanged) > 0 {
        notes.push(format!(
            "the judge is not the same: {} with a rubric left out",
            tasks(count(Why::JudgeChanged))
        ));
    }
    let hostile = |spec: &EvalSpec| spec.modes.contains(&EvalMode::Adversarial);
    if hostile(was) != hostile(is) || was.safety_judge != is.safety_judge {
        notes.push(
            "what is unsafe does not count alike in both, or not by the same judge: the same act may fail a task in one run alone"
                .to_owned(),
        );
    }
    if was.ignore != is.ignore {
        notes.push(
            "what was left out of matching is not the same: the same answer may be right in one run and wrong in the other"
                .to_owned(),
        );
    }
    for (name, side) in [("baseline", baseline), ("candidate", candidate)] {
        let missing = side.evidence.missing;
        if missing > 0 {
            let planned = side.evidence.trials().len() + missing;
            notes.push(format!(
                "{} of {planned} trials of the {name} are there",
                planned - missing
            ));
        }
    }
    if count(Why::Unjudged) > 0 {
        notes.push(format!(
            "{} not judged in both runs; what was not judged may be what got worse",
            tasks(count(Why::Unjudged))
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
