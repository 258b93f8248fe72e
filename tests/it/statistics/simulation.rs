//! Error rates of the gate for agents with a known true rate.
//!
//! The tasks of an agent differ in one of five ways, from independent trials to tasks that always
//! or never pass. False promotions are counted at the worst point: agents whose true rate equals
//! the threshold.

use std::fmt::Write as _;

use statrs::distribution::{Beta, ContinuousCDF as _};
use touchstone_kit::statistics::{GateVerdict, against_threshold, wilson_of};
use touchstone_runs::rules::eval::statistics::{CONFIDENCE, mean_interval};

const TASKS: [usize; 5] = [5, 10, 20, 50, 100];
const TRIALS: [usize; 3] = [1, 3, 10];
const RATES: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];
const BARS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
const AGENTS: u32 = 1000;
const CAMPAIGNS: u32 = 2000;
const LOOKS: usize = 30;
/// The error rate stated in the documentation.
const PROMISED: f64 = 1.0 - CONFIDENCE;

/// SplitMix64: simulations mostly draw numbers, and tests are not optimized.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let top = u32::try_from((z ^ (z >> 31)) >> 32).unwrap();
        f64::from(top) / 4_294_967_296.0
    }
}

/// How the tasks of an agent differ.
#[derive(Clone, Copy)]
enum Structure {
    /// All tasks have the agent's rate.
    Independent,
    /// Half of the tasks always pass.
    EasyHalf,
    /// The tasks' rates follow a beta distribution with this intra-class correlation.
    Correlated(f64),
    /// Each task always or never passes.
    Decided,
}

const STRUCTURES: [Structure; 5] = [
    Structure::Independent,
    Structure::EasyHalf,
    Structure::Correlated(0.3),
    Structure::Correlated(0.7),
    Structure::Decided,
];

impl Structure {
    /// Equally likely rates from which tasks draw theirs; the mean is `rate`.
    fn rates(self, rate: f64) -> Vec<f64> {
        match self {
            Self::Independent => vec![rate],
            Self::EasyHalf => vec![1.0, 2.0 * rate - 1.0],
            Self::Correlated(alike) => {
                let scale = 1.0 / alike - 1.0;
                let law = Beta::new(rate * scale, (1.0 - rate) * scale).unwrap();
                (0..500)
                    .map(|n| law.inverse_cdf((f64::from(n) + 0.5) / 500.0))
                    .collect()
            }
            Self::Decided => {
                let passing = |n: u32| {
                    if f64::from(n) < rate * 1000.0 - 0.5 {
                        1.0
                    } else {
                        0.0
                    }
                };
                (0..1000).map(passing).collect()
            }
        }
    }
}

fn pick(dice: &mut Dice, rates: &[f64]) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a short list"
    )]
    let place = (dice.roll() * rates.len() as f64) as usize;
    rates[place]
}

fn scores(dice: &mut Dice, (tasks, trials): (usize, usize), rates: &[f64]) -> Vec<Vec<f64>> {
    let task = |_| {
        let rate = pick(dice, rates);
        (0..trials)
            .map(|_| if dice.roll() < rate { 1.0 } else { 0.0 })
            .collect()
    };
    (0..tasks).map(task).collect()
}

fn passes(scores: &[Vec<f64>], look: usize, threshold: f64) -> bool {
    mean_interval(scores.iter().map(Vec::as_slice), look)
        .is_some_and(|(interval, _)| against_threshold(interval, threshold) == GateVerdict::Pass)
}

/// Share of agents with these rates that the gate promotes at its first look.
fn promoted(dice: &mut Dice, size: (usize, usize), rates: &[f64], threshold: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "at most two thousand trials")]
    let trials = (size.0 * size.1) as f64;
    let least = least(size.0, threshold);
    let passes = (0..AGENTS).filter(|_| {
        let scores = scores(dice, size, rates);
        let mean = scores.iter().flatten().sum::<f64>() / trials;
        mean >= least && passes(&scores, 1, threshold)
    });
    f64::from(u32::try_from(passes.count()).unwrap()) / f64::from(AGENTS)
}

/// The worst case over all structures, for agents whose true rate equals the threshold.
fn worst(dice: &mut Dice, size: (usize, usize), threshold: f64) -> f64 {
    let structures = STRUCTURES.iter().take(if size.1 == 1 { 1 } else { 5 });
    structures
        .map(|structure| promoted(dice, size, &structure.rates(threshold), threshold))
        .fold(0.0, f64::max)
}

fn documented(table: &str) {
    let told = include_str!("../../../docs/statistics.md");
    assert!(
        told.contains(table),
        "docs/statistics.md does not show what the simulation finds:\n{table}"
    );
}

#[test]
fn the_false_promotion_rate_stays_below_the_significance_level() {
    let mut dice = Dice(20_26);
    let mut table = String::from(
        "| tasks | trials | 0.50 | 0.70 | 0.80 | 0.90 | 0.95 |\n|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for tasks in TASKS {
        for trials in TRIALS {
            let _ = write!(table, "| {tasks} | {trials} |");
            for threshold in RATES {
                let wrong = worst(&mut dice, (tasks, trials), threshold);
                assert!(
                    wrong <= PROMISED,
                    "{wrong} of the agents at {threshold} are promoted on {tasks} tasks, {trials} trials"
                );
                let _ = write!(table, " {:.1} % |", wrong * 100.0);
            }
            table.push('\n');
        }
    }
    documented(&table);
}

