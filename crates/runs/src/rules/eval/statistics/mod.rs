//! Statistics of an eval: what its scores show about the agent, and whether they suffice for a
//! decision.
//!
//! `EvalSummary` is closed, and its `passed` is a point estimate (RFC 0081 §C). This projection of
//! the same facts adds intervals, a paired comparison, reliability over trials, and a verdict that
//! accounts for chance.

pub mod decision;
pub mod distribution;
pub mod ended;
mod evidence;
mod gate;
#[cfg(test)]
mod reference;
mod results;
mod trials;
pub mod unshown;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::evidence::{Evidence, EvidenceRun, ListedRun};
use self::gate::Pool;
pub use self::results::{
    CollectedResults, FigureSums, RunResults, TaskFigures, TaskResultRow, judged_scores,
};
pub use self::trials::{Clusters, Pairs, Places, Trials, TrialsByTask, by_task};
use super::attempts::AttemptIds;
use touchstone_kit::ids::RunId;
use touchstone_kit::statistics::{
    Attempts, FIRST_LOOK, GateVerdict, Interval, RegressionVerdict, against_margin, average,
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

/// The statistics of the evidence. `threshold` is the required mean score; `None` uses the suite's
/// pass score.
pub fn statistics(
    evidence: &Evidence,
    baseline: Option<&EvidenceRun>,
    threshold: Option<f64>,
) -> Statistics {
    let runs = evidence.trials();
    let results: Vec<&RunResults> = runs.iter().map(|run| &*run.results).collect();
    let tasks = by_task(&results);
    let comparison = baseline.map(|baseline| {
        let before = by_task(&[&baseline.results]);
        difference(&Pairs::of(&before, &tasks), &baseline.report.run_id)
    });
    let pool = Pool {
        trials: runs.iter().map(|run| &run.report).collect(),
        missing: evidence.missing,
        attempts: &evidence.attempts,
    };
    let suite = &evidence.run.report.suite;
    let attempts = tasks.attempts();
    let counts = attempts.clone().map(|task| task.trials);
    let per_task = Range {
        min: counts.clone().min().unwrap_or_default(),
        max: counts.clone().max().unwrap_or_default(),
    };
    let (score, design_effect) = score_of(tasks.scores(), per_task.max);
    // Without variation, nothing says how much scores vary.
    let varies = |deviation: &f64| *deviation > f64::EPSILON;
    let deviation = comparison
        .as_ref()
        .and_then(|found| found.deviation)
        .filter(varies)
        .or_else(|| score.map(|it| (it.value * (1.0 - it.value)).max(0.0).sqrt()))
        .filter(varies);
    let mde = deviation.and_then(|sd| minimum_detectable_effect(tasks.count(), sd, ALPHA, POWER));
    let ks = 1..=per_task.max;
    Statistics {
        unit: Unit::Task,
        n_tasks: tasks.count(),
        n_trials: counts.sum(),
        trials_per_task: per_task,
        unjudged: runs.iter().map(|run| run.unjudged()).sum(),
        pass_rate: rate_of(attempts.clone(), per_task.max),
        score: score.map(|score| with_interval(score, tasks.scores())),
        design_effect,
        pass_at_k: ks
            .clone()
            .map(|k| (k, pass_at_k(attempts.clone(), k)))
            .collect(),
        pass_hat_k: ks.map(|k| (k, pass_hat_k(attempts.clone(), k))).collect(),
        mde: mde.map(|value| Detectable {
            alpha: ALPHA,
            power: POWER,
            value,
        }),
        baseline: comparison,
        gate: pool.gate(tasks.scores(), threshold.unwrap_or(suite.pass_score)),
        run_ids: runs.iter().map(|run| run.report.run_id.clone()).collect(),
        suite_id: suite.suite_id.clone(),
        suite_version: suite.version.clone(),
        suite_digest: suite.digest.clone(),
    }
}

fn rate_of(attempts: impl Iterator<Item = Attempts> + Clone, trials: usize) -> Option<Estimate> {
    if attempts.clone().all(|task| task.trials == 1) {
        let outcome = |task: Attempts| match task.passed {
            0 => [0.0].as_slice(),
            _ => [1.0].as_slice(),
        };
        return rate(attempts.map(outcome), trials);
    }
    let mut outcomes = Clusters::default();
    for task in attempts {
        let failed = task.trials - task.passed;
        let passed = std::iter::repeat_n(1.0, task.passed);
        outcomes.push(passed.chain(std::iter::repeat_n(0.0, failed)));
    }
    rate(outcomes.iter(), trials)
}

fn rate<'a>(outcomes: impl Iterator<Item = &'a [f64]> + Clone, trials: usize) -> Option<Estimate> {
    let rate = score_of(outcomes.clone(), trials).0?;
    Some(with_interval(rate, outcomes))
}

