//! Numbers, times and long texts of pages.

use jiff::Timestamp;
use serde_json::Value;

use touchstone_host::render::words::{duration, plain, usd};
use touchstone_kit::money::NanoUsd;

/// A moment: to the minute for people, to the millisecond in `exact` (both UTC), and for scripts.
/// The script shows the first in the time zone of the browser.
pub struct Time {
    pub shown: String,
    pub exact: String,
    pub machine: String,
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self {
            shown: at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
            exact: at.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(),
            machine: at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        }
    }
}

/// A score of 0.0..=1.0; a dash if there is none.
pub fn score(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |it| format!("{it:.3}"))
}

pub fn cost(value: Option<NanoUsd>) -> String {
    value.map_or_else(|| "unknown".to_owned(), usd)
}

/// A duration in milliseconds; a dash if there is none.
pub fn latency(ms: Option<u64>) -> String {
    ms.map_or_else(|| "–".to_owned(), duration)
}

/// The labels at the ends of a time axis, in UTC: days, or minutes if all is of one day.
pub fn ends(first: Timestamp, last: Timestamp) -> (String, String) {
    let days = [first, last].map(|at| at.strftime("%Y-%m-%d UTC").to_string());
    let [from, to] = days;
    match from == to {
        true => (Time::from(first).shown, Time::from(last).shown),
        false => (from, to),
    }
}

/// A number with a separator between thousands.
pub fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A text as it is, another value as indented JSON.
pub fn text_or_json(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// The lines of a text without control characters, up to a number of characters. `rest` says how
/// many more there are.
pub fn cut(text: &str, longest: usize, rest: impl FnOnce(usize) -> String) -> String {
    let lines = text.split('\n').map(plain).collect::<Vec<_>>().join("\n");
    match lines.char_indices().nth(longest) {
        Some((end, _)) => {
            let left = lines.chars().count() - longest;
            let kept = lines.get(..end).unwrap_or_default();
            format!("{kept}{}", rest(left))
        }
        None => lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, "0")]
    #[case(999, "999")]
    #[case(1000, "1,000")]
    #[case(1_234_567, "1,234,567")]
    fn thousands_are_separated(#[case] value: usize, #[case] expected: &str) {
        assert_eq!(count(value), expected);
    }
}
