//! Reads what endpoints report in addition to the answer. An invalid number must not invalidate a
//! good answer: it is read as [`Reported::Invalid`], and the usage is then estimated.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::{Number, Value};

use touchstone_kit::json::weight;

/// Answers up to this size in bytes are not weighed.
const LIGHT: usize = 64 << 10;
/// Maximum memory in bytes of a parsed answer.
const HEAVIEST: usize = 64 << 20;

/// A value that an endpoint may report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reported<T> {
    /// Missing or null.
    #[default]
    Absent,
    /// Invalid: negative, fractional, or not a number.
    Invalid,
    Valid(T),
}

pub type Count = Reported<Tokens>;

/// Tokens, as an integer that JSON represents without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens(pub u64);

impl<T> Reported<T> {
    pub fn valid(self) -> Option<T> {
        match self {
            Self::Valid(value) => Some(value),
            Self::Absent | Self::Invalid => None,
        }
    }

    /// Applies `read` to the value, if one was reported and is valid.
    pub fn and_then<U>(self, read: impl FnOnce(T) -> Reported<U>) -> Reported<U> {
        match self {
            Self::Absent => Reported::Absent,
            Self::Invalid => Reported::Invalid,
            Self::Valid(value) => read(value),
        }
    }

    /// This value, or `other` if this value is absent.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Absent => other,
            known => known,
        }
    }
}

impl Count {
    /// The count, 0 if it is absent; `None` if it is invalid.
    pub fn or_zero(self) -> Option<u64> {
        match self {
            Self::Absent => Some(0),
            Self::Valid(Tokens(count)) => Some(count),
            Self::Invalid => None,
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Null => Reported::Absent,
            Value::Number(count) => whole(&count).map_or(Reported::Invalid, Reported::Valid),
            _ => Reported::Invalid,
        })
    }
}

/// 2^53: every integer up to it is exactly representable as a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked first"
)]
fn whole(count: &Number) -> Option<Tokens> {
    let exact = |count: &f64| (0.0..=EXACT).contains(count) && count.fract() == 0.0;
    let float = || count.as_f64().filter(exact).map(|count| count as u64);
    count.as_u64().or_else(float).map(Tokens)
}

/// Reads the members of an object tolerantly; any other value is [`Reported::Invalid`].
pub fn object<'de, D, T>(deserializer: D) -> Result<Reported<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(Reported::Absent),
        object @ Value::Object(_) => {
            let read = serde_json::from_value(object).map_err(D::Error::custom)?;
            Ok(Reported::Valid(read))
        }
        _ => Ok(Reported::Invalid),
    }
}

/// Maximum bytes of a reported name.
const LONGEST_NAME: usize = 256;

/// Reads a name tolerantly; any other value, or a long one, is as if it were absent.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) if text.len() <= LONGEST_NAME => Some(text),
        _ => None,
    })
}

/// Parses an answer. Servers written in Python send `NaN` and `Infinity`, which are not JSON, and
/// numbers may exceed every range: these become null, and the rest of the answer is used.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    // A few bytes of text can become hundreds of bytes in memory.
    if body.len() > LIGHT && weight(body) > HEAVIEST {
        return None;
    }
    match serde_json::from_slice(body) {
        Ok(value) => Some(value),
        Err(_) => serde_json::from_slice(&without_odd_numbers(body)?).ok(),
    }
}

/// The document with null for each number that JSON cannot represent; `None` if there are none.
fn without_odd_numbers(body: &[u8]) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let mut rest = body;
    let mut changed = false;
    while let Some(&first) = rest.first() {
        let length = match first {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' | b'N' | b'I' => word_length(rest),
            _ => 1,
        };
        let (token, after) = rest.split_at_checked(length)?;
        if is_odd_number(token) {
            changed = true;
            read.extend_from_slice(b"null");
        } else {
            read.extend_from_slice(token);
        }
        rest = after;
    }
    changed.then_some(read)
}

/// Length in bytes of the string literal that `text` begins with.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length in bytes of the number or name that `text` begins with.
fn word_length(text: &[u8]) -> usize {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.iter()
        .position(|byte| !inside(byte))
        .unwrap_or(text.len())
}

fn is_odd_number(token: &[u8]) -> bool {
    match token {
        b"NaN" | b"Infinity" | b"-Infinity" => true,
        [b'-' | b'0'..=b'9', ..] => std::str::from_utf8(token)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
            .is_some_and(f64::is_infinite),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("7", Reported::Valid(Tokens(7)))]
    #[case("7.0", Reported::Valid(Tokens(7)))]
    #[case("null", Reported::Absent)]
    #[case("-7", Reported::Invalid)]
    #[case("7.5", Reported::Invalid)]
    #[case("1e30", Reported::Invalid)]
    #[case("\"7\"", Reported::Invalid)]
    #[case("true", Reported::Invalid)]
    #[case("[7]", Reported::Invalid)]
    #[case("{\"n\":7}", Reported::Invalid)]
    fn a_count_is_a_whole_number_or_invalid(#[case] text: &str, #[case] count: Count) {
        assert_eq!(serde_json::from_str::<Count>(text).unwrap(), count);
    }

    #[rstest]
    #[case(
        r#"{"a":NaN,"b":"NaN -Infinity 1e999 \" NaN"}"#,
        r#"{"a":null,"b":"NaN -Infinity 1e999 \" NaN"}"#
    )]
    #[case(
        r#"{"a":[Infinity,-Infinity,-1e999,1e5]}"#,
        r#"{"a":[null,null,null,1e5]}"#
    )]
    fn numbers_that_json_does_not_have_are_null(#[case] text: &str, #[case] expected: &str) {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(parse::<Value>(text.as_bytes()), Some(expected));
    }

    #[rstest]
    #[case("NaNo")]
    #[case("{\"a\":}")]
    #[case("{\"a\":\"NaN")]
    #[case("")]
    fn other_invalid_json_is_malformed(#[case] text: &str) {
        assert_eq!(parse::<Value>(text.as_bytes()), None);
    }
}
