//! A server that says exactly the octets it was told to, to show how a client takes broken answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What happens after the octets are sent.
#[derive(Clone, Copy)]
pub enum Then {
    Close,
    Reset,
    Hang,
}

pub struct RawServer {
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl RawServer {
    /// Answers every request with `answer`, and then does what `then` says.
    pub async fn start(answer: impl Into<Vec<u8>>, then: Then) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (answer, counted) = (answer.clone(), counted.clone());
                tokio::spawn(async move {
                    let mut buffer = vec![0; 64 * 1024];
                    if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                        return;
                    }
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(&answer).await;
                    let _ = stream.flush().await;
                    match then {
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

/// An address on which nobody listens.
pub async fn deserted() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}
