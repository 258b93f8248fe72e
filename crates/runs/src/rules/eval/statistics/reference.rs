//! The statistics as they were computed before they read packed results: with lists of scores by task
//! in a map. Property tests compare every bit, because digests of attestations cover the numbers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use touchstone_kit::statistics::student_quantile;

use super::*;
use crate::rules::eval::attempts::{Attempt, AttemptedTask};
use crate::rules::eval::report::{EvalReport, TaskOutcome};
use crate::rules::eval::sample;
use touchstone_kit::ids::TaskId;

#[derive(Default)]
struct Lists {
    scores: Vec<f64>,
    passed: usize,
}

fn lists(runs: &[&EvalReport]) -> BTreeMap<TaskId, Lists> {
    let mut tasks: BTreeMap<TaskId, Lists> = BTreeMap::new();
    for run in runs {
        for (scored, task) in run.summary.tasks.iter().zip(&run.tasks) {
            if task.outcome != TaskOutcome::Unjudged {
                let lists = tasks.entry(scored.task_id.clone()).or_default();
                lists.scores.push(scored.score);
                lists.passed += usize::from(scored.passed);
            }
        }
    }
    tasks
}

fn count(n: usize) -> f64 {
    n as f64
}

fn average_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

fn squares(values: &[f64], centre: f64) -> f64 {
    values.iter().map(|value| (value - centre).powi(2)).sum()
}

/// The value, its error and its interval.
type Found = (f64, Option<f64>, Option<Interval>);

fn quantile(confidence: f64, degrees: usize) -> Option<f64> {
    student_quantile(f64::midpoint(1.0, confidence), degrees)
}

fn around(value: f64, half: f64) -> Interval {
    Interval {
        low: value - half,
        high: value + half,
    }
}

fn mean_list(scores: &[f64], confidence: f64) -> Option<Found> {
    let (value, n) = (average_of(scores)?, scores.len());
    let t = n
        .checked_sub(1)
        .and_then(|degrees| quantile(confidence, degrees));
    let se = t.map(|_| (squares(scores, value) / (count(n) * count(n - 1))).sqrt());
    Some((value, se, t.zip(se).map(|(t, se)| around(value, t * se))))
}

fn clustered_list(clusters: &[Vec<f64>]) -> Option<(Found, Option<f64>)> {
    let all: Vec<f64> = clusters.concat();
    let value = average_of(&all)?;
    let (n, groups) = (all.len(), clusters.len());
    let naive = (n > 1).then(|| (squares(&all, value) / (count(n) * count(n - 1))).sqrt());
    let t = groups
        .checked_sub(1)
        .and_then(|degrees| quantile(CONFIDENCE, degrees));
    let se = t.map(|_| {
        let excess = |trials: &[f64]| trials.iter().map(|score| score - value).sum::<f64>();
        let spread: f64 = clusters.iter().map(|trials| excess(trials).powi(2)).sum();
        (count(groups) / count(groups - 1) * spread).sqrt() / count(n)
    });
    let effect = se
        .zip(naive.filter(|naive| *naive > 0.0))
        .map(|(se, naive)| (se / naive).powi(2));
    let interval = t.zip(se).map(|(t, se)| around(value, t * se));
    Some(((value, se, interval), effect))
}

fn score_list(clusters: &[Vec<f64>]) -> (Option<Found>, Option<f64>) {
    match clusters.iter().map(Vec::len).max() {
        Some(2..) => {
            let found = clustered_list(clusters);
            (found.map(|it| it.0), found.and_then(|it| it.1))
        }
        _ => (mean_list(&clusters.concat(), CONFIDENCE), None),
    }
}

fn interval_list(clusters: &[Vec<f64>], look: usize) -> Option<Interval> {
    let counts = || clusters.iter().map(Vec::len);
    let most = counts().max().unwrap_or_default();
    let (value, _, limits) = score_list(clusters).0?;
    let mut found = interval_of_mean(value, clusters.len(), counts().sum(), look)?.0;
    let binary = |score: &f64| *score == 0.0 || *score == 1.0;
    if most <= 1 && clusters.concat().iter().all(binary) {
        return Some(found);
    }
    found = found.hull(limits?);
    if counts().min() != Some(most) {
        let means: Vec<f64> = clusters
            .iter()
            .filter_map(|task| average_of(task))
            .collect();
        let (value, _, limits) = mean_list(&means, CONFIDENCE)?;
        let (weighed, _) = interval_of_mean(value, means.len(), counts().sum(), look)?;
        found = found.hull(weighed).hull(limits?);
    }
    Some(found)
}

fn bits(value: Option<f64>) -> Option<u64> {
    value.map(f64::to_bits)
}

fn of_estimate(found: Option<Estimate>) -> Option<[Option<u64>; 4]> {
    let found = found?;
    Some([Some(found.value), found.se, found.low, found.high].map(bits))
}

