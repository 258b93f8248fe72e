use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mutation::Mutation;
use super::schedule::{Fault, FaultKind};
use super::*;

/// The seed of the only schedule to run. Its trace is printed.
const SEED: &str = "TOUCHSTONE_SIMULATION_SEED";
/// The number of schedules to run.
const SCHEDULES: &str = "TOUCHSTONE_SIMULATION_SCHEDULES";
/// Schedules without a setting.
const USUAL: u64 = if cfg!(debug_assertions) { 300 } else { 2_000 };
/// Schedules in which a fault in the rules has to be found.
const FOUND_WITHIN: u64 = 1_000;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("`{name}` must be a number, got {text:?}")))
}

/// The shortest part of a schedule's faults that violates an invariant.
fn smallest(mut schedule: Schedule) -> Schedule {
    let mut number = 0;
    while number < schedule.faults.len() {
        let mut fewer = schedule.clone();
        fewer.faults.remove(number);
        if simulate(&fewer, false).violations.is_empty() {
            number += 1;
        } else {
            schedule = fewer;
        }
    }
    schedule
}

fn report(schedule: &Schedule, violations: &[String]) -> String {
    let seed = schedule.seed;
    let smallest = smallest(schedule.clone());
    let faults = smallest.faults.iter();
    let faults: Vec<String> = faults.map(|fault| format!("  {fault:?}")).collect();
    format!(
        "seed {seed} violates an invariant:\n  {}\nschedule:\n{schedule}faults that suffice:\n{}\n\
         repeat: {SEED}={seed} cargo test -p touchstone-cluster simulation -- --nocapture",
        violations.join("\n  "),
        faults.join("\n"),
    )
}

/// Runs schedules on all processors, with a fault in the rules if one is named. Returns the counts,
/// and the first seed that fails.
fn simulate_all(schedules: u64, mutation: Option<Mutation>) -> (Counts, Option<u64>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let counts = Mutex::new(Counts::default());
    let work = || {
        let _on = mutation.map(Mutation::turn_on);
        let mut own = Counts::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= schedules.min(failed.load(Ordering::Relaxed)) {
                break;
            }
            let outcome = simulate(&Schedule::of(seed), false);
            own.add(outcome.counts);
            if !outcome.violations.is_empty() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
        }
        counts.lock().unwrap().add(own);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    let counts = counts.into_inner().unwrap();
    (counts, (failed < u64::MAX).then_some(failed))
}

#[test]
fn invariants_hold_under_faults() {
    if let Some(seed) = setting(SEED) {
        let schedule = Schedule::of(seed);
        let outcome = simulate(&schedule, true);
        println!("{schedule}{}", outcome.trace.join("\n"));
        assert!(
            outcome.violations.is_empty(),
            "{}",
            report(&schedule, &outcome.violations)
        );
        return;
    }
    let schedules = setting(SCHEDULES).unwrap_or(USUAL);
    let (counts, failed) = simulate_all(schedules, None);
    println!("{schedules} schedules: {counts:?}");
    if let Some(seed) = failed {
        let schedule = Schedule::of(seed);
        let violations = simulate(&schedule, false).violations;
        panic!("{}", report(&schedule, &violations));
    }
    if schedules >= USUAL {
        let Counts {
            lost_attempts,
            takeovers,
            exhausted,
            unrecorded,
            ..
        } = counts;
        for count in [lost_attempts, takeovers, exhausted, unrecorded] {
            assert!(count > 0, "the schedules are too harmless: {counts:?}");
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..20 {
        let schedule = Schedule::of(seed);
        assert_eq!(schedule, Schedule::of(seed));
        let (first, second) = (simulate(&schedule, true), simulate(&schedule, true));
        let mut lines = first.trace.iter().zip(&second.trace);
        let differing = lines.find(|(one, other)| one != other);
        assert_eq!(differing, None, "seed {seed}");
        assert_eq!(first.trace.len(), second.trace.len());
        assert!(first.trace.len() > 10);
    }
}

#[test]
fn another_host_continues_the_run_of_one_that_is_cut_off_from_the_bus() {
    for seed in 0..10 {
        let mut schedule = Schedule {
            hosts: 2,
            workers: 2,
            max_tokens: None,
            ..Schedule::of(2 + 8 * seed)
        };
        schedule.speeds = [vec![1.0; 2], vec![1.0; 2]];
        schedule.noise.lost = 0.0;
        schedule.tasks = vec![3; 20];
        schedule.faults = vec![Fault {
            kind: FaultKind::CutOff {
                node: Node::Host(0),
                sends: true,
                receives: true,
            },
            from: 1_000,
            to: 300_000,
        }];
        let outcome = simulate(&schedule, false);
        assert_eq!(outcome.violations, Vec::<String>::new(), "{schedule}");
        assert!(outcome.counts.takeovers > 0, "{schedule}");
        assert!(
            outcome.ended_at < 200_000,
            "{} {schedule}",
            outcome.ended_at
        );
    }
}

#[test]
fn a_violation_is_reported_with_its_seed_and_the_faults_that_suffice() {
    let _on = Mutation::HoldsNeverEnd.turn_on();
    let fails = |seed: &u64| {
        let schedule = Schedule::of(*seed);
        schedule.faults.len() > 1 && !simulate(&schedule, false).violations.is_empty()
    };
    let seed = (0..FOUND_WITHIN).find(fails).unwrap();
    let schedule = Schedule::of(seed);
    let violations = simulate(&schedule, false).violations;
    let found = report(&schedule, &violations);
    assert!(found.contains(&violations[0]), "{found}");
    assert!(found.contains(&format!("{SEED}={seed} cargo")), "{found}");
    let smallest = smallest(schedule.clone());
    assert!(smallest.faults.len() < schedule.faults.len(), "{found}");
    assert!(!simulate(&smallest, false).violations.is_empty());
}

#[test]
fn faults_in_the_rules_are_found() {
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let (_, found) = simulate_all(FOUND_WITHIN, Some(mutation));
        match found {
            Some(seed) => println!("{mutation:?}: seed {seed}"),
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
