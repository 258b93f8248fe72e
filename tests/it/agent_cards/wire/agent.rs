//! A scripted agent on loopback.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use futures_util::stream;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::agent_cards::fixture;
use crate::console::support::MARKUP;

/// Behaviours by name; empty means correct behaviour.
pub type Ways = Vec<&'static str>;

/// Protocol of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    Http1,
    Http2,
}

/// Listens until it is dropped.
pub struct Agent {
    port: u16,
    scheme: &'static str,
    ways: Arc<Mutex<Ways>>,
    log: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct Shared {
    ways: Arc<Mutex<Ways>>,
    base: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Agent {
    pub async fn start(ways: &[&'static str]) -> Self {
        Self::listen(ways, None, Spoken::Http1).await
    }

    pub async fn listen(ways: &[&'static str], tls: Option<TlsAcceptor>, spoken: Spoken) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let log = Arc::new(Mutex::new(Vec::new()));
        let ways = Arc::new(Mutex::new(ways.to_vec()));
        let shared = Shared {
            ways: ways.clone(),
            base: format!("{scheme}://127.0.0.1:{port}"),
            log: log.clone(),
        };
        let router = Router::new().fallback(answer).with_state(shared);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (router, tls) = (router.clone(), tls.clone());
                connections.spawn(async move {
                    // Clients that disconnect midway are expected.
                    match tls {
                        None => speak(stream, router, spoken).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                speak(stream, router, spoken).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            port,
            scheme,
            ways,
            log,
            _tasks: tasks,
        }
    }

    /// Sets the behaviours from now on.
    pub fn change(&self, ways: &[&'static str]) {
        *self.ways.lock().unwrap() = ways.to_vec();
    }

    pub fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn base(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Method and path of every request received.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// A card for this agent, with JSON-RPC and an HTTP+JSON interface.
    pub fn card(&self) -> Value {
        card(&self.base())
    }
}

fn card(base: &str) -> Value {
    let mut card = fixture::card();
    card["url"] = json!(format!("{base}/rpc"));
    card["additionalInterfaces"] = json!([
        {"url": format!("{base}/rpc"), "transport": "JSONRPC"},
        {"url": format!("{base}/rest"), "transport": "HTTP+JSON"},
    ]);
    card["provider"]["url"] = json!(format!("{base}/site"));
    card
}

async fn speak<S>(stream: S, router: Router, spoken: Spoken)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (io, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = match spoken {
        Spoken::Http1 => {
            hyper::server::conn::http1::Builder::new()
                .serve_connection(io, service)
                .await
        }
        Spoken::Http2 => {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(io, service)
                .await
        }
    };
}

async fn answer(State(agent): State<Shared>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    agent.log.lock().unwrap().push(format!("{method} {path}"));
    let is = |way| agent.ways.lock().unwrap().contains(&way);
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 20)
        .await
        .unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let mut response = match (&method, path.as_str()) {
        (&Method::OPTIONS, _) if is("no-preflight") => {
            StatusCode::METHOD_NOT_ALLOWED.into_response()
        }
        (&Method::OPTIONS, _) => {
            let allowed = [(header::ACCESS_CONTROL_ALLOW_HEADERS, "content-type")];
            (StatusCode::NO_CONTENT, allowed).into_response()
        }
        (&Method::POST, "/rpc") => rpc(&agent, &body),
        (&Method::POST, "/rest/v1/message:send") => rest(&agent, &body),
        (&Method::GET, path) if path.starts_with("/rest/v1/tasks/") => (
            StatusCode::NOT_FOUND,
            Json(json!({"error": "no such task"})),
        )
            .into_response(),
        (_, path) if path.starts_with("/a2a.v1.A2AService/") => super::grpc::answer(path, is),
        (&Method::GET, path) => document(&agent, path, is),
        (&Method::HEAD, "/site") => StatusCode::OK.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    };
    if !is("no-cors") {
        let origin = if is("cors-for-others") {
            "https://others.example"
        } else {
            "*"
        };
        response.headers_mut().insert(
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            HeaderValue::from_static(origin),
        );
    }
    response
}

fn found(location: &str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, location.to_owned())]).into_response()
}

/// Cards, key sets and pages.
fn document(agent: &Shared, path: &str, is: impl Fn(&'static str) -> bool) -> Response {
    let card = || {
        let mut card = card(&agent.base);
        if is("card-of-markup") {
            for name in ["name", "description", "version", "iconUrl"] {
                card[name] = json!(MARKUP);
            }
            card["skills"][0]["id"] = json!(MARKUP);
            card["securitySchemes"]["pass"]["type"] = json!(MARKUP);
        }
        Json(card).into_response()
    };
    match path {
        "/.well-known/agent-card.json" if is("legacy") || is("no-card") => {
            StatusCode::NOT_FOUND.into_response()
        }
        "/.well-known/agent-card.json" if is("card-too-long") => {
            "x".repeat((1 << 20) + 1).into_response()
        }
        "/.well-known/agent-card.json" if is("card-is-a-page") => "<html>".into_response(),
        "/.well-known/agent-card.json" if is("card-elsewhere") => {
            found(&format!("{}/card", agent.base))
        }
        "/.well-known/agent-card.json" if is("card-inside") => found("https://127.0.0.1:1/card"),
        "/.well-known/agent-card.json" if is("card-in-circles") => {
            found(&format!("{}/.well-known/agent-card.json", agent.base))
        }
        "/.well-known/agent-card.json" | "/card" => card(),
        "/.well-known/agent.json" if is("legacy") => card(),
        "/keys" => Json(json!({"keys": [fixture::SIGNERS.es256.jwk()]})).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn message() -> Value {
    json!({"kind": "message", "messageId": "m-1", "role": "agent", "parts": [{"kind": "text", "text": "Here."}]})
}

fn rpc(agent: &Shared, request: &Value) -> Response {
    let is = |way| agent.ways.lock().unwrap().contains(&way);
    if is("fails") {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if is("not-there") {
        return (StatusCode::NOT_FOUND, "nothing").into_response();
    }
    if is("moved") {
        return found("https://127.0.0.1:1/rpc");
    }
    if is("asks-who") {
        let realm = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, realm, Json(json!({}))).into_response();
    }
    let told = |answer: Value| {
        Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": answer})).into_response()
    };
    let failed = |code: i64| {
        let error = json!({"code": code, "message": "no"});
        Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response()
    };
    if request["method"] != "message/send" {
        return match () {
            () if is("fails-badly") => (StatusCode::INTERNAL_SERVER_ERROR, "trace").into_response(),
            () => failed(-32_601),
        };
    }
    let sent = &request["params"]["message"];
    let complete = sent["kind"] == "message"
        && sent["role"] == "user"
        && sent["messageId"].is_string()
        && sent["parts"][0]["kind"] == "text";
    if !complete {
        return failed(-32_602);
    }
    match () {
        () if is("declines") => failed(-32_005),
        () if is("breaks") => failed(-32_603),
        () if is("task") => told(
            json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}),
        ),
        () if is("no-parts") => {
            told(json!({"kind": "message", "messageId": "m", "role": "agent", "parts": []}))
        }
        () if is("text-type") => {
            let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": message()});
            ([(header::CONTENT_TYPE, "text/plain")], body.to_string()).into_response()
        }
        () if is("another-id") => {
            Json(json!({"jsonrpc": "2.0", "id": "another", "result": message()})).into_response()
        }
        () if is("too-long") => {
            let mut answer = message();
            answer["metadata"] = json!({"filler": "y".repeat(2 << 20)});
            told(answer)
        }
        () if is("endless") => {
            let more = || Ok::<_, Infallible>(Bytes::from_static(&[b' '; 4096]));
            Body::from_stream(stream::repeat_with(more)).into_response()
        }
        () if is("cut-off") => {
            let pieces = [
                Ok(Bytes::from_static(b"{\"jsonrpc\":")),
                Err(io::Error::other("cut off")),
            ];
            let mut response = Body::from_stream(stream::iter(pieces)).into_response();
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, HeaderValue::from_static("100"));
            response
        }
        () => told(message()),
    }
}

fn rest(agent: &Shared, request: &Value) -> Response {
    let is = |way| agent.ways.lock().unwrap().contains(&way);
    let protobuf = request["message"]["role"] == "ROLE_USER";
    match () {
        () if is("rest-down") => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        () if is("asks-who") => StatusCode::UNAUTHORIZED.into_response(),
        () if is("rest-core-only") && protobuf => {
            (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({}))).into_response()
        }
        () if protobuf => {
            let said =
                json!({"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "Here."}]});
            Json(json!({"message": said})).into_response()
        }
        () if is("rest-long") => {
            let mut answer = message();
            answer["metadata"] = json!({"filler": "y".repeat(900_000)});
            Json(json!({"message": answer})).into_response()
        }
        () => Json(json!({"message": message()})).into_response(),
    }
}
