//! Export of traces, metrics and logs by OTLP (OpenTelemetry; ADR 56).
//!
//! There is one export per process, like the recorders of metrics and logs. Without a configured
//! endpoint nothing is started, and recording returns at once. Recording never waits for the
//! collector.

pub mod logs;
pub mod queue;
pub mod sender;
pub mod span;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as SpanRecord};
use prost::Message as _;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::background::{Spawned, spawn};
use crate::otlp::queue::{Outage, Queue, counted, queue};
use crate::otlp::sender::Sender;
use crate::ports::clock::Clock as _;
use crate::rules::telemetry::attributes::attribute;
use crate::rules::telemetry::conventions::by_conventions;
use crate::rules::telemetry::prometheus::{Period, metrics_of};
use crate::rules::telemetry::sampling::Sampler;
use crate::rules::telemetry::settings::{Exports, SignalExport};
use crate::system::SystemClock;
use crate::telemetry::Metrics;

/// The semantic conventions of names and attributes (docs/telemetry.md).
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";
/// Longest time that the end of the process waits for the last exports.
const FLUSH: Duration = Duration::from_secs(5);

static ACTIVE: OnceLock<Telemetry> = OnceLock::new();

/// The export of this process; `None` if there is none.
fn active() -> Option<&'static Telemetry> {
    ACTIVE.get()
}

/// Whether this process exports metrics.
pub fn exports_metrics() -> bool {
    active().is_some_and(|telemetry| telemetry.metrics)
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    nanoseconds(SystemClock.now())
}

pub fn nanoseconds(time: jiff::Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or_default()
}

/// The running export.
pub struct Telemetry {
    spans: Option<Queue<SpanRecord>>,
    log_records: Option<Queue<LogRecord>>,
    metrics: bool,
    sampler: Sampler,
    capture_content: bool,
    stop: CancellationToken,
    running: Mutex<Vec<Spawned<()>>>,
}

/// Starts the export of this process. Later calls keep the first one.
///
/// # Errors
/// The HTTP client or a header is not usable; the text is for the operator.
pub fn start(exports: Exports) -> Result<(), String> {
    if active().is_some() {
        return Ok(());
    }
    let all = [&exports.traces, &exports.metrics, &exports.logs];
    for export in all.into_iter().flatten() {
        counted(export.signal);
    }
    let stop = CancellationToken::new();
    let resource = resource_of(&exports);
    let (mut spans, mut log_records, mut running) = (None, None, Vec::new());
    if let Some(export) = &exports.traces {
        let (queue, exporter) = queue(export)?;
        spans = Some(queue);
        let resource = resource.clone();
        let encode = move |spans| encoded_spans(resource.clone(), spans);
        running.push(spawn("traces", exporter.run(stop.clone(), encode)));
    }
    if let Some(export) = &exports.logs {
        let (queue, exporter) = queue(export)?;
        log_records = Some(queue);
        let resource = resource.clone();
        let encode = move |records| encoded_logs(resource.clone(), records);
        running.push(spawn("logs", exporter.run(stop.clone(), encode)));
    }
    let metrics = exports.metrics.is_some();
    if let Some(export) = exports.metrics {
        let sender = Sender::new(&export)?;
        let work = export_metrics(export, sender, resource, stop.clone());
        running.push(spawn("metrics", work));
    }
    let telemetry = Telemetry {
        spans,
        log_records,
        metrics,
        sampler: exports.sampler,
        capture_content: exports.capture_content,
        stop,
        running: Mutex::new(running),
    };
    if let Err(second) = ACTIVE.set(telemetry) {
        second.stop.cancel();
    }
    Ok(())
}

/// Ends the export: what waits is sent, within a bounded time.
pub async fn shutdown() {
    let Some(telemetry) = active() else {
        return;
    };
    telemetry.stop.cancel();
    let running = telemetry.running.lock();
    let running = std::mem::take(&mut *running.unwrap_or_else(PoisonError::into_inner));
    let ended = futures_util::future::join_all(running);
    if tokio::time::timeout(FLUSH, ended).await.is_err() {
        tracing::warn!("the last telemetry could not be exported in time");
    }
}

impl Telemetry {
    const fn traces(&self) -> bool {
        self.spans.is_some()
    }

    const fn logs(&self) -> bool {
        self.log_records.is_some()
    }

    fn record_span(&self, span: SpanRecord) {
        if let Some(queue) = &self.spans {
            queue.put(span);
        }
    }

    fn record_log(&self, record: LogRecord) {
        if let Some(queue) = &self.log_records {
            queue.put(record);
        }
    }
}

/// The resource, with an id of this process if the operator sets none.
fn resource_of(exports: &Exports) -> Resource {
    const INSTANCE: &str = "service.instance.id";
    let given = exports.resource.iter();
    let mut attributes: Vec<_> = given.map(|(name, value)| attribute(name, value)).collect();
    if !exports.resource.contains_key(INSTANCE) {
        attributes.push(attribute(INSTANCE, uuid::Uuid::now_v7().to_string()));
    }
    Resource {
        attributes,
        ..Resource::default()
    }
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: "touchstone".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    })
}

fn encoded_spans(resource: Resource, spans: Vec<SpanRecord>) -> Vec<u8> {
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans {
                scope: scope(),
                spans,
                schema_url: SCHEMA.to_owned(),
            }],
            schema_url: SCHEMA.to_owned(),
        }],
    };
    request.encode_to_vec()
}

fn encoded_logs(resource: Resource, log_records: Vec<LogRecord>) -> Vec<u8> {
    let request = ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(resource),
            scope_logs: vec![ScopeLogs {
                scope: scope(),
                log_records,
                schema_url: SCHEMA.to_owned(),
            }],
            schema_url: SCHEMA.to_owned(),
        }],
    };
    request.encode_to_vec()
}

/// Exports the metrics that `/metrics` shows and those of model calls, periodically and at the end.
async fn export_metrics(
    export: SignalExport,
    sender: Sender,
    resource: Resource,
    stop: CancellationToken,
) {
    let recorder = Metrics::install();
    let start = now();
    let mut outage = Outage::new(export.signal);
    let mut ticks = interval(export.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate.
    ticks.tick().await;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => {}
        }
        let period = Period { start, now: now() };
        let metrics = metrics_of(&recorder.render_all(), period);
        let metrics: Vec<_> = metrics.into_iter().map(by_conventions).collect();
        let count = metrics.len();
        let request = ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: scope(),
                    metrics,
                    schema_url: SCHEMA.to_owned(),
                }],
                schema_url: SCHEMA.to_owned(),
            }],
        };
        let message = request.encode_to_vec();
        outage.send(&sender, &message, count, &stop).await;
        if stop.is_cancelled() {
            return;
        }
    }
}
