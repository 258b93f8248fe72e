//! A host in this process: the router of a server, called without a socket.

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderValue, Request};
use futures_util::{StreamExt, TryStreamExt};
use secrecy::{ExposeSecret, SecretString};
use tower::ServiceExt;

use crate::cli::client::transport::{Call, Reply, Transport, pieces};
use crate::cli::exit::Failure;
use crate::http::negotiation::VERSION;
use crate::otlp::span::propagate;

pub struct Embedded {
    router: Router,
    authorization: HeaderValue,
}

impl Embedded {
    /// Calls `router` with the API key `key`.
    ///
    /// # Errors
    /// The key contains characters that are not allowed in a header.
    pub fn new(router: Router, key: &SecretString) -> Result<Self, Failure> {
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| {
            Failure::usage("the key contains characters that are not valid in an API key")
        })?;
        authorization.set_sensitive(true);
        Ok(Self {
            router,
            authorization,
        })
    }
}

#[async_trait]
impl Transport for Embedded {
    async fn exchange(&self, call: Call) -> Result<Reply, Failure> {
        let body = match call.file {
            Some(file) => Body::from_stream(pieces(file)),
            None => call.body.map_or_else(Body::empty, Body::from),
        };
        let mut request = Request::builder()
            .method(call.method)
            .uri(&call.path)
            .body(body)
            .map_err(|cause| Failure::usage(format!("invalid request path: {cause}")))?;
        *request.headers_mut() = call.headers;
        request
            .headers_mut()
            .insert(AUTHORIZATION, self.authorization.clone());
        propagate(request.headers_mut());
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        Ok(Reply {
            status: response.status().as_u16(),
            version: response.headers().get(VERSION).cloned(),
            body: response
                .into_body()
                .into_data_stream()
                .map_err(|cause| {
                    Failure::not_done(
                        "stream_broken",
                        format!("the response was interrupted: {cause}"),
                    )
                })
                .boxed(),
        })
    }
}
