use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::unshown::unshown;
use super::*;
use crate::rules::eval::report::EvalReport;
use crate::rules::eval::safety::kinds::Kind;
use crate::rules::eval::sample::report as run;

const LOWER: &str = "require a score below 1";

fn alone(run: &EvalReport) -> Statistics {
    statistics(&Evidence::of(run), None, None)
}

fn together(run: &EvalReport, further: &[EvalReport], missing: usize) -> Statistics {
    let evidence = Evidence {
        run: EvidenceRun::of(run),
        further: further.iter().map(EvidenceRun::of).collect(),
        missing,
        attempts: Vec::new(),
    };
    statistics(&evidence, None, None)
}

fn golden(scores: &[Option<f64>]) -> EvalReport {
    run("run_1", &["golden"], scores)
}

fn of(passed: usize, n: usize) -> Vec<Option<f64>> {
    (0..n)
        .map(|task| Some(if task < passed { 1.0 } else { 0.0 }))
        .collect()
}

#[rstest]
#[case(16, 20, GateVerdict::Inconclusive)]
#[case(20, 20, GateVerdict::Pass)]
#[case(9, 20, GateVerdict::Fail)]
#[case(172, 200, GateVerdict::Pass)]
#[case(170, 200, GateVerdict::Inconclusive)]
fn a_score_passes_if_its_confidence_interval_excludes_the_pass_score(
    #[case] passed: usize,
    #[case] n: usize,
    #[case] verdict: GateVerdict,
) {
    let found = alone(&golden(&of(passed, n)));
    assert_eq!(found.gate.verdict, verdict);
    assert_eq!(
        found.gate.reasons.is_empty(),
        verdict != GateVerdict::Inconclusive
    );
    assert_eq!((found.n_tasks, found.n_trials), (n, n));
    assert_eq!(found.pass_at_k[&1], found.pass_rate.map(|rate| rate.value));
}

#[test]
fn one_task_with_a_part_of_the_score_has_a_reason() {
    let found = alone(&golden(&[Some(2.0 / 3.0)])).gate;
    assert_eq!(found.verdict, GateVerdict::Inconclusive);
    assert_eq!(
        found.reasons,
        ["the score over 1 task has no confidence interval"]
    );
    assert!(unshown(&found, LOWER, "--lenient").contains("run more tasks"));
}

#[rstest]
#[case::perfect(
    20,
    20,
    1.0,
    "a score of 1 can never be shown with a finite number of tasks"
)]
#[case::undecided(
    16,
    20,
    0.8,
    "run more tasks, or accept the observed score (`--lenient`)"
)]
#[case::below(9, 20, 1.0, "significantly below 1.000")]
fn a_remedy_can_help(
    #[case] passed: usize,
    #[case] n: usize,
    #[case] threshold: f64,
    #[case] part: &str,
) {
    let mut report = golden(&of(passed, n));
    report.suite.pass_score = threshold;
    let said = unshown(&alone(&report).gate, LOWER, "--lenient");
    assert!(said.contains(part), "{said}");
    assert_eq!(said.contains("more tasks"), part.contains("more tasks"));
}

/// Student's interval alone has no width here.
#[test]
fn a_few_identical_scores_are_inconclusive() {
    for trials in [1, 3, 10] {
        let same = run("run_1", &["golden"], &[Some(0.9); 5]);
        let found = together(&same, &vec![same.clone(); trials - 1], 0);
        let score = found.score.unwrap();
        assert!(score.high.unwrap() - score.low.unwrap() > 0.3);
        assert_eq!((score.low, score.high), (found.gate.low, found.gate.high));
        assert_eq!(
            found.gate.verdict,
            GateVerdict::Inconclusive,
            "{trials} trials"
        );
        assert_eq!((found.n_tasks, found.n_trials), (5, 5 * trials));
    }
}

#[test]
fn unjudged_tasks_are_excluded_and_keep_the_verdict_inconclusive() {
    let mut scores = of(40, 40);
    scores.push(None);
    let found = alone(&golden(&scores));
    assert_eq!((found.n_tasks, found.unjudged), (40, 1));
    assert_eq!(found.pass_rate.unwrap().value, 1.0);
    assert_eq!(found.gate.verdict, GateVerdict::Inconclusive);
    assert_eq!(found.gate.reasons, ["not every trial was judged"]);
}

