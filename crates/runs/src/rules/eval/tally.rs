//! Sums over the scored tasks of an eval run, from one visit of each task in suite order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::judged::agreement::DecisionCounts;
use super::report::{TaskOutcome, outcome_of};
use super::scoring::p95_of_sorted;
use crate::rules::run::fold::{EvalFacts, TaskFacts};
use crate::rules::run::record::EvalSpec;

/// The mean of scores, 0 without scores; always within 0.0..=1.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanScore {
    sum: f64,
    pub count: usize,
}

impl MeanScore {
    pub fn add(&mut self, score: f64) {
        self.sum += score;
        self.count += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "task counts are far below 2^53")]
    pub fn value(self) -> f64 {
        match self.count {
            0 => 0.0,
            count => (self.sum / count as f64).clamp(0.0, 1.0),
        }
    }
}

impl FromIterator<f64> for MeanScore {
    fn from_iter<I: IntoIterator<Item = f64>>(scores: I) -> Self {
        let mut mean = Self::default();
        scores.into_iter().for_each(|score| mean.add(score));
        mean
    }
}

/// Number of tasks by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeCounts {
    pub passed: usize,
    pub failed: usize,
    pub unjudged: usize,
}

impl OutcomeCounts {
    pub const fn add(&mut self, outcome: TaskOutcome) {
        match outcome {
            TaskOutcome::Passed => self.passed += 1,
            TaskOutcome::Failed => self.failed += 1,
            TaskOutcome::Unjudged => self.unjudged += 1,
        }
    }

    pub const fn judged(self) -> usize {
        self.passed + self.failed
    }

    pub const fn all(self) -> usize {
        self.judged() + self.unjudged
    }
}

/// The sums of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub outcomes: OutcomeCounts,
    /// Number of tasks that reached their pass score.
    pub passed: usize,
    pub score: MeanScore,
    /// By the name of the metric.
    pub metrics: BTreeMap<String, MeanScore>,
    pub decisions: DecisionCounts,
    /// Number of tasks whose cost is an estimate.
    pub estimated: usize,
    p95_latency_ms: Option<u64>,
    median_latency_ms: Option<u64>,
}

impl Tally {
    pub fn of(spec: &EvalSpec, facts: &EvalFacts) -> Self {
        let mut tally = Self {
            decisions: DecisionCounts::of(spec),
            ..Self::default()
        };
        let mut latencies = Vec::new();
        for id in spec.tasks.texts() {
            if let Some(task) = facts.scored_task(id) {
                tally.add(&task);
                latencies.extend(task.latency_ms);
            }
        }
        latencies.sort_unstable();
        tally.p95_latency_ms = p95_of_sorted(&latencies);
        tally.median_latency_ms = latencies.get(latencies.len() / 2).copied();
        tally
    }

    fn add(&mut self, task: &TaskFacts) {
        self.outcomes.add(outcome_of(task));
        self.passed += usize::from(task.passed);
        self.score.add(task.score);
        for (name, value) in &task.metrics {
            // Most tasks have names that are known.
            match self.metrics.get_mut(name) {
                Some(mean) => mean.add(*value),
                None => self.metrics.entry(name.clone()).or_default().add(*value),
            }
        }
        self.decisions.add(task);
        self.estimated += usize::from(task.usage_estimated);
    }

    pub const fn scored(&self) -> usize {
        self.outcomes.all()
    }

    /// The 95th percentile of the latencies; `None` if none was measured.
    pub const fn p95_latency_ms(&self) -> Option<u64> {
        self.p95_latency_ms
    }

    /// The median of the latencies; `None` if none was measured.
    pub const fn median_latency_ms(&self) -> Option<u64> {
        self.median_latency_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_mean_lies_between_the_extremes(scores in prop::collection::vec(0.0..=1.0_f64, 1..50)) {
            let mean: MeanScore = scores.iter().copied().collect();
            let low = scores.iter().copied().fold(1.0, f64::min);
            let high = scores.iter().copied().fold(0.0, f64::max);
            prop_assert!(low - 1e-12 <= mean.value() && mean.value() <= high + 1e-12);
        }
    }
}
