//! When a failed delivery of an event is attempted again, and for how long the host keeps what it
//! gave up (OpenWOP webhooks).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Attempts to deliver an event to a subscription in all, as discovery advertises.
pub const MAX_ATTEMPTS: u32 = 5;
/// For how many days a dead letter is kept, as discovery advertises.
pub const DEAD_LETTER_DAYS: i64 = 30;
/// Most dead letters of a page, as discovery advertises.
pub const MAX_DEAD_LETTERS: u64 = 100;

/// The wait after the first attempt. Each further wait is [`GROWTH`] times as long.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(2);
const GROWTH: i32 = 10;
/// The longest wait that an endpoint may ask for.
const LONGEST_ASKED: SignedDuration = SignedDuration::from_hours(24);

/// When to attempt a delivery again that failed now; `None` after the last attempt. `attempts`
/// counts those that were made; `asked` is the wait that the endpoint asks for.
pub fn next_attempt(attempts: u32, now: Timestamp, asked: Option<Duration>) -> Option<Timestamp> {
    if attempts >= MAX_ATTEMPTS {
        return None;
    }
    let factor = GROWTH.checked_pow(attempts.saturating_sub(1));
    let wait = factor.and_then(|it| FIRST_WAIT.checked_mul(it))?;
    let asked = asked.and_then(|it| SignedDuration::try_from(it).ok());
    let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
    now.checked_add(wait.max(asked)).ok()
}

/// When a dead letter of this time is deleted.
pub fn dead_letter_expiry(at: Timestamp) -> Timestamp {
    let kept = SignedDuration::from_hours(24 * DEAD_LETTER_DAYS);
    at.checked_add(kept).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(attempts: u32, asked: Option<u64>) -> Option<i64> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let next = next_attempt(attempts, now, asked.map(Duration::from_secs))?;
        Some(next.duration_since(now).as_secs())
    }

    #[test]
    fn waits_grow_until_the_last_attempt() {
        let waits: Vec<Option<i64>> = (1..=MAX_ATTEMPTS).map(|it| wait(it, None)).collect();
        assert_eq!(waits, [Some(2), Some(20), Some(200), Some(2000), None]);
        assert_eq!(wait(u32::MAX, None), None);
    }

    #[test]
    fn an_endpoint_may_ask_for_a_longer_wait() {
        assert_eq!(wait(1, Some(90)), Some(90));
        assert_eq!(wait(2, Some(1)), Some(20));
        assert_eq!(wait(1, Some(u64::MAX)), Some(2), "not a wait");
        assert_eq!(wait(1, Some(30 * 24 * 3600)), Some(24 * 3600));
        assert_eq!(wait(MAX_ATTEMPTS, Some(90)), None);
    }

    #[test]
    fn a_dead_letter_is_kept_for_thirty_days() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let kept = dead_letter_expiry(at).duration_since(at);
        assert_eq!(kept.as_hours(), 720);
        assert_eq!(dead_letter_expiry(Timestamp::MAX), Timestamp::MAX);
    }
}
