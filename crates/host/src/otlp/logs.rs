//! Log lines as log records, with the trace in which they were written.

use std::fmt;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::otlp::{active, now, span};
use crate::rules::telemetry::attributes::{AttributeValue, attribute, value_of};

/// Libraries that an export itself uses: their lines would cause further exports.
const OWN: &[&str] = &["touchstone_host::otlp", "h2", "hyper", "reqwest", "rustls"];

/// Exports log lines if logs are exported.
pub struct LogExport;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogExport {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        // Without an export that runs already, only the requests in progress lack their fields.
        if active().is_none() {
            return;
        }
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(telemetry) = active().filter(|telemetry| telemetry.logs()) else {
            return;
        };
        let metadata = event.metadata();
        if OWN.iter().any(|own| metadata.target().starts_with(own)) {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(known) = span.extensions().get::<Fields>() {
                fields.attributes.extend_from_slice(&known.attributes);
            }
        }
        let (severity_number, severity_text) = severity(*metadata.level());
        let time = now();
        let trace = span::context();
        telemetry.record_log(LogRecord {
            time_unix_nano: time,
            observed_time_unix_nano: time,
            severity_number: severity_number.into(),
            severity_text: severity_text.to_owned(),
            body: Some(value_of(fields.message)),
            attributes: fields.attributes,
            flags: trace.as_ref().map_or(0, |it| it.flags.into()),
            trace_id: trace
                .as_ref()
                .map_or_else(Vec::new, |it| it.trace_id.to_vec()),
            span_id: trace
                .as_ref()
                .map_or_else(Vec::new, |it| it.span_id.to_vec()),
            ..LogRecord::default()
        });
    }
}

fn severity(level: Level) -> (SeverityNumber, &'static str) {
    match level {
        Level::ERROR => (SeverityNumber::Error, "ERROR"),
        Level::WARN => (SeverityNumber::Warn, "WARN"),
        Level::INFO => (SeverityNumber::Info, "INFO"),
        Level::DEBUG => (SeverityNumber::Debug, "DEBUG"),
        Level::TRACE => (SeverityNumber::Trace, "TRACE"),
    }
}

/// The fields of a line or of a span of the log.
#[derive(Default)]
struct Fields {
    message: String,
    attributes: Vec<KeyValue>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<AttributeValue>) {
        self.attributes.push(attribute(field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.add(field, text),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            _ => self.add(field, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }
}
