//! Requests beyond a limit get an explanatory error and do not affect other clients.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_host::http::limits::Rates;
use touchstone_host::http::server::{ServerSettings, serve_with};

use crate::http::support::host::{Reply, TestHost, says};

const DISCOVERY: &str = "/.well-known/openwop";

async fn limited(rates: Rates) -> TestHost {
    TestHost::with(HttpSettings {
        rates,
        ..HttpSettings::default()
    })
    .await
}

async fn ask(host: &TestHost, key: &str) -> Reply {
    host.request(Method::GET, "/v1/agents")
        .key(key)
        .send()
        .await
}

fn assert_limited(reply: &Reply, scope: &str) {
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::TOO_MANY_REQUESTS, "rate_limited".to_owned())
    );
    let details = &reply.json()["details"];
    assert_eq!(details["scope"], scope);
    assert_eq!(details["limit"], 1);
    let wait = details["retryAfterMs"].as_u64().unwrap();
    let header: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!(wait > 0 && header == wait.div_ceil(1000), "{wait} {header}");
}

/// Sends requests until one is rejected, which happens after ten at the earliest and soon after
/// that.
async fn until_limited(host: &TestHost, key: &str, before: StatusCode) -> Reply {
    // On a slow machine, the allowance grows meanwhile.
    for _ in 0..1000 {
        let reply = ask(host, key).await;
        if reply.status != before {
            return reply;
        }
    }
    panic!("no request was rejected");
}

