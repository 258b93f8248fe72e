//! The web console under `/console`: pages for people over the use cases of all features.
//!
//! It has no rules and no SQL. [`page`] has what every page uses, [`session`] signs people in, and
//! each other module has the pages of one feature. A request passes the guard of its route
//! ([`guard`]): session, form token, limits, scope; then its handler calls the same use cases as the
//! API.

pub mod api;
pub mod compare;
pub mod config;
pub mod deployments;
pub mod guard;
pub mod live;
pub mod operations;
pub mod page;
pub mod ratings;
pub mod review;
pub mod routes;
pub mod runs;
pub mod session;

use std::sync::Arc;

use axum::Router;
use axum::http::Method;

use crate::api::ConsoleApi;
use crate::routes::{PageRoute, Pages};

/// Where the console is.
pub const ROOT: &str = "/console";

/// The routes of the console.
pub fn router(api: Arc<ConsoleApi>) -> Router {
    pages(Pages::new(Some(api))).router()
}

/// Every route of the console.
pub fn operations() -> Vec<PageRoute> {
    pages(Pages::new(None)).operations()
}

fn pages(pages: Pages) -> Pages {
    let pages = pages
        .open(&Method::GET, "/", page::home::front)
        .open(
            &Method::GET,
            "/console/assets/{hash}/{name}",
            page::assets::get,
        )
        .open(&Method::GET, "/console/{*rest}", page::error::no_such_page);
    let pages = runs::routes(session::routes(pages));
    let pages = compare::routes(live::routes(pages));
    let pages = ratings::routes(deployments::routes(pages));
    operations::routes(review::routes(pages))
}
