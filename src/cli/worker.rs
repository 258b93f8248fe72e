//! `touchstone worker`: execute tasks of other hosts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::app::cluster;
use crate::cli::embedded;
use crate::cli::serve::{Format, bind, ended_by_signal, resolve};
use crate::http::worker::router;
use touchstone_agents::rules::worker_labels::{WorkerLabel, WorkerLabels};
use touchstone_cluster::config::ClusterSettings;
use touchstone_cluster::nats::keys;
use touchstone_cluster::rules::access::pools::Pool;
use touchstone_cluster::rules::subjects::is_token;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::http;
use touchstone_host::telemetry::init_logs;

/// The library logs each event of the connection a second time.
const LOG_FILTER: &str = "info,async_nats=warn";

const EXAMPLES: &str = "\
Takes tasks from the hosts that use the same NATS servers and executes them with the `[[models]]`
and `[simulated_user]` of its own configuration. It takes only tasks whose pinned model it serves:
the entries of host and worker may differ in keys, prices, timeouts and limits only. It needs no
database. SIGTERM and SIGINT shut it down: tasks in flight get the time of --drain.
With --metrics, it answers GET /metrics, /healthz and /readyz. They need no key, and show no tenant,
task or model.

Examples:
  touchstone worker --nats nats://127.0.0.1:4222 --concurrency 16
  touchstone worker --config worker.toml --name gpu-1 --nkey-file gpu-1.nk --pool acme
  touchstone worker --config worker.toml --label gpu --label region=eu
  touchstone worker --nats tls://nats-1:4222,tls://nats-2:4222 --metrics 127.0.0.1:7801";

/// Execute tasks of other hosts, which NATS servers deliver
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Addresses of NATS servers, separated by commas [default: `nats` in the section `[cluster]`]
    #[arg(long, value_name = "URL")]
    nats: Option<String>,

    /// Maximum number of tasks in flight
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: u16,

    /// File with the seed of a NATS user's key [default: `nkey_file` in the section `[cluster]`]
    #[arg(long, value_name = "FILE", conflicts_with = "credentials_file")]
    nkey_file: Option<PathBuf>,

    /// File with the credentials of a NATS user (.creds) [default: `credentials_file` in the section `[cluster]`]
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,

    /// File with certificates of authorities that are trusted in addition to those of the system [default: `ca_file` in the section `[cluster]`]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Name of this worker: letters, digits, `-` and `_`. Its credentials and `[[cluster.workers]]` of the host name it [default: a new name]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// Pool of tenants whose tasks it takes; can be repeated
    #[arg(long = "pool", value_name = "POOL", default_value = "shared", value_parser = pool)]
    pools: Vec<Pool>,

    /// Label of this worker, such as `gpu` or `region=eu`, for tasks that require it; can be repeated, at most 8 [default: `labels` in the section `[worker]`]
    #[arg(long = "label", value_name = "LABEL", value_parser = WorkerLabel::parse)]
    labels: Vec<WorkerLabel>,

    /// Seconds that tasks in flight may take after a shutdown request
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    drain: u64,

    /// Address and port for metrics and health checks; port 0 picks a free one [default: none]
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,

    /// Format of log lines
    #[arg(long, value_enum, default_value = "text")]
    log_format: Format,
}

const NOT_A_NAME: &str = "must have 1 to 48 letters, digits, `-` and `_`";

pub fn name(text: &str) -> Result<String, String> {
    match is_token(text) {
        true => Ok(text.to_owned()),
        false => Err(NOT_A_NAME.to_owned()),
    }
}

pub fn pool(text: &str) -> Result<Pool, String> {
    Pool::parse(text).ok_or_else(|| NOT_A_NAME.to_owned())
}

/// The settings of the configuration with those of the command line.
fn overridden(settings: &mut ClusterSettings, arguments: &mut Arguments) {
    settings.nats = arguments.nats.take().or(settings.nats.take());
    settings.ca_file = arguments.ca_file.take().or(settings.ca_file.take());
    let (nkey, credentials) = (
        arguments.nkey_file.take(),
        arguments.credentials_file.take(),
    );
    if nkey.is_some() || credentials.is_some() {
        settings.nkey_file = nkey;
        settings.credentials_file = credentials;
    }
}

pub async fn run(context: &Context<'_>, mut arguments: Arguments) -> Result<Exit, Failure> {
    init_logs(arguments.log_format.into(), LOG_FILTER);
    let mut config = embedded::config(context.global())?;
    overridden(&mut config.cluster, &mut arguments);
    if config.cluster.nats.is_none() {
        return Err(Failure::usage("no NATS server is named".to_owned())
            .or_try("add --nats URL, or set `nats` in the section `[cluster]`"));
    }
    if let Err((field, problem)) = config.cluster.check() {
        let text = format!("`cluster.{field}` {problem}");
        return Err(Failure::bad_input("configuration", text));
    }
    if let Some(file) = &config.cluster.nkey_file
        && let Err(fault) = keys::read(file)
    {
        let remedy = "create a key with `touchstone cluster credentials`";
        return Err(Failure::bad_input("unreadable", fault.to_string()).or_try(remedy));
    }
    let drain = Duration::from_secs(arguments.drain);
    let concurrency = usize::from(arguments.concurrency);
    let labels = match arguments.labels.is_empty() {
        true => config.worker.labels.clone(),
        false => WorkerLabels::new(arguments.labels)
            .map_err(|problem| Failure::usage(format!("--label {problem}")))?,
    };
    let Arguments {
        name,
        pools,
        metrics,
        ..
    } = arguments;
    let worker = cluster::worker(&config, name, pools, labels, concurrency, drain);
    let process = Arc::new(embedded::started(worker)?);
    let worker = &process.worker;
    let models: Vec<String> = worker.models().map(|it| it.to_string()).collect();
    if models.is_empty() {
        let text = "the configuration has no model or command that a worker can serve";
        return Err(Failure::bad_input("configuration", text.to_owned())
            .or_try("add a `[[models]]` entry, the same as that of the host, or a command (`[[worker.commands]]`)"));
    }
    let listener = match metrics {
        None => None,
        Some(address) => Some(bind(resolve(&address).await?, "--metrics").await?),
    };
    let address = listener.as_ref().and_then(|it| it.local_addr().ok());
    let shutdown = CancellationToken::new();
    let signals = ended_by_signal(shutdown.clone())?;
    let terminal = context.terminal();
    if terminal.json() {
        let metrics = address.map(|address| format!("http://{address}/metrics"));
        let line = json!({
            "worker": worker.name(), "models": models, "labels": worker.labels(), "metrics": metrics
        });
        terminal.line(&line);
    } else {
        let served = models.join(", ");
        terminal.print(&format!("worker {} serves {served}", worker.name()));
        if !worker.labels().is_empty() {
            terminal.print(&format!("labels: {}", worker.labels()));
        }
        if let Some(address) = address {
            terminal.print(&format!("metrics at http://{address}/metrics"));
        }
    }
    let drained = CancellationToken::new();
    let serving = async {
        match listener {
            // Until the worker has drained, so that its last metrics can be read.
            Some(listener) => {
                let router = router(process.clone(), shutdown.clone());
                http::serve(listener, router, drained.clone()).await
            }
            None => Ok(()),
        }
    };
    let working = async {
        process.run(&shutdown).await;
        drained.cancel();
    };
    let (served, ()) = tokio::join!(serving, working);
    if let Err(cause) = served {
        tracing::warn!(%cause, "the server of metrics failed");
    }
    signals.abort();
    Ok(Exit::Good)
}
