//! Many event-stream consumers of one run, each checking that it gets every event once and in
//! order.
//!
//! ```text
//! cargo run --release --example sse_swarm -- --url http://127.0.0.1:7800/v1/runs/RUN/events --key KEY --consumers 1000
//! ```
//!
//! Prints `open` once every consumer has its response headers, and one line of JSON when the last
//! stream has closed. A consumer is complete if the sequences it saw rise strictly, the server
//! closed the stream, and the last event was the run's terminal one; all complete consumers must
//! have seen the same number of events, which the caller compares with the log.
//!
//! Like a browser, a consumer connects again with `Last-Event-ID` after a stream that ended early
//! and after an answer that asks for patience; the number of these is reported.

#![expect(
    clippy::disallowed_methods,
    reason = "a separate program without supervised tasks"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Consumers that wait for response headers at the same time.
const OPENING: usize = 200;
/// Connections of one consumer.
const MOST_CONNECTIONS: u64 = 50;
const PAUSE: Duration = Duration::from_secs(1);

/// Many event-stream consumers of one run.
#[derive(Clone, Parser)]
struct Options {
    /// The event stream, with its query if any.
    #[arg(long)]
    url: String,
    /// Bearer key.
    #[arg(long)]
    key: String,
    /// Number of consumers.
    #[arg(long, default_value_t = 1000)]
    consumers: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    consumers: usize,
    complete: usize,
    /// Minimum and maximum number of events that consumers received.
    fewest_events: u64,
    most_events: u64,
    /// Bytes received by all clients.
    octets: u64,
    /// Streams that ended early and requests that were refused for now.
    reconnects: u64,
    wall_s: f64,
    /// Distinct errors of consumers.
    faults: Vec<String>,
}

/// Result of one consumer.
#[derive(Default)]
struct Seen {
    events: u64,
    /// Sequences begin at 1 under major 1 of the protocol, and at 0 under major 2.
    last_sequence: Option<u64>,
    octets: u64,
    connections: u64,
    ended: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be built")
        .and_then(|runtime| runtime.block_on(watch_all(options)));
    match outcome {
        Ok(complete) if complete => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(cause) => {
            eprintln!("sse_swarm: {cause:#}");
            ExitCode::from(3)
        }
    }
}

async fn watch_all(options: Options) -> anyhow::Result<bool> {
    let started = Instant::now();
    let waiting = Arc::new(AtomicUsize::new(options.consumers));
    let opening = Arc::new(Semaphore::new(OPENING));
    let mut consumers = JoinSet::new();
    for _ in 0..options.consumers {
        consumers.spawn(watch(options.clone(), waiting.clone(), opening.clone()));
    }
    let mut outcome = Outcome {
        consumers: options.consumers,
        complete: 0,
        fewest_events: u64::MAX,
        most_events: 0,
        octets: 0,
        reconnects: 0,
        wall_s: 0.0,
        faults: Vec::new(),
    };
    while let Some(joined) = consumers.join_next().await {
        match joined? {
            Ok(seen) => {
                outcome.complete += 1;
                outcome.fewest_events = outcome.fewest_events.min(seen.events);
                outcome.most_events = outcome.most_events.max(seen.events);
                outcome.octets += seen.octets;
                outcome.reconnects += seen.connections - 1;
            }
            Err(cause) => {
                let fault = format!("{cause:#}");
                if !outcome.faults.contains(&fault) && outcome.faults.len() < 10 {
                    outcome.faults.push(fault);
                }
            }
        }
    }
    outcome.wall_s = started.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(outcome.complete == outcome.consumers && outcome.fewest_events == outcome.most_events)
}

async fn watch(
    options: Options,
    waiting: Arc<AtomicUsize>,
    opening: Arc<Semaphore>,
) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    let mut has_answer = false;
    while !seen.ended {
        if seen.connections == MOST_CONNECTIONS {
            bail!("{MOST_CONNECTIONS} streams ended early");
        }
        if seen.connections > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        seen.connections += 1;
        let turn = opening.acquire().await?;
        let answer = connect(&options, seen.last_sequence).await?;
        drop(turn);
        let Some(body) = answer else { continue };
        if !has_answer && waiting.fetch_sub(1, Relaxed) == 1 {
            println!("open");
        }
        has_answer = true;
        read(body, &mut seen).await?;
    }
    Ok(seen)
}

/// The body of the stream after an event, or none if the host asks for patience.
async fn connect(options: &Options, after: Option<u64>) -> anyhow::Result<Option<Incoming>> {
    let rest = options
        .url
        .strip_prefix("http://")
        .context("--url must start with http://")?;
    let (authority, path) = rest.split_once('/').context("--url needs a path")?;
    let stream = TcpStream::connect(authority)
        .await
        .context("no connection")?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::get(format!("/{path}"))
        .header(HOST, authority)
        .header(ACCEPT, "text/event-stream")
        .header(AUTHORIZATION, format!("Bearer {}", options.key));
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await.context("no answer")?;
    match response.status() {
        StatusCode::OK => Ok(Some(response.into_body())),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Ok(None),
        other => bail!("the host answered {other}"),
    }
}

/// Reads to the end of one stream.
async fn read(mut body: Incoming, seen: &mut Seen) -> anyhow::Result<()> {
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the stream broke")?.into_data() else {
            continue;
        };
        seen.octets += data.len() as u64;
        for part in data.split_inclusive(|octet| *octet == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                take_line(seen, &line)?;
                line.clear();
            }
        }
    }
    Ok(())
}

fn take_line(seen: &mut Seen, line: &[u8]) -> anyhow::Result<()> {
    if let Some(id) = line.strip_prefix(b"id:") {
        let sequence: u64 = std::str::from_utf8(id)?
            .trim()
            .parse()
            .context("an id is not a sequence number")?;
        if let Some(last) = seen.last_sequence.filter(|last| sequence <= *last) {
            bail!("sequence {sequence} came after {last}");
        }
        seen.last_sequence = Some(sequence);
        seen.events += 1;
    } else if let Some(kind) = line.strip_prefix(b"event:") {
        seen.ended = matches!(
            kind.trim_ascii(),
            b"run.completed" | b"run.failed" | b"run.cancelled"
        );
    }
    Ok(())
}
