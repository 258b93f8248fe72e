//! How tasks and means changed.

use super::document::{ChangeKind, MeanChange, TaskResult};
use crate::rules::eval::scoring::EPSILON;
use crate::rules::eval::statistics::{
    CONFIDENCE, Comparison, Evidence, Pairs, Trials, difference_interval,
};
use touchstone_kit::ids::TaskId;
use touchstone_kit::statistics::{Interval, RegressionVerdict, average, paired};

/// Change of the score, with the interval that also decides about a regression.
pub fn score_change(tasks: &Pairs<'_>) -> Option<MeanChange> {
    let pairs = pairs(tasks, Trials::mean_score);
    mean_change(&pairs, difference_interval(&pairs, CONFIDENCE))
}

/// Change of a cost or latency, with Student's interval if the differences vary.
pub fn change<'a>(tasks: &Pairs<'a>, of: impl Fn(Trials<'a>) -> Option<f64>) -> Option<MeanChange> {
    let pairs = pairs(tasks, of);
    let found = paired(pairs.iter().copied(), CONFIDENCE)?;
    let varies = found.p_two_sided.is_some();
    mean_change(&pairs, found.interval.filter(|_| varies))
}

/// The values of the tasks that have one in both runs.
fn pairs<'a>(tasks: &Pairs<'a>, of: impl Fn(Trials<'a>) -> Option<f64>) -> Vec<(f64, f64)> {
    let both = tasks.iter();
    both.filter_map(|(before, now)| Some((of(before)?, of(now)?)))
        .collect()
}

fn mean_change(pairs: &[(f64, f64)], limits: Option<Interval>) -> Option<MeanChange> {
    let found = paired(pairs.iter().copied(), CONFIDENCE)?;
    let were = pairs.iter().map(|(was, _)| *was);
    let are = pairs.iter().map(|(_, is)| *is);
    Some(MeanChange {
        n_tasks: found.n,
        baseline: average(were)?,
        candidate: average(are)?,
        difference: found.mean,
        low: limits.map(|limits| limits.low),
        high: limits.map(|limits| limits.high),
    })
}

/// How a task changed; `None` if it did not.
pub fn change_kind(was: Trials<'_>, is: Trials<'_>) -> Option<ChangeKind> {
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
    pub fn of(trials: Trials<'_>, reason: Option<&String>) -> Self {
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

/// Why the interval shows a regression although the exact test of the flips does not.
pub fn flips_note(tested: &Comparison) -> Option<String> {
    let p = tested.mcnemar_p.filter(|p| *p >= 1.0 - CONFIDENCE)?;
    (tested.verdict == RegressionVerdict::Regressed).then(|| {
        format!(
            "the score is significantly worse because its 90 % interval lies below the margin; the \
             exact test of the flips (p = {p:.3}) is two-sided and needs more flips to decide"
        )
    })
}

impl Evidence {
    /// Why a task failed: its label in the first trial that has one.
    pub(super) fn reason(&self, task: &TaskId) -> Option<&String> {
        let mut trials = self.trials().into_iter();
        trials.find_map(|run| run.results.reason(task))
    }
}
