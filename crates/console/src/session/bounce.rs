//! A link to the console on another site. Browsers do not send a `SameSite=Strict` cookie when a
//! person follows it; they do when a page of the console itself leads to the same address.

use askama::Template;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::page::answer::html;
use crate::page::assets::{self, Links};
use touchstone_host::http::answer::Failure;

#[derive(Template)]
#[template(path = "session/bounce.html")]
struct Bounce<'a> {
    links: &'static Links,
    place: &'a str,
}

/// Whether a browser follows a link of another site.
pub fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|it| it == value);
    is("sec-fetch-site", "cross-site") && is("sec-fetch-mode", "navigate")
}

/// A page that leads to `place`.
pub fn page(place: &str) -> Result<Response, Failure> {
    html(&Bounce {
        links: assets::links(),
        place,
    })
}
