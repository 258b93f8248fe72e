//! Logs and metrics. Neither ever contains task content, keys or query strings: only ids, labels,
//! counts and times.

pub mod names;

use std::env::VarError;
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::error;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::otlp::logs::LogExport;
use crate::render::words::harmless;
use touchstone_kit::error::ErrorCode;

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

/// Buckets for requests and writes.
const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
/// Buckets for calls of models, tasks and waits.
const LONG_SECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0,
];
/// Buckets for the cost of a call.
const USD: &[f64] = &[0.0001, 0.001, 0.01, 0.1, 1.0, 10.0];

/// Buckets of the semantic conventions for generative AI.
const GEN_AI_TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const GEN_AI_SECONDS: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// The scopes of the rate limits that every host has.
const RATE_LIMITS: [&str; 3] = ["key", "tenant", "route"];
/// Why credentials are refused.
const REFUSALS: [ErrorCode; 3] = [
    ErrorCode::Unauthenticated,
    ErrorCode::KeyExpired,
    ErrorCode::KeyRevoked,
];

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
        let of = |name: &str| Matcher::Full(name.to_owned());
        let handle = HANDLE.get_or_init(|| {
            let handle = PrometheusBuilder::new()
                .set_buckets(SECONDS)
                .and_then(|it| it.set_buckets_for_metric(of(names::QUEUE_WAIT), LONG_SECONDS))
                .and_then(|it| it.set_buckets_for_metric(of(names::TASK_SECONDS), LONG_SECONDS))
                .and_then(|it| {
                    it.set_buckets_for_metric(of(names::CLUSTER_TASK_WAIT), LONG_SECONDS)
                })
                .and_then(|it| it.set_buckets_for_metric(of(names::MODEL_SECONDS), LONG_SECONDS))
                .and_then(|it| it.set_buckets_for_metric(of(names::MODEL_COST), USD))
                .and_then(|it| it.set_buckets_for_metric(of(names::GEN_AI_TOKENS), GEN_AI_TOKENS))
                .and_then(|it| it.set_buckets_for_metric(of(names::GEN_AI_SECONDS), GEN_AI_SECONDS))
                .expect("there are buckets")
                .install_recorder()
                .expect("this process has no other recorder");
            names::describe();
            metrics::gauge!(names::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            // Exported before they count, so that their first increase is visible.
            for name in [names::SHED, names::IDEMPOTENT_REPLAYS] {
                metrics::counter!(name).increment(0);
            }
            for scope in RATE_LIMITS {
                metrics::counter!(names::RATE_LIMITED, "scope" => scope).increment(0);
            }
            for code in REFUSALS {
                metrics::counter!(names::AUTH_REFUSALS, "code" => code.as_str()).increment(0);
            }
            metrics::gauge!(names::SUBSCRIBERS).set(0.0);
            handle
        });
        Self {
            handle: handle.clone(),
        }
    }

    /// The metrics of `/metrics` in the Prometheus text format. Those with names of models and
    /// addresses, which tenants choose, are left out.
    pub fn render(&self) -> String {
        let text = self.handle.render();
        let lines = text.split_inclusive('\n');
        let is_shown = |line: &&str| {
            let comment = line.strip_prefix("# ").and_then(|it| it.split_once(' '));
            !comment
                .map_or(*line, |(_, rest)| rest)
                .starts_with(names::GEN_AI)
        };
        lines.filter(is_shown).collect()
    }

    /// All metrics, for the operator's collector.
    pub fn render_all(&self) -> String {
        self.handle.render()
    }

    /// Periodically folds samples into histograms, so that they do not accumulate between scrapes,
    /// or in a command, which is never scraped. Never returns.
    pub async fn upkeep(&self) {
        let mut every = tokio::time::interval(Duration::from_secs(5));
        loop {
            every.tick().await;
            self.handle.run_upkeep();
        }
    }
}

/// A handle to a counter. Resolve it once: counting is then one atomic operation. The counter is
/// exported from now on, so its first increment is visible as one.
pub fn counter(name: &'static str, labels: &[(&'static str, &'static str)]) -> Counter {
    Metrics::install();
    metrics::counter!(name, labels_of(labels))
}

/// A handle to a gauge.
pub fn gauge(name: &'static str, labels: &[(&'static str, &'static str)]) -> Gauge {
    Metrics::install();
    metrics::gauge!(name, labels_of(labels))
}

/// A handle to a histogram, resolved once.
pub fn histogram(name: &'static str, labels: &[(&'static str, &'static str)]) -> Histogram {
    Metrics::install();
    metrics::histogram!(name, labels_of(labels))
}

/// Records a value whose labels are known only now. The caller limits their number.
pub fn record(name: &'static str, labels: Vec<(&'static str, String)>, value: f64) {
    Metrics::install();
    let labels = labels
        .into_iter()
        .map(|(name, value)| Label::new(name, value));
    metrics::histogram!(name, labels.collect::<Vec<_>>()).record(value);
}

fn labels_of(labels: &[(&'static str, &'static str)]) -> Vec<Label> {
    labels.iter().map(Label::from).collect()
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
