//! Simulations of hosts and workers under faults.
//!
//! A simulation runs the services of this crate and the agent runtime on one thread with a simulated
//! network, database and model endpoint. Time is virtual, and a seed decides everything else, so a
//! seed that violates an invariant does so each time. Processes are stopped where they meet what is
//! outside: the bus, the database and the model.
//!
//! While a simulation runs, it checks each entry of the log ([`database`]) and each call of the
//! model ([`world`]); at its end, the number of calls, the budget and the progress.

mod database;
mod model;
pub mod mutation;
mod network;
mod process;
mod schedule;
mod world;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use touchstone_agents::ports::agent::InvocationEnd;

use crate::service::owner::WORKER_LOST;
use schedule::{Millis, Node, Schedule, TOKENS};
use world::World;

/// How long a run may take once all faults are over.
const PROGRESS_WITHIN: Millis = 90_000;
/// How long late messages are awaited after the end of a run.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// The result of a simulation.
#[derive(Debug, Default)]
struct Outcome {
    violations: Vec<String>,
    trace: Vec<String>,
    counts: Counts,
    /// When the run has ended.
    ended_at: Millis,
}

/// What has happened in simulations, to see that they reach what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    tasks: u64,
    calls: u64,
    /// Calls that no log records.
    unrecorded: u64,
    lost_attempts: u64,
    /// Times that a host has taken over the run of another one, or of its own earlier start.
    takeovers: u64,
    given_up: u64,
    exhausted: u64,
    /// Longest time from the last fault to the end of a run.
    longest: Millis,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.calls += other.calls;
        self.unrecorded += other.unrecorded;
        self.lost_attempts += other.lost_attempts;
        self.takeovers += other.takeovers;
        self.given_up += other.given_up;
        self.exhausted += other.exhausted;
        self.longest = self.longest.max(other.longest);
    }
}

/// Runs one schedule until its run has ended.
fn simulate(schedule: &Schedule, traced: bool) -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(schedule.clone(), traced);
        let mut processes = JoinSet::new();
        for host in 0..schedule.hosts {
            processes.spawn(process::supervise(Arc::clone(&world), Node::Host(host)));
        }
        for worker in 0..schedule.workers {
            processes.spawn(process::supervise(Arc::clone(&world), Node::Worker(worker)));
        }
        let longest = Duration::from_millis(schedule.healed() + PROGRESS_WITHIN);
        let ended = tokio::time::timeout(longest, world.ended.notified()).await;
        let ended_at = world.now();
        if ended.is_err() {
            let open = world.state().database.open_tasks();
            world.violated(format!("the run has not ended: {open:?}"));
        } else if world.state().violations.is_empty() {
            tokio::time::sleep(SETTLED_AFTER).await;
        }
        check(&world);
        let counts = counts(&world.state(), ended_at.saturating_sub(schedule.healed()));
        processes.shutdown().await;
        let mut state = world.state();
        Outcome {
            violations: std::mem::take(&mut state.violations),
            trace: state.trace.take().unwrap_or_default(),
            counts,
            ended_at,
        }
    })
}

/// Checks a run that has ended.
fn check(world: &World) {
    let mut problems = Vec::new();
    {
        let state = world.state();
        if !state.violations.is_empty() {
            return;
        }
        for (id, task) in &state.database.tasks {
            let is_call = |it: &&world::Call| it.task == *id;
            let calls = state.calls.iter().filter(is_call).count();
            let unreported = unreported(&state, id);
            let started = state.attempts.get(id).map_or(0, |it| it.len());
            let is_decided = matches!(task.end, Some(InvocationEnd::Decided { .. }));
            // An attempt that was lost has made at most one call that its owner does not know.
            if unreported > started - usize::from(is_decided) {
                problems.push(format!(
                    "{unreported} calls of {id} are not recorded in {started} attempts"
                ));
            }
            if world.schedule.is_calm() && is_decided && calls != task.calls as usize {
                problems.push(format!("{calls} calls of {id} without faults"));
            }
            let is_given_up = |end: &InvocationEnd| matches!(end, InvocationEnd::Unjudged { reason } if reason == WORKER_LOST);
            if world.schedule.spares_workers() && task.end.as_ref().is_some_and(is_given_up) {
                problems.push(format!("{id} was given up although no worker had a fault"));
            }
            if world.schedule.is_calm() && started > 1 {
                problems.push(format!("{started} attempts at {id} without faults"));
            }
        }
        let unreported = state.calls.len() - state.reported.len();
        if let Some(most) = world.schedule.max_tokens {
            let spent = TOKENS * state.calls.len() as u64;
            // One call may exceed the limit, and lost attempts do not count their last call.
            let allowed = most + TOKENS * (1 + unreported as u64);
            let unwritten = state.reported.len() as u64 - state.database.spent().tokens / TOKENS;
            if spent > allowed + TOKENS * unwritten {
                problems.push(format!("{spent} tokens spent of {most}"));
            }
        }
    }
    for problem in problems {
        world.violated(problem);
    }
}

/// The number of calls of a task whose usage no owner has received.
fn unreported(state: &world::State, task: &str) -> usize {
    let calls = (0..).zip(&state.calls);
    calls
        .filter(|(number, call)| call.task == task && !state.reported.contains(number))
        .count()
}

fn counts(state: &world::State, longest: Millis) -> Counts {
    let tasks = state.database.tasks.values();
    let ends_by = |reason: &str| {
        let tasks = tasks.clone();
        let by = |end: &InvocationEnd| match end {
            InvocationEnd::Unjudged { reason: found } => found == reason,
            _ => false,
        };
        tasks.filter(|it| it.end.as_ref().is_some_and(by)).count() as u64
    };
    Counts {
        tasks: tasks.len() as u64,
        calls: state.calls.len() as u64,
        unrecorded: state.calls.len() as u64 - state.database.spent().tokens / TOKENS,
        lost_attempts: tasks.clone().map(|it| u64::from(it.lost)).sum(),
        takeovers: state.database.fence().saturating_sub(1),
        given_up: ends_by(WORKER_LOST),
        exhausted: ends_by("budget_exhausted"),
        longest,
    }
}

#[cfg(test)]
mod tests;
