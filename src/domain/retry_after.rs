//! When an answer asks to be asked again (RFC 9110 §10.2.3).

use std::time::Duration;

use jiff::Timestamp;

/// The wait that `Retry-After` asks for, as seconds or as an HTTP date.
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let then = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO))
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
    #[case("soon", None)]
    #[case("NaN", None)]
    fn retry_after_is_seconds_or_a_date(#[case] value: &str, #[case] millis: Option<u64>) {
        let now = "1994-11-06T08:49:00Z".parse().unwrap();
        assert_eq!(retry_after(value, now), millis.map(Duration::from_millis));
    }
}
