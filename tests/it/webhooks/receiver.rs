//! An endpoint that records its requests and gives the configured answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::watch;

/// How an endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Status(u16),
    /// A status with `Retry-After`.
    Later(u16, &'static str),
    /// `307` to another address.
    Redirect(std::net::SocketAddr),
    /// Takes the request and never answers.
    Hang,
    /// Echoes the challenge of a verification.
    Echo,
}

#[derive(Clone, Debug)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn sequence(&self) -> u64 {
        self.json()["event"]["sequence"].as_u64().unwrap()
    }

    /// Verified by the specification's recipe only.
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let timestamp = self.header("openwop-timestamp").unwrap();
        let expected: String = mac(secret.as_bytes(), &[timestamp.as_bytes(), b".", &self.body])
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        self.header("openwop-signature") == Some(&format!("sha256={expected}"))
    }

    /// For each entry of a Standard Webhooks signature, whether it was made with `secret`.
    pub fn standard_entries(&self, secret: &str) -> Vec<bool> {
        let key = STANDARD
            .decode(secret.strip_prefix("whsec_").unwrap())
            .unwrap();
        let id = self.header("webhook-id").unwrap();
        let timestamp = self.header("webhook-timestamp").unwrap();
        let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &self.body];
        let expected = format!("v1,{}", STANDARD.encode(mac(&key, &signed)));
        self.header("webhook-signature")
            .unwrap()
            .split(' ')
            .map(|entry| entry == expected)
            .collect()
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

struct Inner {
    answer: Mutex<Answer>,
    got: Mutex<Vec<Received>>,
    count: watch::Sender<usize>,
}

pub struct Receiver {
    pub address: std::net::SocketAddr,
    inner: Arc<Inner>,
    task: tokio::task::JoinHandle<()>,
}

impl Receiver {
    pub async fn start(answer: Answer) -> Self {
        let inner = Arc::new(Inner {
            answer: Mutex::new(answer),
            got: Mutex::default(),
            count: watch::Sender::new(0),
        });
        let router = Router::new().fallback(take).with_state(inner.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            inner,
            task,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn answer(&self, answer: Answer) {
        *self.inner.answer.lock().unwrap() = answer;
    }

    pub fn got(&self) -> Vec<Received> {
        self.inner.got.lock().unwrap().clone()
    }

    /// Waits for this many requests.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut counted = self.inner.count.subscribe();
        let waited = tokio::time::timeout(
            Duration::from_secs(60),
            counted.wait_for(|got| *got >= count),
        )
        .await;
        assert!(waited.is_ok(), "{} of {count} came", self.got().len());
        self.got()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response {
    let answer = *inner.answer.lock().unwrap();
    let challenge = serde_json::from_slice::<Value>(&body)
        .ok()
        .and_then(|body| body.get("challenge").cloned());
    inner.got.lock().unwrap().push(Received { headers, body });
    inner.count.send_modify(|count| *count += 1);
    match answer {
        Answer::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Answer::Later(status, after) => (
            StatusCode::from_u16(status).unwrap(),
            [("retry-after", after)],
        )
            .into_response(),
        Answer::Redirect(address) => (
            StatusCode::TEMPORARY_REDIRECT,
            [("location", format!("http://{address}/elsewhere"))],
        )
            .into_response(),
        Answer::Hang => std::future::pending().await,
        Answer::Echo => axum::Json(json!({"challenge": challenge})).into_response(),
    }
}
