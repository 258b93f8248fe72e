//! A collector that decodes OTLP with the official definitions, over HTTP and over gRPC.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::process::TOO_LONG;

/// What arrived so far.
#[derive(Clone, Default)]
pub struct Received {
    pub spans: Vec<Span>,
    pub metrics: Vec<Metric>,
    pub logs: Vec<LogRecord>,
    pub resources: Vec<Resource>,
    pub schemas: Vec<String>,
    /// The headers or the metadata of each export.
    pub headers: Vec<HeaderMap>,
}

type Shared = Arc<Mutex<Received>>;

/// A running collector; stops when dropped.
pub struct Collector {
    url: String,
    received: Shared,
    server: JoinHandle<()>,
}

impl Collector {
    pub async fn over_http() -> Self {
        let received = Shared::default();
        let router = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .route("/v1/logs", post(logs))
            .with_state(received.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            received,
            server,
        }
    }

    pub async fn over_grpc() -> Self {
        let received = Shared::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Service(received.clone());
        let gzip = CompressionEncoding::Gzip;
        let serving = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(service.clone()).accept_compressed(gzip))
            .add_service(MetricsServiceServer::new(service.clone()).accept_compressed(gzip))
            .add_service(LogsServiceServer::new(service).accept_compressed(gzip))
            .serve_with_incoming(TcpIncoming::from(listener));
        let server = tokio::spawn(async move { serving.await.unwrap() });
        Self {
            url,
            received,
            server,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn received(&self) -> Received {
        self.received.lock().unwrap().clone()
    }

    /// Waits for the root span of a run, which is the last one, and for `complete`.
    pub async fn until(&self, complete: impl Fn(&Received) -> bool) -> Received {
        let begun = Instant::now();
        loop {
            let received = self.received();
            if complete(&received) {
                return received;
            }
            let names: Vec<&str> = received
                .spans
                .iter()
                .map(|span| span.name.as_str())
                .collect();
            assert!(begun.elapsed() < TOO_LONG, "only these spans: {names:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Received {
    pub fn add_traces(&mut self, request: ExportTraceServiceRequest) {
        for of_resource in request.resource_spans {
            self.resources.extend(of_resource.resource);
            self.schemas.push(of_resource.schema_url);
            let scopes = of_resource.scope_spans.into_iter();
            self.spans.extend(scopes.flat_map(|scope| scope.spans));
        }
    }

    pub fn add_metrics(&mut self, request: ExportMetricsServiceRequest) {
        for of_resource in request.resource_metrics {
            self.resources.extend(of_resource.resource);
            let scopes = of_resource.scope_metrics.into_iter();
            self.metrics.extend(scopes.flat_map(|scope| scope.metrics));
        }
    }

    pub fn add_logs(&mut self, request: ExportLogsServiceRequest) {
        for of_resource in request.resource_logs {
            self.resources.extend(of_resource.resource);
            let scopes = of_resource.scope_logs.into_iter();
            self.logs.extend(scopes.flat_map(|scope| scope.log_records));
        }
    }

    /// The spans with this name.
    pub fn named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// The only span with this name.
    pub fn only(&self, name: &str) -> &Span {
        match self.named(name)[..] {
            [span] => span,
            ref found => panic!("{} spans are named `{name}`", found.len()),
        }
    }

    /// The spans below this one.
    pub fn below(&self, parent: &Span) -> Vec<&Span> {
        let is_below = |span: &&Span| span.parent_span_id == parent.span_id;
        self.spans.iter().filter(is_below).collect()
    }

    /// The events with this name.
    pub fn events(&self, name: &str) -> Vec<&LogRecord> {
        self.logs
            .iter()
            .filter(|log| log.event_name == name)
            .collect()
    }
}

/// Attributes as text.
pub fn attributes(all: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |it: &KeyValue| match it.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    };
    all.iter().map(|it| (it.key.as_str(), text(it))).collect()
}

fn decoded<T: Message + Default>(headers: &HeaderMap, body: &Bytes) -> T {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    if headers
        .get("content-encoding")
        .is_some_and(|it| it == "gzip")
    {
        let mut plain = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        return T::decode(&plain[..]).unwrap();
    }
    T::decode(body.clone()).unwrap()
}

async fn traces(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let request = decoded(&headers, &body);
    let mut received = shared.lock().unwrap();
    received.add_traces(request);
    received.headers.push(headers);
    StatusCode::OK
}

async fn metrics(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    shared.lock().unwrap().add_metrics(decoded(&headers, &body));
    StatusCode::OK
}

async fn logs(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    shared.lock().unwrap().add_logs(decoded(&headers, &body));
    StatusCode::OK
}

#[derive(Clone)]
struct Service(Shared);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut received = self.0.lock().unwrap();
        received
            .headers
            .push(request.metadata().clone().into_headers());
        received.add_traces(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.0.lock().unwrap().add_metrics(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Service {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.0.lock().unwrap().add_logs(request.into_inner());
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}
