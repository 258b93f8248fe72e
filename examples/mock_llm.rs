//! A deterministic stand-in for a model endpoint, and a bare client that shows how fast it can be
//! driven.
//!
//! It is not a language model. It speaks the OpenAI chat-completions protocol on loopback, so that
//! benchmarks and tests can measure the host and nothing else:
//!
//! ```text
//! cargo run --release --example mock_llm -- serve --latency-ms 100 --wrong-every 10
//! cargo run --release --example mock_llm -- drive --url http://127.0.0.1:PORT --requests 5000 --concurrency 100
//! ```
//!
//! The reply is a pure function of the last user message: where it mentions `item <n>` (or `"item":
//! n`), the answer is `word-<n·40503 mod 99991>`, or `miss-<…>` where `n` is a multiple of
//! `--wrong-every`; everything else is answered `ok`. A harness that really scores therefore
//! reports an accuracy known in advance. A judge's question, which quotes an `<answer …>`, is
//! answered with a verdict: met, unless the answer is a `miss-`.
//!
//! `GET /stats` reports the requests that arrived; `POST /behaviour` with any of `latencyMs`,
//! `jitterMs`, `wrongEvery`, `throttleEvery`, `retryAfterS` changes the behaviour and clears the
//! counts.

#![expect(
    clippy::disallowed_methods,
    reason = "a separate program without supervised tasks or a clock of its own"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::{Args, Parser};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A deterministic stand-in for a model endpoint.
#[derive(Parser)]
enum Command {
    /// Answer chat completions on loopback until interrupted; prints `listening on URL`.
    Serve(Serve),
    /// Send chat completions as fast as a bare client can; prints one line of JSON.
    Drive(Drive),
}

#[derive(Args)]
struct Serve {
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Number of server threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    behaviour: Behaviour,
}

/// How requests are answered. Zero disables a setting.
#[derive(Args, Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Behaviour {
    /// Wait this long before each answer.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Wait up to this much longer, spread evenly and identically in every run.
    #[arg(long, default_value_t = 0)]
    jitter_ms: u64,
    /// Answer every n-th item wrongly.
    #[arg(long, default_value_t = 10)]
    wrong_every: u64,
    /// Refuse every n-th request with 429.
    #[arg(long, default_value_t = 0)]
    throttle_every: u64,
    /// `Retry-After` of such responses, in seconds.
    #[arg(long, default_value_t = 1)]
    retry_after_s: u64,
}

#[derive(Args)]
struct Drive {
    /// URL of the mock, such as `http://127.0.0.1:9000`.
    #[arg(long)]
    url: String,
    /// Total number of requests.
    #[arg(long, default_value_t = 5000)]
    requests: u64,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 100)]
    concurrency: u64,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let threads = match &command {
        Command::Serve(serve) => serve.threads,
        Command::Drive(_) => 1,
    };
    let mut builder = if threads > 1 {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(threads);
        builder
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let done = builder
        .enable_all()
        .build()
        .context("the runtime cannot be built")
        .and_then(|runtime| {
            runtime.block_on(async {
                match command {
                    Command::Serve(options) => serve(&options).await,
                    Command::Drive(options) => drive(&options).await,
                }
            })
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("mock_llm: {cause:#}");
            ExitCode::from(3)
        }
    }
}

/// The right answer for an item.
fn answer(item: u64) -> String {
    format!("word-{}", item.wrapping_mul(40_503) % 99_991)
}

/// The number that follows the last `item` of a text, with at most three characters between.
fn item_of(text: &str) -> Option<u64> {
    let tail = text.rsplit_once("item")?.1;
    let digits = tail.trim_start_matches(['"', ':', ' ', '\\']);
    if tail.len() - digits.len() > 4 {
        return None;
    }
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

// --------------------------------------------------------------------------------------------------------------- server

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    answered: AtomicU64,
    throttled: AtomicU64,
    refused: AtomicU64,
    connections: AtomicU64,
    in_flight: AtomicU64,
    peak_in_flight: AtomicU64,
    first_us: AtomicU64,
    last_us: AtomicU64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    /// Completions requested.
    requests: u64,
    /// Completions answered.
    answered: u64,
    /// Requests refused with 429.
    throttled: u64,
    /// Invalid requests.
    refused: u64,
    /// TCP connections accepted.
    connections: u64,
    /// Maximum number of open requests.
    peak_in_flight: u64,
    /// Time of the first request, in microseconds since 1970; 0 before it.
    first_unix_us: u64,
    /// Time of the last response, in microseconds since 1970.
    last_unix_us: u64,
}

