//! Statistics of an eval: what its scores show about the agent, and whether they suffice for a
//! decision.
//!
//! `EvalSummary` is closed, and its `passed` is a point estimate (RFC 0081 §C). This projection of
//! the same facts adds intervals, a paired comparison, reliability over trials, and a verdict that
//! accounts for chance.

pub mod decision;
mod gate;
mod trials;
pub mod unshown;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::gate::{Pool, TrialRun};
use self::trials::judged_once;
pub use self::trials::{JudgedTask, Trials, TrialsByTask, by_task, judged_by_id};
use super::attempts::{Attempt, AttemptIds};
use super::report::{EvalReport, RunTotals, SuiteProvenance, TaskOutcome};
use touchstone_kit::ids::RunId;
use touchstone_kit::statistics::{
    Attempts, FIRST_LOOK, GateVerdict, Interval, RegressionVerdict, against_margin,
    clopper_pearson, clustered_mean, mcnemar, mean, minimum_detectable_effect, paired, pass_at_k,
    pass_hat_k, spent, tango, wilson_of,
};

/// The confidence level of two-sided intervals.
pub const CONFIDENCE: f64 = 0.95;
/// The confidence level of a comparison with a baseline: two-sided, so that each side errs in 5 %.
pub const REGRESSION_CONFIDENCE: f64 = 0.9;
/// The permitted decrease of a candidate's score.
pub const MARGIN: f64 = 0.02;
const ALPHA: f64 = 0.05;
const POWER: f64 = 0.8;
/// Minimum number of trials per task before scores from a judge or from live tools can pass.
pub const MEASURED_TRIALS: usize = 3;

/// The independent unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// The task; its trials are not independent of each other.
    Task,
}

/// How an interval was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    Wilson,
    /// Student's interval over tasks.
    T,
    /// Student's interval over tasks with several trials each.
    ClusteredT,
    /// The widest of Wilson's, Clopper and Pearson's, and Student's interval: see [`shown`].
    Widest,
}

/// A rate or a mean with its interval; limits may lie outside 0..=1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The observed value.
    pub value: f64,
    /// The standard error; `null` if it cannot be computed.
    pub se: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// How the limits were computed.
    pub method: Method,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub min: usize,
    pub max: usize,
}

/// The smallest change that a comparison over these tasks is likely to detect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detectable {
    /// Two-sided error.
    pub alpha: f64,
    /// Probability of detecting it.
    pub power: f64,
    /// The change, in score.
    pub value: f64,
}

/// The comparison with a baseline, paired by task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub run_id: RunId,
    /// Number of tasks judged in both runs.
    pub n_paired: usize,
    /// Number of tasks judged in only one of them.
    pub unpaired_dropped: usize,
    /// Candidate minus baseline.
    pub mean_difference: Option<f64>,
    /// Its standard error.
    pub se_paired: Option<f64>,
    /// Lower limit at 90 % confidence: the smaller one of Student's and Tango's intervals.
    pub low: Option<f64>,
    /// Upper limit: the larger one of both.
    pub high: Option<f64>,
    /// McNemar's exact test of flipped tasks, two-sided; `null` with several trials per task.
    pub mcnemar_p: Option<f64>,
    /// Number of tasks that failed before (in most trials) and pass now.
    pub fixed: u64,
    /// Number of tasks that passed before (in most trials) and fail now.
    pub broken: u64,
    /// The permitted decrease.
    pub margin: f64,
    /// The verdict of the interval.
    pub verdict: RegressionVerdict,
    /// The standard deviation of the differences.
    #[serde(skip)]
    deviation: Option<f64>,
}

/// The verdict on the threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The threshold for the mean score.
    pub threshold: f64,
    /// Whether the score is shown to reach it.
    pub verdict: GateVerdict,
    /// The confidence level.
    pub confidence: f64,
    /// Lower limit that was compared with the threshold.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
    /// How the limits were computed.
    pub method: Method,
    /// Why the verdict is inconclusive, as messages; empty otherwise.
    pub reasons: Vec<String>,
    /// The mean score over all attempts.
    #[serde(default)]
    pub score: Option<f64>,
    /// The attempts that count: all runs of the same agent content, suite and model.
    #[serde(default)]
    pub attempts: AttemptIds,
}

