//! Spans, and the trace context that requests of this host pass on.
//!
//! The context is a task-local value: what is executed within a span finds it there, and so does
//! the guarded client. A run without a trace has no context, and every function here returns at
//! once.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
pub use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span as SpanRecord, Status};
use reqwest::header::{HeaderMap, HeaderValue};

use crate::http::observe::trace::{TRACEPARENT, TRACESTATE};
use crate::otlp::{Telemetry, active, now};
pub use crate::rules::telemetry::attributes::{AttributeValue, attribute};
use crate::rules::telemetry::sampling::root_of;
use touchstone_kit::headers::trace_context::{SpanId, TraceContext};

/// The error type of work that was dropped before it ended.
const CANCELLED: &str = "cancelled";
/// Set if the span of a parent comes from another process (OTLP, span flags).
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

tokio::task_local! {
    static CURRENT: Option<Place>;
}

/// A place in a trace.
#[derive(Clone, Debug)]
pub struct Place {
    /// What requests pass on.
    context: TraceContext,
    /// The caller of a root span.
    caller: Option<SpanId>,
    /// Whether spans are recorded here.
    records: bool,
}

/// The place of a run's root span. `None` if tracing is off and the run has no caller with a trace.
pub fn root(run_id: &str, caller: Option<&TraceContext>) -> Option<Place> {
    let telemetry = active().filter(|telemetry| telemetry.traces());
    let Some(telemetry) = telemetry else {
        return caller.map(|caller| forwarding(caller.clone()));
    };
    let context = root_of(run_id, caller, &telemetry.sampler);
    Some(Place {
        records: context.is_sampled(),
        context,
        caller: caller.map(|caller| caller.span_id),
    })
}

/// A place that passes on its caller's context unchanged and records nothing (W3C Trace Context,
/// forwarding).
pub const fn forwarding(caller: TraceContext) -> Place {
    Place {
        context: caller,
        caller: None,
        records: false,
    }
}

/// The current place, for work that continues in another task.
pub fn current() -> Option<Place> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// The current place, if spans are recorded there.
fn recorded_place() -> Option<Place> {
    let recorded = |place: &Option<Place>| place.as_ref().filter(|it| it.records).cloned();
    CURRENT.try_with(recorded).ok().flatten()
}

fn has_place() -> bool {
    CURRENT.try_with(Option::is_some).unwrap_or_default()
}

/// The context that a request passes on, if there is one.
pub fn context() -> Option<TraceContext> {
    let context = |place: &Option<Place>| place.as_ref().map(|it| it.context.clone());
    CURRENT.try_with(context).ok().flatten()
}

/// Executes `work` at a place, or at the current one.
// Not an `async fn`, which would have room for its argument and for what it awaits: each nested call
// would double the memory that a task needs.
pub fn within<F: Future>(place: Option<Place>, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(place.or_else(current), work)
}

/// Adds the current context to the headers of a request.
pub fn propagate(headers: &mut HeaderMap) {
    let Some(context) = context() else {
        return;
    };
    if let Ok(parent) = HeaderValue::from_str(&context.traceparent()) {
        headers.insert(TRACEPARENT, parent);
    }
    let state = context.state.and_then(|it| HeaderValue::from_str(&it).ok());
    if let Some(state) = state {
        headers.insert(TRACESTATE, state);
    }
}

/// A span that is recorded if its trace is. Dropped before its [`end`](Self::end), it is recorded
/// as cancelled.
pub struct Span(Option<Box<Recording>>);

struct Recording {
    telemetry: &'static Telemetry,
    place: Place,
    record: SpanRecord,
}

