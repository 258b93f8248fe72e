//! A proxy to a PostgreSQL server, which can cut connections or stop forwarding while the server
//! keeps serving other tests.

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::postgres::TestDatabase;

/// A socket that forwards to a database.
pub struct Line {
    dir: TempDir,
    options: PgConnectOptions,
    /// Whether data is forwarded.
    speaks: watch::Sender<bool>,
    serving: Option<JoinHandle<()>>,
}

impl Line {
    pub fn to(database: &TestDatabase) -> Self {
        let mut line = Self {
            dir: TempDir::new().unwrap(),
            options: database.options(),
            speaks: watch::Sender::new(true),
            serving: None,
        };
        line.restore();
        line
    }

    /// URL of the database behind the proxy.
    pub fn url(&self) -> String {
        let options = self.options.clone().socket(self.dir.path());
        options.to_url_lossy().to_string()
    }

    /// Closes every connection and refuses new ones.
    pub async fn cut(&mut self) {
        let serving = self.serving.take().unwrap();
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
    }

    /// Leaves connections open and accepts new ones, but forwards nothing.
    pub fn fall_silent(&self) {
        self.speaks.send_replace(false);
    }

    /// Resumes forwarding; data sent in the meantime arrives.
    pub fn restore(&mut self) {
        self.speaks.send_replace(true);
        if self.serving.is_none() {
            let socket = self.socket();
            // Left by an earlier listener.
            let _ = std::fs::remove_file(&socket);
            let listener = UnixListener::bind(socket).unwrap();
            let speaks = self.speaks.subscribe();
            self.serving = Some(tokio::spawn(serve(listener, self.options.clone(), speaks)));
        }
    }

    fn socket(&self) -> PathBuf {
        let name = format!(".s.PGSQL.{}", self.options.get_port());
        self.dir.path().join(name)
    }
}

async fn serve(listener: UnixListener, server: PgConnectOptions, speaks: watch::Receiver<bool>) {
    let server = Arc::new(server);
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (server, speaks) = (Arc::clone(&server), speaks.clone());
        connections.spawn(async move {
            let port = server.get_port();
            match server.get_socket() {
                Some(folder) => {
                    let socket = folder.join(format!(".s.PGSQL.{port}"));
                    join(client, UnixStream::connect(socket).await.unwrap(), speaks).await;
                }
                None => {
                    let address = (server.get_host(), port);
                    join(client, TcpStream::connect(address).await.unwrap(), speaks).await;
                }
            }
        });
    }
}

async fn join<S: AsyncRead + AsyncWrite>(
    client: UnixStream,
    server: S,
    speaks: watch::Receiver<bool>,
) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = tokio::io::split(server);
    tokio::select! {
        () = pass_on(from_client, to_server, speaks.clone()) => {}
        () = pass_on(from_server, to_client, speaks) => {}
    }
}

async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut speaks: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if speaks.wait_for(|speaks| *speaks).await.is_err()
            || to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}
