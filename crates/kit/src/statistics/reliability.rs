//! Reliability over trials: pass@k and pass^k (Chen et al. 2021, arXiv 2107.03374; τ-bench, arXiv
//! 2406.12045).

use super::{average, count};

/// The trials of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    pub trials: usize,
    pub passed: usize,
}

/// The probability that at least one of `k` trials passes, averaged over tasks. `None` if a task
/// has fewer trials.
pub fn pass_at_k(tasks: impl Iterator<Item = Attempts> + Clone, k: usize) -> Option<f64> {
    over(tasks, k, |task| {
        1.0 - share(task.trials - task.passed, task.trials, k)
    })
}

/// The probability that all of `k` trials pass, averaged over tasks. `None` if a task has fewer
/// trials.
pub fn pass_hat_k(tasks: impl Iterator<Item = Attempts> + Clone, k: usize) -> Option<f64> {
    over(tasks, k, |task| share(task.passed, task.trials, k))
}

fn over(
    tasks: impl Iterator<Item = Attempts> + Clone,
    k: usize,
    chance: impl Fn(Attempts) -> f64 + Copy,
) -> Option<f64> {
    let sound = |task: Attempts| k > 0 && task.trials >= k && task.passed <= task.trials;
    match tasks.clone().all(sound) {
        true => average(tasks.map(chance)),
        false => None,
    }
}

/// C(some, k) / C(all, k), as a product that cannot overflow.
fn share(some: usize, all: usize, k: usize) -> f64 {
    if some < k {
        return 0.0;
    }
    (0..k)
        .map(|drawn| count(some - drawn) / count(all - drawn))
        .product()
}
