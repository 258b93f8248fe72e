//! Computations over the results of many tasks.

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// Number of results from which a computation takes milliseconds.
const MANY: usize = 10_000;

/// Limits large computations that run at the same time. Each takes about 100 bytes of memory a result.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Runs a computation over a number of results. A large one runs on another thread, so that it does not
/// delay other requests.
///
/// # Errors
/// The computation panicked.
pub async fn computed<T: Send + 'static>(
    results: usize,
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if results < MANY {
        return Ok(compute());
    }
    let turn = TURNS.acquire().await;
    // The computation continues if the request is cancelled, so it holds the turn itself.
    spawn_blocking(move || {
        let _turn = turn;
        compute()
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_large_computations_run_on_another_thread() {
        let here = thread::current().id();
        let thread = || thread::current().id();
        assert_eq!(computed(MANY - 1, thread).await.unwrap(), here);
        assert_ne!(computed(MANY, thread).await.unwrap(), here);
        let failed = computed(MANY, || panic!("no result")).await;
        assert!(failed.unwrap_err().is_panic());
    }
}
