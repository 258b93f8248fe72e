//! Logs and metrics. Neither ever contains task content, keys or query strings: only ids, labels,
//! counts and times.

use std::env::VarError;
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing::error;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::otlp::logs::LogExport;
use crate::render::words::harmless;

/// All metric names. The names are a contract: dashboards depend on them.
pub mod names {
    /// Requests answered, by `method`, `route` and `status`.
    pub const HTTP_REQUESTS: &str = "touchstone_http_requests_total";
    /// Time until the response headers were ready, by `method` and `route`.
    pub const HTTP_SECONDS: &str = "touchstone_http_request_duration_seconds";
    pub const HTTP_CONNECTIONS: &str = "touchstone_http_connections";
    pub const SUBSCRIBERS: &str = "touchstone_event_subscribers";
    /// Requests answered from an idempotency record.
    pub const IDEMPOTENT_REPLAYS: &str = "touchstone_idempotent_replays_total";
    /// Requests refused by a rate limit, by `scope`.
    pub const RATE_LIMITED: &str = "touchstone_rate_limited_total";
    /// Requests refused because too many were in flight.
    pub const SHED: &str = "touchstone_shed_requests_total";
    /// Credentials refused, by `code`.
    pub const AUTH_REFUSALS: &str = "touchstone_auth_refusals_total";
    /// Webhook deliveries attempted, by `outcome`: `taken`, `not_taken`.
    pub const WEBHOOK_DELIVERIES: &str = "touchstone_webhook_deliveries_total";
    /// Spans, metrics and log records that were not exported by OTLP, by `signal` and `reason`:
    /// `queue_full`, `export_failed`, `refused`.
    pub const TELEMETRY_DROPPED: &str = "touchstone_telemetry_dropped_total";
    /// Exports by OTLP that failed, by `signal`.
    pub const TELEMETRY_FAILURES: &str = "touchstone_telemetry_export_failures_total";
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Standard error, with terminal control characters removed from external text.
struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) => io::Write::write_all(&mut io::stderr(), harmless(text, true).as_bytes())?,
            Err(_) => io::Write::write_all(&mut io::stderr(), line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut io::stderr())
    }
}

/// Libraries that log message contents at every level, or report a certificate fault a second time.
/// The host reports their faults itself.
const SILENT: &[&str] = &["rmcp=off", "sse_stream=off", "rustls_platform_verifier=off"];

/// Sends log lines to stderr. `RUST_LOG` overrides `default_filter`; if it is not a filter, that is
/// logged. Does nothing if a logger is already installed.
pub fn init_logs(format: LogFormat, default_filter: &str) {
    let (filter, ignored) = filter(std::env::var(EnvFilter::DEFAULT_ENV), default_filter);
    let silent = SILENT.iter().copied().map(silencing);
    let filter = silent.fold(filter, EnvFilter::add_directive);
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        // Log files and journals must not contain colors.
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(|| LogWriter);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let logger = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .with(LogExport);
    // A second initialization, as in tests, keeps the first.
    let _ = logger.try_init();
    if let Some(cause) = ignored {
        // An error, because the default of most commands shows nothing else.
        error!(
            cause,
            "RUST_LOG is ignored; the log filter is `{default_filter}`"
        );
    }
}

/// The filter of the environment, or the default one with the reason why that of the environment
/// is ignored.
fn filter(set: Result<String, VarError>, default: &str) -> (EnvFilter, Option<String>) {
    let cause = match set {
        Ok(set) => match EnvFilter::try_new(set) {
            Ok(filter) => return (filter, None),
            Err(cause) => Some(cause.to_string()),
        },
        Err(VarError::NotPresent) => None,
        Err(cause) => Some(cause.to_string()),
    };
    (EnvFilter::new(default), cause)
}

#[expect(clippy::expect_used, reason = "the directives are constants")]
fn silencing(directive: &str) -> Directive {
    directive.parse().expect("the directive is valid")
}

#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Installs the recorder on first use; later calls share it.
    #[expect(
        clippy::expect_used,
        reason = "the buckets are constants, and nothing else installs a recorder"
    )]
    pub fn install() -> Self {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
        let handle = HANDLE.get_or_init(|| {
            let handle = PrometheusBuilder::new()
                .set_buckets(&[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0])
                .expect("there are buckets")
                .install_recorder()
                .expect("this process has no other recorder");
            describe();
            handle
        });
        Self {
            handle: handle.clone(),
        }
    }

    /// All metrics in the Prometheus text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Periodically folds samples into histograms, so that they do not accumulate between scrapes.
    /// Never returns.
    pub async fn upkeep(&self) {
        let mut every = tokio::time::interval(Duration::from_secs(5));
        loop {
            every.tick().await;
            self.handle.run_upkeep();
        }
    }
}

fn describe() {
    describe_counter!(names::HTTP_REQUESTS, "Requests answered");
    describe_histogram!(
        names::HTTP_SECONDS,
        metrics::Unit::Seconds,
        "Time until the response headers were ready"
    );
    describe_gauge!(names::HTTP_CONNECTIONS, "Open connections");
    describe_gauge!(names::SUBSCRIBERS, "Open event streams and long polls");
    describe_counter!(
        names::IDEMPOTENT_REPLAYS,
        "Requests answered from an idempotency record"
    );
    describe_counter!(names::RATE_LIMITED, "Requests refused by a rate limit");
    describe_counter!(
        names::SHED,
        "Requests refused because too many were in flight"
    );
    describe_counter!(names::AUTH_REFUSALS, "Credentials refused");
    describe_counter!(names::WEBHOOK_DELIVERIES, "Webhook deliveries attempted");
    describe_counter!(
        names::TELEMETRY_DROPPED,
        "Spans, metrics and log records that were not exported by OTLP"
    );
    describe_counter!(names::TELEMETRY_FAILURES, "Exports by OTLP that failed");
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::not_set(Err(VarError::NotPresent), "info", false)]
    #[case::valid(Ok("touchstone=debug".to_owned()), "touchstone=debug", false)]
    #[case::unknown_level(Ok("touchstone=loud".to_owned()), "info", true)]
    #[case::not_unicode(Err(VarError::NotUnicode("x".into())), "info", true)]
    fn an_invalid_log_filter_is_reported(
        #[case] set: Result<String, VarError>,
        #[case] expected: &str,
        #[case] ignored: bool,
    ) {
        let (filter, cause) = filter(set, "info");
        assert_eq!(filter.to_string(), expected);
        assert_eq!(cause.is_some(), ignored, "{cause:?}");
    }
}
