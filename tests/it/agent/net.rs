//! The addresses that the HTTP client refuses to reach, and how it handles broken responses.

use std::time::Duration;

use reqwest::header::HeaderMap;
use rstest::rstest;
use touchstone_host::net::Client;
use touchstone_host::net::error::Error;
use touchstone_host::net::policy::{Policy, Redirects};
use url::Url;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::raw_server::{RawServer, Then, deserted};

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn private() -> Client {
    Client::new(Policy::model(Duration::from_secs(5), 4)).unwrap()
}

async fn get(client: &Client, url: &Url) -> Result<Vec<u8>, Error> {
    client
        .get_limited(url, 1 << 20, Duration::from_secs(5))
        .await
        .map(Into::into)
}

#[rstest]
#[case::loopback("http://127.0.0.1/")]
#[case::loopback_elsewhere("http://127.8.9.10/")]
#[case::decimal("http://2130706433/")]
#[case::octal("http://0177.0.0.1/")]
#[case::hexadecimal("http://0x7f.1/")]
#[case::short("http://127.1/")]
#[case::fullwidth("http://①②⑦.0.0.1/")]
#[case::this_network("http://0.0.0.0/")]
#[case::ten("http://10.1.2.3/")]
#[case::one_seven_two("http://172.16.0.1/")]
#[case::one_seven_two_end("http://172.31.255.255/")]
#[case::one_nine_two("http://192.168.1.1/")]
#[case::link_local("http://169.254.169.254/latest/meta-data/")]
#[case::carrier_nat("http://100.64.0.1/")]
#[case::carrier_nat_end("http://100.127.255.255/")]
#[case::protocol_assignments("http://192.0.0.170/")]
#[case::six_to_four_relay("http://192.88.99.1/")]
#[case::benchmark("http://198.19.0.1/")]
#[case::documentation("http://203.0.113.9/")]
#[case::multicast("http://224.0.0.1/")]
#[case::reserved("http://240.0.0.1/")]
#[case::broadcast("http://255.255.255.255/")]
#[case::v6_loopback("http://[::1]/")]
#[case::v6_unspecified("http://[::]/")]
#[case::v6_mapped("http://[::ffff:127.0.0.1]/")]
#[case::v6_mapped_private("http://[::ffff:10.0.0.1]/")]
#[case::v6_compatible("http://[::7f00:1]/")]
#[case::v6_nat64("http://[64:ff9b::7f00:1]/")]
#[case::v6_nat64_local("http://[64:ff9b:1::1]/")]
#[case::v6_six_to_four("http://[2002:7f00:1::]/")]
#[case::v6_teredo("http://[2001:0:4136:e378::]/")]
#[case::v6_unique_local("http://[fd00::1]/")]
#[case::v6_link_local("http://[fe80::1]/")]
#[case::v6_site_local("http://[fec0::1]/")]
#[case::v6_documentation("http://[2001:db8::1]/")]
#[case::v6_multicast("http://[ff02::1]/")]
fn an_address_that_is_not_public_is_refused(#[case] text: &str) {
    let client = Client::new(Policy::public()).unwrap();
    assert_eq!(client.check(&url(text)), Err(Error::BlockedAddress));
}

#[rstest]
#[case("http://9.9.9.9/")]
#[case("http://172.32.0.1/")]
#[case("http://100.128.0.1/")]
#[case("https://[2606:4700::1111]/")]
#[case("http://[::ffff:9.9.9.9]/")]
#[case("http://[64:ff9b::909:909]/")]
fn a_public_address_is_allowed(#[case] text: &str) {
    let client = Client::new(Policy::public()).unwrap();
    assert_eq!(client.check(&url(text)), Ok(()));
}

#[rstest]
#[case("http://127.0.0.1:8080/", true)]
#[case("http://[::1]/", true)]
#[case("http://localhost:9/", true)]
#[case("http://registry.localhost./", true)]
#[case("https://packs.example/", false)]
#[case("https://localhost.example/", false)]
fn a_registry_is_private_only_if_its_url_says_so(#[case] text: &str, #[case] private: bool) {
    let client = Client::new(Policy::registry(&url(text))).unwrap();
    assert_eq!(client.check(&url("http://127.0.0.1/")).is_ok(), private);
}

#[rstest]
#[case("file:///etc/passwd", Error::Url("the scheme must be http or https"))]
#[case("ftp://example.com/", Error::Url("the scheme must be http or https"))]
#[case("http://user@example.com/", Error::CredentialsInUrl)]
#[case("http://:secret@example.com/", Error::CredentialsInUrl)]
fn unsupported_schemes_and_credentials_in_urls_are_rejected(
    #[case] text: &str,
    #[case] expected: Error,
) {
    assert_eq!(private().check(&url(text)), Err(expected));
}

#[tokio::test]
async fn a_name_is_judged_by_what_it_resolves_to() {
    let server = RawServer::start(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        Then::Close,
    )
    .await;
    let named = url(&format!("http://localhost:{}/", server.address.port()));
    let public = Client::new(Policy::public()).unwrap();
    assert_eq!(public.check(&named), Ok(()), "an unresolved name passes");
    assert_eq!(get(&public, &named).await, Err(Error::BlockedAddress));
    assert_eq!(server.requests(), 0);
    assert_eq!(get(&private(), &named).await.unwrap(), b"ok");
}

