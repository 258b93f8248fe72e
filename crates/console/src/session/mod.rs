//! Signing in and out.

pub mod bounce;
pub mod cookie;
pub mod csrf;
pub mod local;
pub mod oidc;
pub mod sign_in;

use axum::http::Method;

use crate::routes::Pages;

pub fn routes(pages: Pages) -> Pages {
    pages
        .open(&Method::GET, "/console/sign-in", sign_in::page)
        .open(&Method::POST, "/console/sign-in", sign_in::send)
        .open(&Method::GET, oidc::START, oidc::start)
        .open(&Method::GET, oidc::CALLBACK, oidc::callback)
        .form("/console/sign-out", None, sign_in::sign_out)
        .form("/console/theme", None, sign_in::theme)
}
