//! A person who uses the console without a browser.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt as _;
use touchstone_kit::ids::RunId;
use tower::ServiceExt as _;

use crate::http::support::host::{Reply, TestHost};

pub struct Visitor<'h> {
    pub host: &'h TestHost,
    cookie: String,
}

impl<'h> Visitor<'h> {
    pub async fn signed_in(host: &'h TestHost, key: &str) -> Self {
        let visitor = Self {
            host,
            cookie: String::new(),
        };
        let reply = visitor
            .post_form("/console/sign-in", &[("key", key), ("to", "/console")])
            .await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap();
        let (pair, _) = cookie.split_once(';').unwrap();
        Self {
            host,
            cookie: pair.to_owned(),
        }
    }

    pub async fn ada(host: &'h TestHost) -> Self {
        Self::signed_in(host, &host.key).await
    }

    /// The response, whose body is not read.
    pub async fn open(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = Request::builder().uri(path).header("cookie", &self.cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        self.host.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Reply {
        read(self.open(path, &[]).await).await
    }

    /// The text of a page that must exist.
    pub async fn page(&self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {reply:?}");
        reply.text()
    }

    async fn post_form(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("cookie", &self.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(body.finish()))
            .unwrap();
        read(self.host.router.clone().oneshot(request).await.unwrap()).await
    }

    /// Sends a form with the token of a page.
    pub async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let page = self.page("/console/runs").await;
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        let (token, _) = rest.split_once('"').unwrap();
        let fields = [&[("csrf", token)], fields].concat();
        self.post_form(path, &fields).await
    }
}

async fn read(response: Response) -> Reply {
    let (parts, body) = response.into_parts();
    Reply {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

/// A run that has ended.
pub async fn ended(host: &TestHost) -> RunId {
    let run = host.create().await;
    host.ended(&run).await;
    run
}