/// The statistics of a run. Members are named as in the literature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The independent unit.
    pub unit: Unit,
    /// Number of tasks with a judged trial.
    pub n_tasks: usize,
    /// Number of judged trials.
    pub n_trials: usize,
    /// Judged trials per task.
    pub trials_per_task: Range,
    /// Number of unjudged trials, which are not counted otherwise.
    pub unjudged: usize,
    /// Rate of passed trials; `null` without judged trials.
    pub pass_rate: Option<Estimate>,
    /// Mean score; `null` without judged trials.
    pub score: Option<Estimate>,
    /// The design effect of several trials per task; `null` with one trial per task.
    pub design_effect: Option<f64>,
    /// The probability that at least one of k trials passes, by k.
    pub pass_at_k: BTreeMap<usize, Option<f64>>,
    /// The probability that all of k trials pass, by k.
    pub pass_hat_k: BTreeMap<usize, Option<f64>>,
    /// The smallest detectable change.
    pub mde: Option<Detectable>,
    /// The comparison with the baseline, if there is one.
    pub baseline: Option<Comparison>,
    pub gate: Gate,
    /// The runs of the trials, in order.
    pub run_ids: Vec<RunId>,
    pub suite_id: String,
    pub suite_version: String,
    /// `sha256-<base64>` of its canonical document.
    pub suite_digest: String,
}

/// The runs that are judged together.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The named run.
    pub run: &'a EvalReport,
    /// The other trials of its experiment.
    pub further: &'a [EvalReport],
    /// Number of missing trials of the experiment.
    pub missing: usize,
    /// Every attempt of the same agent at the same suite, including these runs; empty if attempts
    /// were not looked up.
    pub attempts: &'a [Attempt],
}

impl<'a> Evidence<'a> {
    /// A single run.
    pub const fn of(run: &'a EvalReport) -> Self {
        Self {
            run,
            further: &[],
            missing: 0,
            attempts: &[],
        }
    }

    /// All trials, in order.
    pub fn trials(&self) -> Vec<&'a EvalReport> {
        let mut trials: Vec<&EvalReport> = std::iter::once(self.run).chain(self.further).collect();
        trials.sort_by_key(|run| run.trial.as_ref().map(|trial| trial.index));
        trials
    }
}

/// The statistics of the evidence. `threshold` is the required mean score; `None` uses the suite's
/// pass score.
pub fn statistics(
    evidence: Evidence<'_>,
    baseline: Option<&EvalReport>,
    threshold: Option<f64>,
) -> Statistics {
    let trials = evidence.trials();
    let pool = Pool {
        trials: trials.iter().map(|run| TrialRun::of(run)).collect(),
        missing: evidence.missing,
        attempts: evidence.attempts,
    };
    let suite = &evidence.run.suite;
    let unjudged = trials
        .iter()
        .flat_map(|run| &run.tasks)
        .filter(|task| task.outcome == TaskOutcome::Unjudged)
        .count();
    if let ([run], None) = (trials.as_slice(), baseline)
        && let Some(tasks) = judged_once(run)
    {
        return pool.of_single_trials(suite, &tasks, unjudged, threshold);
    }
    let tasks = by_task(&trials);
    let comparison =
        baseline.map(|baseline| difference(&tasks, &by_task(&[baseline]), &baseline.run_id));
    pool.of_trials(suite, &tasks, unjudged, comparison, threshold)
}

/// The statistics of a run that is not a trial and has no baseline: the same as those of its report.
/// `attempts` as for [`Evidence`].
pub fn run_statistics(run: &RunTotals, tasks: &[JudgedTask], attempts: &[Attempt]) -> Statistics {
    let pool = Pool {
        trials: vec![TrialRun::of(run)],
        missing: 0,
        attempts,
    };
    let unjudged = run.task_totals.unwrap_or_default().unjudged;
    pool.of_single_trials(&run.suite, tasks, unjudged, None)
}

