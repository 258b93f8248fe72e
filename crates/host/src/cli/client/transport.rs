//! Sending a request to a host and receiving the response.

use std::io;
use std::path::{Path, PathBuf};

use async_stream::try_stream;
use async_trait::async_trait;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde_json::Value;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use crate::cli::exit::Failure;

/// How much of a file is read at once, in bytes.
const PIECE: usize = 64 * 1024;

/// A request without its credential, which the transport adds.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    /// A file that is sent as the body while it is read.
    pub file: Option<PathBuf>,
}

impl Call {
    pub fn new(method: Method, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: None,
            file: None,
        }
    }

    /// Adds a header, unless its value is not valid in HTTP.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.octets("application/json", body.to_string().into())
    }

    #[must_use]
    pub fn file(self, content_type: &str, file: &Path) -> Self {
        let mut call = self.header("content-type", content_type);
        call.file = Some(file.to_owned());
        call
    }

    #[must_use]
    pub fn octets(self, content_type: &str, body: Bytes) -> Self {
        let mut call = self.header("content-type", content_type);
        call.body = Some(body);
        call
    }
}

/// The content of a file, piece by piece.
pub fn pieces(file: PathBuf) -> BoxStream<'static, io::Result<Bytes>> {
    let pieces = try_stream! {
        let mut file = File::open(file).await?;
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            if file.read_buf(&mut piece).await? == 0 {
                return;
            }
            yield piece.freeze();
        }
    };
    pieces.boxed()
}

/// A response whose body is still to be read.
pub struct Reply {
    pub status: u16,
    /// The value of `OpenWOP-Version`.
    pub version: Option<HeaderValue>,
    pub body: BoxStream<'static, Result<Bytes, Failure>>,
}

/// Sends requests to a host.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request. Responses of any status are `Ok`.
    async fn exchange(&self, call: Call) -> Result<Reply, Failure>;
}