/// As [`of_estimate`] for the mean of these lists.
fn of_lists(clusters: &[Vec<f64>]) -> Option<[Option<u64>; 4]> {
    let (value, se, _) = score_list(clusters).0?;
    let limits = interval_list(clusters, 1);
    let (low, high) = (limits.map(|it| it.low), limits.map(|it| it.high));
    Some([Some(value), se, low, high].map(bits))
}

fn scores_of(run: usize, scores: &[Option<f64>], rotated: usize) -> EvalReport {
    let mut report = sample::report(&format!("run_{run}"), &["golden"], scores);
    let by = rotated % scores.len().max(1);
    report.tasks.rotate_left(by);
    report.summary.tasks.rotate_left(by);
    report
}

fn attempt(report: &EvalReport) -> Attempt {
    let judged = report.summary.tasks.iter().zip(&report.tasks);
    let judged = judged.filter(|(_, task)| task.outcome != TaskOutcome::Unjudged);
    let tasks = judged.map(|(scored, _)| AttemptedTask {
        task_id: scored.task_id.clone(),
        score: scored.score,
        passed: scored.passed,
        critical: Vec::new(),
    });
    Attempt {
        run_id: report.run_id.clone(),
        status: "completed".to_owned(),
        created_at: Timestamp::UNIX_EPOCH,
        trial: None,
        retry_of: None,
        tasks: std::sync::Arc::new(tasks.collect()),
        voided: None,
    }
}

/// Runs of the same suite: of each task its score, if it was judged, and by how much the run's list
/// of tasks is rotated.
fn runs() -> impl Strategy<Value = Vec<(Vec<Option<f64>>, usize)>> {
    let graded = prop_oneof![Just(0.0), Just(1.0), Just(0.1), 0.0..=1.0_f64];
    let score = prop::option::weighted(0.9, graded);
    (1..30_usize, 1..5_usize).prop_flat_map(move |(tasks, runs)| {
        let run = (prop::collection::vec(score.clone(), tasks), 0..30_usize);
        prop::collection::vec(run, runs)
    })
}

proptest! {
    #[test]
    fn packed_results_give_the_same_bits_as_lists(runs in runs(), pooled in any::<bool>()) {
        let reports: Vec<EvalReport> = runs
            .iter()
            .enumerate()
            .map(|(n, (scores, rotated))| scores_of(n, scores, *rotated))
            .collect();
        let (run, further) = reports.split_first().unwrap();
        let attempts = match pooled {
            true => reports.iter().map(attempt).collect(),
            false => Vec::new(),
        };
        let looks = AttemptIds::of(&attempts).looks;
        let evidence = Evidence {
            run: EvidenceRun::of(run),
            further: further.iter().map(EvidenceRun::of).collect(),
            missing: 0,
            attempts,
        };
        let baseline = reports.last().unwrap();
        let found = statistics(&evidence, Some(&EvidenceRun::of(baseline)), None);
        let tasks = lists(&reports.iter().collect::<Vec<_>>());
        let clusters: Vec<Vec<f64>> = tasks.values().map(|it| it.scores.clone()).collect();
        prop_assert_eq!(of_estimate(found.score), of_lists(&clusters));
        prop_assert_eq!(bits(found.design_effect), bits(score_list(&clusters).1));
        let outcomes: Vec<Vec<f64>> = tasks
            .values()
            .map(|it| [vec![1.0; it.passed], vec![0.0; it.scores.len() - it.passed]].concat())
            .collect();
        prop_assert_eq!(of_estimate(found.pass_rate), of_lists(&outcomes));
        let limits = interval_list(&clusters, if pooled { looks } else { 1 });
        prop_assert_eq!(bits(found.gate.low), bits(limits.map(|it| it.low)));
        prop_assert_eq!(bits(found.gate.high), bits(limits.map(|it| it.high)));
        prop_assert_eq!(bits(found.gate.score), bits(score_list(&clusters).0.map(|it| it.0)));
        let before = lists(&[baseline]);
        let pairs: Vec<(f64, f64)> = tasks
            .iter()
            .filter_map(|(id, now)| Some((average_of(&before.get(id)?.scores)?, average_of(&now.scores)?)))
            .collect();
        let changes: Vec<f64> = pairs.iter().map(|(before, now)| now - before).collect();
        let expected = mean_list(&changes, REGRESSION_CONFIDENCE);
        let comparison = found.baseline.unwrap();
        prop_assert_eq!(bits(comparison.mean_difference), bits(expected.map(|it| it.0)));
        prop_assert_eq!(bits(comparison.se_paired), bits(expected.and_then(|it| it.1)));
        prop_assert_eq!(comparison.n_paired, pairs.len());
        let limits = difference_interval(&pairs, REGRESSION_CONFIDENCE);
        prop_assert_eq!(bits(comparison.low), bits(limits.map(|it| it.low)));
    }
}