/// The estimate with the interval that the gate uses, at the first look. Student's interval has no
/// width if all scores are equal.
fn with_interval<'a>(of: Estimate, scores: impl Iterator<Item = &'a [f64]> + Clone) -> Estimate {
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
fn score_of<'a>(
    scores: impl Iterator<Item = &'a [f64]> + Clone,
    trials: usize,
) -> (Option<Estimate>, Option<f64>) {
    if trials > 1 {
        let found = clustered_mean(scores, CONFIDENCE);
        let score =
            found.map(|found| estimate(found.value, found.se, found.interval, Method::ClusteredT));
        return (score, found.and_then(|found| found.design_effect));
    }
    (mean_of(scores.flatten().copied()), None)
}

fn mean_of(scores: impl Iterator<Item = f64> + Clone) -> Option<Estimate> {
    let found = mean(scores, CONFIDENCE)?;
    Some(estimate(found.value, found.se, found.interval, Method::T))
}

/// Compares trials of the same tasks with those of `baseline`.
pub fn difference(tasks: &Pairs<'_>, baseline: &RunId) -> Comparison {
    let both = || tasks.iter();
    let scores = both().filter_map(|(before, now)| Some((before.mean_score()?, now.mean_score()?)));
    let pairs: Vec<(f64, f64)> = scores.collect();
    let flips = |from: bool| {
        both()
            .filter(|(before, now)| before.passes() == from && now.passes() != from)
            .count() as u64
    };
    let single = both().all(|(before, now)| before.scores().len() == 1 && now.scores().len() == 1);
    let (fixed, broken) = (flips(false), flips(true));
    let found = paired(pairs.iter().copied(), REGRESSION_CONFIDENCE);
    let interval = difference_interval(&pairs, REGRESSION_CONFIDENCE);
    Comparison {
        run_id: baseline.clone(),
        n_paired: pairs.len(),
        unpaired_dropped: tasks.now.count() + tasks.before.count() - 2 * tasks.count(),
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
    let student = paired(pairs.iter().copied(), confidence)?.interval?;
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
pub fn mean_interval<'a>(
    scores: impl Iterator<Item = &'a [f64]> + Clone,
    look: usize,
) -> Option<(Interval, Method)> {
    let counts = scores.clone().map(<[f64]>::len);
    let most = counts.clone().max().unwrap_or_default();
    let (tasks, trials) = (counts.clone().count(), counts.clone().sum());
    let score = score_of(scores.clone(), most).0?;
    let mut interval = interval_of_mean(score.value, tasks, trials, look)?;
    let binary = |score: &f64| *score == 0.0 || *score == 1.0;
    if most <= 1 && scores.clone().flatten().all(binary) {
        return Some(interval);
    }
    interval.0 = interval.0.hull(limits(&score)?);
    if counts.min() != Some(most) {
        let means = scores.filter_map(|task| average(task.iter().copied()));
        let over_tasks = mean_of(means.clone())?;
        let (weighed, _) = interval_of_mean(over_tasks.value, means.count(), trials, look)?;
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