#[test]
fn rubric_scores_require_three_trials() {
    let rubric = || run("run_1", &["rubric"], &of(40, 40));
    let verdict = |trials: usize| {
        together(&rubric(), &vec![rubric(); trials - 1], 0)
            .gate
            .verdict
    };
    assert_eq!(
        [1, 2, 3].map(verdict),
        [
            GateVerdict::Inconclusive,
            GateVerdict::Inconclusive,
            GateVerdict::Pass
        ]
    );
}

#[test]
fn an_experiment_with_a_missing_trial_is_inconclusive() {
    let all = golden(&of(40, 40));
    assert_eq!(
        together(&all, std::slice::from_ref(&all), 0).gate.verdict,
        GateVerdict::Pass
    );
    let found = together(&all, std::slice::from_ref(&all), 1).gate;
    assert_eq!(found.verdict, GateVerdict::Inconclusive);
    assert_eq!(found.reasons, ["2 of 3 trials are available"]);
}

#[test]
fn reliability_is_computed_over_trials() {
    let (good, bad) = (golden(&of(2, 2)), golden(&of(1, 2)));
    let found = together(&good, &[good.clone(), bad], 0);
    assert_eq!(found.pass_at_k[&2], Some(1.0));
    assert_eq!(found.pass_hat_k[&3], Some(0.5));
    assert_eq!(found.trials_per_task, Range { min: 3, max: 3 });
    assert_eq!(found.pass_rate.unwrap().method, Method::Widest);
}

#[test]
fn tasks_are_compared_in_pairs() {
    let before = run(
        "run_0",
        &["golden"],
        &[Some(1.0), Some(1.0), Some(0.0), Some(1.0), None],
    );
    let now = golden(&[Some(1.0), Some(0.0), Some(1.0), Some(0.0), Some(1.0)]);
    let found = statistics(&Evidence::of(&now), Some(&EvidenceRun::of(&before)), None)
        .baseline
        .unwrap();
    assert_eq!((found.n_paired, found.unpaired_dropped), (4, 1));
    assert_eq!((found.fixed, found.broken), (1, 2));
    assert_eq!(found.mean_difference, Some(-0.25));
    assert_eq!(found.mcnemar_p, Some(1.0));
    assert_eq!(found.verdict, RegressionVerdict::Inconclusive);
}

/// Student's interval of the differences has no width if no task flips.
#[rstest]
#[case(20, RegressionVerdict::Inconclusive)]
#[case(130, RegressionVerdict::Inconclusive)]
#[case(140, RegressionVerdict::NotWorse)]
fn too_few_tasks_without_a_flip_are_inconclusive(
    #[case] n: usize,
    #[case] verdict: RegressionVerdict,
) {
    let before = run("run_0", &["golden"], &of(n, n));
    let found = statistics(
        &Evidence::of(&golden(&of(n, n))),
        Some(&EvidenceRun::of(&before)),
        None,
    )
    .baseline
    .unwrap();
    assert_eq!(found.mean_difference, Some(0.0));
    assert_eq!(found.verdict, verdict, "{found:?}");
}

#[rstest]
#[case(4, 0.5)]
#[case(1, 0.2)]
fn a_tiny_suite_does_not_pass_by_luck(#[case] n: usize, #[case] bar: f64) {
    let all = golden(&of(n, n));
    let found = statistics(&Evidence::of(&all), None, Some(bar)).gate;
    assert_eq!(found.verdict, GateVerdict::Inconclusive);
}

#[test]
fn statistics_without_judged_tasks_are_absent() {
    let found = alone(&golden(&[None]));
    assert_eq!(
        (found.n_tasks, found.pass_rate, found.score, found.mde),
        (0, None, None, None)
    );
    assert_eq!(found.gate.verdict, GateVerdict::Inconclusive);
    let one = alone(&golden(&[Some(1.0)]));
    assert_eq!(one.score.unwrap().se, None);
}