/// The judged tasks of all trials, in the order of their ids.
struct Judged<'a, C> {
    /// The scores of the trials of each task.
    scores: &'a [C],
    attempts: Vec<Attempts>,
    unjudged: usize,
}

impl Pool<'_> {
    /// `tasks` in the order of their ids.
    fn of_single_trials(
        &self,
        suite: &SuiteProvenance,
        tasks: &[JudgedTask],
        unjudged: usize,
        threshold: Option<f64>,
    ) -> Statistics {
        let scores: Vec<[f64; 1]> = tasks.iter().map(|task| [task.score]).collect();
        let of_task = |task: &JudgedTask| Attempts {
            trials: 1,
            passed: usize::from(task.passed),
        };
        let judged = Judged {
            scores: &scores,
            attempts: tasks.iter().map(of_task).collect(),
            unjudged,
        };
        self.statistics(suite, &judged, None, threshold)
    }

    fn of_trials(
        &self,
        suite: &SuiteProvenance,
        tasks: &TrialsByTask,
        unjudged: usize,
        comparison: Option<Comparison>,
        threshold: Option<f64>,
    ) -> Statistics {
        let scores: Vec<&[f64]> = tasks.values().map(Trials::scores).collect();
        let judged = Judged {
            scores: &scores,
            attempts: tasks.values().map(Trials::attempts).collect(),
            unjudged,
        };
        self.statistics(suite, &judged, comparison, threshold)
    }

    fn statistics<C: AsRef<[f64]>>(
        &self,
        suite: &SuiteProvenance,
        judged: &Judged<'_, C>,
        comparison: Option<Comparison>,
        threshold: Option<f64>,
    ) -> Statistics {
        let Judged {
            scores,
            attempts,
            unjudged,
        } = judged;
        let counts = || attempts.iter().map(|task| task.trials);
        let per_task = Range {
            min: counts().min().unwrap_or_default(),
            max: counts().max().unwrap_or_default(),
        };
        let over_k = |chance: fn(&[Attempts], usize) -> Option<f64>| {
            (1..=per_task.max)
                .map(|k| (k, chance(attempts, k)))
                .collect()
        };
        let (score, design_effect) = score_of(scores, per_task.max);
        // Without variation, nothing says how much scores vary.
        let varies = |deviation: &f64| *deviation > f64::EPSILON;
        let deviation = comparison
            .as_ref()
            .and_then(|found| found.deviation)
            .filter(varies)
            .or_else(|| score.map(|it| (it.value * (1.0 - it.value)).max(0.0).sqrt()))
            .filter(varies);
        let mde =
            deviation.and_then(|sd| minimum_detectable_effect(scores.len(), sd, ALPHA, POWER));
        Statistics {
            unit: Unit::Task,
            n_tasks: scores.len(),
            n_trials: counts().sum(),
            trials_per_task: per_task,
            unjudged: *unjudged,
            pass_rate: rate_of(attempts, per_task.max),
            score: score.map(|score| with_interval(score, scores)),
            design_effect,
            pass_at_k: over_k(pass_at_k),
            pass_hat_k: over_k(pass_hat_k),
            mde: mde.map(|value| Detectable {
                alpha: ALPHA,
                power: POWER,
                value,
            }),
            baseline: comparison,
            gate: self.gate(scores, threshold.unwrap_or(suite.pass_score)),
            run_ids: self.trials.iter().map(|run| run.run_id.clone()).collect(),
            suite_id: suite.suite_id.clone(),
            suite_version: suite.version.clone(),
            suite_digest: suite.digest.clone(),
        }
    }
}

