//! Metrics in the Prometheus text format as metrics of OpenTelemetry, so that both show the same
//! names and numbers.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
    Summary, SummaryDataPoint,
};

use crate::rules::telemetry::attributes::attribute;

/// The labels of a sample, in order.
type Labels = Vec<(String, String)>;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Counter,
    #[default]
    Gauge,
    Histogram,
    Summary,
}

#[derive(Default)]
struct Family {
    help: String,
    kind: Kind,
    series: BTreeMap<Labels, Series>,
}

/// The samples with the same labels.
#[derive(Default)]
struct Series {
    value: f64,
    sum: f64,
    count: f64,
    /// Upper bounds with cumulative counts, or quantiles with values; in order of the text.
    parts: Vec<(f64, f64)>,
}

/// The time of all points, in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub struct Period {
    /// When counting began.
    pub start: u64,
    pub now: u64,
}

/// The metrics of a text; lines that are not understood are left out.
pub fn metrics_of(text: &str, period: Period) -> Vec<Metric> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            describe(&mut families, comment);
        } else if let Some((name, labels, value)) = sample(line) {
            add(&mut families, name, labels, value);
        }
    }
    let families = families.into_iter();
    families
        .map(|(name, family)| metric(name, family, period))
        .collect()
}

fn describe(families: &mut BTreeMap<String, Family>, comment: &str) {
    let mut words = comment.splitn(3, ' ');
    let (Some(what), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let family = families.entry(name.to_owned()).or_default();
    match (what, rest) {
        ("HELP", help) => help.clone_into(&mut family.help),
        ("TYPE", "counter") => family.kind = Kind::Counter,
        ("TYPE", "histogram") => family.kind = Kind::Histogram,
        ("TYPE", "summary") => family.kind = Kind::Summary,
        _ => {}
    }
}

/// Name, labels and value of a line.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let Some((name, rest)) = line.split_once('{') else {
        let (name, value) = line.split_once(' ')?;
        return Some((name, Labels::new(), number(value)?));
    };
    let (labels, value) = labels(rest)?;
    Some((name, labels, number(value)?))
}

/// The labels up to the closing brace, and the rest of the line.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut found = Labels::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(value) = rest.strip_prefix('}') {
            return Some((found, value));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (mut value, mut is_escaped, mut end) = (String::new(), false, None);
        for (at, letter) in quoted.char_indices() {
            match (is_escaped, letter) {
                (false, '\\') => is_escaped = true,
                (false, '"') => {
                    end = Some(at + 1);
                    break;
                }
                (true, 'n') => {
                    value.push('\n');
                    is_escaped = false;
                }
                (_, letter) => {
                    value.push(letter);
                    is_escaped = false;
                }
            }
        }
        rest = quoted.get(end?..)?;
        found.push((name.to_owned(), value));
    }
}

fn number(text: &str) -> Option<f64> {
    // A time may follow the value.
    match text.split_whitespace().next()? {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

fn add(families: &mut BTreeMap<String, Family>, name: &str, mut labels: Labels, value: f64) {
    if let Some(family) = families.get_mut(name) {
        let quantile = labels.iter().position(|(name, _)| name == "quantile");
        let quantile = quantile.filter(|_| family.kind == Kind::Summary);
        let quantile = quantile.map(|place| labels.remove(place).1);
        let series = family.series.entry(labels).or_default();
        match quantile.and_then(|text| number(&text)) {
            Some(quantile) => series.parts.push((quantile, value)),
            None => series.value = value,
        }
        return;
    }
    for part in ["_bucket", "_sum", "_count"] {
        let Some(family) = name
            .strip_suffix(part)
            .and_then(|name| families.get_mut(name))
        else {
            continue;
        };
        let bound = labels.iter().position(|(name, _)| name == "le");
        let bound = bound.map(|place| labels.remove(place).1);
        let series = family.series.entry(labels).or_default();
        match (part, bound.and_then(|text| number(&text))) {
            ("_bucket", Some(bound)) => series.parts.push((bound, value)),
            ("_sum", _) => series.sum = value,
            ("_count", _) => series.count = value,
            _ => {}
        }
        return;
    }
    // A sample without a description.
    let family = families.entry(name.to_owned()).or_default();
    family.series.entry(labels).or_default().value = value;
}

fn metric(name: String, family: Family, period: Period) -> Metric {
    let unit = match name.trim_end_matches("_total") {
        name if name.ends_with("_seconds") => "s",
        name if name.ends_with("_bytes") => "By",
        _ => "",
    };
    let series = family.series.into_iter();
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match family.kind {
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: series.map(|it| number_point(it, period)).collect(),
        }),
        Kind::Counter => Data::Sum(Sum {
            data_points: series.map(|it| number_point(it, period)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            data_points: series.map(|it| histogram_point(it, period)).collect(),
            aggregation_temporality: cumulative,
        }),
        Kind::Summary => Data::Summary(Summary {
            data_points: series.map(|it| summary_point(it, period)).collect(),
        }),
    };
    Metric {
        name,
        description: family.help,
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn attributes(labels: &Labels) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    labels
        .iter()
        .map(|(name, value)| attribute(name, value))
        .collect()
}

fn number_point((labels, series): (Labels, Series), period: Period) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(&labels),
        start_time_unix_nano: period.start,
        time_unix_nano: period.now,
        value: Some(Value::AsDouble(series.value)),
        ..NumberDataPoint::default()
    }
}

