//! Asking a host that may be away for a moment, or that says when to come again.

use std::time::Duration;

use serde_json::Value;

use super::exit::{Exit, Failure};

/// Looks at what is under way; the first ones come soon, for what is quickly done.
pub const LOOK_FIRST: Duration = Duration::from_millis(50);
/// The longest wait between two of them.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often in a row a host may be away.
const ATTEMPTS: u32 = 10;
/// The longest wait a host may ask for; whoever is to wait longer is told so instead.
const LONGEST: Duration = Duration::from_secs(120);

/// Asks until there is an answer; what was refused is refused.
pub async fn persistently<T, F>(ask: impl Fn() -> F) -> Result<T, Failure>
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
        match told_to_wait(&failure) {
            // A host that says when to come again is not away.
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

/// How long the host wants one who asks too much to wait.
pub fn told_to_wait(failure: &Failure) -> Option<Duration> {
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
        Failure::not_done("RATE_LIMITED", "too much").with("retry_after_ms", millis)
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_says_when_is_asked_again_then_and_one_that_is_away_for_long_is_not() {
        let asked = AtomicU32::new(0);
        let answered = persistently(|| async {
            match asked.fetch_add(1, Ordering::Relaxed) {
                // More often than a host may be away.
                0..30 => Err(limited(10_000)),
                _ => Ok(7),
            }
        });
        let began = tokio::time::Instant::now();
        assert_eq!(answered.await, Ok(7));
        assert_eq!(began.elapsed(), Duration::from_secs(300));

        let hour = persistently(|| async { Err::<(), _>(limited(3_600_000)) });
        assert_eq!(hour.await, Err(limited(3_600_000)));
        let away = || Failure::not_done("server_unreachable", "away");
        let asked = AtomicU32::new(0);
        let gone = persistently(|| async {
            asked.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(away())
        });
        assert_eq!(gone.await, Err(away()));
        assert_eq!(asked.load(Ordering::Relaxed), ATTEMPTS);
    }
}
