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
const LONGEST: SignedDuration = SignedDuration::from_hours(24);
/// How long an endpoint may fail before it is disabled.
const PATIENCE: SignedDuration = SignedDuration::from_hours(5 * 24);

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint accepted the message.
    Taken,
    /// The endpoint did not accept the message. It may have asked for a wait.
    Refused(Option<SignedDuration>),
    /// The endpoint answered that it no longer exists.
    Gone,
}

impl Outcome {
    /// The outcome of an answer with this status and requested wait.
    pub const fn of(status: u16, retry_after: Option<SignedDuration>) -> Self {
        match status {
            200..=299 => Self::Taken,
            410 => Self::Gone,
            _ => Self::Refused(retry_after),
        }
    }
}

/// What to do with a message next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The message was delivered.
    Delivered,
    /// Send the message again, not before this time.
    Again(Timestamp),
    /// Do not send the message again automatically.
    Never,
}

/// What to do with a message after this many attempts. `chance` is a new random number from 0 to 1
/// for each call.
pub fn next(outcome: Outcome, attempts: u32, now: Timestamp, chance: f64) -> Next {
    let asked = match outcome {
        Outcome::Taken => return Next::Delivered,
        Outcome::Gone => return Next::Never,
        Outcome::Refused(asked) => asked.unwrap_or(SignedDuration::ZERO).min(LONGEST),
    };
    let nth = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(wait) = WAITS.get(nth) else {
        return Next::Never;
    };
    let factor = 1.0 + SPREAD * (2.0 * chance.clamp(0.0, 1.0) - 1.0);
    let spread = SignedDuration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(*wait);
    now.checked_add(spread.max(asked))
        .map_or(Next::Never, Next::Again)
}

/// Why an endpoint is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disabled {
    /// The endpoint answered that it no longer exists.
    Gone,
    /// The endpoint has accepted nothing for days.
    Failing,
}

impl Disabled {
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
pub struct Health {
    /// Time of the first failed attempt since the last accepted one.
    pub failing_since: Option<Timestamp>,
    /// Why and since when the endpoint is disabled.
    pub disabled: Option<(Disabled, Timestamp)>,
}

impl Health {
    /// The health after an attempt.
    #[must_use]
    pub fn after(self, outcome: Outcome, now: Timestamp) -> Self {
        let since = self.failing_since.unwrap_or(now);
        let because = match outcome {
            Outcome::Taken => {
                return Self {
                    failing_since: None,
                    ..self
                };
            }
            Outcome::Gone => Some(Disabled::Gone),
            Outcome::Refused(_) if now.duration_since(since) >= PATIENCE => Some(Disabled::Failing),
            Outcome::Refused(_) => None,
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

    const NO: Outcome = Outcome::Refused(None);

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
    fn what_is_not_taken_comes_again_give_or_take_a_tenth(
        #[case] attempts: u32,
        #[case] seconds: i64,
    ) {
        let next = |chance| match next(NO, attempts, at(0), chance) {
            Next::Again(then) => then.duration_since(at(0)).as_secs_f64(),
            other => panic!("{other:?}"),
        };
        let seconds = seconds as f64;
        for (chance, expected) in [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1), (9.0, 1.1)] {
            assert!((next(chance) - expected * seconds).abs() < 1e-3);
        }
    }

    #[test]
    fn after_ten_attempts_it_is_over() {
        assert_eq!(next(NO, 10, at(0), 0.5), Next::Never);
        assert_eq!(next(NO, u32::MAX, at(0), 0.5), Next::Never);
        assert_eq!(next(Outcome::Gone, 1, at(0), 0.5), Next::Never);
        assert_eq!(next(Outcome::Taken, 10, at(0), 0.5), Next::Delivered);
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
        let asked = Outcome::of(503, Some(SignedDuration::from_secs(asked)));
        assert_eq!(next(asked, attempts, at(0), 0.5), Next::Again(at(waited)));
    }

    #[rstest]
    #[case(200, Outcome::Taken)]
    #[case(204, Outcome::Taken)]
    #[case(301, NO)]
    #[case(400, NO)]
    #[case(410, Outcome::Gone)]
    #[case(500, NO)]
    fn only_success_is_success(#[case] status: u16, #[case] outcome: Outcome) {
        assert_eq!(Outcome::of(status, None), outcome);
    }

    #[test]
    fn five_days_without_success_or_a_word_of_its_own_end_an_endpoint() {
        const DAYS: i64 = 86_400;
        let failing = Health::default().after(NO, at(0));
        assert_eq!(failing.after(NO, at(5 * DAYS - 1)).disabled, None);
        let over = failing.after(NO, at(5 * DAYS));
        assert_eq!(over.disabled, Some((Disabled::Failing, at(5 * DAYS))));
        let again = failing.after(Outcome::Taken, at(4 * DAYS));
        assert_eq!(again, Health::default());
        assert_eq!(again.after(NO, at(6 * DAYS)).disabled, None);
        let gone = Health::default().after(Outcome::Gone, at(1));
        assert_eq!(gone.disabled, Some((Disabled::Gone, at(1))));
        assert_eq!(gone.after(NO, at(9 * DAYS)).disabled, gone.disabled);
    }
}
