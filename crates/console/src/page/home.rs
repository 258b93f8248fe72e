//! The addresses that lead to the console.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use crate::page::answer::see_other;
use touchstone_host::http::answer::{Answer, no_such_route_problem};

/// `GET /`: browsers are sent to the console.
pub async fn front(headers: HeaderMap) -> Answer {
    let accepted = headers.get(ACCEPT).and_then(|it| it.to_str().ok());
    match accepted.is_some_and(|it| it.contains("text/html")) {
        true => Ok(see_other(crate::ROOT)),
        false => Err(no_such_route_problem().into()),
    }
}
