//! The statistics of an eval: what its scores say about the agent, and whether that is enough to decide on.
//!
//! `EvalSummary` is closed and its `passed` is a point estimate (RFC 0081 §C). This projection of the same facts stands
//! beside it: intervals, paired comparison, reliability over trials, and a verdict that noise does not make.

mod trials;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::trials::{Trials, TrialsByTask, by_task};
use super::attempts::{self, Attempt, AttemptIds};
use super::report::{EvalReport, TaskOutcome};
use crate::domain::ids::RunId;
use crate::domain::statistics::{
    Attempts, FIRST_LOOK, GateVerdict, Interval, RegressionVerdict, against_margin,
    against_threshold, clopper_pearson, clustered_mean, mcnemar, mean, minimum_detectable_effect,
    paired, pass_at_k, pass_hat_k, spent, tango, wilson, wilson_of,
};

/// The confidence of every two-sided interval.
pub const CONFIDENCE: f64 = 0.95;
/// That of a comparison with a baseline: two-sided, so that one side errs in 5 %.
pub const REGRESSION_CONFIDENCE: f64 = 0.9;
/// By how much a candidate may be worse and still not be called so.
pub const MARGIN: f64 = 0.02;
const ALPHA: f64 = 0.05;
const POWER: f64 = 0.8;
/// Scores that a judge or live tools give need so many trials of each task before they can pass.
pub const MEASURED_TRIALS: usize = 3;

/// What is counted as independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// The task; its trials have it in common.
    Task,
}

/// How an interval was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Wilson's score interval.
    Wilson,
    /// Student's, over tasks.
    T,
    /// Student's, over tasks with several trials each.
    ClusteredT,
    /// The widest of Wilson's, Clopper and Pearson's, and Student's: see [`shown`].
    Widest,
}

/// A rate or a mean with its interval; limits may lie outside 0..=1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// What was seen.
    pub value: f64,
    /// The standard error; `null` where there is none to be had.
    pub se: Option<f64>,
    /// Lower limit.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
    /// How the limits were found.
    pub method: Method,
}

/// The fewest and the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The fewest.
    pub min: usize,
    /// The most.
    pub max: usize,
}

/// The smallest change that a comparison over these tasks is likely to find.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detectable {
    /// Two-sided error.
    pub alpha: f64,
    /// Chance to find it.
    pub power: f64,
    /// The change, in score.
    pub value: f64,
}

/// The comparison with a baseline, task by task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The baseline.
    pub run_id: RunId,
    /// Tasks that both judged.
    pub n_paired: usize,
    /// Tasks that only one of them judged.
    pub unpaired_dropped: usize,
    /// Candidate minus baseline.
    pub mean_difference: Option<f64>,
    /// Its standard error.
    pub se_paired: Option<f64>,
    /// Lower limit at a confidence of 90 %: the lower one of Student's and Tango's.
    pub low: Option<f64>,
    /// Upper limit: the higher one of both.
    pub high: Option<f64>,
    /// McNemar's exact test, two-sided, of tasks that flipped; `null` with several trials a task.
    pub mcnemar_p: Option<f64>,
    /// Tasks that failed before, in most trials, and pass now.
    pub fixed: u64,
    /// Tasks that passed before, in most trials, and fail now.
    pub broken: u64,
    /// By how much it may be worse.
    pub margin: f64,
    /// What that says.
    pub verdict: RegressionVerdict,
    /// The standard deviation of the differences.
    #[serde(skip)]
    deviation: Option<f64>,
}

/// The verdict on the threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What the mean score has to reach.
    pub threshold: f64,
    /// Whether it is shown to.
    pub verdict: GateVerdict,
    /// How sure that is.
    pub confidence: f64,
    /// Lower limit that was held against the threshold.
    pub low: Option<f64>,
    /// Upper limit.
    pub high: Option<f64>,
    /// How the limits were found.
    pub method: Method,
    /// Why nothing is shown, in words; empty otherwise.
    pub reasons: Vec<String>,
    /// The mean score over all attempts.
    #[serde(default)]
    pub score: Option<f64>,
    /// The attempts that were judged together: every run of the same agent content, suite and model.
    #[serde(default)]
    pub attempts: AttemptIds,
}

