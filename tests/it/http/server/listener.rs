//! The listener, over real connections.

use std::time::Duration;

use rstest::rstest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::support::host::{TestHost, says};
use crate::http::support::recorder::Recorder;

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn metrics_on_loopback_need_a_key_unless_the_operator_allows_direct_scrapers() {
    // A proxy on this machine need not add any header: without the setting, a loopback address does
    // not grant access.
    assert_metrics(false, &[("", "401 Unauthorized")]).await;
    let refused = "401 Unauthorized";
    assert_metrics(
        true,
        &[
            ("", "200 OK"),
            ("x-forwarded-for: 192.0.2.1\r\n", refused),
            ("x-forwarded-port: 443\r\n", refused),
            ("forwarded: for=192.0.2.1\r\n", refused),
            ("x-real-ip: 192.0.2.1\r\n", refused),
            ("via: 1.1 proxy\r\n", refused),
        ],
    )
    .await;
}

async fn assert_metrics(metrics_to_loopback: bool, cases: &[(&str, &str)]) {
    let host = TestHost::with(touchstone_host::http::HttpSettings {
        metrics_to_loopback,
        ..Default::default()
    })
    .await;
    let address = host.listen().await;
    for (header, status) in cases {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request =
            format!("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n");
        let answer = exchange(&mut stream, &request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_client_that_sends_an_oversized_body_receives_the_error() {
    let settings = touchstone_host::http::HttpSettings {
        max_body_bytes: 100_000,
        ..Default::default()
    };
    let host = TestHost::with(settings).await;
    let address = host.listen().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = "x".repeat(150_000);
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        host.key,
        body.len()
    );
    let answer = exchange(&mut stream, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("payload_too_large"));
}

/// The next response on a persistent connection.
async fn answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(
            stream.read_buf(&mut answer).await.unwrap() > 0,
            "the connection ended"
        );
    }
    let head = String::from_utf8(answer).unwrap();
    let (head, begun) = head.split_once("\r\n\r\n").unwrap();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    let mut rest = vec![0; length - begun.len()];
    stream.read_exact(&mut rest).await.unwrap();
    head.to_owned()
}

#[tokio::test]
async fn a_refusal_before_the_body_came_leaves_the_connection_usable() {
    let host = TestHost::idle().await;
    let address = host.listen().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let head = "POST /v1/runs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n";
    for _ in 0..3 {
        stream.write_all(head.as_bytes()).await.unwrap();
        // The body arrives late, as from a client that writes head and body separately.
        let early = tokio::time::timeout(Duration::from_millis(20), stream.peek(&mut [0])).await;
        assert!(early.is_err(), "answered before the body was there");
        stream.write_all(b"{}").await.unwrap();
        let refused = answer(&mut stream).await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    }
}

#[tokio::test]
async fn a_refusal_says_that_the_connection_ends_if_the_body_is_not_worth_reading() {
    let host = TestHost::idle().await;
    let address = host.listen().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = "x".repeat(200_000);
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len() + 1
    );
    stream.write_all(request.as_bytes()).await.ok();
    let refused = answer(&mut stream).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(refused.contains("connection: close"), "{refused}");
}

/// A client whose large body is rejected before it is read still receives the response.
#[tokio::test]
async fn an_early_rejection_of_a_large_body_reaches_the_client() {
    let host = TestHost::idle().await;
    let address = host.listen().await;
    let body = "x".repeat(8 << 20);
    for key in ["wrong", &host.key] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "DELETE /v1/host/touchstone/packs/none/1.0.0 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let refused = answer(&mut stream).await;
        assert!(refused.starts_with("HTTP/1.1 40"), "{refused}");
        assert!(!refused.contains("connection: close"), "{refused}");
    }
}

/// Requests that the HTTP library rejects get the error envelope too, and the client reads it.
#[rstest]
#[case::large_head(format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(200_000)), 431)]
#[case::many_headers(format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(1_000)), 431)]
#[case::endless_uri(format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(200_000)), 431)]
#[case::no_http("hello there\r\n\r\n".to_owned(), 400)]
#[case::no_version("GET /healthz HTTP/9.9\r\nhost: x\r\n\r\n".to_owned(), 400)]
#[case::no_header("GET /healthz HTTP/1.1\r\nhost x\r\n\r\n".to_owned(), 400)]
#[tokio::test]
async fn a_head_that_is_refused_is_answered_with_the_envelope(
    #[case] request: String,
    #[case] status: u16,
) {
    let host = TestHost::idle().await;
    let address = host.listen().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), exchange(&mut stream, &request));
    let answer = answer.await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(
        head.contains(&format!("content-length: {}", body.len())),
        "{head}"
    );
    let code = match status {
        431 => "header_fields_too_large",
        _ => "validation_error",
    };
    let envelope: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(envelope["error"], code, "{body}");

    let mut next = TcpStream::connect(address).await.unwrap();
    let answer = exchange(
        &mut next,
        "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200"));
}

/// The consumer reads nothing at first; others are not delayed, and it still gets every event.
#[tokio::test]
async fn a_slow_consumer_delays_no_other_and_loses_nothing() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let recorder = Recorder::log_of(&host, 20_000, true).await;
    let address = host.listen().await;
    let request = format!(
        "GET /v1/runs/{}/events?streamMode=debug HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        recorder.run, host.key
    );
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 1];
    slow.read_exact(&mut first).await.unwrap();

    let mut quick = TcpStream::connect(address).await.unwrap();
    let all = tokio::time::timeout(Duration::from_secs(120), exchange(&mut quick, &request))
        .await
        .unwrap();
    assert_eq!(all.matches("\nid: ").count(), 20_000);

    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    assert_eq!(
        String::from_utf8(rest).unwrap().matches("\nid: ").count(),
        20_000
    );
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight_and_accepts_no_new_ones() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let recorder = Recorder::log_of(&host, 2, false).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (router, shutdown) = (host.router.clone(), host.shutdown.clone());
    let serving = tokio::spawn(touchstone_host::http::server::serve(
        listener, router, shutdown,
    ));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /v1/runs/{}/events?streamMode=debug HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        recorder.run, host.key
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).await.unwrap();
    host.shutdown.cancel();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    let rest = String::from_utf8(rest).unwrap();
    assert!(
        rest.ends_with("0\r\n\r\n"),
        "the stream ended normally: {rest}"
    );
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
