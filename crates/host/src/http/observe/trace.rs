//! `traceparent` (W3C Trace Context): this host continues the caller's trace, and every response
//! names its trace.

use std::fmt;

use axum::http::{HeaderMap, HeaderName};

use crate::ports::ids::Ids;
use touchstone_kit::hex::hex;

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

const TRACE_ID_DIGITS: usize = 32;
const SPAN_ID_DIGITS: usize = 16;

/// A request's position in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The caller's trace, or a new one.
    pub trace_id: String,
    /// The id of this request.
    span_id: String,
    flags: String,
}

impl TraceContext {
    /// Continues the caller's trace; starts a new one if the header is missing or malformed.
    pub fn of(headers: &HeaderMap, ids: &dyn Ids) -> Self {
        let fresh = hex(&ids.secret());
        // 64 digits, of which a trace takes 32 and a span 16.
        let (trace, rest) = fresh.split_at(TRACE_ID_DIGITS);
        let span_id = rest.chars().take(SPAN_ID_DIGITS).collect();
        let given = headers
            .get(TRACEPARENT)
            .and_then(|value| value.to_str().ok())
            .and_then(parse);
        let (trace_id, flags) = given.unwrap_or((trace, "00"));
        Self {
            trace_id: trace_id.to_owned(),
            span_id,
            flags: flags.to_owned(),
        }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{}", self.trace_id, self.span_id, self.flags)
    }
}

/// Trace id and flags of a header.
fn parse(header: &str) -> Option<(&str, &str)> {
    let mut parts = header.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let sound = is_hex(version, 2)
        && version != "ff"
        // Later versions may add parts; version 00 has none.
        && (version != "00" || parts.next().is_none())
        && is_hex(trace, TRACE_ID_DIGITS)
        && is_hex(span, SPAN_ID_DIGITS)
        && is_hex(flags, 2)
        && trace.bytes().any(|b| b != b'0')
        && span.bytes().any(|b| b != b'0');
    sound.then_some((trace, flags))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[rstest]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some((TRACE, "01")))]
    #[case("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-later", Some((TRACE, "00")))]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", None)]
    #[case("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None)]
    #[case("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None)]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None)]
    #[case("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", None)]
    #[case("00-short-00f067aa0ba902b7-01", None)]
    #[case("", None)]
    fn only_a_valid_traceparent_is_continued(
        #[case] header: &str,
        #[case] expected: Option<(&str, &str)>,
    ) {
        assert_eq!(parse(header), expected);
    }
}
