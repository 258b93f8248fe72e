//! Retrying requests to a host that is temporarily unreachable or asks to be called later.

use std::time::Duration;

use serde_json::Value;

use crate::cli::exit::{Exit, Failure};

/// The first polling interval, short for work that ends quickly.
pub const LOOK_FIRST: Duration = Duration::from_millis(50);
/// The longest polling interval.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How many times in a row a host may be unreachable.
const ATTEMPTS: u32 = 10;
/// The longest retry delay that is respected; a longer one is reported as an error.
const LONGEST: Duration = Duration::from_secs(120);

/// Repeats a request until the host answers; a refusal is final.
pub async fn retry_until_answered<T, F>(ask: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut pause = LOOK_FIRST;
    let mut left = ATTEMPTS;
    loop {
        let failure = match ask().await {
            Err(failure) if failure.exit == Exit::NotDone => failure,
            answered => return answered,
        };
        match requested_delay(&failure) {
            // A host that asks for a delay is reachable.
            Some(wait) if wait <= LONGEST => tokio::time::sleep(wait).await,
            Some(_) => return Err(failure),
            None => {
                left -= 1;
                if left == 0 {
                    return Err(failure);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LOOK_EVERY);
            }
        }
    }
}

/// The retry delay that a rate-limited request must respect.
pub fn requested_delay(failure: &Failure) -> Option<Duration> {
    if !failure.code.eq_ignore_ascii_case("rate_limited") {
        return None;
    }
    let named = ["retryAfterMs", "retry_after_ms"];
    let millis = named.iter().find_map(|name| failure.details.get(*name));
    millis.and_then(Value::as_u64).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn limited(millis: u64) -> Failure {
        Failure::not_done("RATE_LIMITED", "too many requests").with("retry_after_ms", millis)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_retried_after_retry_after_but_not_during_long_outages() {
        let asked = AtomicU32::new(0);
        let answered = retry_until_answered(|| async {
            match asked.fetch_add(1, Ordering::Relaxed) {
                // More often than a host may be unreachable.
                0..30 => Err(limited(10_000)),
                _ => Ok(7),
            }
        });
        let began = tokio::time::Instant::now();
        assert_eq!(answered.await, Ok(7));
        assert_eq!(began.elapsed(), Duration::from_secs(300));

        let hour = retry_until_answered(|| async { Err::<(), _>(limited(3_600_000)) });
        assert_eq!(hour.await, Err(limited(3_600_000)));
        let away = || Failure::not_done("server_unreachable", "unreachable");
        let asked = AtomicU32::new(0);
        let gone = retry_until_answered(|| async {
            asked.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(away())
        });
        assert_eq!(gone.await, Err(away()));
        assert_eq!(asked.load(Ordering::Relaxed), ATTEMPTS);
    }
}
