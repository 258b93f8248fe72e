//! Work that goes on elsewhere and is told when nobody waits for it any more.

use std::time::Duration;

/// How long telling it may take. It is tried once.
const TELLING_TAKES: Duration = Duration::from_secs(5);
/// What is left of an attempt's time for beginning to tell it.
const LEFT_FOR_TELLING: Duration = Duration::from_millis(200);

/// How long to wait for work within an attempt of `timeout`, whose own deadline drops whoever waits.
pub fn patience(timeout: Duration) -> Duration {
    timeout.saturating_sub(LEFT_FOR_TELLING).max(timeout / 2)
}

/// Tells it, also from where nothing can be awaited. Whether it was heard is not known to anybody who waits.
pub fn tell(telling: impl Future + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            let _ = tokio::time::timeout(TELLING_TAKES, telling).await;
        });
    }
}
