//! Around every request: an id, a deadline, the envelope, the headers, a log line, the metrics.
//!
//! The log line names the route, never the query, the body or a header of the request.

pub mod trace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::{Instrument as _, info, info_span};

use crate::http::HttpHost;
use crate::http::answer::{Failure, envelope, no_such_route_problem, own_header};
use crate::http::lines;
use crate::http::negotiation::{Spoken, name_version, negotiate};
use crate::http::observe::trace::TRACEPARENT;
use crate::http::routes::paths::documented;
use crate::otlp::span::{forwarding, within};
use crate::telemetry::names;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::hex::hex;
use touchstone_openwop::wire::{Major, operation};

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
    let mut response = match is_of_another_major(&request, path.as_ref()) {
        true => Failure(no_such_route_problem()).into_response(),
        false => next.run(request).await,
    };
    if let Some(path) = path {
        response.extensions_mut().insert(Route(path));
    }
    response
}

/// The refusal of a method, without the methods that only another major has at the path.
fn in_a_major(mut response: Response, major: Major, path: &str) -> Response {
    let others: Vec<&str> = operation::methods_of_others(major, path).collect();
    if response.status() != StatusCode::METHOD_NOT_ALLOWED || others.is_empty() {
        return response;
    }
    let allowed = response.headers().get(ALLOW);
    let allowed = allowed.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_own = |method: &&str| {
        // The router answers HEAD wherever it answers GET.
        let of = if *method == "HEAD" { "GET" } else { *method };
        !method.is_empty() && !others.contains(&of)
    };
    let own: Vec<&str> = allowed.split(',').map(str::trim).filter(is_own).collect();
    if own.is_empty() {
        return Failure(no_such_route_problem()).into_response();
    }
    let own = own_header(&own.join(","));
    response.headers_mut().insert(ALLOW, own);
    response
}

fn is_of_another_major(request: &Request, path: Option<&MatchedPath>) -> bool {
    // Routes of this host are those of major 1. An operation of major 2 may lie among them.
    let spoken = request.extensions().get::<Spoken>();
    let major = spoken.map_or(Major::V1, |Spoken(major)| *major);
    path.is_some_and(|it| {
        !operation::has(major, request.method().as_str(), &documented(it.as_str()))
    })
}

pub async fn observe(
    State(host): State<Arc<HttpHost>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = host.ids.mint("req");
    let method = request.method().clone();
    let path = request.uri().path();
    let dialect = host.dialects.iter().find(|it| (it.owns)(path)).copied();
    let negotiated = negotiate(host.settings.protocol, &mut request);
    let caller = trace::caller_of(request.headers());
    let trace = trace::request_of(caller.as_ref(), host.ids.as_ref());
    let span = info_span!("request", request_id = %id, trace_id = hex(&trace.trace_id));
    let deadline = match lines::are_sent(&method, request.headers()) {
        true => LINES_DEADLINE,
        false => DEADLINE,
    };
    let answered = async {
        let (major, response) = match negotiated {
            Ok(major) => {
                let path = request.uri().path().to_owned();
                let response = answered_within(deadline, next.run(request)).await;
                (
                    major,
                    in_a_major(response, major.unwrap_or(Major::V1), &path),
                )
            }
            Err((major, refusal)) => (Some(major), Failure(refusal).into_response()),
        };
        let route = response.extensions().get::<Route>().map_or_else(
            || UNMATCHED.to_owned(),
            |route| documented(route.0.as_str()),
        );
        let majors = host.settings.protocol.majors;
        let mut response = envelope(response, &id, dialect, major.unwrap_or(Major::V1), majors);
        if let Some(major) = major {
            name_version(&mut response, major);
        }
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

async fn answered_within(deadline: Duration, answer: impl Future<Output = Response>) -> Response {
    tokio::time::timeout(deadline, answer)
        .await
        .unwrap_or_else(|_| {
            Failure(Problem::new(
                ErrorCode::Unavailable,
                "the request took too long and was aborted; try again",
            ))
            .into_response()
        })
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
