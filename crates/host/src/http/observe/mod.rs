//! Around every request: an id, a deadline, the envelope, the headers, a log line, the metrics.
//!
//! The log line names the route, never the query, the body or a header of the request.

pub mod trace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::{Instrument as _, info, info_span};

use crate::http::HttpHost;
use crate::http::answer::{Failure, envelope, own_header};
use crate::http::lines;
use crate::http::observe::trace::TRACEPARENT;
use crate::http::routes::paths::documented;
use crate::otlp::span::{forwarding, within};
use crate::telemetry::names;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::hex::hex;

/// Longer than the longest poll.
const DEADLINE: Duration = Duration::from_secs(90);
/// For bodies of lines, which may take long to arrive. A client that stops sending is cut off sooner.
const LINES_DEADLINE: Duration = Duration::from_secs(30 * 60);
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const UNMATCHED: &str = "(none)";

/// The route a response came from, for the layers outside the router.
#[derive(Clone)]
struct Route(MatchedPath);

/// Stores the matched route in the response's extensions. A layer of the router's routes.
pub async fn note_route(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(path) = path {
        response.extensions_mut().insert(Route(path));
    }
    response
}

pub async fn observe(State(host): State<Arc<HttpHost>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = host.ids.mint("req");
    let method = request.method().clone();
    let path = request.uri().path();
    let dialect = host.dialects.iter().find(|it| (it.owns)(path)).copied();
    let caller = trace::caller_of(request.headers());
    let trace = trace::request_of(caller.as_ref(), host.ids.as_ref());
    let span = info_span!("request", request_id = %id, trace_id = hex(&trace.trace_id));
    let deadline = match lines::are_sent(&method, request.headers()) {
        true => LINES_DEADLINE,
        false => DEADLINE,
    };
    let answered = async {
        let response = match tokio::time::timeout(deadline, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Failure(Problem::new(
                ErrorCode::Unavailable,
                "the request took too long and was aborted; try again",
            ))
            .into_response(),
        };
        let route = response.extensions().get::<Route>().map_or_else(
            || UNMATCHED.to_owned(),
            |route| documented(route.0.as_str()),
        );
        let mut response = envelope(response, &id, dialect);
        common_headers(response.headers_mut(), &id);
        let trace = own_header(&trace.traceparent());
        response.headers_mut().insert(TRACEPARENT, trace);
        let took = began.elapsed();
        let status = response.status().as_u16();
        info!(%method, route, status, ms = took.as_millis() as u64, "answered");
        let method = metric_method(method.as_str());
        metrics::counter!(names::HTTP_REQUESTS, "method" => method, "route" => route.clone(), "status" => status.to_string())
            .increment(1);
        metrics::histogram!(names::HTTP_SECONDS, "method" => method, "route" => route)
            .record(took.as_secs_f64());
        response
    };
    let caller = caller.map(forwarding);
    within(caller, answered.instrument(span)).await
}

/// A client can invent methods; the number of labels must stay small.
fn metric_method(method: &str) -> &'static str {
    match method {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn common_headers(headers: &mut HeaderMap, id: &str) {
    let fixed = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    for (name, value) in fixed {
        // A response may set its own policy.
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(REQUEST_ID, own_header(id));
}
