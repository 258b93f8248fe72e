//! The circuit breaker of a subscription (OpenWOP webhooks, circuit breaker).
//!
//! Four consecutive failures open it: for an hour deliveries wait, then the next one is a probe. A
//! hundred failures within seven days without a success, or a hundred events given up in that time,
//! end the subscription; it has to be registered again.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Number of consecutive failures that open the circuit.
const OPENS_AFTER: u32 = 4;
/// How long the circuit stays open.
const OPEN_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Number of failures or of given-up events within [`WINDOW`] that end the subscription.
const FAILS_AFTER: usize = 100;
/// The rolling window for [`FAILS_AFTER`].
const WINDOW: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The delivery history of one subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Circuit {
    /// Failures since the last success.
    consecutive: u32,
    /// Times of failures, oldest first: the last [`FAILS_AFTER`] within the window that ended with
    /// the last one.
    failures: Vec<Timestamp>,
    /// Times when events were given up, likewise.
    given_up: Vec<Timestamp>,
    /// Until when deliveries wait.
    open_until: Option<Timestamp>,
    /// Whether the subscription has ended.
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Attempt the delivery; after an open hour it is the probe.
    Attempt,
    /// The circuit is open until then.
    Wait(Timestamp),
    /// The subscription has permanently failed.
    Never,
}

impl Circuit {
    pub fn admits(&self, now: Timestamp) -> Admission {
        match self.open_until(now) {
            _ if self.failed => Admission::Never,
            Some(until) => Admission::Wait(until),
            None => Admission::Attempt,
        }
    }

    /// Whether the next attempt is a probe.
    pub fn is_probing(&self) -> bool {
        self.consecutive >= OPENS_AFTER
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
        note(&mut self.failures, now);
        self.consecutive = self.consecutive.saturating_add(1);
        // A failed probe reopens the circuit: the count is reset only by a success.
        if self.is_probing() {
            self.open_until = Some(now.checked_add(OPEN_FOR).unwrap_or(Timestamp::MAX));
        }
        // Events are repeated, so an endpoint that fails now and then loses none.
        let consecutive = usize::try_from(self.consecutive).unwrap_or(usize::MAX);
        self.failed |= self.failures.len().min(consecutive) >= FAILS_AFTER;
        self
    }

    /// The circuit after an event was given up.
    #[must_use]
    pub fn gave_up_at(mut self, now: Timestamp) -> Self {
        note(&mut self.given_up, now);
        self.failed |= self.given_up.len() >= FAILS_AFTER;
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

    /// Until when deliveries wait; it may have passed.
    pub fn waits_until(&self) -> Option<Timestamp> {
        self.open_until
    }

    /// Until when deliveries wait, if the circuit is open.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.open_until.filter(|until| now < *until)
    }

    /// `active`, `open` or `failed`.
    pub fn state(&self, now: Timestamp) -> &'static str {
        match self.admits(now) {
            Admission::Attempt => "active",
            Admission::Wait(_) => "open",
            Admission::Never => "failed",
        }
    }
}

/// Adds a time, and drops those before the window and those that do not count any more.
fn note(times: &mut Vec<Timestamp>, now: Timestamp) {
    let oldest = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
    times.retain(|at| *at > oldest);
    times.push(now);
    times.drain(..times.len().saturating_sub(FAILS_AFTER));
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
        assert!(!after(&[0, 1, 2]).is_probing());
        let open = after(&[0, 1, 2, 3]);
        assert_eq!(open.admits(at(3)), Admission::Wait(at(63)));
        assert_eq!(open.admits(at(62)), Admission::Wait(at(63)));
        assert_eq!(open.admits(at(63)), Admission::Attempt);
        assert!(open.is_probing());
        assert_eq!(open.state(at(4)), "open");
    }

    #[test]
    fn a_success_resets_the_failure_count() {
        let circuit = after(&[0, 1, 2]).succeeded();
        let circuit = [3, 4, 5]
            .into_iter()
            .fold(circuit, |circuit, minutes| circuit.failed_at(at(minutes)));
        assert_eq!(circuit.admits(at(6)), Admission::Attempt);
        let open = circuit.failed_at(at(6));
        assert_eq!(open.admits(at(7)), Admission::Wait(at(66)));
    }

    #[test]
    fn a_failed_probe_reopens_the_circuit_and_a_successful_one_closes_it() {
        let open = after(&[0, 1, 2, 3]);
        let again = open.clone().failed_at(at(64));
        assert_eq!(again.admits(at(65)), Admission::Wait(at(124)));
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
    fn failures_between_successes_end_no_subscription() {
        let circuit = (0..1000).fold(Circuit::default(), |circuit, minutes| {
            circuit.failed_at(at(minutes)).succeeded()
        });
        assert_eq!(circuit.state(at(1000)), "active");
        assert_eq!(circuit.recent_failures(at(1000)), 100);
    }

    #[test]
    fn a_hundred_events_given_up_within_a_week_end_a_subscription() {
        let given_up = |apart: i64| {
            (0..100).fold(Circuit::default(), |circuit, n| {
                circuit.succeeded().gave_up_at(at(n * apart))
            })
        };
        assert_eq!(given_up(60).admits(at(100_000)), Admission::Never);
        assert_eq!(given_up(120).state(at(100_000)), "active");
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