fn rate_of(attempts: &[Attempts], trials: usize) -> Option<Estimate> {
    if attempts.iter().all(|task| task.trials == 1) {
        let passed = |task: &Attempts| [f64::from(u8::from(task.passed > 0))];
        return rate(&attempts.iter().map(passed).collect::<Vec<_>>(), trials);
    }
    let outcomes: Vec<Vec<f64>> = attempts
        .iter()
        .map(|task| {
            let failed = task.trials - task.passed;
            [vec![1.0; task.passed], vec![0.0; failed]].concat()
        })
        .collect();
    rate(&outcomes, trials)
}

fn rate(outcomes: &[impl AsRef<[f64]>], trials: usize) -> Option<Estimate> {
    let rate = score_of(outcomes, trials).0?;
    Some(with_interval(rate, outcomes))
}

/// The estimate with the interval that the gate uses, at the first look. Student's interval has no
/// width if all scores are equal.
fn with_interval(of: Estimate, scores: &[impl AsRef<[f64]>]) -> Estimate {
    let found = mean_interval(scores, 1);
    let method = found.map_or(of.method, |(_, method)| method);
    estimate(of.value, of.se, found.map(|(interval, _)| interval), method)
}

fn estimate(value: f64, se: Option<f64>, interval: Option<Interval>, method: Method) -> Estimate {
    Estimate {
        value,
        se,
        low: interval.map(|it| it.low),
        high: interval.map(|it| it.high),
        method,
    }
}

/// The mean score, and the design effect.
fn score_of(scores: &[impl AsRef<[f64]>], trials: usize) -> (Option<Estimate>, Option<f64>) {
    if trials > 1 {
        let effect = clustered_mean(scores, CONFIDENCE).and_then(|found| found.design_effect);
        return (clustered(scores), effect);
    }
    let scores: Vec<f64> = flat(scores).collect();
    let found = mean(&scores, CONFIDENCE);
    let score = found.map(|found| estimate(found.value, found.se, found.interval, Method::T));
    (score, None)
}

/// The scores of all trials.
fn flat(scores: &[impl AsRef<[f64]>]) -> impl Iterator<Item = f64> {
    scores.iter().flat_map(AsRef::as_ref).copied()
}

fn clustered(clusters: &[impl AsRef<[f64]>]) -> Option<Estimate> {
    let found = clustered_mean(clusters, CONFIDENCE)?;
    Some(estimate(
        found.value,
        found.se,
        found.interval,
        Method::ClusteredT,
    ))
}

/// Compares trials of the same tasks: `now` with `before`, the trials of `baseline`.
pub fn difference(now: &TrialsByTask, before: &TrialsByTask, baseline: &RunId) -> Comparison {
    let both: Vec<(&Trials, &Trials)> = now
        .iter()
        .filter_map(|(id, now)| Some((before.get(id)?, now)))
        .collect();
    let pairs: Vec<(f64, f64)> = both
        .iter()
        .filter_map(|(before, now)| Some((before.mean_score()?, now.mean_score()?)))
        .collect();
    let flips = |from: bool| {
        both.iter()
            .filter(|(before, now)| before.passes() == from && now.passes() != from)
            .count() as u64
    };
    let single = both
        .iter()
        .all(|(before, now)| before.scores.len() == 1 && now.scores.len() == 1);
    let (fixed, broken) = (flips(false), flips(true));
    let found = paired(&pairs, REGRESSION_CONFIDENCE);
    let interval = difference_interval(&pairs, REGRESSION_CONFIDENCE);
    Comparison {
        run_id: baseline.clone(),
        n_paired: pairs.len(),
        unpaired_dropped: now.len() + before.len() - 2 * both.len(),
        mean_difference: found.map(|found| found.mean),
        se_paired: found.and_then(|found| found.se),
        low: interval.map(|it| it.low),
        high: interval.map(|it| it.high),
        mcnemar_p: single.then(|| mcnemar(fixed, broken).p_two_sided),
        fixed,
        broken,
        margin: MARGIN,
        verdict: interval.map_or(RegressionVerdict::Inconclusive, |it| {
            against_margin(it, MARGIN)
        }),
        deviation: found.and_then(|found| found.deviation()),
    }
}

