//! What is exported, and where to: the standard environment variables of OpenTelemetry over the
//! configuration file.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use crate::rules::telemetry::sampling::Sampler;

/// The `[telemetry]` table of the configuration. Headers, which may hold secrets, are only in the
/// environment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// The address of the collector. If unset here and in the environment, nothing is exported.
    pub endpoint: Option<String>,
    /// `http/protobuf` or `grpc`.
    pub protocol: String,
    /// Whether traces are exported.
    pub traces: bool,
    /// Whether metrics are exported.
    pub metrics: bool,
    /// Whether logs and the events of evaluations are exported.
    pub logs: bool,
    pub service_name: String,
    /// Further attributes of the resource.
    pub resource_attributes: BTreeMap<String, String>,
    /// The standard name of a sampler.
    pub sampler: String,
    /// The share of traces for samplers with a ratio, 0.0..=1.0.
    pub sampler_arg: f64,
    /// Whether spans and events hold task content: prompts, answers, arguments and results of
    /// tools, and reasons of judges.
    pub capture_content: bool,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: HTTP.to_owned(),
            traces: true,
            metrics: true,
            logs: true,
            service_name: "touchstone".to_owned(),
            resource_attributes: BTreeMap::new(),
            sampler: "parentbased_always_on".to_owned(),
            sampler_arg: 1.0,
            capture_content: false,
        }
    }
}

