//! Forms that are too large, too slow, or sent by people who may not send them.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::HOST;
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use futures_util::stream::pending;
use touchstone_host::access::Scope;
use touchstone_ratings::http::rates::RatingRates;

use super::support::{Person, Site, answer, form};
use crate::http::support::host::{Lab, UNLIMITED, public_place};
use crate::store::Engine::*;

/// A body that never arrives.
fn never() -> Body {
    Body::from_stream(pending::<Result<Bytes, std::io::Error>>())
}

#[tokio::test]
async fn the_form_of_a_sign_in_is_small() {
    let site = Site::on(Sqlite).await.unwrap();
    let mut person = Person::new(&site.host);
    let long = "x".repeat(17 * 1024);
    let reply = person.send("/console/sign-in", &[("key", &long)]).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE, "{reply:?}");
    assert!(reply.text().contains("16384 bytes"), "{reply:?}");
}

#[tokio::test]
async fn slow_sign_ins_of_one_address_do_not_take_the_places_of_others() {
    let site = Site::on(Sqlite).await.unwrap();
    let sign_in = |body: Body| {
        let request = Request::builder().method(Method::POST);
        let request = request.header(HOST, "evals.example");
        request.uri("/console/sign-in").body(body).unwrap()
    };
    let near = "192.0.2.1:50000".parse().ok();
    let slow = (0..128).map(|_| answer(&site.host, sign_in(never()), near));
    let slow = futures_util::future::join_all(slow);
    let others = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let refused = answer(&site.host, sign_in(Body::empty()), near).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
        let far = "192.0.2.2:50000".parse().ok();
        let served = answer(&site.host, sign_in(Body::empty()), far).await;
        assert_eq!(served.status, StatusCode::SEE_OTHER, "{served:?}");
        assert!(site.person().await.is_in().await);
    };
    tokio::select! {
        _ = slow => panic!("the forms arrived"),
        () = others => {}
    }
}

#[tokio::test]
async fn a_form_that_does_not_arrive_is_given_up() {
    let site = Site::on(Sqlite).await.unwrap();
    let request = Request::builder().method(Method::POST);
    let request = request.uri("/console/sign-in").body(never()).unwrap();
    let reply = tokio::time::timeout(Duration::from_secs(30), answer(&site.host, request, None));
    let reply = reply.await.expect("the host gives up first");
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
}

#[tokio::test]
async fn the_scope_is_checked_before_a_form_is_read() {
    let site = Site::on(Sqlite).await.unwrap();
    let key = site.host.key_with(&[Scope::RunsRead]).await;
    let person = Person::signed_in(&site.host, &key).await;
    let request = person.request(Method::POST, "/console/suites/import");
    let asked = answer(&site.host, request.body(never()).unwrap(), None);
    let reply = tokio::time::timeout(Duration::from_secs(30), asked).await;
    let reply = reply.expect("no byte of the form is read");
    assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
    assert!(reply.text().contains("suites:write"), "{reply:?}");
}

#[tokio::test]
async fn a_form_has_a_bounded_number_of_fields() {
    let site = Site::on(Sqlite).await.unwrap();
    let person = site.person().await;
    let csrf = person.csrf().await.unwrap();
    let mut fields = vec![("csrf", csrf.as_str())];
    fields.resize(2001, ("a", ""));
    for path in ["/console/suites/import", "/console/theme"] {
        let request = person.request(Method::POST, path);
        let reply = answer(&site.host, form(request, &fields), None).await;
        assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE, "{reply:?}");
    }
}

#[tokio::test]
async fn pages_of_ratings_count_as_requests_of_the_rating_api() {
    let rates = RatingRates {
        requests_per_minute: 2,
        ..UNLIMITED
    };
    let lab = Lab::limited(rates);
    let site = Site::with(Sqlite, public_place(), lab).await.unwrap();
    let mut person = site.person().await;
    for _ in 0..2 {
        assert_eq!(person.get("/console/ratings").await.status, StatusCode::OK);
    }
    let refused = person.get("/console/ratings").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
    assert!(person.is_in().await, "other pages are not affected");
}
