use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::rules::eval::report::{CachedAnswers, EvalReport};
use crate::rules::eval::sample;
use touchstone_kit::money::NanoUsd;

fn run(name: &str, scores: &[Option<f64>], usd: f64) -> EvalReport {
    let mut report = sample::report(name, &["golden"], scores);
    report.summary.total_cost_usd = NanoUsd::from_usd(usd);
    report
}

fn of(runs: &[(&str, EvalReport)]) -> Matrix {
    let listed: Vec<ListedRun> = runs.iter().map(|(_, it)| ListedRun::of(it)).collect();
    let variants: Vec<Variant<'_>> = runs
        .iter()
        .zip(&listed)
        .map(|((name, _), first)| Variant {
            name,
            first,
            further: &[],
        })
        .collect();
    matrix(&variants)
}

/// The first `passed` of `tasks` tasks pass.
fn passing(passed: usize, tasks: usize) -> Vec<Option<f64>> {
    (0..tasks)
        .map(|n| Some(f64::from(u8::from(n < passed))))
        .collect()
}

#[test]
fn a_large_difference_is_beyond_chance_and_a_small_one_is_not() {
    let found = of(&[
        ("small", run("run_a", &passing(10, 40), 0.01)),
        ("large", run("run_b", &passing(38, 40), 0.50)),
        ("larger", run("run_c", &passing(39, 40), 2.00)),
    ]);
    let said: Vec<(&str, &str, bool)> = found
        .pairs
        .iter()
        .map(|pair| {
            (
                pair.first.as_str(),
                pair.second.as_str(),
                pair.beyond_chance,
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("small", "large", true),
            ("small", "larger", true),
            ("large", "larger", false)
        ]
    );
    let first = &found.pairs[0];
    assert!((first.difference - 0.7).abs() < 1e-9, "{first:?}");
    assert!(
        first.low.unwrap() > 0.5 && first.high.unwrap() < 0.9,
        "{first:?}"
    );
    let row = &found.variants[1];
    assert_eq!((row.passed, row.judged, row.tasks), (38, 40, 40));
    assert!(
        row.low.unwrap() < 0.95 && row.high.unwrap() > 0.95,
        "{row:?}"
    );
}

#[test]
fn p_values_are_adjusted_for_the_number_of_pairs() {
    // Six tasks fixed and none broken: p = 0.03125 for a single pair.
    let one = of(&[
        ("a", run("run_a", &passing(0, 6), 1.0)),
        ("b", run("run_b", &passing(6, 6), 1.0)),
    ]);
    assert!((one.pairs[0].p_adjusted - 0.031_25).abs() < 1e-9);
    assert!(one.pairs[0].beyond_chance);
    let three = of(&[
        ("a", run("run_a", &passing(0, 6), 1.0)),
        ("b", run("run_b", &passing(6, 6), 1.0)),
        ("c", run("run_c", &passing(0, 6), 1.0)),
    ]);
    assert!(
        three.pairs.iter().all(|pair| !pair.beyond_chance),
        "{three:?}"
    );
}

/// Student's interval of the differences has no width if all tasks changed alike.
#[rstest]
#[case(0)]
#[case(3)]
fn the_interval_of_a_pair_has_a_width(#[case] passed: usize) {
    let found = of(&[
        ("a", run("run_a", &passing(3, 3), 1.0)),
        ("b", run("run_b", &passing(passed, 3), 1.0)),
    ]);
    let pair = &found.pairs[0];
    let (low, high) = (pair.low.unwrap(), pair.high.unwrap());
    assert!(high - low > 0.5 && high > 0.0, "{pair:?}");
    assert!(!pair.beyond_chance);
}

#[rstest]
#[case::cheaper_and_worse([(10, 0.1), (20, 1.0)], [true, true])]
#[case::cheaper_and_better([(20, 0.1), (10, 1.0)], [true, false])]
#[case::equal([(20, 0.1), (20, 0.1)], [true, true])]
#[case::equal_score([(20, 0.1), (20, 0.2)], [true, false])]
fn the_front_has_the_variants_that_no_other_beats(
    #[case] variants: [(usize, f64); 2],
    #[case] expected: [bool; 2],
) {
    let [a, b] = variants.map(|(passed, usd)| run("run_x", &passing(passed, 20), usd));
    let found = of(&[("a", a), ("b", b)]);
    let front: Vec<bool> = found.variants.iter().map(|row| row.on_front).collect();
    assert_eq!(front, expected);
}

#[test]
fn an_unjudged_task_does_not_count_and_keeps_its_variant_off_the_front() {
    let found = of(&[
        ("whole", run("run_a", &[Some(1.0), Some(0.0)], 1.0)),
        ("partly", run("run_b", &[Some(1.0), None], 0.0)),
    ]);
    assert_eq!(found.variants[1].score, Some(1.0));
    assert_eq!((found.variants[1].judged, found.variants[1].tasks), (1, 2));
    assert!(found.variants[0].on_front && !found.variants[1].on_front);
    assert_eq!(found.pairs[0].n_tasks, 1);
}

#[test]
fn a_variant_without_judged_tasks_has_no_score_and_no_pair() {
    let found = of(&[
        ("a", run("run_a", &[None, None], 0.0)),
        ("b", run("run_b", &[Some(1.0), Some(1.0)], 0.0)),
    ]);
    assert_eq!(found.variants[0].score, None);
    assert!(found.pairs.is_empty());
}

#[test]
fn cached_answers_count_with_their_full_cost() {
    let mut report = run("run_a", &passing(1, 2), 0.25);
    report.answer_cache = Some(CachedAnswers {
        cached: 1,
        cached_of_agent: Some(0),
        answers: 2,
        cost_saved_usd: NanoUsd::from_usd(0.5),
    });
    let found = of(&[("a", report)]);
    assert_eq!(found.variants[0].cost_usd, Some(0.75));
    assert_eq!(found.variants[0].cached_answers, 0, "only the judge's");
}

#[test]
fn a_variant_of_unknown_cost_is_neither_on_the_front_nor_beats_others() {
    let mut unknown = run("run_b", &passing(2, 2), 0.0);
    unknown.summary.total_cost_usd = None;
    let mut saved = run("run_c", &passing(2, 2), 0.0);
    saved.answer_cache = Some(CachedAnswers {
        cached: 2,
        cached_of_agent: None,
        answers: 2,
        cost_saved_usd: None,
    });
    let found = of(&[
        ("a", run("run_a", &passing(1, 2), 0.5)),
        ("b", unknown),
        ("c", saved),
    ]);
    let costs: Vec<_> = found.variants.iter().map(|it| it.cost_usd).collect();
    assert_eq!(costs, [Some(0.5), None, None]);
    let front: Vec<_> = found.variants.iter().map(|it| it.on_front).collect();
    assert_eq!(front, [true, false, false]);
}

#[rstest]
#[case::the_cheapest_fails_everything([(0, 0.0), (10, 1.0)], [false, true])]
#[case::every_variant_fails_everything([(0, 0.1), (0, 0.2)], [false, false])]
fn a_variant_with_score_0_is_not_on_the_front(
    #[case] variants: [(usize, f64); 2],
    #[case] expected: [bool; 2],
) {
    let [a, b] = variants.map(|(passed, usd)| run("run_x", &passing(passed, 20), usd));
    let found = of(&[("a", a), ("b", b)]);
    let front: Vec<bool> = found.variants.iter().map(|row| row.on_front).collect();
    assert_eq!(front, expected);
}

proptest! {
    #[test]
    fn the_front_has_exactly_the_variants_with_a_score_that_no_other_beats(
        variants in prop::collection::vec((0_usize..=10, 0_u32..5), 1..6),
    ) {
        let runs: Vec<(&str, EvalReport)> = variants
            .iter()
            .map(|(passed, usd)| ("v", run("run_v", &passing(*passed, 10), f64::from(*usd))))
            .collect();
        let found = of(&runs);
        let beats = |(passed, usd): (usize, u32), (than, cost): (usize, u32)| {
            passed >= than && usd <= cost && (passed > than || usd < cost)
        };
        for (row, own) in found.variants.iter().zip(&variants) {
            let beaten = variants.iter().any(|other| beats(*other, *own));
            prop_assert_eq!(row.on_front, own.0 > 0 && !beaten);
        }
        let best = variants.iter().map(|(passed, _)| *passed).max().unwrap_or_default();
        let has_front = found.variants.iter().any(|row| row.on_front);
        prop_assert_eq!(has_front, best > 0);
        for pair in &found.pairs {
            prop_assert!((0.0..=1.0).contains(&pair.p_adjusted));
            prop_assert_eq!(pair.beyond_chance, pair.p_adjusted <= found.alpha);
        }
    }
}