#[test]
fn a_good_agent_is_promoted_given_enough_tasks() {
    let mut dice = Dice(20_26);
    let mut table = String::from("| tasks | 0.85 | 0.90 | 0.95 | 1.00 |\n|--:|--:|--:|--:|--:|\n");
    let mut last = 0.0;
    for tasks in [10, 20, 50, 100, 200] {
        let _ = write!(table, "| {tasks} |");
        for rate in [0.85, 0.9, 0.95, 1.0] {
            last = promoted(&mut dice, (tasks, 1), &[rate], 0.8);
            let _ = write!(table, " {:.0} % |", last * 100.0);
        }
        table.push('\n');
    }
    assert_eq!(last, 1.0);
    documented(&table);
}

/// The exact error of one run with independent tasks, at the threshold that maximizes it: just
/// below the lower bound that some number of passes gives.
#[test]
fn the_error_bound_holds_for_any_task_count_and_pass_score() {
    for tasks in (1..=30).chain([50, 100, 200]) {
        for passed in 0..=tasks {
            let scores: Vec<Vec<f64>> = (0..tasks)
                .map(|task| vec![if task < passed { 1.0 } else { 0.0 }])
                .collect();
            let Some((interval, _)) = mean_interval(scores.iter().map(Vec::as_slice), 1) else {
                continue;
            };
            let bar = interval.low;
            if bar <= 0.0 {
                continue;
            }
            let error = tail(tasks, passed, bar);
            assert!(
                error <= PROMISED,
                "{passed} of {tasks} promote {error} of the agents at {bar}"
            );
        }
    }
}

/// The probability that `passed` or more of `tasks` pass.
fn tail(tasks: usize, passed: usize, rate: f64) -> f64 {
    use statrs::distribution::{Binomial, DiscreteCDF as _};
    let Some(fewer) = passed.checked_sub(1) else {
        return 1.0;
    };
    let law = Binomial::new(rate, tasks as u64).unwrap();
    law.sf(fewer as u64)
}

/// The lowest mean over `tasks` that can pass: Wilson's interval is part of every rule.
fn least(tasks: usize, threshold: f64) -> f64 {
    let reaches = |mean: f64| wilson_of(mean, tasks, CONFIDENCE).unwrap().interval.low >= threshold;
    let (mut low, mut high) = (threshold, 1.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if reaches(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low - 1e-9
}

/// The share of campaigns that promote an agent with these rates: a run, a look at all runs so far,
/// repeated until it passes.
fn campaigns(dice: &mut Dice, tasks: usize, rates: &[f64], threshold: f64, looks: usize) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "at most a hundred tasks thirty times"
    )]
    let mean = |passed: usize, trials: usize| passed as f64 / trials as f64;
    let least = least(tasks, threshold);
    let mut promoted = 0_u32;
    for _ in 0..CAMPAIGNS {
        let rates: Vec<f64> = (0..tasks).map(|_| pick(dice, rates)).collect();
        let (mut passed, mut total) = (vec![0_usize; tasks], 0);
        for look in 1..=looks {
            for (task, rate) in passed.iter_mut().zip(&rates) {
                if dice.roll() < *rate {
                    *task += 1;
                    total += 1;
                }
            }
            if mean(total, tasks * look) < least {
                continue;
            }
            let scores: Vec<Vec<f64>> = passed
                .iter()
                .map(|passed| [vec![1.0; *passed], vec![0.0; look - passed]].concat())
                .collect();
            if passes(&scores, look, threshold) {
                promoted += 1;
                break;
            }
        }
    }
    f64::from(promoted) / f64::from(CAMPAIGNS)
}

#[test]
fn repeated_runs_keep_the_false_promotion_rate_below_the_significance_level() {
    let mut dice = Dice(20_26);
    let mut table =
        String::from("| tasks | 0.50 | 0.60 | 0.70 | 0.80 | 0.90 |\n|--:|--:|--:|--:|--:|--:|\n");
    for tasks in TASKS {
        let _ = write!(table, "| {tasks} |");
        for bar in BARS {
            let mut wrong = 0.0_f64;
            for structure in STRUCTURES {
                let found = campaigns(&mut dice, tasks, &structure.rates(bar), bar, LOOKS);
                wrong = wrong.max(found);
            }
            assert!(
                wrong <= PROMISED,
                "{wrong} of the agents at {bar} are promoted within {LOOKS} looks at {tasks} tasks"
            );
            let _ = write!(table, " {:.1} % |", wrong * 100.0);
        }
        table.push('\n');
    }
    documented(&table);
}

#[test]
fn good_agents_are_still_promoted_by_later_looks() {
    let mut dice = Dice(20_26);
    let mut table =
        String::from("| tasks | 1 run | 2 runs | 5 runs | 30 runs |\n|--:|--:|--:|--:|--:|\n");
    for tasks in [20, 50, 100] {
        for (structure, name) in [
            (Structure::Independent, "alike"),
            (Structure::Decided, "always or never pass"),
        ] {
            let _ = write!(table, "| {tasks}, {name} |");
            for looks in [1, 2, 5, LOOKS] {
                let found = campaigns(&mut dice, tasks, &structure.rates(0.9), 0.8, looks);
                let _ = write!(table, " {:.0} % |", found * 100.0);
            }
            table.push('\n');
        }
    }
    documented(&table);
}

/// Running a good agent every night is not penalized.
#[test]
fn a_perfect_record_passes_at_any_look() {
    for look in 1..=100 {
        let scores = vec![vec![1.0; look]; 20];
        assert!(passes(&scores, look, 0.8), "look {look}");
    }
}

/// Repeating an easy task often and a hard one once must not raise the score.
#[test]
fn easy_tasks_count_no_more_than_hard_ones() {
    let mut scores = vec![vec![1.0; 50]; 40];
    scores.extend(vec![vec![0.0]; 20]);
    assert!(!passes(&scores, 2, 0.8));
}