impl Span {
    /// A span below the current one.
    pub fn start(kind: SpanKind, name: impl FnOnce() -> String) -> Self {
        let (Some(parent), Some(telemetry)) = (recorded_place(), active()) else {
            return Self(None);
        };
        let context = TraceContext {
            span_id: rand::random(),
            ..parent.context
        };
        let mut record = begun(&context, kind, name());
        record.parent_span_id = parent.context.span_id.to_vec();
        record.flags |= PARENT_IS_KNOWN;
        Self(Some(Box::new(Recording {
            telemetry,
            place: Place { context, ..parent },
            record,
        })))
    }

    /// The root span of the run at the current place, which began at `start`, in nanoseconds since
    /// 1970.
    pub fn root(name: &str, start: u64) -> Self {
        let (Some(place), Some(telemetry)) = (recorded_place(), active()) else {
            return Self(None);
        };
        let mut record = begun(&place.context, SpanKind::Internal, name.to_owned());
        record.start_time_unix_nano = start;
        if let Some(caller) = place.caller {
            record.parent_span_id = caller.to_vec();
            record.flags |= PARENT_IS_KNOWN | PARENT_IS_REMOTE;
        }
        Self(Some(Box::new(Recording {
            telemetry,
            place,
            record,
        })))
    }

    pub const fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Whether task content may be set.
    pub fn captures_content(&self) -> bool {
        let recording = self.0.as_ref();
        recording.is_some_and(|it| it.telemetry.capture_content)
    }

    pub fn id(&self) -> Option<SpanId> {
        self.0.as_ref().map(|it| it.place.context.span_id)
    }

    pub fn set(&mut self, name: &str, value: impl Into<AttributeValue>) {
        if let Some(recording) = &mut self.0 {
            recording.record.attributes.push(attribute(name, value));
        }
    }

    pub fn set_some(&mut self, name: &str, value: Option<impl Into<AttributeValue>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Marks the span as failed with a label of low cardinality.
    pub fn fail(&mut self, label: &str) {
        self.set("error.type", label);
        if let Some(recording) = &mut self.0 {
            recording.record.status = Some(Status {
                code: StatusCode::Error.into(),
                message: String::new(),
            });
        }
    }

    /// Executes `work` within this span.
    pub fn within<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let place = self.0.as_ref().map(|it| it.place.clone());
        within(place, work)
    }

    pub fn end(mut self) {
        self.send();
    }

    fn send(&mut self) {
        let Some(recording) = self.0.take() else {
            return;
        };
        let Recording {
            telemetry,
            mut record,
            ..
        } = *recording;
        record.end_time_unix_nano = now();
        telemetry.record_span(record);
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if self.is_recorded() {
            self.fail(CANCELLED);
            self.send();
        }
    }
}

fn begun(context: &TraceContext, kind: SpanKind, name: String) -> SpanRecord {
    SpanRecord {
        trace_id: context.trace_id.to_vec(),
        span_id: context.span_id.to_vec(),
        trace_state: context.state.clone().unwrap_or_default(),
        flags: context.flags.into(),
        name,
        kind: kind.into(),
        start_time_unix_nano: now(),
        ..SpanRecord::default()
    }
}

/// Whether events are exported, so that their attributes are needed.
pub fn exports_events() -> bool {
    has_place() && active().is_some_and(Telemetry::logs)
}

/// Whether events may have task content.
pub fn events_capture_content() -> bool {
    active().is_some_and(|telemetry| telemetry.capture_content)
}

/// Records a named event about a span of the current trace; about the current span if `span` is
/// `None`.
pub fn event(name: &str, span: Option<SpanId>, attributes: Vec<KeyValue>) {
    let (Some(context), Some(telemetry)) = (context(), active()) else {
        return;
    };
    let time = now();
    telemetry.record_log(LogRecord {
        time_unix_nano: time,
        observed_time_unix_nano: time,
        severity_number: SeverityNumber::Info.into(),
        attributes,
        flags: context.flags.into(),
        trace_id: context.trace_id.to_vec(),
        span_id: span.unwrap_or(context.span_id).to_vec(),
        event_name: name.to_owned(),
        ..LogRecord::default()
    });
}