fn histogram_point((labels, series): (Labels, Series), period: Period) -> HistogramDataPoint {
    let mut below = 0;
    let bucket_counts = series.parts.iter().map(|(_, cumulative)| {
        let count = whole(*cumulative);
        let of_bucket = count.saturating_sub(below);
        below = count;
        of_bucket
    });
    HistogramDataPoint {
        attributes: attributes(&labels),
        start_time_unix_nano: period.start,
        time_unix_nano: period.now,
        count: whole(series.count),
        sum: Some(series.sum),
        bucket_counts: bucket_counts.collect(),
        // The last bucket has no upper bound.
        explicit_bounds: series
            .parts
            .iter()
            .map(|(bound, _)| *bound)
            .filter(|bound| bound.is_finite())
            .collect(),
        ..HistogramDataPoint::default()
    }
}

fn summary_point((labels, series): (Labels, Series), period: Period) -> SummaryDataPoint {
    let quantiles = series.parts.into_iter();
    SummaryDataPoint {
        attributes: attributes(&labels),
        start_time_unix_nano: period.start,
        time_unix_nano: period.now,
        count: whole(series.count),
        sum: series.sum,
        quantile_values: quantiles
            .map(|(quantile, value)| ValueAtQuantile { quantile, value })
            .collect(),
        ..SummaryDataPoint::default()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are integers far below 2^53"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
# HELP http_requests_total Requests answered
# TYPE http_requests_total counter
http_requests_total{route="/v1/\"x\"",status="200"} 3
http_requests_total{route="/v1/a,b}",status="404"} 1

# TYPE open gauge
open 7
# TYPE took_seconds histogram
took_seconds_bucket{route="/",le="0.1"} 2
took_seconds_bucket{route="/",le="1"} 5
took_seconds_bucket{route="/",le="+Inf"} 6
took_seconds_sum{route="/"} 4.5
took_seconds_count{route="/"} 6
# TYPE size summary
size{quantile="0.5"} 12
size_sum 40
size_count 3
not a sample
"#;

    fn read() -> BTreeMap<String, Metric> {
        let period = Period { start: 1, now: 2 };
        let metrics = metrics_of(TEXT, period).into_iter();
        metrics.map(|it| (it.name.clone(), it)).collect()
    }

    #[test]
    fn counters_and_gauges_keep_names_labels_and_values() {
        let metrics = read();
        let requests = &metrics["http_requests_total"];
        assert_eq!(requests.description, "Requests answered");
        let Some(Data::Sum(sum)) = &requests.data else {
            panic!("{requests:?}");
        };
        assert!(sum.is_monotonic);
        let routes: Vec<_> = sum.data_points.iter().map(|it| &it.attributes[0]).collect();
        assert_eq!(*routes[0], attribute("route", "/v1/\"x\""));
        assert_eq!(*routes[1], attribute("route", "/v1/a,b}"));
        assert_eq!(sum.data_points[0].value, Some(Value::AsDouble(3.0)));
        let Some(Data::Gauge(gauge)) = &metrics["open"].data else {
            panic!("{metrics:?}");
        };
        assert_eq!(gauge.data_points[0].value, Some(Value::AsDouble(7.0)));
    }

    #[test]
    fn histograms_have_the_count_of_each_bucket() {
        let metrics = read();
        let took = &metrics["took_seconds"];
        assert_eq!(took.unit, "s");
        let Some(Data::Histogram(histogram)) = &took.data else {
            panic!("{took:?}");
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.bucket_counts, [2, 3, 1]);
        assert_eq!(point.explicit_bounds, [0.1, 1.0]);
        assert_eq!((point.count, point.sum), (6, Some(4.5)));
        assert_eq!(point.attributes, [attribute("route", "/")]);
        let Some(Data::Summary(summary)) = &metrics["size"].data else {
            panic!("{metrics:?}");
        };
        let point = &summary.data_points[0];
        assert_eq!((point.count, point.quantile_values.len()), (3, 1));
    }
}
