//! A person who is signed in to the console.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::http::support::host::TestHost;

pub struct Person {
    router: Router,
    cookie: String,
}

/// What the person sees.
pub struct Seen {
    pub status: StatusCode,
    pub location: Option<String>,
    pub cache: String,
    pub text: String,
}

impl Person {
    pub async fn with(host: &TestHost, key: &str) -> Self {
        let router = host.router.clone();
        let request = Request::post("/console/sign-in")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(format!("key={key}")))
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { router, cookie }
    }

    async fn send(&self, request: Request<Body>) -> Seen {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = |name: &str| {
            let value = parts.headers.get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let (location, cache) = (text("location"), text("cache-control"));
        let body = body.collect().await.unwrap().to_bytes();
        Seen {
            status: parts.status,
            location,
            cache: cache.unwrap_or_default(),
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    pub async fn open(&self, path: &str) -> Seen {
        let request = Request::get(path).header("cookie", &self.cookie);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// A page that must be there.
    pub async fn page(&self, path: &str) -> String {
        let seen = self.open(path).await;
        assert_eq!(seen.status, StatusCode::OK, "{path}: {}", seen.text);
        for inline in ["<style", " style=", " onclick=", "<script>"] {
            assert!(!seen.text.contains(inline), "{path} has {inline}");
        }
        seen.text
    }

    /// Sends a form with the token of a page.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        let page = self.page("/console/sessions").await;
        let token = page.split("name=\"csrf\" value=\"").nth(1).unwrap();
        let token = token.split('"').next().unwrap();
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.append_pair("csrf", token).extend_pairs(fields);
        let request = Request::post(path)
            .header("cookie", &self.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(body.finish()))
            .unwrap();
        self.send(request).await
    }
}
