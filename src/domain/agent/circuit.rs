//! Whether an endpoint that keeps failing is asked at all.
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
//! A short break is waited out, so that nothing is left unjudged for it. Once a probe has failed as well, the endpoint is
//! taken to be down: tasks are told so at once instead of sitting through their timeouts one after the other.

use std::time::{Duration, Instant};

/// Failures in a row that open the circuit.
pub const OPENS_AFTER: u32 = 20;
/// How long it is open before the first probe.
pub const FIRST_BREAK: Duration = Duration::from_secs(1);
/// Longest time between two probes.
pub const LONGEST_BREAK: Duration = Duration::from_secs(60);

/// The circuit of one endpoint.
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
    /// Whether a probe has failed.
    proven: bool,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Go,
    /// Yes, and everybody waits for what comes of it.
    Probe,
    /// Not before this instant, or before a probe has ended.
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

    /// The endpoint answered, whatever it said.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// A call failed.
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
            // News of calls that were under way when it opened is no news.
            _ => return,
        };
        self.state = State::Open {
            until: now + broken.length,
            broken,
        };
    }

    /// A probe was given up before it ended: the next call is one.
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
    fn a_short_break_is_waited_out() {
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
        fn it_opens_only_for_failures_in_a_row(news in prop::collection::vec(prop::bool::weighted(0.9), 0..200)) {
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