/// The block beside the summary. Members are named as in the literature it follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// What is counted.
    pub unit: Unit,
    /// Tasks with a judged trial.
    pub n_tasks: usize,
    /// Judged trials.
    pub n_trials: usize,
    /// Judged trials a task.
    pub trials_per_task: Range,
    /// Trials that could not be judged and count for nothing here.
    pub unjudged: usize,
    /// Passed trials; `null` of nothing.
    pub pass_rate: Option<Estimate>,
    /// Scores; `null` of nothing.
    pub score: Option<Estimate>,
    /// By how much trials of one task are alike; `null` with one trial a task.
    pub design_effect: Option<f64>,
    /// The chance that one of k trials passes, by k.
    pub pass_at_k: BTreeMap<usize, Option<f64>>,
    /// The chance that all of k trials pass, by k.
    pub pass_hat_k: BTreeMap<usize, Option<f64>>,
    /// What change could be found.
    pub mde: Option<Detectable>,
    /// The comparison with the baseline, if there is one.
    pub baseline: Option<Comparison>,
    /// The verdict.
    pub gate: Gate,
    /// Runs that are the trials, in order.
    pub run_ids: Vec<RunId>,
    /// The suite.
    pub suite_id: String,
    /// Its version.
    pub suite_version: String,
    /// `sha256-<base64>` of its canonical document.
    pub suite_digest: String,
}

/// The runs that are judged together.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The run that is named.
    pub run: &'a EvalReport,
    /// The other trials of its experiment.
    pub further: &'a [EvalReport],
    /// Trials of the experiment that are not there.
    pub missing: usize,
    /// Every attempt of the same agent at the same suite, these runs included; empty where they were not looked up.
    pub attempts: &'a [Attempt],
}

impl<'a> Evidence<'a> {
    /// A run that stands alone.
    pub const fn of(run: &'a EvalReport) -> Self {
        Self {
            run,
            further: &[],
            missing: 0,
            attempts: &[],
        }
    }

    /// All of them, in order.
    pub fn trials(&self) -> Vec<&'a EvalReport> {
        let mut trials: Vec<&EvalReport> = std::iter::once(self.run).chain(self.further).collect();
        trials.sort_by_key(|run| run.trial.as_ref().map(|trial| trial.index));
        trials
    }
}

/// What runs say. `threshold` is the mean score to reach; left out, that of the suite.
pub fn statistics(
    evidence: Evidence<'_>,
    baseline: Option<&EvalReport>,
    threshold: Option<f64>,
) -> Statistics {
    let (run, trials) = (evidence.run, evidence.trials());
    let tasks = by_task(&trials);
    let unjudged = trials
        .iter()
        .flat_map(|run| &run.tasks)
        .filter(|task| task.outcome == TaskOutcome::Unjudged)
        .count();
    let counts = || tasks.values().map(|task| task.scores.len());
    let per_task = Range {
        min: counts().min().unwrap_or_default(),
        max: counts().max().unwrap_or_default(),
    };
    let attempts: Vec<Attempts> = tasks.values().map(Trials::attempts).collect();
    let scores: Vec<Vec<f64>> = tasks.values().map(|task| task.scores.clone()).collect();
    let over_k = |chance: fn(&[Attempts], usize) -> Option<f64>| {
        (1..=per_task.max)
            .map(|k| (k, chance(&attempts, k)))
            .collect()
    };
    let comparison =
        baseline.map(|baseline| difference(&tasks, &by_task(&[baseline]), &baseline.run_id));
    let (score, design_effect) = score_of(&scores, per_task.max);
    let deviation = comparison
        .as_ref()
        .and_then(|found| found.deviation)
        .or_else(|| score.map(|it| (it.value * (1.0 - it.value)).max(0.0).sqrt()));
    let mde = deviation.and_then(|sd| minimum_detectable_effect(tasks.len(), sd, ALPHA, POWER));
    let threshold = threshold.unwrap_or(run.suite.pass_score);
    Statistics {
        unit: Unit::Task,
        n_tasks: tasks.len(),
        n_trials: counts().sum(),
        trials_per_task: per_task,
        unjudged,
        pass_rate: rate_of(&attempts, per_task.max),
        score,
        design_effect,
        pass_at_k: over_k(pass_at_k),
        pass_hat_k: over_k(pass_hat_k),
        mde: mde.map(|value| Detectable {
            alpha: ALPHA,
            power: POWER,
            value,
        }),
        baseline: comparison,
        gate: gate(evidence, &scores, threshold),
        run_ids: trials.iter().map(|run| run.run_id.clone()).collect(),
        suite_id: run.suite.suite_id.clone(),
        suite_version: run.suite.version.clone(),
        suite_digest: run.suite.digest.clone(),
    }
}

