//! How a request reaches a host and how its answer comes back.

use async_trait::async_trait;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::cli::exit::Failure;

/// A request, without the credential: that is the transport's.
#[derive(Clone, Debug)]
pub struct Call {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Option<Bytes>,
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: None,
        }
    }

    /// Adds a header; one that HTTP cannot carry is left out.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.octets("application/json", body.to_string().into())
    }

    /// Sets a body of any type.
    #[must_use]
    pub fn octets(self, content_type: &str, body: Bytes) -> Self {
        let mut call = self.header("content-type", content_type);
        call.body = Some(body);
        call
    }
}

/// An answer, its body still to come.
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Body.
    pub body: BoxStream<'static, Result<Bytes, Failure>>,
}

/// Brings a request to a host.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Any status is an answer.
    async fn exchange(&self, call: Call) -> Result<Reply, Failure>;
}
