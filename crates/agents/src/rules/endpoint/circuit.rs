//! A circuit breaker per endpoint: decides whether a failing endpoint is called at all.
//!
//! ```text
//!             20 failures in a row             1 s later, one call
//!   closed ───────────────────────► waiting ─────────────────────► probing
//!     ▲ ▲                              (others wait)                 │  │
//!     │ └────────────────────── answered ────────────────────────────┘  │ failed
//!     │                                                                 ▼
//!     └───────── answered ── probing ◄── twice as long later ───── refusing
//! ```
//!
//! Calls wait through a short outage, so that it leaves no task unjudged. Once a probe has failed
//! too, the endpoint counts as down: calls fail immediately instead of running into their timeouts
//! one after the other.

use std::time::{Duration, Instant};

/// Consecutive failures that open the circuit.
pub const OPENS_AFTER: u32 = 20;
/// Time from opening to the first probe.
pub const FIRST_BREAK: Duration = Duration::from_secs(1);
/// Longest time between two probes.
pub const LONGEST_BREAK: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circuit {
    failures: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open {
        until: Instant,
        broken: Break,
    },
    Probing(Break),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Break {
    length: Duration,
    /// Whether a probe has failed, so that the endpoint counts as down.
    proven: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// Yes, as a probe: all other calls wait for its result.
    Probe,
    /// Not before this instant; `None`: not before the running probe has ended.
    Wait(Option<Instant>),
    /// No: the endpoint is down.
    Refuse,
}

impl Circuit {
    /// Whether a call may be made now.
    pub fn admit(&mut self, now: Instant) -> Admission {
        match self.state {
            State::Closed => Admission::Go,
            State::Open { until, broken } if now >= until => {
                self.state = State::Probing(broken);
                Admission::Probe
            }
            State::Open { broken, .. } | State::Probing(broken) if broken.proven => {
                Admission::Refuse
            }
            State::Open { until, .. } => Admission::Wait(Some(until)),
            State::Probing(_) => Admission::Wait(None),
        }
    }

    /// The endpoint answered, with whatever status.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    pub fn failed(&mut self, probe: bool, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let broken = match self.state {
            State::Closed if self.failures >= OPENS_AFTER => Break {
                length: FIRST_BREAK,
                proven: false,
            },
            State::Probing(broken) if probe => Break {
                length: (broken.length * 2).min(LONGEST_BREAK),
                proven: true,
            },
            // Failures of calls that were in flight when the circuit opened say nothing new.
            _ => return,
        };
        self.state = State::Open {
            until: now + broken.length,
            broken,
        };
    }

    /// A probe was cancelled before it ended; the next call becomes the probe.
    pub fn abandoned(&mut self, now: Instant) {
        if let State::Probing(broken) = self.state {
            self.state = State::Open { until: now, broken };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn opened(now: Instant) -> Circuit {
        let mut circuit = Circuit::default();
        for _ in 0..OPENS_AFTER {
            assert_eq!(circuit.admit(now), Admission::Go);
            circuit.failed(false, now);
        }
        circuit
    }

    #[test]
    fn an_open_circuit_admits_one_probe_after_the_first_break() {
        let now = Instant::now();
        let mut circuit = opened(now);
        let later = now + FIRST_BREAK;
        assert_eq!(circuit.admit(now), Admission::Wait(Some(later)));
        assert_eq!(circuit.admit(later), Admission::Probe);
        assert_eq!(circuit.admit(later), Admission::Wait(None));
        circuit.answered();
        assert_eq!(circuit.admit(later), Admission::Go);
    }

    #[test]
    fn an_endpoint_that_fails_its_probe_is_refused_until_the_next_one() {
        let now = Instant::now();
        let mut circuit = opened(now);
        let mut at = now + FIRST_BREAK;
        let mut length = FIRST_BREAK;
        for _ in 0..10 {
            assert_eq!(circuit.admit(at), Admission::Probe);
            circuit.failed(true, at);
            assert_eq!(circuit.admit(at), Admission::Refuse);
            length = (length * 2).min(LONGEST_BREAK);
            at += length;
        }
        assert_eq!(length, LONGEST_BREAK);
        assert_eq!(circuit.admit(at), Admission::Probe);
        assert_eq!(circuit.admit(at), Admission::Refuse);
        circuit.answered();
        assert_eq!(circuit, Circuit::default());
    }

    #[test]
    fn a_probe_that_is_given_up_makes_room_for_another() {
        let now = Instant::now();
        let mut circuit = opened(now);
        let later = now + FIRST_BREAK;
        assert_eq!(circuit.admit(later), Admission::Probe);
        circuit.abandoned(later);
        assert_eq!(circuit.admit(later), Admission::Probe);
    }

    proptest! {
        #[test]
        fn the_circuit_opens_only_after_consecutive_failures(news in prop::collection::vec(prop::bool::weighted(0.9), 0..200)) {
            let now = Instant::now();
            let mut circuit = Circuit::default();
            let mut row = 0;
            for failed in news {
                if failed {
                    circuit.failed(false, now);
                    row += 1;
                } else {
                    circuit.answered();
                    row = 0;
                }
                prop_assert_eq!(circuit.admit(now) == Admission::Go, row < OPENS_AFTER);
            }
        }
    }
}