#[test]
fn the_statistics_block_has_its_documented_members() {
    let document = serde_json::to_value(alone(&golden(&of(16, 20)))).unwrap();
    for estimate in [&document["pass_rate"], &document["score"]] {
        for member in ["low", "high", "method"] {
            assert_eq!(estimate[member], document["gate"][member]);
        }
    }
    assert_eq!(document["gate"]["verdict"], "inconclusive");
    assert_eq!(document["pass_hat_k"], json!({"1": 0.8}));
    assert_eq!(document["baseline"], Value::Null);
}

#[test]
fn a_change_that_cannot_be_estimated_is_absent() {
    let all = golden(&of(3, 3));
    assert_eq!(alone(&all).mde, None);
    let before = run("run_0", &["golden"], &of(0, 3));
    let found = statistics(&Evidence::of(&all), Some(&EvidenceRun::of(&before)), None);
    assert_eq!(found.mde, None, "all tasks changed alike");
    assert!(alone(&golden(&of(2, 3))).mde.unwrap().value > 0.5);
}

fn scores() -> impl Strategy<Value = Vec<f64>> {
    let graded = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0_f64];
    prop_oneof![
        prop::collection::vec(graded, 2..40),
        (2..40_usize, 0.0..=1.0_f64).prop_map(|(n, score)| vec![score; n]),
    ]
}

proptest! {
    #[test]
    fn no_interval_of_a_score_is_without_width(scores in scores()) {
        let scores: Vec<Option<f64>> = scores.into_iter().map(Some).collect();
        let found = alone(&golden(&scores));
        for estimate in [found.pass_rate.unwrap(), found.score.unwrap()] {
            let (low, high) = (estimate.low.unwrap(), estimate.high.unwrap());
            prop_assert!(low <= estimate.value + 1e-9 && estimate.value <= high + 1e-9);
            prop_assert!(high - low > 0.01, "{estimate:?}");
        }
        let score = found.score.unwrap();
        prop_assert_eq!((score.low, score.high), (found.gate.low, found.gate.high));
    }

    #[test]
    fn no_interval_of_a_difference_is_without_width(scores in scores(), by in -1.0..=1.0_f64) {
        let pairs: Vec<(f64, f64)> = scores
            .iter()
            .map(|score| (*score, (score + by).clamp(0.0, 1.0)))
            .collect();
        let turned: Vec<(f64, f64)> = pairs.iter().map(|(before, now)| (*now, *before)).collect();
        let mean = pairs.iter().map(|(a, b)| b - a).sum::<f64>() / pairs.len() as f64;
        for confidence in [REGRESSION_CONFIDENCE, CONFIDENCE] {
            let found = difference_interval(&pairs, confidence).unwrap();
            let other = difference_interval(&turned, confidence).unwrap();
            prop_assert!(found.low <= mean + 1e-6 && mean - 1e-6 <= found.high, "{found:?}");
            prop_assert!(found.high - found.low > 0.01, "{found:?}");
            prop_assert!((found.low + other.high).abs() < 1e-6, "{found:?} {other:?}");
        }
    }
}

#[rstest]
#[case::judged(&[Some(1.0), Some(0.4), None, Some(0.0)])]
#[case::unjudged(&[None])]
#[case::no_tasks(&[])]
fn figures_summed_page_by_page_are_those_of_the_report(#[case] scores: &[Option<f64>]) {
    let mut report = golden(scores);
    if let Some(task) = report.tasks.first_mut() {
        task.fixture_missing = vec!["crm:lookup".to_owned()];
        task.reused_from = Some("run_0".into());
        report.summary.tasks[0].latency_ms = Some(123_456);
        report.summary.tasks[0].safety_findings = vec![Kind::CanaryLeak.finding()];
    }
    let mut sums = FigureSums::default();
    let rows = || report.summary.tasks.iter().zip(&report.tasks);
    rows().for_each(|(numbers, task)| sums.add(numbers, task));
    rows().for_each(|(numbers, _)| sums.add_latency(numbers));
    assert_eq!(&sums.figures(), EvidenceRun::of(&report).figures());
}