#[tokio::test]
async fn a_key_over_its_rate_limit_does_not_affect_other_keys() {
    let host = limited(Rates {
        per_key: 1,
        ..Rates::default()
    })
    .await;
    assert_limited(
        &until_limited(&host, &host.key, StatusCode::OK).await,
        "key",
    );
    let second = host.key_with(Scope::ALL).await;
    for key in [&second, &host.other_key] {
        assert_eq!(ask(&host, key).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn the_rate_limit_applies_after_authentication_and_before_authorization() {
    let host = limited(Rates {
        per_tenant: 1,
        ..Rates::default()
    })
    .await;
    let scopeless = host.key_with(&[]).await;
    let reply = until_limited(&host, &scopeless, StatusCode::FORBIDDEN).await;
    assert_limited(&reply, "tenant");
    let reply = until_limited(&host, &host.key, StatusCode::OK).await;
    assert_limited(&reply, "tenant");
    assert_eq!(
        ask(&host, "nobody's").await.status,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(ask(&host, &host.other_key).await.status, StatusCode::OK);
    for open in ["/healthz", DISCOVERY] {
        assert_eq!(host.get(open).await.status, StatusCode::OK);
    }
}

/// The discovery document needs no key; where it depends on the key, requests with a key are
/// counted.
#[tokio::test]
async fn discovery_is_rate_limited_per_key() {
    let host = TestHost::with(HttpSettings {
        conformance: true,
        rates: Rates {
            per_key: 1,
            ..Rates::default()
        },
        ..HttpSettings::default()
    })
    .await;
    let mut reply = host.get(DISCOVERY).await;
    for _ in 0..1000 {
        if reply.status != StatusCode::OK {
            break;
        }
        reply = host.get(DISCOVERY).await;
    }
    assert_limited(&reply, "key");
    let anybody = host.request(Method::GET, DISCOVERY).anonymous();
    assert_eq!(anybody.send().await.status, StatusCode::OK);
}

/// Sends a request with a given key on a separate connection and returns the status line.
async fn over_the_wire(address: std::net::SocketAddr, key: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /v1/agents HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn failed_authentication_is_rate_limited_without_affecting_valid_keys() {
    let host = limited(Rates {
        refusals_per_minute: 3,
        ..Rates::default()
    })
    .await;
    let address = host.listen().await;
    for _ in 0..3 {
        let answer = over_the_wire(address, "guess").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    let answer = over_the_wire(address, "guess").await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("retry-after: ") && answer.contains("rate_limited"));
    let answer = over_the_wire(address, &host.key).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn requests_beyond_the_concurrency_limit_get_retry_after() {
    let host = limited(Rates {
        in_flight: 1,
        ..Rates::default()
    })
    .await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let address = host.listen().await;
    // The head has arrived and the body has not: the request is in flight.
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/runs/{run}/cancel HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        host.key
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    slow.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");

    let shed = ask(&host, &host.key).await;
    assert_eq!(
        (shed.status, shed.code()),
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable".to_owned())
    );
    assert_eq!(shed.header("retry-after"), Some("1"));
    let streamed = host
        .request(
            Method::GET,
            &format!("/v1/runs/{run}/events/poll?timeout=1"),
        )
        .send()
        .await;
    assert_eq!(
        streamed.status,
        StatusCode::OK,
        "streams have a separate limit"
    );
    assert_eq!(host.get("/healthz").await.status, StatusCode::OK);

    slow.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(ask(&host, &host.key).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_oversized_request_head_is_rejected_with_an_error_envelope() {
    let host = TestHost::idle().await;
    let large = "x".repeat(40 * 1024);
    let reply = host
        .request(Method::GET, "/v1/agents")
        .header("x-large", &large)
        .send()
        .await;
    assert_eq!(
        (reply.status.as_u16(), reply.code()),
        (431, "header_fields_too_large".to_owned())
    );
    let mut call = host.request(Method::GET, "/v1/agents");
    for n in 0..200 {
        call = call.header(&format!("x-{n}"), "1");
    }
    assert_eq!(call.send().await.status.as_u16(), 431);
    let long = format!("/v1/agents?x={}", "y".repeat(10_000));
    let reply = host.get(&long).await;
    assert_eq!(
        (reply.status.as_u16(), reply.code()),
        (414, "uri_too_long".to_owned())
    );
}

#[tokio::test]
async fn an_http_1_1_request_must_have_exactly_one_host_header() {
    let host = TestHost::idle().await;
    let address = host.listen().await;
    for (hosts, status) in [
        ("HTTP/1.1\r\nhost: x\r\n", "200"),
        ("HTTP/1.0\r\n", "200"),
        ("HTTP/1.1\r\n", "400"),
        ("HTTP/1.1\r\nhost: x\r\nhost: y\r\n", "400"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /healthz {hosts}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(&answer[9..12], status, "{answer}");
    }
}

async fn listen(host: &TestHost, settings: ServerSettings) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (router, shutdown) = (host.router.clone(), host.shutdown.clone());
    tokio::spawn(serve_with(listener, router, shutdown, settings));
    address
}

#[tokio::test]
async fn a_client_that_trickles_its_head_loses_its_connection() {
    let host = TestHost::idle().await;
    let settings = ServerSettings {
        header_timeout: Duration::from_millis(300),
        ..ServerSettings::default()
    };
    let address = listen(&host, settings).await;
    let mut loris = TcpStream::connect(address).await.unwrap();
    let trickle = async {
        for octet in b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-endless: "
            .iter()
            .chain([b'y'; 10_000].iter())
        {
            if loris.write_all(&[*octet]).await.is_err() {
                return;
            }
            let mut answer = [0; 512];
            let read = tokio::time::timeout(Duration::from_millis(20), loris.read(&mut answer));
            if let Ok(Ok(0) | Err(_)) = read.await {
                return;
            }
        }
        panic!("it is still connected");
    };
    tokio::time::timeout(Duration::from_secs(60), trickle)
        .await
        .unwrap();
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_one_to_end() {
    let host = TestHost::idle().await;
    let settings = ServerSettings {
        max_connections: 1,
        ..ServerSettings::default()
    };
    let address = listen(&host, settings).await;
    let request = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(request.as_bytes()).await.unwrap();
    first.read_exact(&mut [0; 12]).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    let early = tokio::time::timeout(Duration::from_millis(300), second.read_exact(&mut status));
    assert!(early.await.is_err(), "served while the first was in flight");
    drop(first);
    second.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
}

#[tokio::test]
async fn one_address_does_not_keep_all_connections() {
    let host = TestHost::idle().await;
    let settings = ServerSettings {
        max_connections_per_address: 2,
        ..ServerSettings::default()
    };
    let address = listen(&host, settings).await;
    let request = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 12]).await.unwrap();
        held.push(stream);
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    let closed = third.read(&mut [0; 1]).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    held.pop();
    // Its end becomes visible a moment later.
    loop {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut status = [0; 12];
        let asked = async {
            stream.write_all(request.as_bytes()).await?;
            stream.read_exact(&mut status).await
        };
        if asked.await.is_ok() {
            assert_eq!(&status, b"HTTP/1.1 200");
            break;
        }
    }
}

#[tokio::test]
async fn a_body_that_would_fill_the_memory_is_refused_before_it_is_parsed() {
    let host = TestHost::idle().await;
    for item in ["{},", "0,", "[],", r#"{"a":0},"#] {
        let body = format!("[{}0]", item.repeat((12 << 20) / item.len()));
        let call = host.request(Method::POST, "/v1/host/touchstone/suites");
        let refused = call.raw("application/json", body).send().await;
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE, "{item}");
        assert_eq!(refused.code(), "payload_too_large");
    }
    // The same amount of text in few values is accepted.
    let body = format!(r#"{{"text":"{}"}}"#, "{},".repeat(4 << 20));
    let call = host.request(Method::POST, "/v1/host/touchstone/suites");
    let refused = call.raw("application/json", body).send().await;
    assert_eq!(refused.code(), "validation_error");
}
