//! A bare HTTP client of a host: raw requests and responses, without interpretation.

use std::time::{Duration, Instant};

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::TOO_LONG;
use crate::support::{asyncapi, openapi};

#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base_url: String,
    key: String,
}

impl Api {
    pub fn new(base_url: &str, key: &str) -> Self {
        // The client has no TLS backend by default; a second installation keeps the first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(TOO_LONG)
            .build()
            .unwrap();
        Self {
            http,
            base_url: base_url.to_owned(),
            key: key.to_owned(),
        }
    }

    /// The same host with another key.
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            ..self.clone()
        }
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Sends a request and checks the response against `openapi.yaml`; `Err` if no response came,
    /// as from a killed host.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<Response> {
        self.send_with(method, path, body, &[]).await
    }

    /// Sends the request with additional headers.
    pub async fn send_with(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> reqwest::Result<Response> {
        let mut request = self
            .http
            .request(method.clone(), format!("{}{path}", self.base_url))
            .bearer_auth(&self.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answered = request.send().await?;
        assert_ne!(
            answered.status(),
            StatusCode::INTERNAL_SERVER_ERROR,
            "{path}"
        );
        openapi::check_head(&method, path, answered.status(), answered.headers());
        Ok(answered)
    }

    /// Status and text of a response; panics if none came.
    pub async fn text(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, String) {
        let response = self.send(method.clone(), path, body).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.unwrap();
        openapi::check(&method, path, (status, &headers, text.as_bytes()));
        (status, text)
    }

    /// A document that must exist.
    pub async fn get(&self, path: &str) -> Value {
        let (status, text) = self.text(Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "GET {path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Starts an eval run; returns its id.
    pub async fn start(&self, suite_ref: &str, agent: &str, configurable: Value) -> String {
        let body = json!({
            "mode": "eval", "evalSuiteRef": suite_ref, "agentId": agent, "configurable": configurable
        });
        let (status, text) = self.text(Method::POST, "/v1/runs", Some(&body)).await;
        assert_eq!(status, StatusCode::CREATED, "{text}");
        let created: Value = serde_json::from_str(&text).unwrap();
        created["runId"].as_str().unwrap().to_owned()
    }

    /// The events after `last`, waiting up to `patience` seconds for one; `None` if the host
    /// disappeared.
    pub async fn poll(&self, run: &str, last: u64, patience: u64) -> Option<(Vec<Value>, bool)> {
        let path = format!("/v1/runs/{run}/events/poll?lastSequence={last}&timeout={patience}");
        let response = self.send(Method::GET, &path, None).await.ok()?;
        assert_eq!(response.status(), StatusCode::OK);
        let mut page: Value = response.json().await.ok()?;
        let complete = page["isComplete"].as_bool().unwrap();
        let Value::Array(events) = page["events"].take() else {
            panic!("`events` is not an array")
        };
        events.iter().for_each(asyncapi::check_event);
        Some((events, complete))
    }

    /// The whole log of a run, once the run has ended.
    pub async fn log(&self, run: &str) -> Vec<Value> {
        let begun = Instant::now();
        let mut log: Vec<Value> = Vec::new();
        loop {
            let last = log
                .last()
                .map_or(0, |event| event["sequence"].as_u64().unwrap());
            let (events, complete) = self.poll(run, last, 5).await.expect("the host is up");
            log.extend(events);
            if complete {
                return log;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "the run does not end"
            );
        }
    }
}
