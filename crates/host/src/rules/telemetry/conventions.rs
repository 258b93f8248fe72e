//! Names of metrics and attributes by the semantic conventions for generative AI. In Prometheus they
//! have the names of its translation, which has no dots.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;

use crate::rules::telemetry::attributes::value_of;

/// Name in Prometheus, name in the conventions, and unit.
const METRICS: [(&str, &str, &str); 2] = [
    (
        "gen_ai_client_token_usage",
        "gen_ai.client.token.usage",
        "{token}",
    ),
    (
        "gen_ai_client_operation_duration_seconds",
        "gen_ai.client.operation.duration",
        "s",
    ),
];
const ATTRIBUTES: [(&str, &str); 8] = [
    ("error_type", "error.type"),
    ("gen_ai_operation_name", "gen_ai.operation.name"),
    ("gen_ai_provider_name", "gen_ai.provider.name"),
    ("gen_ai_request_model", "gen_ai.request.model"),
    ("gen_ai_response_model", "gen_ai.response.model"),
    ("gen_ai_token_type", "gen_ai.token.type"),
    ("server_address", "server.address"),
    (PORT, "server.port"),
];
const PORT: &str = "server_port";

/// The metric with the names of the conventions. Other metrics are unchanged.
pub fn by_conventions(mut metric: Metric) -> Metric {
    let known = METRICS.iter().find(|(name, ..)| *name == metric.name);
    let Some((_, name, unit)) = known else {
        return metric;
    };
    (*name).clone_into(&mut metric.name);
    (*unit).clone_into(&mut metric.unit);
    if let Some(Data::Histogram(histogram)) = &mut metric.data {
        let points = histogram.data_points.iter_mut();
        points
            .flat_map(|point| &mut point.attributes)
            .for_each(rename);
    }
    metric
}

fn rename(attribute: &mut KeyValue) {
    if attribute.key == PORT
        && let Some(Value::StringValue(text)) =
            attribute.value.as_ref().and_then(|it| it.value.as_ref())
        && let Ok(port) = text.parse::<u32>()
    {
        attribute.value = Some(value_of(port));
    }
    if let Some((_, name)) = ATTRIBUTES.iter().find(|(name, _)| *name == attribute.key) {
        (*name).clone_into(&mut attribute.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::telemetry::attributes::attribute;
    use crate::rules::telemetry::prometheus::{Period, metrics_of};

    #[test]
    fn metrics_of_model_calls_have_the_names_of_the_conventions() {
        let text = "# TYPE gen_ai_client_token_usage histogram\n\
            gen_ai_client_token_usage_bucket{gen_ai_token_type=\"input\",server_port=\"443\",le=\"+Inf\"} 1\n\
            gen_ai_client_token_usage_sum{gen_ai_token_type=\"input\",server_port=\"443\"} 100\n\
            gen_ai_client_token_usage_count{gen_ai_token_type=\"input\",server_port=\"443\"} 1\n\
            # TYPE touchstone_runs gauge\n\
            touchstone_runs{status=\"queued\"} 2\n";
        let metrics = metrics_of(text, Period { start: 0, now: 1 });
        let metrics: Vec<Metric> = metrics.into_iter().map(by_conventions).collect();
        let names: Vec<(&str, &str)> = metrics
            .iter()
            .map(|metric| (metric.name.as_str(), metric.unit.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("gen_ai.client.token.usage", "{token}"),
                ("touchstone_runs", "")
            ]
        );
        let Some(Data::Histogram(histogram)) = &metrics[0].data else {
            panic!("{metrics:?}");
        };
        assert_eq!(
            histogram.data_points[0].attributes,
            [
                attribute("gen_ai.token.type", "input"),
                attribute("server.port", 443_u32)
            ]
        );
    }
}
