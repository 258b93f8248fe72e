//! The listener: limits connections in all and per address, the time for headers, the buffered
//! bytes, and how long a client may leave a response unread.

mod refusals;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::{debug, info, warn};

use crate::background::spawn;
use crate::http::limits::peers::network;
use crate::http::limits::shares::Shares;
use crate::http::peer::Peer;
use crate::http::server::refusals::Enveloped;
use crate::telemetry::names;

/// Largest request head, and most bytes buffered towards a client.
const BUFFER_BYTES: usize = 64 * 1024;
/// More than the API accepts, so that the API refuses with an error envelope.
const MAX_HEADERS: usize = 256;
/// How long a client may read nothing while data is waiting for it. Such a client holds memory that
/// other clients may need.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests in progress may take after shutdown was requested.
const DRAIN: Duration = Duration::from_secs(10);
const AFTER_ACCEPT_FAILURE: Duration = Duration::from_millis(50);

/// Limits of the listener.
#[derive(Clone, Copy, Debug)]
pub struct ServerSettings {
    /// Maximum number of open connections; further ones wait until one closes.
    pub max_connections: usize,
    /// Maximum number of connections of one address; further ones are closed, so that one address
    /// cannot use up all of them.
    pub max_connections_per_address: usize,
    /// How long a request's head may take to arrive, and how long a connection may idle between two
    /// requests.
    pub header_timeout: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            max_connections: 8192,
            max_connections_per_address: 4096,
            header_timeout: Duration::from_secs(30),
        }
    }
}

/// Serves `router` on `listener` until `shutdown`, then waits for the requests in progress.
///
/// Streams end by themselves when the router's state was built with the same token.
///
/// # Errors
/// None after the start; a failing `accept` is retried.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_with(listener, router, shutdown, ServerSettings::default()).await
}

/// [`serve`] with other limits.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    settings: ServerSettings,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(settings.max_connections));
    let of_addresses = Shares::new(usize::MAX, settings.max_connections_per_address);
    let graceful = GracefulShutdown::new();
    let connections = metrics::gauge!(names::HTTP_CONNECTIONS);
    loop {
        // Without a free place, new connections wait in the kernel's queue.
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(cause) => {
                warn!(%cause, "could not accept a connection");
                tokio::time::sleep(AFTER_ACCEPT_FAILURE).await;
                continue;
            }
        };
        let Ok(share) = of_addresses.take(&network(peer.ip()), 1) else {
            metrics::counter!(names::SHED).increment(1);
            continue;
        };
        let service = router
            .clone()
            .map_request(move |request: Request<Incoming>| {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(Peer(peer));
                request
            });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(
                TokioIo::new(Enveloped::new(Unstalled::new(stream))),
                TowerToHyperService::new(service),
            );
        let connection = graceful.watch(connection);
        let connections = connections.clone();
        // Shutdown waits for it through `graceful`.
        spawn("connection", async move {
            connections.increment(1.0);
            if let Err(cause) = connection.await {
                debug!(%cause, "a connection ended early");
            }
            connections.decrement(1.0);
            drop((place, share));
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown())
        .await
        .is_err()
    {
        info!("some requests did not finish in time and were aborted");
    }
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, place))
}

/// A connection that fails when no pending byte could be written for [`STALL_TIMEOUT`].
struct Unstalled {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Unstalled {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| {
            Box::pin(tokio::time::sleep_until(Instant::now() + STALL_TIMEOUT))
        });
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Unstalled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Unstalled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, octets);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
