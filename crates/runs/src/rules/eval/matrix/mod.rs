//! Several variants of an agent side by side: scores with intervals, cost, latency, the differences
//! that chance does not explain, and the variants that no other one beats.
//!
//! Each pair of variants is compared over the tasks that both judged. The p values of all pairs are
//! adjusted together (Holm), because the more pairs there are, the more differ by chance.

#[cfg(test)]
mod tests;

mod grid;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::grid::{CellOutcome, MatrixCell, MatrixTask};
use super::report::{RunTotals, Verdict};
use super::statistics::{
    CONFIDENCE, Evidence, ListedRun, Pairs, RunResults, Trials, TrialsByTask, by_task,
    difference_interval, mean_interval, statistics,
};
use touchstone_kit::ids::{AgentId, RunId};
use touchstone_kit::money::NanoUsd;
use touchstone_kit::statistics::{holm, mcnemar, paired, quantile};

/// The family-wise error of all pairs together.
const ALPHA: f64 = 0.05;

/// A variant and its runs: one, or one per trial.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// What distinguishes it from the others.
    pub name: &'a str,
    pub first: &'a ListedRun,
    /// The trials after the first.
    pub further: &'a [ListedRun],
}

impl<'a> Variant<'a> {
    pub fn reports(&self) -> impl Iterator<Item = &'a RunTotals> + use<'a> {
        self.runs().map(|run| &run.run.report)
    }

    fn results(&self) -> impl Iterator<Item = &'a RunResults> + use<'a> {
        self.runs().map(|run| &*run.run.results)
    }

    fn runs(&self) -> impl Iterator<Item = &'a ListedRun> + use<'a> {
        std::iter::once(self.first).chain(self.further)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Matrix {
    /// The confidence level of all intervals.
    pub confidence: f64,
    /// The permitted probability that any difference is wrongly called beyond chance.
    pub alpha: f64,
    /// In the order of the command line.
    pub variants: Vec<MatrixRow>,
    /// Every pair of variants.
    pub pairs: Vec<MatrixPair>,
    /// The results of every task, in the order of the suite.
    pub tasks: Vec<MatrixTask>,
}

/// A variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixRow {
    pub name: String,
    pub run_id: RunId,
    /// The runs of all trials, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trial_run_ids: Vec<RunId>,
    pub agent_id: AgentId,
    pub agent_version: String,
    /// The model that answered; absent if none did.
    pub model: Option<String>,
    /// The verdict of the run; with several trials, the worst one, or the one of all trials if each
    /// of them passes.
    pub verdict: Verdict,
    /// Mean score of the judged tasks, 0.0..=1.0; `null` if none was judged.
    pub score: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Tasks that passed, in most trials.
    pub passed: usize,
    /// Tasks that were judged in every trial.
    pub judged: usize,
    /// Tasks of the run.
    pub tasks: usize,
    /// Cost of one run without the cache, in USD; the mean of the trials. `null` if it is unknown.
    pub cost_usd: Option<f64>,
    pub latency_p50_ms: Option<f64>,
    pub latency_p95_ms: Option<f64>,
    /// Answers of the agent's model from the cache, whose latency is not the model's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_answers: u64,
    /// Why tasks are unjudged, as labels, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unjudged_reasons: Vec<String>,
    /// Whether no other variant has a better score for at most its cost, or its score for less.
    /// Only variants with every task judged, a score above 0 and a known cost can be, and count.
    pub on_front: bool,
}

/// Two variants, compared over the tasks that both judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixPair {
    pub first: String,
    pub second: String,
    pub n_tasks: usize,
    /// Mean score of the second minus that of the first.
    pub difference: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Two-sided, adjusted for the number of pairs.
    pub p_adjusted: f64,
    /// Whether the adjusted p value is at most alpha.
    pub beyond_chance: bool,
}

