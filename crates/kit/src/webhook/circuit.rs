//! The circuit breaker of a subscription (OpenWOP webhooks, circuit breaker).
//!
//! Four consecutive failures open it: for an hour deliveries are skipped, then the next event is a
//! probe. A hundred failures within seven days end the subscription; it has to be registered again.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Number of consecutive failures that open the circuit.
const OPENS_AFTER: u32 = 4;
/// How long the circuit stays open.
const OPEN_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Number of failures within [`WINDOW`] that end the subscription.
const FAILS_AFTER: usize = 100;
/// The rolling window for [`FAILS_AFTER`].
const WINDOW: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The delivery history of one subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Circuit {
    /// Failures since the last success.
    consecutive: u32,
    /// Times of failures, oldest first, limited to the window that ended with the last one.
    failures: Vec<Timestamp>,
    /// Until when deliveries are skipped.
    open_until: Option<Timestamp>,
    /// Whether the subscription has ended.
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Attempt the delivery; after an open hour it is the probe.
    Attempt,
    /// The circuit is open: skip the event.
    Skip,
    /// The subscription has permanently failed.
    Never,
}

impl Circuit {
    pub fn admits(&self, now: Timestamp) -> Admission {
        if self.failed {
            Admission::Never
        } else if self.open_until.is_some_and(|until| now < until) {
            Admission::Skip
        } else {
            Admission::Attempt
        }
    }

    /// The circuit after an accepted delivery.
    #[must_use]
    pub fn succeeded(mut self) -> Self {
        self.consecutive = 0;
        self.open_until = None;
        self
    }

    /// The circuit after a delivery that was not accepted.
    #[must_use]
    pub fn failed_at(mut self, now: Timestamp) -> Self {
        let oldest = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
        self.failures.retain(|at| *at > oldest);
        self.failures.push(now);
        self.consecutive = self.consecutive.saturating_add(1);
        // A failed probe reopens the circuit: the count is reset only by a success.
        if self.consecutive >= OPENS_AFTER {
            self.open_until = Some(now.checked_add(OPEN_FOR).unwrap_or(Timestamp::MAX));
        }
        self.failed |= self.failures.len() >= FAILS_AFTER;
        self
    }

    pub fn consecutive_failures(&self) -> u32 {
        self.consecutive
    }

    /// Failures within the window that ends now.
    pub fn recent_failures(&self, now: Timestamp) -> usize {
        let oldest = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
        self.failures.iter().filter(|at| **at > oldest).count()
    }

    /// Until when deliveries are skipped, if the circuit is open.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.open_until.filter(|until| now < *until)
    }

    /// `active`, `open` or `failed`.
    pub fn state(&self, now: Timestamp) -> &'static str {
        match self.admits(now) {
            Admission::Attempt => "active",
            Admission::Skip => "open",
            Admission::Never => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
    }

    fn after(failures: &[i64]) -> Circuit {
        failures
            .iter()
            .fold(Circuit::default(), |circuit, minutes| {
                circuit.failed_at(at(*minutes))
            })
    }

    #[test]
    fn four_consecutive_failures_open_the_circuit_for_an_hour() {
        assert_eq!(after(&[0, 1, 2]).admits(at(3)), Admission::Attempt);
        let open = after(&[0, 1, 2, 3]);
        assert_eq!(open.admits(at(3)), Admission::Skip);
        assert_eq!(open.admits(at(62)), Admission::Skip);
        assert_eq!(open.admits(at(63)), Admission::Attempt);
        assert_eq!(open.state(at(4)), "open");
    }

    #[test]
    fn a_success_resets_the_failure_count() {
        let circuit = after(&[0, 1, 2]).succeeded();
        let circuit = [3, 4, 5]
            .into_iter()
            .fold(circuit, |circuit, minutes| circuit.failed_at(at(minutes)));
        assert_eq!(circuit.admits(at(6)), Admission::Attempt);
        assert_eq!(circuit.failed_at(at(6)).admits(at(7)), Admission::Skip);
    }

    #[test]
    fn a_failed_probe_reopens_the_circuit_and_a_successful_one_closes_it() {
        let open = after(&[0, 1, 2, 3]);
        let again = open.clone().failed_at(at(64));
        assert_eq!(again.admits(at(65)), Admission::Skip);
        assert_eq!(again.admits(at(124)), Admission::Attempt);
        let closed = open.succeeded();
        assert_eq!(closed.consecutive_failures(), 0);
        assert_eq!(closed.failed_at(at(64)).admits(at(64)), Admission::Attempt);
    }

    #[test]
    fn a_hundred_failures_within_a_week_disable_the_endpoint() {
        let hourly: Vec<i64> = (0..100).map(|n| n * 60).collect();
        assert_eq!(after(&hourly).admits(at(100_000)), Admission::Never);
        assert_eq!(after(&hourly[1..]).state(at(100_000)), "active");
        // 99 two-hour steps are longer than a week.
        let slower: Vec<i64> = (0..300).map(|n| n * 120).collect();
        let circuit = after(&slower);
        assert_ne!(circuit.admits(at(299 * 120)), Admission::Never);
        assert_eq!(circuit.recent_failures(at(299 * 120)), 84);
    }

    #[test]
    fn a_circuit_survives_serialization() {
        let circuit = after(&[0, 1, 2, 3]);
        let text = serde_json::to_string(&circuit).unwrap();
        assert_eq!(serde_json::from_str::<Circuit>(&text).unwrap(), circuit);
        assert_eq!(
            serde_json::from_str::<Circuit>("{}").unwrap(),
            Circuit::default()
        );
    }
}
