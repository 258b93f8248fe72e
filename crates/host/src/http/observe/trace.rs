//! `traceparent` (W3C Trace Context): this host continues the caller's trace, and every response
//! names its trace.

use axum::http::{HeaderMap, HeaderName};

use crate::ports::ids::Ids;
use touchstone_kit::headers::trace_context::{TraceContext, TraceId};

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The place of the caller in its trace, if the request says so.
pub fn caller_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get(name)?.to_str().ok();
    TraceContext::parse(text(TRACEPARENT)?, text(TRACESTATE))
}

/// The place of a request: in the caller's trace, or in a new one.
pub fn request_of(caller: Option<&TraceContext>, ids: &dyn Ids) -> TraceContext {
    let fresh = ids.secret();
    let (trace, rest) = fresh.split_at(size_of::<TraceId>());
    TraceContext {
        trace_id: match caller {
            Some(caller) => caller.trace_id,
            None => trace.first_chunk().copied().unwrap_or_default(),
        },
        span_id: rest.first_chunk().copied().unwrap_or_default(),
        flags: caller.map_or(0, |caller| caller.flags),
        state: None,
    }
}
