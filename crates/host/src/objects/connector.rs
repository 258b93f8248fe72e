//! Requests of the storage library, sent by the guarded client.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Response;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use url::Url;

use crate::net::{Client, Error};

/// Makes the library send its requests through a guarded client.
#[derive(Clone, Debug)]
pub struct Guarded(pub Arc<Client>);

impl HttpConnector for Guarded {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Guarded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let url: Url = head
            .uri
            .to_string()
            .parse()
            .map_err(|_| failed(Error::Url("it does not form a valid request")))?;
        let body = body.collect().await?.to_bytes();
        let answer = self.0.open(head.method, &url, &head.headers, Some(body));
        let answer = answer.await.map_err(failed)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut response = Response::new(HttpResponseBody::new(answer.into_body().map_err(failed)));
        *response.status_mut() =
            axum::http::StatusCode::from_u16(status).map_err(|_| failed(Error::Protocol))?;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// The kind decides whether the library tries again.
fn failed(cause: Error) -> HttpError {
    let kind = match cause {
        Error::Dns | Error::Connect => HttpErrorKind::Connect,
        Error::Timeout => HttpErrorKind::Timeout,
        Error::Reset => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, cause)
}