/// The interval of the mean difference of scores from 0 to 1, each a pair `(before, now)`: the wider
/// one of Student's and Tango's. Student's has no width if all tasks changed alike, and would
/// therefore call any two runs without a flip "not worse". `None` for fewer than two pairs.
pub fn difference_interval(pairs: &[(f64, f64)], confidence: f64) -> Option<Interval> {
    let (fixed, broken) = pairs
        .iter()
        .map(|(before, now)| now - before)
        .fold((0.0, 0.0), |(fixed, broken), change| {
            (fixed + change.max(0.0), broken + (-change).max(0.0))
        });
    let student = paired(pairs, confidence)?.interval?;
    let tango = tango(fixed, broken, pairs.len(), confidence)?;
    Some(student.hull(tango))
}

/// Confidence interval of the mean score, from the scores of each task's trials, at look number
/// `look`, counted from 1. `None` if there is too little data.
///
/// There are two sources of chance, and the limits are the widest that either requires:
/// - The tasks are one sample, however many trials they have, and count as one observation each.
///   Used are Student's interval over tasks, which has no width if all tasks agree; Wilson's
///   interval; and Clopper and Pearson's, which is valid for any number of tasks.
/// - Each trial is a draw, and checking again after further trials is another chance to be lucky.
///   Used is Clopper and Pearson's interval over all trials, with the error that this look may
///   spend.
///
/// If tasks have different numbers of trials, the mean over tasks must show the same as the mean
/// over trials. Otherwise, repeating only the easy tasks would raise the score.
pub fn mean_interval(scores: &[impl AsRef<[f64]>], look: usize) -> Option<(Interval, Method)> {
    let counts = || scores.iter().map(|task| task.as_ref().len());
    let trials = counts().max().unwrap_or_default();
    let score = score_of(scores, trials).0?;
    let mut interval = interval_of_mean(score.value, scores.len(), counts().sum(), look)?;
    let binary = |score: f64| score == 0.0 || score == 1.0;
    if trials <= 1 && flat(scores).all(binary) {
        return Some(interval);
    }
    interval.0 = interval.0.hull(limits(&score)?);
    if counts().min() != Some(trials) {
        let means = scores
            .iter()
            .filter_map(|task| mean(task.as_ref(), CONFIDENCE));
        let means: Vec<[f64; 1]> = means.map(|task| [task.value]).collect();
        let over_tasks = score_of(&means, 1).0?;
        let (weighed, _) = interval_of_mean(over_tasks.value, means.len(), counts().sum(), look)?;
        interval.0 = interval.0.hull(weighed).hull(limits(&over_tasks)?);
    }
    Some((interval.0, Method::Widest))
}

/// Whether one run in which all of `tasks` pass shows `threshold`.
pub fn perfect_run_shows(tasks: usize, threshold: f64) -> bool {
    interval_of_mean(1.0, tasks, tasks, 1).is_some_and(|(interval, _)| interval.low >= threshold)
}

fn limits(estimate: &Estimate) -> Option<Interval> {
    Some(Interval {
        low: estimate.low?,
        high: estimate.high?,
    })
}

/// The interval of a mean, given the number of tasks and of trials.
fn interval_of_mean(
    mean: f64,
    tasks: usize,
    trials: usize,
    look: usize,
) -> Option<(Interval, Method)> {
    let mean = mean.clamp(0.0, 1.0);
    let wilson = wilson_of(mean, tasks, CONFIDENCE)?.interval;
    let sampled = clopper_pearson(mean, tasks, FIRST_LOOK)?;
    let repeated = clopper_pearson(mean, trials, spent(look))?;
    let widest = wilson.hull(sampled).hull(repeated);
    let method = match widest == wilson {
        true => Method::Wilson,
        false => Method::Widest,
    };
    Some((widest, method))
}

#[cfg(test)]
mod tests;
