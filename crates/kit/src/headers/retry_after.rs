//! Parses `Retry-After` (RFC 9110 §10.2.3).

use std::time::Duration;

use jiff::Timestamp;

/// The longest delay that is returned. Callers cap delays far below it; the bound only prevents
/// overflow in their sums.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The delay that `Retry-After` asks for, in seconds or as an HTTP date, at most ten years.
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        // `max` ignores NaN, so NaN is excluded first.
        return (seconds >= 0.0).then(|| {
            Duration::try_from_secs_f64(seconds).map_or(LONGEST, |wait| wait.min(LONGEST))
        });
    }
    match jiff::fmt::rfc2822::parse(value) {
        Ok(then) => {
            let wait = Duration::try_from(then.timestamp().duration_since(now));
            Some(wait.unwrap_or(Duration::ZERO).min(LONGEST))
        }
        Err(_) => is_beyond_the_calendar(value).then_some(LONGEST),
    }
}

/// Whether a date is well-formed except for a year beyond the range of timestamps.
fn is_beyond_the_calendar(value: &str) -> bool {
    let date = value.split_once(',').map_or(value, |(_, date)| date);
    let mut parts: Vec<&str> = date.split_whitespace().collect();
    let Some(year) = parts.get_mut(2) else {
        return false;
    };
    let digits = year.len() >= 4 && year.bytes().all(|b| b.is_ascii_digit());
    if !digits || year.parse::<u32>().is_ok_and(|year| year < 9999) {
        return false;
    }
    // A leap year, so that February 29 is valid too.
    *year = "2000";
    jiff::fmt::rfc2822::parse(&parts.join(" ")).is_ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("7", Some(7_000))]
    #[case(" 0.5 ", Some(500))]
    #[case("Sun, 06 Nov 1994 08:49:37 GMT", Some(37_000))]
    #[case("Sun, 06 Nov 1994 08:00:00 GMT", Some(0))]
    #[case("-3", None)]
    #[case("-1e400", None)]
    #[case("soon", None)]
    #[case("NaN", None)]
    #[case("Fri, 32 Dec 9999 23:59:59 GMT", None)]
    fn retry_after_is_seconds_or_a_date(#[case] value: &str, #[case] millis: Option<u64>) {
        let now = "1994-11-06T08:49:00Z".parse().unwrap();
        assert_eq!(retry_after(value, now), millis.map(Duration::from_millis));
    }

    #[rstest]
    #[case("1e300")]
    #[case("inf")]
    #[case("99999999999999999999999999")]
    #[case("1e999")]
    #[case("Fri, 31 Dec 9999 23:59:59 GMT")]
    #[case("Sat, 01 Jan 10000 00:00:00 GMT")]
    fn an_excessive_retry_after_is_capped(#[case] value: &str) {
        assert_eq!(retry_after(value, Timestamp::UNIX_EPOCH), Some(LONGEST));
    }
}
