//! When a message is sent again, and when an endpoint is disabled (AAAF S13).

use jiff::{SignedDuration, Timestamp};

/// Waits after failed attempts, by the number of attempts so far. The first attempt is immediate.
const WAITS: [SignedDuration; 9] = [
    SignedDuration::from_secs(5),
    SignedDuration::from_mins(5),
    SignedDuration::from_mins(30),
    SignedDuration::from_hours(2),
    SignedDuration::from_hours(5),
    SignedDuration::from_hours(10),
    SignedDuration::from_hours(14),
    SignedDuration::from_hours(20),
    SignedDuration::from_hours(24),
];
/// Random deviation of a wait, as a share, so that messages that failed together are not retried
/// together.
const SPREAD: f64 = 0.1;
/// The longest wait that an endpoint may ask for.
const MAX_WAIT: SignedDuration = SignedDuration::from_hours(24);
/// How long an endpoint may fail before it is disabled.
const PATIENCE: SignedDuration = SignedDuration::from_hours(5 * 24);

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The endpoint accepted the message.
    Accepted,
    /// The endpoint did not accept the message. It may have asked for a wait.
    Rejected(Option<SignedDuration>),
    /// The endpoint answered that it no longer exists.
    Gone,
}

impl DeliveryOutcome {
    /// The outcome of an answer with this status and requested wait.
    pub const fn of(status: u16, retry_after: Option<SignedDuration>) -> Self {
        match status {
            200..=299 => Self::Accepted,
            410 => Self::Gone,
            _ => Self::Rejected(retry_after),
        }
    }
}

/// What to do with a message next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// The message was delivered.
    Delivered,
    /// Send the message again, not before this time.
    RetryAt(Timestamp),
    /// Do not send the message again automatically.
    GiveUp,
}

/// What to do with a message after this many attempts. `chance` is a new random number from 0 to 1
/// for each call.
pub fn next(outcome: DeliveryOutcome, attempts: u32, now: Timestamp, chance: f64) -> NextStep {
    let asked = match outcome {
        DeliveryOutcome::Accepted => return NextStep::Delivered,
        DeliveryOutcome::Gone => return NextStep::GiveUp,
        DeliveryOutcome::Rejected(asked) => asked.unwrap_or(SignedDuration::ZERO).min(MAX_WAIT),
    };
    let nth = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(wait) = WAITS.get(nth) else {
        return NextStep::GiveUp;
    };
    let factor = 1.0 + SPREAD * (2.0 * chance.clamp(0.0, 1.0) - 1.0);
    let spread = SignedDuration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(*wait);
    now.checked_add(spread.max(asked))
        .map_or(NextStep::GiveUp, NextStep::RetryAt)
}

/// Why an endpoint is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// The endpoint answered that it no longer exists.
    Gone,
    /// The endpoint has accepted nothing for days.
    Failing,
}

impl DisabledReason {
    pub const ALL: &'static [Self] = &[Self::Gone, Self::Failing];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

/// The delivery health of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Time of the first failed attempt since the last accepted one.
    pub failing_since: Option<Timestamp>,
    /// Why and since when the endpoint is disabled.
    pub disabled: Option<(DisabledReason, Timestamp)>,
}

impl EndpointHealth {
    /// The health after an attempt.
    #[must_use]
    pub fn after(self, outcome: DeliveryOutcome, now: Timestamp) -> Self {
        let since = self.failing_since.unwrap_or(now);
        let because = match outcome {
            DeliveryOutcome::Accepted => {
                return Self {
                    failing_since: None,
                    ..self
                };
            }
            DeliveryOutcome::Gone => Some(DisabledReason::Gone),
            DeliveryOutcome::Rejected(_) if now.duration_since(since) >= PATIENCE => {
                Some(DisabledReason::Failing)
            }
            DeliveryOutcome::Rejected(_) => None,
        };
        Self {
            failing_since: Some(since),
            disabled: self.disabled.or(because.map(|because| (because, now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    const NO: DeliveryOutcome = DeliveryOutcome::Rejected(None);

    #[rstest]
    #[case(1, 5)]
    #[case(2, 300)]
    #[case(3, 1800)]
    #[case(4, 7200)]
    #[case(5, 18_000)]
    #[case(6, 36_000)]
    #[case(7, 50_400)]
    #[case(8, 72_000)]
    #[case(9, 86_400)]
    fn failed_deliveries_are_retried_after_the_backoff_with_jitter(
        #[case] attempts: u32,
        #[case] seconds: i64,
    ) {
        let next = |chance| match next(NO, attempts, at(0), chance) {
            NextStep::RetryAt(then) => then.duration_since(at(0)).as_secs_f64(),
            other => panic!("{other:?}"),
        };
        let seconds = seconds as f64;
        for (chance, expected) in [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1), (9.0, 1.1)] {
            assert!((next(chance) - expected * seconds).abs() < 1e-3);
        }
    }

    #[test]
    fn delivery_ends_after_ten_attempts() {
        assert_eq!(next(NO, 10, at(0), 0.5), NextStep::GiveUp);
        assert_eq!(next(NO, u32::MAX, at(0), 0.5), NextStep::GiveUp);
        assert_eq!(next(DeliveryOutcome::Gone, 1, at(0), 0.5), NextStep::GiveUp);
        assert_eq!(
            next(DeliveryOutcome::Accepted, 10, at(0), 0.5),
            NextStep::Delivered
        );
    }

    #[rstest]
    #[case(1, 60, 60)]
    #[case(2, 60, 300)]
    #[case(1, 9_000_000, 86_400)]
    #[case(1, -60, 5)]
    fn an_endpoint_may_ask_for_more_time_within_a_day(
        #[case] attempts: u32,
        #[case] asked: i64,
        #[case] waited: i64,
    ) {
        let asked = DeliveryOutcome::of(503, Some(SignedDuration::from_secs(asked)));
        assert_eq!(
            next(asked, attempts, at(0), 0.5),
            NextStep::RetryAt(at(waited))
        );
    }

    #[rstest]
    #[case(200, DeliveryOutcome::Accepted)]
    #[case(204, DeliveryOutcome::Accepted)]
    #[case(301, NO)]
    #[case(400, NO)]
    #[case(410, DeliveryOutcome::Gone)]
    #[case(500, NO)]
    fn only_2xx_responses_count_as_delivered(
        #[case] status: u16,
        #[case] outcome: DeliveryOutcome,
    ) {
        assert_eq!(DeliveryOutcome::of(status, None), outcome);
    }

    #[test]
    fn an_endpoint_is_disabled_after_five_failing_days_or_a_410_response() {
        const DAYS: i64 = 86_400;
        let failing = EndpointHealth::default().after(NO, at(0));
        assert_eq!(failing.after(NO, at(5 * DAYS - 1)).disabled, None);
        let over = failing.after(NO, at(5 * DAYS));
        assert_eq!(over.disabled, Some((DisabledReason::Failing, at(5 * DAYS))));
        let again = failing.after(DeliveryOutcome::Accepted, at(4 * DAYS));
        assert_eq!(again, EndpointHealth::default());
        assert_eq!(again.after(NO, at(6 * DAYS)).disabled, None);
        let gone = EndpointHealth::default().after(DeliveryOutcome::Gone, at(1));
        assert_eq!(gone.disabled, Some((DisabledReason::Gone, at(1))));
        assert_eq!(gone.after(NO, at(9 * DAYS)).disabled, gone.disabled);
    }
}