pub fn matrix(variants: &[Variant<'_>]) -> Matrix {
    let trials: Vec<TrialsByTask> = variants
        .iter()
        .map(|variant| by_task(&variant.results().collect::<Vec<_>>()))
        .collect();
    let mut rows: Vec<MatrixRow> = variants
        .iter()
        .zip(&trials)
        .map(|(variant, tasks)| row(variant, tasks))
        .collect();
    mark_front(&mut rows);
    Matrix {
        confidence: CONFIDENCE,
        alpha: ALPHA,
        pairs: pairs(variants, &trials),
        tasks: grid::tasks(variants, &trials),
        variants: rows,
    }
}

fn row(variant: &Variant<'_>, tasks: &TrialsByTask) -> MatrixRow {
    let report = &variant.first.run.report;
    let trials = 1 + variant.further.len();
    let scores: Vec<f64> = tasks
        .values()
        .filter_map(|task| task.mean_score())
        .collect();
    let interval = mean_interval(tasks.scores(), 1).map(|(interval, _)| interval);
    let mut latencies: Vec<f64> = tasks
        .values()
        .filter_map(|task| task.mean_latency())
        .collect();
    latencies.sort_by(f64::total_cmp);
    let costs: Option<Vec<f64>> = variant.reports().map(cost).collect();
    let whole = |task: &Trials<'_>| task.attempts().trials == trials;
    MatrixRow {
        name: variant.name.to_owned(),
        run_id: report.run_id.clone(),
        trial_run_ids: match trials {
            1 => Vec::new(),
            _ => variant.reports().map(|it| it.run_id.clone()).collect(),
        },
        agent_id: report.agent.agent_id.clone(),
        agent_version: report.agent.version.clone(),
        model: report.evaluated.as_ref().map(|it| it.model.clone()),
        verdict: verdict(variant),
        score: average(&scores),
        low: interval.map(|it| it.low.clamp(0.0, 1.0)),
        high: interval.map(|it| it.high.clamp(0.0, 1.0)),
        passed: tasks.values().filter(|task| task.passes()).count(),
        judged: tasks.values().filter(whole).count(),
        tasks: report.summary.task_count,
        cost_usd: costs.and_then(|costs| average(&costs)),
        latency_p50_ms: quantile(&latencies, 0.5),
        latency_p95_ms: quantile(&latencies, 0.95),
        cached_answers: variant
            .reports()
            .filter_map(|it| it.answer_cache.as_ref())
            .map(|it| it.cached_of_agent.unwrap_or(it.cached))
            .sum(),
        unjudged_reasons: unjudged_reasons(variant),
        on_front: false,
    }
}

fn unjudged_reasons(variant: &Variant<'_>) -> Vec<String> {
    let results = variant.results();
    let reasons: BTreeSet<&String> = results.flat_map(RunResults::unjudged_reasons).collect();
    reasons.into_iter().cloned().collect()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The cost of a run without the cache, in USD.
fn cost(report: &RunTotals) -> Option<f64> {
    // The cost that the cached answers would have had; unknown if the price is.
    let saved = match report.answer_cache {
        Some(cache) => cache.cost_saved_usd,
        None => Some(NanoUsd::ZERO),
    };
    let paid = report.summary.total_cost_usd.zip(saved);
    paid.map(|(paid, saved)| paid.usd() + saved.usd())
}

/// The worst verdict of all trials: one that could not be judged, else one that failed. If all of
/// them pass, the verdict that accounts for chance.
fn verdict(variant: &Variant<'_>) -> Verdict {
    let has = |verdict: Verdict| {
        variant
            .reports()
            .any(|report| report.lenient_verdict() == verdict)
    };
    let worst = [Verdict::Pending, Verdict::Inconclusive, Verdict::Fail]
        .into_iter()
        .find(|verdict| has(*verdict));
    match worst {
        Some(verdict) => verdict,
        None if variant.further.is_empty() => variant.first.run.report.verdict,
        // The report of a trial was made before the others had ended.
        None => {
            let evidence = Evidence {
                further: variant.further.iter().map(|it| it.run.clone()).collect(),
                ..Evidence::of_run(variant.first.run.clone())
            };
            statistics(&evidence, None, None).gate.verdict.into()
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "suites are far below 2^52 tasks"
)]
fn average(values: &[f64]) -> Option<f64> {
    // Scores of earlier versions may be -0.0.
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64 + 0.0)
}

/// Marks the variants that no other one beats in score and cost. A score of 0 is worth no cost: the
/// cheapest variant would otherwise be marked even if it fails every task.
fn mark_front(rows: &mut [MatrixRow]) {
    let measured = |row: &MatrixRow| {
        let whole = row.judged == row.tasks;
        let score = row.score.filter(|score| *score > 0.0);
        score.zip(row.cost_usd).filter(|_| whole)
    };
    let all: Vec<(f64, f64)> = rows.iter().filter_map(measured).collect();
    for row in rows {
        let Some((score, cost)) = measured(row) else {
            continue;
        };
        row.on_front = !all.iter().any(|(other_score, other_cost)| {
            *other_score >= score
                && *other_cost <= cost
                && (*other_score > score || *other_cost < cost)
        });
    }
}

fn pairs(variants: &[Variant<'_>], trials: &[TrialsByTask]) -> Vec<MatrixPair> {
    let numbered: Vec<(usize, (&Variant<'_>, &TrialsByTask))> =
        variants.iter().zip(trials).enumerate().collect();
    let mut p_values = Vec::new();
    let mut pairs = Vec::new();
    for (number, (first, before)) in &numbered {
        for (_, (second, now)) in numbered.iter().skip(number + 1) {
            let scores: Vec<(f64, f64)> = Pairs::of(before, now)
                .iter()
                .filter_map(|(before, now)| Some((before.mean_score()?, now.mean_score()?)))
                .collect();
            let Some(found) = paired(scores.iter().copied(), CONFIDENCE) else {
                continue;
            };
            let limits = difference_interval(&scores, CONFIDENCE);
            p_values.push(p_of(&scores, found.p_two_sided));
            pairs.push(MatrixPair {
                first: first.name.to_owned(),
                second: second.name.to_owned(),
                n_tasks: found.n,
                difference: found.mean,
                low: limits.map(|it| it.low),
                high: limits.map(|it| it.high),
                p_adjusted: 1.0,
                beyond_chance: false,
            });
        }
    }
    for (pair, adjusted) in pairs.iter_mut().zip(holm(&p_values, ALPHA)) {
        pair.p_adjusted = adjusted.p;
        pair.beyond_chance = adjusted.rejected;
    }
    pairs
}

/// The p value of paired scores: McNemar's exact test of scores 0 and 1, else Student's test, else,
/// if all tasks changed alike, the exact test of the directions.
fn p_of(scores: &[(f64, f64)], student: Option<f64>) -> f64 {
    let binary = |score: f64| score == 0.0 || score == 1.0;
    let is_binary = scores.iter().all(|(a, b)| binary(*a) && binary(*b));
    if let Some(p) = student.filter(|_| !is_binary) {
        return p;
    }
    let count = |better: fn(&f64, &f64) -> bool| {
        let changed = scores.iter().filter(|(before, now)| better(before, now));
        u64::try_from(changed.count()).unwrap_or(u64::MAX)
    };
    mcnemar(
        count(|before, now| now > before),
        count(|before, now| now < before),
    )
    .p_two_sided
}
