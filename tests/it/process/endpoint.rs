//! A model endpoint for the OpenAI protocol that records its requests.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Makes a status and a body from the request.
type Answer = dyn Fn(&Value) -> (u16, Value) + Send + Sync;

type Held = dyn Fn(&Value) -> bool + Send + Sync;

/// A received request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The [`Endpoint::era`] in which it arrived.
    pub era: u32,
    pub body: Value,
    /// The body as received.
    pub text: String,
    pub headers: HeaderMap,
}

/// A running endpoint; stops when dropped.
pub struct Endpoint {
    url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    answer: Box<Answer>,
    /// Range of response times, in milliseconds.
    latency: std::ops::Range<u64>,
    era: AtomicU32,
    count: AtomicU64,
    asked: Mutex<Vec<Asked>>,
    /// Says which requests stay without an answer until the next era.
    held: Mutex<Option<Box<Held>>>,
}

impl Endpoint {
    /// Starts an endpoint with a response time in the range `latency` (in ms).
    pub async fn start(
        latency: std::ops::Range<u64>,
        answer: impl Fn(&Value) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            latency,
            era: AtomicU32::new(0),
            count: AtomicU64::new(0),
            asked: Mutex::default(),
            held: Mutex::default(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            shared,
            server,
        }
    }

    /// Value for `base_url`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All requests received so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Requests that fit stay without an answer until the next era.
    pub fn hold(&self, fits: impl Fn(&Value) -> bool + Send + Sync + 'static) {
        *self.shared.held.lock().unwrap() = Some(Box::new(fits));
    }

    /// Starts a new era, in which nothing is held: later requests are counted separately from
    /// earlier ones.
    pub fn next_era(&self) -> u32 {
        self.shared.held.lock().unwrap().take();
        self.shared.era.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn holds(&self, body: &Value) -> bool {
        let held = self.held.lock().unwrap();
        held.as_ref().is_some_and(|fits| fits(body))
    }
}

async fn complete(State(shared): State<Arc<Shared>>, headers: HeaderMap, text: String) -> Response {
    let body: Value = serde_json::from_str(&text).unwrap();
    let number = shared.count.fetch_add(1, Ordering::Relaxed);
    let era = shared.era.load(Ordering::SeqCst);
    shared.asked.lock().unwrap().push(Asked {
        era,
        body: body.clone(),
        text,
        headers,
    });
    // Spread by the golden ratio: even, and the same for the n-th request of every test.
    let span = (shared.latency.end - shared.latency.start).max(1);
    let extra = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % span;
    tokio::time::sleep(Duration::from_millis(shared.latency.start + extra)).await;
    while shared.holds(&body) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (status, answer) = (shared.answer)(&body);
    (StatusCode::from_u16(status).unwrap(), Json(answer)).into_response()
}

/// A completion with this text.
pub fn saying(text: &str) -> (u16, Value) {
    (
        200,
        completion(json!({"role": "assistant", "content": text}), "stop"),
    )
}

/// A completion that calls one tool.
pub fn calling(name: &Value, arguments: &Value) -> (u16, Value) {
    let call = json!({
        "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}
    });
    (
        200,
        completion(
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            "tool_calls",
        ),
    )
}

fn completion(message: Value, finish_reason: &str) -> Value {
    json!({
        "id": "c", "object": "chat.completion", "created": 0, "model": "probe",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    })
}

/// The text of the last user message.
pub fn question(body: &Value) -> &str {
    let messages = body["messages"].as_array().unwrap();
    let user = messages
        .iter()
        .rev()
        .find(|message| message["role"] == "user")
        .unwrap();
    user["content"].as_str().unwrap()
}