struct Mock {
    counts: Counts,
    behaviour: std::sync::RwLock<Behaviour>,
}

#[derive(Deserialize)]
struct ChatRequest<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<ChatMessage<'a>>,
}

#[derive(Deserialize)]
struct ChatMessage<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
}

impl Mock {
    fn behaviour(&self) -> Behaviour {
        *self
            .behaviour
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/chat/completions") => self.complete(request).await,
            (&Method::GET, "/v1/models") => json(
                StatusCode::OK,
                r#"{"object":"list","data":[{"id":"mock","object":"model","created":0,"owned_by":"mock"}]}"#.to_owned(),
            ),
            (&Method::GET, "/stats") => json(StatusCode::OK, to_text(&self.stats())),
            (&Method::POST, "/behaviour") => self.change(request).await,
            _ => error(StatusCode::NOT_FOUND, "no such route"),
        }
    }

    async fn change(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let Ok(body) = request.into_body().collect().await else {
            return error(StatusCode::BAD_REQUEST, "the body cannot be read");
        };
        match serde_json::from_slice::<Behaviour>(&body.to_bytes()) {
            Ok(new) => {
                *self
                    .behaviour
                    .write()
                    .unwrap_or_else(std::sync::PoisonError::into_inner) = new;
                let Counts {
                    requests,
                    answered,
                    throttled,
                    refused,
                    connections,
                    in_flight: _,
                    peak_in_flight,
                    first_us,
                    last_us,
                } = &self.counts;
                for count in [
                    requests,
                    answered,
                    throttled,
                    refused,
                    connections,
                    peak_in_flight,
                    first_us,
                    last_us,
                ] {
                    count.store(0, Relaxed);
                }
                json(StatusCode::OK, to_text(&new))
            }
            Err(cause) => error(StatusCode::BAD_REQUEST, &cause.to_string()),
        }
    }

    async fn complete(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let counts = &self.counts;
        let number = counts.requests.fetch_add(1, Relaxed) + 1;
        counts
            .peak_in_flight
            .fetch_max(counts.in_flight.fetch_add(1, Relaxed) + 1, Relaxed);
        if number == 1 {
            counts.first_us.store(now_unix_us(), Relaxed);
        }
        let response = match request.into_body().collect().await {
            Ok(body) => self.reply(number, &body.to_bytes()).await,
            Err(_) => error(StatusCode::BAD_REQUEST, "the body cannot be read"),
        };
        let outcome = match response.status() {
            StatusCode::OK => &counts.answered,
            StatusCode::TOO_MANY_REQUESTS => &counts.throttled,
            _ => &counts.refused,
        };
        outcome.fetch_add(1, Relaxed);
        counts.in_flight.fetch_sub(1, Relaxed);
        counts.last_us.fetch_max(now_unix_us(), Relaxed);
        response
    }

    async fn reply(&self, number: u64, body: &[u8]) -> Response<Full<Bytes>> {
        let request: ChatRequest<'_> = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(cause) => return error(StatusCode::BAD_REQUEST, &cause.to_string()),
        };
        let behaviour = self.behaviour();
        if behaviour.throttle_every != 0 && number.is_multiple_of(behaviour.throttle_every) {
            let mut response = error(StatusCode::TOO_MANY_REQUESTS, "throttled on purpose");
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(behaviour.retry_after_s));
            return response;
        }
        let extra = match behaviour.jitter_ms {
            0 => 0,
            // Spread by the golden ratio: even, and the same in every run.
            most => (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % (most + 1),
        };
        if behaviour.latency_ms + extra > 0 {
            tokio::time::sleep(Duration::from_millis(behaviour.latency_ms + extra)).await;
        }
        let question = request
            .messages
            .iter()
            .rev()
            .find(|message| message.role == "user");
        let question = question
            .and_then(|message| message.content.as_deref())
            .unwrap_or_default();
        let text = match item_of(question) {
            _ if question.contains("\n<answer ") => {
                serde_json::json!({"met": !question.contains("\nmiss-")}).to_string()
            }
            None => "ok".to_owned(),
            Some(item)
                if behaviour.wrong_every != 0 && item.is_multiple_of(behaviour.wrong_every) =>
            {
                answer(item).replace("word", "miss")
            }
            Some(item) => answer(item),
        };
        let (input, output) = (body.len() / 4, text.len() / 4 + 1);
        let model = serde_json::Value::from(request.model.as_ref());
        let content = serde_json::Value::from(text);
        json(
            StatusCode::OK,
            format!(
                "{{\"id\":\"mock-{number}\",\"object\":\"chat.completion\",\"created\":0,\"model\":{model},\
                 \"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":{content}}},\
                 \"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output},\
                 \"total_tokens\":{total}}}}}",
                total = input + output
            ),
        )
    }

    fn stats(&self) -> Stats {
        let counts = &self.counts;
        Stats {
            requests: counts.requests.load(Relaxed),
            answered: counts.answered.load(Relaxed),
            throttled: counts.throttled.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            connections: counts.connections.load(Relaxed),
            peak_in_flight: counts.peak_in_flight.load(Relaxed),
            first_unix_us: counts.first_us.load(Relaxed),
            last_unix_us: counts.last_us.load(Relaxed),
        }
    }
}

