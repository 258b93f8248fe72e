//! A place in a distributed trace (W3C Trace Context): what `traceparent` and `tracestate` say.

use serde::{Deserialize, Serialize};

use crate::hex::hex;

/// The flag of a trace that its caller records.
pub const SAMPLED: u8 = 1;

const TRACE_ID_DIGITS: usize = 32;
const SPAN_ID_DIGITS: usize = 16;
/// Longest `tracestate` that is passed on; the specification asks for at least this many characters.
const LONGEST_STATE: usize = 512;

pub type TraceId = [u8; 16];
pub type SpanId = [u8; 8];

/// A span of a trace, as its parent passes it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct TraceContext {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    pub flags: u8,
    /// The `tracestate` of other systems, passed on unchanged.
    pub state: Option<String>,
}

impl TraceContext {
    /// `None` if `traceparent` is malformed. A malformed `tracestate` is left out.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = of_hex::<1>(version, 2)?;
        // Later versions may add parts; version 00 has none.
        if version == [0xff] || (version == [0] && parts.next().is_some()) {
            return None;
        }
        let trace_id: TraceId = of_hex(trace, TRACE_ID_DIGITS)?;
        let span_id: SpanId = of_hex(span, SPAN_ID_DIGITS)?;
        let [flags] = of_hex(flags, 2)?;
        let is_sound = trace_id != TraceId::default() && span_id != SpanId::default();
        is_sound.then(|| Self {
            trace_id,
            span_id,
            flags,
            state: tracestate.filter(|text| is_state(text)).map(str::to_owned),
        })
    }

    /// The value of `traceparent`.
    pub fn traceparent(&self) -> String {
        let (trace_id, span_id) = (hex(&self.trace_id), hex(&self.span_id));
        format!("00-{trace_id}-{span_id}-{:02x}", self.flags)
    }

    /// Whether the caller records this trace.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

fn is_state(text: &str) -> bool {
    !text.trim().is_empty()
        && text.len() <= LONGEST_STATE
        && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Lower-case digits only, as the specification demands.
fn of_hex<const BYTES: usize>(text: &str, digits: usize) -> Option<[u8; BYTES]> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(is_hex) {
        return None;
    }
    let number = u128::from_str_radix(text, 16).ok()?;
    number.to_be_bytes().last_chunk().copied()
}

/// The headers, as records keep them.
#[derive(Serialize, Deserialize)]
struct Wire {
    traceparent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

impl From<TraceContext> for Wire {
    fn from(context: TraceContext) -> Self {
        Self {
            traceparent: context.traceparent(),
            tracestate: context.state,
        }
    }
}

impl TryFrom<Wire> for TraceContext {
    type Error = &'static str;

    fn try_from(wire: Wire) -> Result<Self, Self::Error> {
        Self::parse(&wire.traceparent, wire.tracestate.as_deref())
            .ok_or("`traceparent` is malformed")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[rstest]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some((TRACE, 1)))]
    #[case("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-later", Some((TRACE, 0)))]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", None)]
    #[case("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None)]
    #[case("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None)]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None)]
    #[case("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", None)]
    #[case("00-short-00f067aa0ba902b7-01", None)]
    #[case("", None)]
    fn only_a_valid_traceparent_is_read(
        #[case] header: &str,
        #[case] expected: Option<(&str, u8)>,
    ) {
        let read = TraceContext::parse(header, None);
        let found = read.as_ref().map(|it| (hex(&it.trace_id), it.flags));
        assert_eq!(found, expected.map(|(id, flags)| (id.to_owned(), flags)));
    }

    #[rstest]
    #[case::kept("vendor=abc,other=1", true)]
    #[case::empty(" ", false)]
    #[case::control_character("vendor=a\nb", false)]
    #[case::too_long(&"a".repeat(513), false)]
    fn only_a_valid_tracestate_is_passed_on(#[case] state: &str, #[case] is_kept: bool) {
        let header = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let context = TraceContext::parse(&header, Some(state)).unwrap();
        assert_eq!(context.state.is_some(), is_kept);
        assert_eq!(context.traceparent(), header);
        let stored = serde_json::to_string(&context).unwrap();
        assert_eq!(
            serde_json::from_str::<TraceContext>(&stored).unwrap(),
            context
        );
    }
}