#[tokio::test]
async fn an_unresolvable_host_name_is_a_dns_error() {
    // The resolver itself rejects a label this long, without a query.
    let nowhere = url(&format!("http://{}.invalid/", "x".repeat(64)));
    assert_eq!(get(&private(), &nowhere).await, Err(Error::Dns));
}

#[tokio::test]
async fn a_body_over_its_limit_is_cut_off_announced_or_not() {
    let announced = RawServer::start(
        "HTTP/1.1 200 OK\r\ncontent-length: 4000000000\r\n\r\nx",
        Then::Hang,
    )
    .await;
    let error = get(&private(), &announced.url("/")).await.unwrap_err();
    assert_eq!(error, Error::TooLarge { limit: 1 << 20 });

    let mut endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..64 {
        endless.extend_from_slice(b"8000\r\n");
        endless.extend_from_slice(&[b'x'; 0x8000]);
        endless.extend_from_slice(b"\r\n");
    }
    let unannounced = RawServer::start(endless, Then::Hang).await;
    let error = get(&private(), &unannounced.url("/")).await.unwrap_err();
    assert_eq!(error, Error::TooLarge { limit: 1 << 20 });
}

#[rstest]
#[case::cut_short(
    "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
    Then::Close,
    Error::Reset
)]
#[case::reset(
    "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
    Then::Reset,
    Error::Reset
)]
#[case::no_answer("", Then::Close, Error::Reset)]
#[case::no_http("SSH-2.0-OpenSSH_9.6\r\n\r\n", Then::Close, Error::Protocol)]
#[case::not_found(
    "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    Then::Close,
    Error::Status(404)
)]
#[case::redirect(
    "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
    Then::Close,
    Error::Redirect
)]
#[tokio::test]
async fn a_broken_answer_has_a_label(
    #[case] answer: &str,
    #[case] then: Then,
    #[case] expected: Error,
) {
    let server = RawServer::start(answer, then).await;
    assert_eq!(get(&private(), &server.url("/")).await, Err(expected));
}

#[tokio::test]
async fn a_refused_connection_and_a_silent_server_differ() {
    let nobody = url(&format!("http://{}/", deserted()));
    assert_eq!(get(&private(), &nobody).await, Err(Error::Connect));

    let silent = RawServer::start("", Then::Hang).await;
    let stalled = RawServer::start(
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        Then::Hang,
    )
    .await;
    for server in [silent, stalled] {
        let hasty = private()
            .get_limited(&server.url("/"), 100, Duration::from_millis(50))
            .await;
        assert_eq!(hasty, Err(Error::Timeout));
    }
}

#[tokio::test]
async fn https_to_a_server_without_tls_is_not_taken_for_a_lost_connection() {
    let server = RawServer::start("HTTP/1.1 400 Bad Request\r\n\r\n", Then::Close).await;
    let secure = url(&format!("https://{}/", server.address));
    assert_eq!(get(&private(), &secure).await, Err(Error::Tls));
}

#[tokio::test]
async fn redirects_are_followed_only_on_the_same_origin_and_a_limited_number_of_times() {
    let (home, elsewhere) = (MockServer::start().await, MockServer::start().await);
    let redirect = |to: String| ResponseTemplate::new(302).insert_header("location", to);
    for (from, to) in [
        ("/a", "/b".to_owned()),
        ("/away", format!("{}/b", elsewhere.uri())),
        ("/round", "/round".to_owned()),
    ] {
        Mock::given(path(from))
            .respond_with(redirect(to))
            .mount(&home)
            .await;
    }
    Mock::given(path("/b"))
        .respond_with(ResponseTemplate::new(200).set_body_string("there"))
        .mount(&home)
        .await;
    let client = Client::new(Policy {
        redirects: Redirects::SameOrigin(3),
        ..Policy::registry(&url(&home.uri()))
    })
    .unwrap();
    let at = |p: &str| url(&format!("{}{p}", home.uri()));
    assert_eq!(get(&client, &at("/a")).await.unwrap(), b"there");
    assert_eq!(get(&client, &at("/away")).await, Err(Error::Redirect));
    assert_eq!(get(&client, &at("/round")).await, Err(Error::Redirect));
    assert!(elsewhere.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_post_carries_its_headers_and_any_status_is_an_answer() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(wiremock::matchers::header("authorization", "Bearer k"))
        .and(wiremock::matchers::header(
            "user-agent",
            touchstone_host::net::USER_AGENT,
        ))
        .respond_with(ResponseTemplate::new(418).set_body_string("{}"))
        .mount(&server)
        .await;
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer k".parse().unwrap());
    let answer = private()
        .post(&url(&server.uri()), &headers, b"{}".to_vec())
        .await
        .unwrap();
    assert_eq!((answer.status, &answer.body[..]), (418, &b"{}"[..]));
}
