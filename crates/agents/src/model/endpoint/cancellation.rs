//! Remote work that is cancelled when it is no longer awaited.

use std::time::Duration;

use touchstone_host::otlp::span;

/// Timeout of the cancellation request. It is sent once.
const CANCELLATION_TIMEOUT: Duration = Duration::from_secs(5);
/// The part of an attempt's time that is reserved for starting the cancellation.
const CANCELLATION_RESERVE: Duration = Duration::from_millis(200);

/// How long to wait for work within an attempt of `timeout`; the attempt's own deadline drops the
/// waiting future.
pub fn wait_limit(timeout: Duration) -> Duration {
    timeout
        .saturating_sub(CANCELLATION_RESERVE)
        .max(timeout / 2)
}

/// Sends the cancellation in the background, also from code that cannot await. Its result is not
/// reported. It carries the trace context of the call that it ends.
pub fn send_in_background(request: impl Future<Output: Send> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let request = span::within(span::current(), request);
        runtime.spawn(async move {
            let _ = tokio::time::timeout(CANCELLATION_TIMEOUT, request).await;
        });
    }
}
