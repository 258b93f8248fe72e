//! The verdict on the threshold, over all attempts.

use super::{CONFIDENCE, Gate, MEASURED_TRIALS, Method, mean_interval, score_of};
use crate::rules::eval::attempts::{self, Attempt, AttemptIds};
use crate::rules::eval::report::RunTotals;
use crate::rules::eval::scoring::tasks as counted_tasks;
use touchstone_kit::statistics::{GateVerdict, against_threshold};

/// As [`Evidence`](super::Evidence), without the results of the trials.
pub(super) struct Pool<'a> {
    pub trials: Vec<&'a RunTotals>,
    pub missing: usize,
    pub attempts: &'a [Attempt],
}

impl Pool<'_> {
    /// Compares the mean score of all attempts with the threshold. Where attempts are not known,
    /// `own` counts: the scores of the named run and its experiment.
    pub fn gate<'a>(&self, own: impl Iterator<Item = &'a [f64]> + Clone, threshold: f64) -> Gate {
        let tasks = own.clone().count();
        if self.attempts.is_empty() {
            let ids = AttemptIds {
                looks: 1,
                run_ids: self.trials.iter().map(|run| run.run_id.clone()).collect(),
                voided: Vec::new(),
            };
            return self.gate_over(own, ids, tasks, threshold);
        }
        let pooled = attempts::scores(self.attempts);
        self.gate_over(
            pooled.iter(),
            AttemptIds::of(self.attempts),
            tasks,
            threshold,
        )
    }

    /// `own` is the number of tasks of the named run and its experiment.
    fn gate_over<'a>(
        &self,
        scores: impl Iterator<Item = &'a [f64]> + Clone,
        ids: AttemptIds,
        own: usize,
        threshold: f64,
    ) -> Gate {
        let counts = scores.clone().map(<[f64]>::len);
        let (tasks, most) = (counts.clone().count(), counts.clone().max());
        let score = score_of(scores.clone(), most.unwrap_or_default()).0;
        let score = score.map(|score| score.value);
        let found = mean_interval(scores, ids.looks);
        let interval = found.map(|(interval, _)| interval);
        let missing = self.missing_data(own, tasks);
        let mut reasons = missing.clone();
        let measured = self.trials.iter().any(|run| run.is_measured());
        let least = counts.min().unwrap_or_default();
        if measured && least < MEASURED_TRIALS {
            reasons.push(format!(
                "scores from a judge or live tools need {MEASURED_TRIALS} trials per task, but \
                 these have {least}"
            ));
        }
        let by_score = interval.map_or(GateVerdict::Inconclusive, |it| {
            against_threshold(it, threshold)
        });
        let verdict = match by_score {
            GateVerdict::Pass if !reasons.is_empty() => GateVerdict::Inconclusive,
            _ if !missing.is_empty() => GateVerdict::Inconclusive,
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
                "the interval of the score {score:.3} over {}{runs} is {:.3} to {:.3}, which \
                 includes {threshold:.3}",
                counted_tasks(tasks),
                it.low.max(0.0),
                it.high.min(1.0)
            ));
        }
        if reasons.is_empty() && interval.is_none() {
            reasons.push(match tasks {
                0 => "no task has a score".to_owned(),
                n => format!(
                    "the score over {} has no confidence interval",
                    counted_tasks(n)
                ),
            });
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

    /// Data that is missing for a decision.
    fn missing_data(&self, own: usize, pooled: usize) -> Vec<String> {
        let trials = &self.trials;
        let mut reasons = Vec::new();
        if trials.iter().any(|run| !run.is_judged()) {
            reasons.push("not every trial was judged".to_owned());
        }
        if self.missing > 0 {
            let planned = trials.len() + self.missing;
            reasons.push(format!(
                "{} of {planned} trials are available",
                trials.len()
            ));
        }
        if pooled < own {
            reasons.push(format!(
                "{} of {own} tasks were judged only in voided runs",
                own - pooled
            ));
        }
        reasons
    }
}
