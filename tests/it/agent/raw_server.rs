//! A server that sends exactly the given bytes, to show how a client handles broken responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

/// Response head of an event stream that ends with its connection.
pub const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// What the server does after sending the bytes.
#[derive(Clone, Copy)]
pub enum Then {
    Close,
    Reset,
    Hang,
}

/// The answer to one request.
#[derive(Clone)]
pub struct Act {
    pub wait: Duration,
    pub octets: Vec<u8>,
    /// Further parts of the body, each after a delay.
    pub rest: Vec<(Duration, Vec<u8>)>,
    pub then: Then,
}

impl Act {
    pub fn new(octets: impl Into<Vec<u8>>, then: Then) -> Self {
        Self {
            wait: Duration::ZERO,
            octets: octets.into(),
            rest: Vec::new(),
            then,
        }
    }

    /// A complete response, the last on its connection.
    pub fn answer(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::new(
            format!(
                "HTTP/1.1 {status} -\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
            ),
            Then::Close,
        )
    }

    pub fn json(status: u16, body: &str) -> Self {
        Self::answer(status, "content-type: application/json\r\n", body)
    }

    /// An event stream, the last on its connection.
    pub fn stream(events: &[String]) -> Self {
        let events: String = events
            .iter()
            .map(|data| format!("data: {data}\n\n"))
            .collect();
        Self::new(format!("{STREAM}{events}"), Then::Close)
    }

    /// An event stream with a delay before each event.
    pub fn dripping(wait: Duration, events: &[String]) -> Self {
        let event = |data: &String| (wait, format!("data: {data}\n\n").into_bytes());
        Self {
            rest: events.iter().map(event).collect(),
            ..Self::new(STREAM, Then::Close)
        }
    }

    /// Delays the response.
    pub fn after(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }
}

pub struct RawServer {
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl RawServer {
    /// Answers every request with `answer`, and then acts as `then` says.
    pub async fn start(answer: impl Into<Vec<u8>>, then: Then) -> Self {
        Self::play(vec![Act::new(answer, then)]).await
    }

    /// Answers requests in order; the last act repeats.
    pub async fn play(acts: Vec<Act>) -> Self {
        let acts: Arc<[Act]> = acts.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (acts, counted) = (acts.clone(), counted.clone());
                tokio::spawn(async move {
                    let mut buffer = vec![0; 64 * 1024];
                    if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                        return;
                    }
                    let nth = counted.fetch_add(1, Ordering::SeqCst);
                    let act = &acts[nth.min(acts.len() - 1)];
                    tokio::time::sleep(act.wait).await;
                    let _ = stream.write_all(&act.octets).await;
                    let _ = stream.flush().await;
                    for (wait, octets) in &act.rest {
                        tokio::time::sleep(*wait).await;
                        let _ = stream.write_all(octets).await;
                        let _ = stream.flush().await;
                    }
                    match act.then {
                        Then::Close => {}
                        Then::Reset => stream.set_zero_linger().unwrap(),
                        Then::Hang => {
                            let _ = stream.read(&mut buffer).await;
                        }
                    }
                });
            }
        });
        Self {
            address,
            requests,
            task,
        }
    }

    pub fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address without a listener.
pub fn deserted() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    // A port that was given back could become another test's.
    std::mem::forget(socket);
    address
}
