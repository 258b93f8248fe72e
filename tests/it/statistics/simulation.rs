//! How often the gate errs, against agents whose true rate is known.
//!
//! Tasks differ: those of one agent are alike by an intra-class correlation, from trials that have nothing in common but the
//! agent (0) to tasks that always or never pass (1). False promotions are counted at the worst place, an agent whose true rate
//! is the threshold itself.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use touchstone::domain::eval::statistics::{CONFIDENCE, shown};
use touchstone::domain::statistics::{GateVerdict, against_threshold};

const TASKS: [usize; 5] = [5, 10, 20, 50, 100];
const TRIALS: [usize; 3] = [1, 3, 10];
const RATES: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];
const ALIKE: [f64; 3] = [0.0, 0.5, 1.0];
const AGENTS: u32 = 1000;

/// The rate of one task. With a chance of `alike` it always or never passes; otherwise it passes at the agent's rate.
fn rate_of_task(dice: &mut StdRng, rate: f64, alike: f64) -> f64 {
    if !dice.random_bool(alike) {
        return rate;
    }
    if dice.random_bool(rate) { 1.0 } else { 0.0 }
}

fn scores(
    dice: &mut StdRng,
    (tasks, trials): (usize, usize),
    rate: f64,
    alike: f64,
) -> Vec<Vec<f64>> {
    let task = |_| {
        let rate = rate_of_task(dice, rate, alike);
        (0..trials)
            .map(|_| if dice.random_bool(rate) { 1.0 } else { 0.0 })
            .collect()
    };
    (0..tasks).map(task).collect()
}

/// How many of a thousand agents the gate promotes.
fn promoted(dice: &mut StdRng, size: (usize, usize), rate: f64, alike: f64, threshold: f64) -> f64 {
    let passes = (0..AGENTS).filter(|_| {
        let scores = scores(dice, size, rate, alike);
        shown(&scores).is_some_and(|(interval, _)| {
            against_threshold(interval, threshold) == GateVerdict::Pass
        })
    });
    f64::from(u32::try_from(passes.count()).unwrap()) / f64::from(AGENTS)
}

/// The worst over how alike trials are, for agents whose true rate is `rate`.
fn worst(dice: &mut StdRng, size: (usize, usize), rate: f64, threshold: f64) -> f64 {
    let alike = ALIKE.iter().take(if size.1 == 1 { 1 } else { ALIKE.len() });
    alike
        .map(|alike| promoted(dice, size, rate, *alike, threshold))
        .fold(0.0, f64::max)
}

#[test]
fn the_gate_promotes_wrongly_no_more_often_than_it_says() {
    let mut dice = StdRng::seed_from_u64(20_26);
    let mut table = String::from(
        "| tasks | trials | 0.50 | 0.70 | 0.80 | 0.90 | 0.95 |\n|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for tasks in TASKS {
        for trials in TRIALS {
            let _ = write!(table, "| {tasks} | {trials} |");
            for threshold in RATES {
                let wrong = worst(&mut dice, (tasks, trials), threshold, threshold);
                assert!(
                    wrong <= 1.0 - CONFIDENCE,
                    "{wrong} of the agents at {threshold} are promoted on {tasks} tasks, {trials} trials"
                );
                let _ = write!(table, " {:.1} % |", wrong * 100.0);
            }
            table.push('\n');
        }
    }
    let told = include_str!("../../../docs/statistics.md");
    assert!(
        told.contains(&table),
        "docs/statistics.md does not show what the simulation finds:\n{table}"
    );
}

#[test]
fn a_good_agent_is_promoted_given_enough_tasks() {
    let mut dice = StdRng::seed_from_u64(20_26);
    let mut table = String::from("| tasks | 0.85 | 0.90 | 0.95 | 1.00 |\n|--:|--:|--:|--:|--:|\n");
    let mut last = 0.0;
    for tasks in [10, 20, 50, 100, 200] {
        let _ = write!(table, "| {tasks} |");
        for rate in [0.85, 0.9, 0.95, 1.0] {
            last = promoted(&mut dice, (tasks, 1), rate, 0.0, 0.8);
            let _ = write!(table, " {:.0} % |", last * 100.0);
        }
        table.push('\n');
    }
    assert_eq!(last, 1.0);
    let told = include_str!("../../../docs/statistics.md");
    assert!(
        told.contains(&table),
        "docs/statistics.md does not show what the simulation finds:\n{table}"
    );
}