fn rate_of(attempts: &[Attempts], trials: usize) -> Option<Estimate> {
    if trials > 1 {
        let outcomes: Vec<Vec<f64>> = attempts
            .iter()
            .map(|task| {
                let failed = task.trials - task.passed;
                [vec![1.0; task.passed], vec![0.0; failed]].concat()
            })
            .collect();
        return clustered(&outcomes);
    }
    let passed = attempts.iter().map(|task| task.passed).sum();
    let found = wilson(passed, attempts.len(), CONFIDENCE)?;
    Some(Estimate {
        value: found.rate,
        se: None,
        low: Some(found.interval.low),
        high: Some(found.interval.high),
        method: Method::Wilson,
    })
}

/// The mean score, and by how much trials of one task are alike.
fn score_of(scores: &[Vec<f64>], trials: usize) -> (Option<Estimate>, Option<f64>) {
    if trials > 1 {
        let effect = clustered_mean(scores, CONFIDENCE).and_then(|found| found.design_effect);
        return (clustered(scores), effect);
    }
    let scores: Vec<f64> = scores.iter().flatten().copied().collect();
    let estimate = mean(&scores, CONFIDENCE).map(|found| Estimate {
        value: found.value,
        se: found.se,
        low: found.interval.map(|it| it.low),
        high: found.interval.map(|it| it.high),
        method: Method::T,
    });
    (estimate, None)
}

fn clustered(clusters: &[Vec<f64>]) -> Option<Estimate> {
    let found = clustered_mean(clusters, CONFIDENCE)?;
    Some(Estimate {
        value: found.value,
        se: found.se,
        low: found.interval.map(|it| it.low),
        high: found.interval.map(|it| it.high),
        method: Method::ClusteredT,
    })
}

/// Compares trials of the same tasks, `now` with `before`, which are those of `baseline`.
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
    let interval = found
        .and_then(|found| found.interval)
        .zip(score_interval(&pairs))
        .map(|(student, tango)| student.hull(tango));
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

/// Tango's interval of the mean difference: Student's has no width where all tasks changed alike, and "not worse" would be
/// said of any two runs without a flip.
fn score_interval(pairs: &[(f64, f64)]) -> Option<Interval> {
    let (fixed, broken) = pairs
        .iter()
        .map(|(before, now)| now - before)
        .fold((0.0, 0.0), |(fixed, broken), change| {
            (fixed + change.max(0.0), broken + (-change).max(0.0))
        });
    tango(fixed, broken, pairs.len(), REGRESSION_CONFIDENCE)
}

/// Where the true mean score lies, given the scores of each task's trials, at the `look`th look at them, counted from 1. `None`
/// if there is too little to say so.
///
/// Two kinds of chance are at work, and the limits are the widest that either asks for:
/// - The tasks are a sample, drawn once and never again, however often they are tried. They are worth as many observations as
///   there are tasks: Student's interval over tasks, which has no width where all of them agree; Wilson's; and Clopper and
///   Pearson's, which holds for any number of tasks.
/// - Each trial is a draw, and looking again after further trials is another chance to be lucky: Clopper and Pearson's interval
///   over all trials, with the error that this look may spend.
///
/// If tasks were not tried equally often, the mean over tasks has to show the same as the mean over trials: otherwise easy tasks
/// could be tried again and again.
pub fn shown(scores: &[Vec<f64>], look: usize) -> Option<(Interval, Method)> {
    let counts = || scores.iter().map(Vec::len);
    let trials = counts().max().unwrap_or_default();
    let score = score_of(scores, trials).0?;
    let mut interval = chance(score.value, scores.len(), counts().sum(), look)?;
    let binary = |score: &f64| *score == 0.0 || *score == 1.0;
    if trials <= 1 && scores.iter().flatten().all(binary) {
        return Some(interval);
    }
    interval.0 = interval.0.hull(limits(&score)?);
    if counts().min() != Some(trials) {
        let means = scores.iter().filter_map(|task| mean(task, CONFIDENCE));
        let means: Vec<Vec<f64>> = means.map(|task| vec![task.value]).collect();
        let over_tasks = score_of(&means, 1).0?;
        let (weighed, _) = chance(over_tasks.value, means.len(), counts().sum(), look)?;
        interval.0 = interval.0.hull(weighed).hull(limits(&over_tasks)?);
    }
    Some((interval.0, Method::Widest))
}