const CAPTURE_CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const HTTP: &str = "http/protobuf";
const GRPC: &str = "grpc";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Protobuf over HTTP/1.1.
    Http,
    Grpc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    /// The part of variables that are for this signal.
    const fn upper(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }

    /// The name in paths and metrics.
    pub const fn lower(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// The gRPC method.
    const fn method(self) -> &'static str {
        match self {
            Self::Traces => "opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }
}

/// The export of one signal.
#[derive(Clone, Debug)]
pub struct SignalExport {
    pub signal: Signal,
    pub url: Url,
    pub protocol: Protocol,
    pub headers: Vec<(String, SecretString)>,
    /// Time limit of one export, its retries included.
    pub timeout: Duration,
    pub gzip: bool,
    /// Longest time that an item waits; for metrics, the time between exports.
    pub every: Duration,
    /// Maximum items that wait; further ones are dropped.
    pub max_queue: usize,
    /// Maximum items of one export.
    pub max_batch: usize,
}

/// All exports of a process.
#[derive(Clone, Debug)]
pub struct Exports {
    pub traces: Option<SignalExport>,
    pub metrics: Option<SignalExport>,
    pub logs: Option<SignalExport>,
    /// The attributes of the resource.
    pub resource: BTreeMap<String, String>,
    pub sampler: Sampler,
    pub capture_content: bool,
    /// Variables that are ignored, for the operator.
    pub warnings: Vec<String>,
}

/// Reads the environment over the settings. `None` if nothing is exported.
///
/// # Errors
/// A value is invalid or not supported; the text names the variable or setting.
pub fn exports(
    settings: &TelemetrySettings,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Exports>, String> {
    let env = Environment(environment);
    if env.flag("OTEL_SDK_DISABLED")? {
        return Ok(None);
    }
    let traces = env.export(settings, Signal::Traces, settings.traces)?;
    let metrics = env.export(settings, Signal::Metrics, settings.metrics)?;
    let logs = env.export(settings, Signal::Logs, settings.logs)?;
    if traces.is_none() && metrics.is_none() && logs.is_none() {
        return Ok(None);
    }
    let exported = [&traces, &metrics, &logs].into_iter().flatten();
    let mut warnings: Vec<String> = exported
        .filter_map(|export| env.unknown_protocol(export.signal))
        .collect();
    warnings.dedup();
    Ok(Some(Exports {
        warnings,
        traces,
        metrics,
        logs,
        resource: env.resource(settings)?,
        sampler: env.sampler(settings)?,
        capture_content: match env.get(CAPTURE_CONTENT) {
            None => settings.capture_content,
            Some(_) => env.flag(CAPTURE_CONTENT)?,
        },
    }))
}

struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    /// An empty variable counts as unset (OpenTelemetry configuration).
    fn get(&self, name: &str) -> Option<String> {
        let value = (self.0)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(format!("`{name}` must be true or false, got `{value}`")),
        }
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(value) = self.get(name) else {
            return Ok(default);
        };
        let number = value.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("`{name}` must be an integer of at least 1, got `{value}`"))
    }

    /// A variable of the exporter for one signal, else for all signals, with the name of the
    /// variable.
    fn of_exporter(&self, signal: Signal, what: &str) -> Option<(String, String)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.upper());
        let common = format!("OTEL_EXPORTER_OTLP_{what}");
        [own, common]
            .into_iter()
            .find_map(|name| self.get(&name).map(|value| (name, value)))
    }

    fn export(
        &self,
        settings: &TelemetrySettings,
        signal: Signal,
        is_set: bool,
    ) -> Result<Option<SignalExport>, String> {
        let name = format!("OTEL_{}_EXPORTER", signal.upper());
        let chosen = self.get(&name);
        let is_wanted = match chosen.as_deref() {
            None => is_set,
            Some("otlp") => true,
            Some("none") => false,
            Some(other) => return Err(format!("`{name}` must be otlp or none, got `{other}`")),
        };
        if !is_wanted {
            return Ok(None);
        }
        let protocol = self.protocol(settings, signal)?;
        let Some(url) = self.url(settings, signal, protocol, chosen.is_some())? else {
            return Ok(None);
        };
        if let Some((name, _)) = self.of_exporter(signal, "CERTIFICATE") {
            return Err(format!(
                "`{name}` is not supported; add the certificate to those that the system trusts"
            ));
        }
        let gzip = match self.of_exporter(signal, "COMPRESSION") {
            None => false,
            Some((_, value)) if value == "none" => false,
            Some((_, value)) if value == "gzip" => true,
            Some((name, value)) => {
                return Err(format!("`{name}` must be gzip or none, got `{value}`"));
            }
        };
        let timeout = match self.of_exporter(signal, "TIMEOUT") {
            None => 10_000,
            Some((name, _)) => self.number(&name, 0)?,
        };
        let (every, default_ms, queue) = match signal {
            Signal::Traces => ("OTEL_BSP_SCHEDULE_DELAY", 5000, "OTEL_BSP"),
            Signal::Metrics => ("OTEL_METRIC_EXPORT_INTERVAL", 60_000, "OTEL_BSP"),
            Signal::Logs => ("OTEL_BLRP_SCHEDULE_DELAY", 1000, "OTEL_BLRP"),
        };
        let size = |what: &str, default| {
            let number = self.number(&format!("{queue}_{what}"), default)?;
            Ok::<_, String>(usize::try_from(number).unwrap_or(usize::MAX))
        };
        Ok(Some(SignalExport {
            signal,
            url,
            protocol,
            headers: self.headers(signal)?,
            timeout: Duration::from_millis(timeout),
            gzip,
            every: Duration::from_millis(self.number(every, default_ms)?),
            max_queue: size("MAX_QUEUE_SIZE", 2048)?,
            max_batch: size("MAX_EXPORT_BATCH_SIZE", 512)?,
        }))
    }

    fn protocol(&self, settings: &TelemetrySettings, signal: Signal) -> Result<Protocol, String> {
        let of_environment = self.of_exporter(signal, "PROTOCOL");
        let value = match &of_environment {
            Some((_, value)) => value,
            None => &settings.protocol,
        };
        match value.as_str() {
            HTTP => Ok(Protocol::Http),
            GRPC => Ok(Protocol::Grpc),
            // OpenTelemetry specification, enum values of environment variables: an unknown value
            // is reported and ignored.
            _ if of_environment.is_some() => Ok(Protocol::Http),
            _ => Err(format!(
                "`telemetry.protocol` must be {HTTP} or {GRPC}, got `{value}`"
            )),
        }
    }

    /// The warning about a protocol of the environment that is not supported.
    fn unknown_protocol(&self, signal: Signal) -> Option<String> {
        let (name, value) = self.of_exporter(signal, "PROTOCOL")?;
        (value != HTTP && value != GRPC)
            .then(|| format!("`{name}` must be {HTTP} or {GRPC}, got `{value}`; {HTTP} is used"))
    }

    /// Where a signal is sent. `is_chosen`: the environment asks for its export, so that the
    /// standard address applies without a configured one.
    fn url(
        &self,
        settings: &TelemetrySettings,
        signal: Signal,
        protocol: Protocol,
        is_chosen: bool,
    ) -> Result<Option<Url>, String> {
        let standard = match protocol {
            Protocol::Http => "http://localhost:4318",
            Protocol::Grpc => "http://localhost:4317",
        };
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.upper());
        let named = |name: &str| self.get(name).map(|value| (name.to_owned(), value));
        let (name, value) = match (
            named(&own).or_else(|| named("OTEL_EXPORTER_OTLP_ENDPOINT")),
            &settings.endpoint,
        ) {
            (Some(found), _) => found,
            (None, Some(endpoint)) => ("telemetry.endpoint".to_owned(), endpoint.clone()),
            (None, None) if is_chosen => (String::new(), standard.to_owned()),
            (None, None) => return Ok(None),
        };
        // The value is not quoted, because it may contain a password.
        let unusable = || {
            format!("`{name}` must be an http or https URL without credentials, such as {standard}")
        };
        let mut url: Url = value.parse().map_err(|_| unusable())?;
        let is_usable = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none();
        if !is_usable {
            return Err(unusable());
        }
        let path = match protocol {
            Protocol::Grpc => signal.method().to_owned(),
            // The address of one signal is used as it is.
            Protocol::Http if name == own => return Ok(Some(url)),
            Protocol::Http => format!("v1/{}", signal.lower()),
        };
        url.path_segments_mut()
            .map_err(|()| unusable())?
            .pop_if_empty()
            .extend(path.split('/'));
        Ok(Some(url))
    }

    /// The headers of exports, whose values may be secrets.
    fn headers(&self, signal: Signal) -> Result<Vec<(String, SecretString)>, String> {
        let Some((name, value)) = self.of_exporter(signal, "HEADERS") else {
            return Ok(Vec::new());
        };
        let pairs = pairs(&name, &value)?.into_iter();
        Ok(pairs.map(|(key, value)| (key, value.into())).collect())
    }

    fn resource(&self, settings: &TelemetrySettings) -> Result<BTreeMap<String, String>, String> {
        const VARIABLE: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let mut all = BTreeMap::from([
            ("service.name".to_owned(), settings.service_name.clone()),
            (
                "service.version".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
            ("telemetry.sdk.name".to_owned(), "touchstone".to_owned()),
            ("telemetry.sdk.language".to_owned(), "rust".to_owned()),
            (
                "telemetry.sdk.version".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
        ]);
        all.extend(settings.resource_attributes.clone());
        all.extend(pairs(VARIABLE, &self.get(VARIABLE).unwrap_or_default())?);
        all.extend(
            self.get("OTEL_SERVICE_NAME")
                .map(|name| ("service.name".to_owned(), name)),
        );
        Ok(all)
    }

    fn sampler(&self, settings: &TelemetrySettings) -> Result<Sampler, String> {
        const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
        let (field, name) = match self.get("OTEL_TRACES_SAMPLER") {
            Some(name) => ("OTEL_TRACES_SAMPLER", name),
            None => ("telemetry.sampler", settings.sampler.clone()),
        };
        let (argument, text) = match self.get(ARGUMENT) {
            Some(text) => (ARGUMENT, text),
            None => ("telemetry.sampler_arg", settings.sampler_arg.to_string()),
        };
        let ratio = text
            .parse()
            .ok()
            .filter(|ratio: &f64| (0.0..=1.0).contains(ratio))
            .ok_or_else(|| {
                format!("`{argument}` must be a number between 0 and 1, got `{text}`")
            })?;
        Sampler::named(&name, ratio).ok_or_else(|| {
            format!(
                "`{field}` must be always_on, always_off or traceidratio, or one of these after \
                 parentbased_, got `{name}`"
            )
        })
    }
}

/// `key=value` pairs separated by commas, with percent-encoded values.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let entries = text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty());
    let pair = |entry: &str| {
        let (key, value) = entry.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let key = key.trim();
        (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
    };
    let found: Option<Vec<_>> = entries.map(pair).collect();
    found.ok_or_else(|| {
        format!("`{variable}` must be a list of key=value pairs, separated by commas")
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use secrecy::ExposeSecret as _;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Exports>, String> {
        read_over(&TelemetrySettings::default(), variables)
    }

    fn read_over(
        settings: &TelemetrySettings,
        variables: &[(&str, &str)],
    ) -> Result<Option<Exports>, String> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        exports(settings, &find)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/");

    /// The environment applies over the setting, in both directions.
    #[rstest]
    #[case(true, None, true)]
    #[case(true, Some("false"), false)]
    #[case(false, Some("true"), true)]
    #[case(false, None, false)]
    fn content_is_captured_only_on_request(
        #[case] setting: bool,
        #[case] variable: Option<&str>,
        #[case] expected: bool,
    ) {
        let settings = TelemetrySettings {
            capture_content: setting,
            ..TelemetrySettings::default()
        };
        let variable = variable.map(|value| (CAPTURE_CONTENT, value));
        let variables: Vec<_> = [ENDPOINT].into_iter().chain(variable).collect();
        let exports = read_over(&settings, &variables).unwrap().unwrap();
        assert_eq!(exports.capture_content, expected);
    }

    #[rstest]
    #[case::nothing_set(&[])]
    #[case::empty(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")])]
    #[case::disabled(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")])]
    #[case::no_signal(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_METRICS_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")])]
    fn nothing_is_exported_unless_it_is_configured(#[case] variables: &[(&str, &str)]) {
        assert!(read(variables).unwrap().is_none());
    }

    #[rstest]
    #[case::http(&[ENDPOINT], "http://collector:4318/base/v1/traces")]
    #[case::own_address(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/x")],
        "http://t:1/x")]
    #[case::standard(&[("OTEL_TRACES_EXPORTER", "otlp")], "http://localhost:4318/v1/traces")]
    #[case::grpc(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
        "http://c:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export")]
    fn traces_are_sent_to_the_configured_address(
        #[case] variables: &[(&str, &str)],
        #[case] expected: &str,
    ) {
        let exports = read(variables).unwrap().unwrap();
        assert_eq!(exports.traces.unwrap().url.as_str(), expected);
    }

    #[rstest]
    #[case("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")]
    #[case("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:s3cret@collector:4317")]
    #[case("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]
    #[case("OTEL_EXPORTER_OTLP_HEADERS", "s3cret")]
    #[case("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd")]
    #[case("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem")]
    #[case("OTEL_TRACES_EXPORTER", "zipkin")]
    #[case("OTEL_TRACES_SAMPLER", "jaeger_remote")]
    #[case("OTEL_TRACES_SAMPLER_ARG", "2")]
    #[case("OTEL_SDK_DISABLED", "maybe")]
    #[case("OTEL_RESOURCE_ATTRIBUTES", "team")]
    #[case("OTEL_BSP_MAX_QUEUE_SIZE", "0")]
    fn an_invalid_variable_is_named_and_secrets_are_not_shown(
        #[case] name: &str,
        #[case] value: &str,
    ) {
        let fault = read(&[ENDPOINT, (name, value)][usize::from(name == ENDPOINT.0)..]);
        let fault = fault.unwrap_err();
        assert!(fault.starts_with(&format!("`{name}`")), "{fault}");
        assert!(!fault.contains("s3cret"), "{fault}");
    }

    /// OpenTelemetry specification: an unknown value of an enumeration is ignored with a warning.
    #[test]
    fn an_unknown_protocol_is_reported_once_and_http_is_used() {
        let variable = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
        let exports = read(&[ENDPOINT, variable]).unwrap().unwrap();
        assert_eq!(exports.traces.unwrap().protocol, Protocol::Http);
        let [warning] = exports.warnings.as_slice() else {
            panic!("{:?}", exports.warnings);
        };
        for part in [variable.0, "got `http/json`", "http/protobuf is used"] {
            assert!(warning.contains(part), "{warning}");
        }
        assert!(read(&[variable]).unwrap().is_none());
        let settings = TelemetrySettings {
            protocol: "http/json".to_owned(),
            ..TelemetrySettings::default()
        };
        assert!(read_over(&settings, &[ENDPOINT]).is_err());
    }

    #[test]
    fn the_environment_is_read_over_the_settings() {
        let settings = TelemetrySettings {
            endpoint: Some("http://file:4318".to_owned()),
            service_name: "file".to_owned(),
            metrics: false,
            ..TelemetrySettings::default()
        };
        let variables = [
            ("OTEL_SERVICE_NAME", "evals"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=q%2Ca, service.name=other"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20abc,x-a=b",
            ),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ];
        let exports = read_over(&settings, &variables).unwrap().unwrap();
        assert!(exports.metrics.is_none() && exports.capture_content);
        assert_eq!(exports.resource["service.name"], "evals");
        assert_eq!(exports.resource["team"], "q,a");
        assert_eq!(
            exports.sampler,
            Sampler {
                follows_parent: false,
                ratio: 0.5
            }
        );
        let (traces, logs) = (exports.traces.unwrap(), exports.logs.unwrap());
        assert_eq!(traces.url.as_str(), "http://file:4318/v1/traces");
        assert_eq!(traces.timeout, Duration::from_secs(10));
        assert_eq!(logs.timeout, Duration::from_millis(250));
        assert!(traces.gzip);
        let headers: Vec<(&str, &str)> = traces
            .headers
            .iter()
            .map(|(key, value)| (key.as_str(), value.expose_secret()))
            .collect();
        assert_eq!(headers, [("authorization", "Bearer abc"), ("x-a", "b")]);
    }
}
