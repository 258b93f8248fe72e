//! `touchstone serve`: run the host as a server.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::embedded;
use crate::cli::embedded::start;
use touchstone_host::background::{Spawned, spawn};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure, with_causes};
use touchstone_host::http;
use touchstone_host::http::server::ServerSettings;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::keys::KeyRecord;
use touchstone_host::service::keys::KeyState;
use touchstone_host::system::{SystemClock, open_files};
use touchstone_host::telemetry::{LogFormat, init_logs};
use touchstone_runs::cli::watch::Interrupts;

const EXAMPLES: &str = "\
Prints `listening on http://…` on stdout once ready. SIGTERM and SIGINT shut it down: running
tasks get a moment to finish, and unfinished runs resume at the next start. A non-loopback
address needs at least one API key.

Examples:
  touchstone serve
  touchstone serve --listen 127.0.0.1:0 --data /var/lib/touchstone \\
    --config touchstone.toml
  touchstone key create --tenant acme && touchstone serve --listen 0.0.0.0:7800
  touchstone serve --database-url postgres://touchstone@db/touchstone";

const OPEN_CONSOLE: &str = "\
warning: the console needs no key: every program and user of this machine can open it. Before you put a proxy in \
front of this host, create a key or set `open_on_loopback = false` under `[console]`";

/// Serve the OpenWOP API
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Address and port; port 0 picks a free one [default: 127.0.0.1:7800] [env: TOUCHSTONE_LISTEN]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Enable fixture workflows, and test endpoints for test keys, for a conformance suite. Not for
    /// production
    #[arg(long)]
    conformance: bool,

    /// Format of log lines
    #[arg(long, value_enum, default_value = "text")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
        }
    }
}

pub async fn run(context: &Context<'_>, arguments: Arguments) -> Result<Exit, Failure> {
    init_logs(arguments.log_format.into(), "info");
    let files = open_files::raise();
    let mut config = embedded::config(context.global())?;
    if let Some(listen) = arguments.listen {
        config.listen = listen;
    }
    config.conformance.enabled |= arguments.conformance;
    let address = resolve(&config.listen).await?;
    let app = start(config).await?;
    let keys = app.keys().list(None).await;
    let keys = keys.map_err(|cause| Failure::not_done("store_failed", with_causes(&cause)))?;
    let opens_without_key = keys.is_empty() && app.config().console.opens_without_key();
    let keys = usable(&keys);
    if !address.ip().is_loopback() && keys == 0 {
        return Err(Failure::bad_input(
            "no_keys",
            format!("{address} is reachable from other machines, and the host has no API key"),
        )
        .or_try(format!(
            "run {} key create --tenant default, then serve again; or listen on 127.0.0.1",
            context.program()
        )));
    }
    let listener = bind(address, "--listen").await?;
    let bound = listener.local_addr().unwrap_or(address);
    let shutdown = CancellationToken::new();
    let signals = ended_by_signal(shutdown.clone())?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.line(&json!({"listening": format!("http://{bound}")}));
    } else {
        terminal.print(&format!("listening on http://{bound}"));
        if keys == 0 {
            terminal.note(&format!(
                "no API key yet: {} key create --tenant default",
                context.program()
            ));
        }
    }
    if opens_without_key {
        terminal.note(OPEN_CONSOLE);
    }
    for held in app.held().await.unwrap_or_default() {
        tracing::warn!(
            count = held.count,
            "this is a restored copy, which holds {}; run `touchstone restore --take-over` if the original has stopped permanently",
            held.name
        );
    }
    let router = app.router();
    let wanted = app.config().limits.max_connections;
    let max_connections = open_files::connections(files, wanted);
    if max_connections < wanted {
        tracing::warn!(
            max_connections,
            wanted,
            "the open-file limit is too low for the connection limit; raise it (ulimit -n)"
        );
    }
    let bounds = ServerSettings {
        max_connections,
        max_connections_per_address: app.config().limits.max_connections_per_address,
        ..ServerSettings::default()
    };
    let served = tokio::join!(
        http::serve_with(listener, router, shutdown.clone(), bounds),
        app.run_until(shutdown.clone()),
    );
    signals.abort();
    served.0.map_err(|cause| {
        Failure::not_done("serving_failed", format!("the server failed: {cause}"))
    })?;
    Ok(Exit::Good)
}

/// Listens on an address that an option names.
pub(super) async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|cause| {
        let text = format!("cannot listen on {address}: {cause}");
        let remedy =
            format!("stop the process that uses the port, or choose another port with {option}");
        Failure::not_done("cannot_listen", text).or_try(remedy)
    })
}

/// The first address that the text resolves to.
pub(super) async fn resolve(listen: &str) -> Result<SocketAddr, Failure> {
    let unusable = |cause: &str| {
        Failure::usage(format!("cannot listen on `{listen}`: {cause}"))
            .or_try("use an address with a port, such as 127.0.0.1:7800")
    };
    let mut addresses = tokio::net::lookup_host(listen)
        .await
        .map_err(|cause| unusable(&cause.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| unusable("the name has no address"))
}

fn usable(keys: &[KeyRecord]) -> usize {
    let now = SystemClock.now();
    let good = keys.iter().filter(|key| KeyState::of(key, now).is_good());
    good.count()
}

/// Cancels `shutdown` at the first SIGTERM or SIGINT; a second one ends the process at once.
#[expect(
    clippy::disallowed_methods,
    reason = "a second signal must not wait for anything"
)]
pub(super) fn ended_by_signal(shutdown: CancellationToken) -> Result<Spawned<()>, Failure> {
    let mut signals = Interrupts::listen()?;
    Ok(spawn("signals", async move {
        signals.next().await;
        tracing::info!("shutting down; a second signal ends the process at once");
        shutdown.cancel();
        signals.next().await;
        std::process::exit(i32::from(Exit::NotDone as u8));
    }))
}
