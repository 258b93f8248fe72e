//! A remote host, called through the guarded HTTP client.

use std::time::Duration;

use async_stream::try_stream;
use async_trait::async_trait;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use futures_util::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::cli::client::transport::{Call, Reply, Transport, pieces};
use crate::cli::exit::Failure;
use crate::http::negotiation::VERSION;
use crate::net;
use crate::net::address::AddressScope;
use crate::net::policy::{Policy, Redirects};

/// Longest pause within a response: hosts send a comment to idle event streams every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// Longest time for a file to be sent and answered: hosts take as long.
const UPLOAD: Duration = Duration::from_secs(30 * 60);

pub struct Remote {
    client: net::Client,
    base: Url,
    authorization: Option<HeaderValue>,
}

impl Remote {
    /// Calls the host at `base`, with `key` if given.
    ///
    /// # Errors
    /// The URL or the key is not valid.
    pub fn new(base: &Url, key: Option<&SecretString>) -> Result<Self, Failure> {
        let client = net::Client::new(Policy {
            // The user chose this host, so private addresses are allowed.
            reach: AddressScope::Private,
            every_address: false,
            max_response_bytes: u64::MAX,
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(90),
            total_timeout: Duration::MAX,
            redirects: Redirects::None,
            ..Policy::public()
        })
        .map_err(|cause| Failure::not_done("no_client", cause.to_string()))?;
        client
            .check(base)
            .map_err(|cause| Failure::usage(format!("--server: {cause}")))?;
        let authorization = key
            .map(|key| HeaderValue::from_str(&format!("Bearer {}", key.expose_secret())))
            .transpose()
            .map_err(|_| {
                Failure::usage("--key contains characters that are not valid in an API key")
            })?
            .map(|mut value| {
                value.set_sensitive(true);
                value
            });
        let mut base = base.clone();
        base.set_query(None);
        base.set_fragment(None);
        Ok(Self {
            client,
            base,
            authorization,
        })
    }

    fn unreachable(&self, cause: &net::Error) -> Failure {
        Failure::not_done(
            "server_unreachable",
            format!("could not reach {}: {cause}", self.base),
        )
        .or_try("check --server, and that `touchstone serve` is running there")
    }
}

#[async_trait]
impl Transport for Remote {
    async fn exchange(&self, mut call: Call) -> Result<Reply, Failure> {
        let base = self.base.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}{}", call.path))
            .map_err(|cause| Failure::usage(format!("invalid request URL: {cause}")))?;
        if let Some(authorization) = &self.authorization {
            call.headers.insert(AUTHORIZATION, authorization.clone());
        }
        let answered = match call.file {
            Some(file) => {
                let body = reqwest::Body::wrap_stream(pieces(file));
                let sending = self.client.upload(call.method, &url, &call.headers, body);
                let upload = tokio::time::timeout(UPLOAD, sending).await;
                upload.map_err(|_| net::Error::Timeout).flatten()
            }
            None => {
                let opening = self
                    .client
                    .open(call.method, &url, &call.headers, call.body);
                opening.await
            }
        };
        let mut answer = answered.map_err(|cause| self.unreachable(&cause))?;
        let status = answer.status();
        let version = answer.headers().get(VERSION).cloned();
        let body = try_stream! {
            loop {
                let piece = tokio::time::timeout(SILENCE, answer.piece())
                    .await
                    .map_err(|_| broken(&net::Error::Timeout))?
                    .map_err(|cause| broken(&cause))?;
                match piece {
                    Some(piece) => yield piece,
                    None => return,
                }
            }
        };
        Ok(Reply {
            status,
            version,
            body: body.boxed(),
        })
    }
}

fn broken(cause: &net::Error) -> Failure {
    Failure::not_done(
        "connection_broken",
        format!("the response was interrupted: {cause}"),
    )
    .or_try("try again; the run continues on the host")
}
