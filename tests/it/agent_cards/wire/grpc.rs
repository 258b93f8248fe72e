//! gRPC over HTTP/2, with and without TLS.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use rstest::rstest;
use serde_json::{Value, json};
use std::convert::Infallible;

use super::agent::{Agent, Spoken};
use super::{asked, codes, document};

/// The response to a call of the service: a message and a status, or a status only.
pub fn answer(path: &str, is: impl Fn(&'static str) -> bool) -> Response {
    let status = match path.rsplit('/').next() {
        Some("SendMessage") if is("grpc-asks-who") => 16,
        Some("SendMessage") if is("grpc-breaks") => 13,
        Some("SendMessage") => 0,
        Some("GetTask") if is("grpc-fails-badly") => 2,
        Some("GetTask") => 5,
        _ => 12,
    };
    let mut following = HeaderMap::new();
    following.insert("grpc-status", HeaderValue::from(status));
    let mut frames = vec![Frame::trailers(following)];
    if status == 0 {
        // A message in field 2, framed.
        let message: &[u8] = if is("grpc-empty") {
            b""
        } else {
            b"\x12\x04\x0a\x02m1"
        };
        let length = u8::try_from(message.len()).unwrap();
        let framed = [&[0, 0, 0, 0, length], message].concat();
        frames.insert(0, Frame::data(framed.into()));
    }
    let frames = frames.into_iter().map(Ok::<_, Infallible>);
    let mut response = Body::new(StreamBody::new(stream::iter(frames))).into_response();
    response
        .headers_mut()
        .insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

fn card(agent: &Agent) -> Value {
    let mut card = agent.card();
    card["preferredTransport"] = json!("GRPC");
    card["url"] = json!(agent.base());
    card["additionalInterfaces"] = json!([{"url": agent.base(), "transport": "GRPC"}]);
    card
}

#[rstest]
#[case::well(&[], 95.0, &[])]
#[case::empty(&["grpc-empty"], 85.0, &["RESPONSE_STRUCTURE_INVALID"])]
#[case::errors(&["grpc-fails-badly"], 90.0, &["ERROR_HANDLING_POOR"])]
#[case::breaks(&["grpc-breaks"], 50.0, &["CORS_MISSING", "PREFERRED_TRANSPORT_FAILED"])]
#[case::asks_who(&["grpc-asks-who"], 50.0, &["CORS_MISSING", "AUTH_REQUIRED"])]
#[tokio::test]
async fn grpc_replies_are_scored(
    #[case] ways: &[&'static str],
    #[case] total: f64,
    #[case] found: &[&str],
) {
    let agent = Agent::listen(ways, None, Spoken::Http2).await;
    let document = document(&asked(&agent, &card(&agent)).await);
    let availability = &document["availability"];
    assert_eq!(availability["total"].as_f64(), Some(total), "{document:#}");
    let codes = codes(&document);
    let codes: Vec<&str> = codes.into_iter().filter(|it| *it != "TLS_ABSENT").collect();
    assert_eq!(codes, found);
    let log = agent.log();
    let calls: Vec<&String> = log.iter().filter(|it| it.contains("A2AService")).collect();
    assert_eq!(
        calls,
        [
            "POST /a2a.v1.A2AService/SendMessage",
            "POST /a2a.v1.A2AService/GetTask"
        ]
    );
}

#[tokio::test]
async fn a_server_without_grpc_is_unreachable() {
    let agent = Agent::start(&[]).await;
    let document = document(&asked(&agent, &card(&agent)).await);
    assert_eq!(document["availability"]["total"], 0, "{document:#}");
    assert!(codes(&document).contains(&"ENDPOINT_UNREACHABLE"));
}

#[tokio::test]
async fn a_further_interface_may_use_grpc() {
    let (agent, other) = (
        Agent::start(&[]).await,
        Agent::listen(&[], None, Spoken::Http2).await,
    );
    let mut card = agent.card();
    card["additionalInterfaces"][1] = json!({"url": other.base(), "transport": "GRPC"});
    let fetched = super::Fetched::at_hand(card.to_string().into_bytes());
    let cards = super::cards(&[agent.place(), other.place()]);
    let document = document(&cards.score(fetched, super::ContactPolicy::Agent).await);
    let transports = &document["availability"]["breakdown"]["transportSupport"];
    assert_eq!(transports["additionalInterfacesWorking"], 1, "{document:#}");
}
