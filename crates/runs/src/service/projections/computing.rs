//! Computations over all tasks of a run.

use tokio::task::{JoinError, spawn_blocking};

/// Number of tasks from which a computation takes milliseconds.
const MANY: usize = 10_000;

/// Computes something over so many tasks. If they are many, it gets a thread of its own, because other
/// requests would wait for it.
///
/// # Errors
/// The computation panicked.
pub async fn computed<T: Send + 'static>(
    tasks: usize,
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match tasks < MANY {
        true => Ok(compute()),
        false => spawn_blocking(compute).await,
    }
}