fn now_unix_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
}

fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|cause| format!("{{\"error\":\"{cause}\"}}"))
}

fn json(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn error(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    json(
        status,
        serde_json::json!({"error": {"message": message, "type": "mock", "code": null}})
            .to_string(),
    )
}

async fn serve(options: &Serve) -> anyhow::Result<()> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket
        .bind(SocketAddr::from(([127, 0, 0, 1], options.port)))
        .context("the port cannot be taken")?;
    let listener: TcpListener = socket.listen(4096)?;
    println!("listening on http://{}", listener.local_addr()?);
    let mock = Arc::new(Mock {
        counts: Counts::default(),
        behaviour: std::sync::RwLock::new(options.behaviour),
    });
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
        };
        stream.set_nodelay(true)?;
        mock.counts.connections.fetch_add(1, Relaxed);
        let mock = mock.clone();
        tokio::spawn(async move {
            let service =
                service_fn(|request| async { Ok::<_, Infallible>(mock.route(request).await) });
            // Broken connections are the client's problem.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

// --------------------------------------------------------------------------------------------------------------- client

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driven {
    requests: u64,
    concurrency: u64,
    right: u64,
    wall_s: f64,
    per_second: f64,
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
}

#[derive(Deserialize)]
struct Said {
    content: String,
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
async fn drive(options: &Drive) -> anyhow::Result<()> {
    let authority = options
        .url
        .strip_prefix("http://")
        .context("--url must start with http://")?;
    let authority = authority
        .trim_end_matches('/')
        .trim_end_matches("/v1")
        .to_owned();
    let next = Arc::new(AtomicU64::new(1));
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..options.concurrency.clamp(1, options.requests.max(1)) {
        clients.spawn(ask_until(authority.clone(), next.clone(), options.requests));
    }
    let mut right = 0;
    while let Some(client) = clients.join_next().await {
        right += client??;
    }
    let wall_s = started.elapsed().as_secs_f64();
    println!(
        "{}",
        serde_json::to_string(&Driven {
            requests: options.requests,
            concurrency: options.concurrency,
            right,
            wall_s,
            per_second: options.requests as f64 / wall_s,
        })?
    );
    Ok(())
}

async fn ask_until(authority: String, next: Arc<AtomicU64>, last: u64) -> anyhow::Result<u64> {
    let stream = TcpStream::connect(&authority)
        .await
        .with_context(|| format!("no connection to {authority}"))?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut right = 0;
    loop {
        let item = next.fetch_add(1, Relaxed);
        if item > last {
            return Ok(right);
        }
        let body = format!(
            r#"{{"model":"mock","messages":[{{"role":"system","content":"Answer with the code word."}},{{"role":"user","content":"item {item}"}}]}}"#
        );
        let request = Request::post("/v1/chat/completions")
            .header(HOST, &authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            bail!("the endpoint answered {}", response.status());
        }
        let completion: Completion =
            serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
        right += u64::from(
            completion
                .choices
                .first()
                .is_some_and(|choice| choice.message.content == answer(item)),
        );
    }
}
