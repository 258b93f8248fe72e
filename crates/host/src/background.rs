//! Background work whose panics are caught and logged.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tracing::error;

use crate::telemetry::{counter, names};

/// The work panicked, which has been logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("background work panicked")]
pub struct Panicked;

/// Spawned supervised work.
pub type Spawned<T> = JoinHandle<Result<T, Panicked>>;

/// Catches and logs a panic of `work`. The panic's message may hold content, so it is not logged;
/// the panic hook prints the location.
///
/// # Errors
/// [`Panicked`].
pub async fn supervised<T>(
    name: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, Panicked> {
    // Exported before it counts, so that its first increase is visible.
    let failures = counter(names::BACKGROUND_FAILURES, &[("work", name)]);
    let worked = AssertUnwindSafe(work).catch_unwind().await;
    worked.map_err(|_| {
        error!(work = name, "background work panicked");
        failures.increment(1);
        Panicked
    })
}

/// Spawns supervised work that continues if the handle is dropped. The caller ensures that it ends:
/// it awaits or aborts the handle, or the work ends by itself.
#[expect(clippy::disallowed_methods, reason = "the one supervised form")]
pub fn spawn<T: Send + 'static>(
    name: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> Spawned<T> {
    tokio::spawn(supervised(name, work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_background_task_is_returned_as_an_error() {
        assert_eq!(supervised("test", async { 1 }).await, Ok(1));
        let spawned = spawn::<()>("test", async { panic!("content") });
        assert_eq!(spawned.await.unwrap(), Err(Panicked));
    }
}