/// Whether one run in which all of `tasks` pass shows `threshold`.
pub fn perfect_run_shows(tasks: usize, threshold: f64) -> bool {
    chance(1.0, tasks, tasks, 1).is_some_and(|(interval, _)| interval.low >= threshold)
}

fn limits(estimate: &Estimate) -> Option<Interval> {
    Some(Interval {
        low: estimate.low?,
        high: estimate.high?,
    })
}

/// What the number of tasks and the number of trials leave open of a mean.
fn chance(mean: f64, tasks: usize, trials: usize, look: usize) -> Option<(Interval, Method)> {
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

/// The scores that decide: those of all attempts where they are known. `own` are those of the named run and its experiment.
fn pooled(evidence: &Evidence<'_>, own: &[Vec<f64>]) -> Vec<Vec<f64>> {
    if evidence.attempts.is_empty() {
        return own.to_vec();
    }
    attempts::scores(evidence.attempts).into_values().collect()
}

/// Holds the mean score of all attempts against the threshold.
fn gate(evidence: Evidence<'_>, own: &[Vec<f64>], threshold: f64) -> Gate {
    let trials = evidence.trials();
    let scores = pooled(&evidence, own);
    let ids = match evidence.attempts {
        [] => AttemptIds {
            looks: 1,
            run_ids: trials.iter().map(|run| run.run_id.clone()).collect(),
            voided: Vec::new(),
        },
        attempts => AttemptIds::of(attempts),
    };
    let most = scores.iter().map(Vec::len).max().unwrap_or_default();
    let score = score_of(&scores, most).0.map(|score| score.value);
    let found = shown(&scores, ids.looks);
    let interval = found.map(|(interval, _)| interval);
    let open = open(&evidence, own.len(), scores.len());
    let mut reasons = open.clone();
    let measured = trials.iter().any(|run| run.is_measured());
    let least = scores.iter().map(Vec::len).min().unwrap_or_default();
    if measured && least < MEASURED_TRIALS {
        reasons.push(format!(
            "scores of a judge or of live tools need {MEASURED_TRIALS} trials a task, these have {least}"
        ));
    }
    let by_score = interval.map_or(GateVerdict::Inconclusive, |it| {
        against_threshold(it, threshold)
    });
    let verdict = match by_score {
        GateVerdict::Pass if !reasons.is_empty() => GateVerdict::Inconclusive,
        _ if !open.is_empty() => GateVerdict::Inconclusive,
        by_score => by_score,
    };
    if by_score == GateVerdict::Inconclusive
        && let (Some(it), Some(score)) = (interval, score)
    {
        let runs = match ids.looks {
            0 | 1 => String::new(),
            looks => format!(" in {looks} attempts"),
        };
        reasons.push(format!(
            "the score {score:.3} of {} tasks{runs} may come from anything between {:.3} and {:.3}, and {threshold:.3} lies in between",
            scores.len(),
            it.low.max(0.0),
            it.high.min(1.0)
        ));
    }
    if verdict == GateVerdict::Fail {
        reasons.clear();
    }
    Gate {
        threshold,
        verdict,
        confidence: CONFIDENCE,
        low: interval.map(|it| it.low),
        high: interval.map(|it| it.high),
        method: found.map_or(Method::Wilson, |(_, method)| method),
        reasons,
        score,
        attempts: ids,
    }
}

/// What is not there yet, or not any more, to decide on.
fn open(evidence: &Evidence<'_>, own: usize, pooled: usize) -> Vec<String> {
    let trials = evidence.trials();
    let mut reasons = Vec::new();
    if trials.iter().any(|run| !run.is_judged()) {
        reasons.push("not every trial was judged".to_owned());
    }
    if evidence.missing > 0 {
        let planned = trials.len() + evidence.missing;
        reasons.push(format!("{} of {planned} trials are there", trials.len()));
    }
    if pooled < own {
        reasons.push(format!(
            "{} of {own} tasks were judged only in runs that were declared void",
            own - pooled
        ));
    }
    reasons
}

#[cfg(test)]
mod tests;
