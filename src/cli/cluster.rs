//! `touchstone cluster`: replicas and workers of a host.

mod credentials;

use std::fmt::Write as _;

use clap::Subcommand;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::cli::worker::name;
use crate::http::cluster::{Draining, PATH, drain_path};
use touchstone_cluster::service::status::Status;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::table::{self, Style};
use touchstone_host::render::words::{duration, plain};

/// Show the replicas and workers of a host, drain workers, and create credentials
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone cluster status --server https://evals.example.com\n  touchstone cluster drain gpu-1\n  touchstone cluster credentials --worker gpu-1 --pool acme"
)]
pub enum Command {
    /// List replicas, workers, queues and the runs that workers execute
    #[command(
        after_help = "Needs a key with the scope `metrics:read`. Silence is the time since the last heartbeat, which\nreplicas and workers send every two seconds; after a minute of it they are not listed.\n\nExit codes: 0 workers are connected, 1 the host has no cluster, no worker is connected or NATS\ndoes not answer, 2 bad input, 3 no host.\n\nExamples:\n  touchstone cluster status --server https://evals.example.com\n  touchstone cluster status --json"
    )]
    Status,
    /// Let a worker take no further tasks, and end after those that it has
    #[command(
        after_help = "Needs a key with the scope `cluster:manage`. The worker does the same as on SIGTERM: it finishes\nits tasks for up to `--drain` seconds and exits with 0. Start it again to use it again. A\nsupervisor that restarts it after every exit does so at once.\n\nExit codes: 0 the worker drains, 1 it has not confirmed that within 5 seconds, 2 bad input or no\nsuch worker, 3 no host or no connection to NATS.\n\nExamples:\n  touchstone cluster drain gpu-1 --server https://evals.example.com\n  touchstone cluster drain gpu-1 --json"
    )]
    Drain {
        /// Name of the worker, as `touchstone cluster status` lists it
        #[arg(value_name = "WORKER", value_parser = name)]
        worker: String,
    },
    /// Create the key of a NATS user, and print the user with its permissions
    Credentials(credentials::Arguments),
}

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Status => status(context).await,
        Command::Drain { worker } => drain(context, &worker).await,
        Command::Credentials(arguments) => credentials::run(context, arguments),
    }
}

async fn status(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let answer: Value = session.client().get(PATH).await?;
    let status = Status::deserialize(&answer).map_err(|fault| Failure::unexpected(&fault))?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
    } else {
        terminal.print(&shown(&status, terminal.style()));
    }
    Ok(
        match status.problem.is_none() && !status.workers.is_empty() {
            true => Exit::Good,
            false => Exit::Negative,
        },
    )
}

async fn drain(context: &Context<'_>, worker: &str) -> Result<Exit, Failure> {
    let session = context.write().await?;
    let path = drain_path(worker);
    let answer: Draining = session.client().post(&path, &json!({})).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answer);
    } else {
        let text = match answer.confirmed {
            true => {
                "takes no further tasks; it ends after those that it has, or when its `--drain` seconds are over"
            }
            false => {
                "was asked to drain and has not confirmed it; look at `touchstone cluster status`"
            }
        };
        terminal.print(&format!("worker {worker} {text}"));
    }
    Ok(match answer.confirmed {
        true => Exit::Good,
        false => Exit::Negative,
    })
}

fn shown(status: &Status, style: Style) -> String {
    if !status.enabled {
        return "the host has no cluster: set `nats` in its section `[cluster]`".to_owned();
    }
    let mut text = String::new();
    let replicas = status.replicas.iter().map(|it| {
        let mark = match status.replica.as_ref() == Some(&it.replica) {
            true => "answers",
            false => "",
        };
        let (name, version) = (plain(&it.replica), plain(&it.version));
        vec![name, version, duration(it.silent_ms), mark.to_owned()]
    });
    list(
        &mut text,
        &["replica", "version", "silence", ""],
        replicas.collect(),
        style,
    );
    let workers = status.workers.iter().map(|it| {
        let models: Vec<String> = it.models.iter().map(|model| plain(model)).collect();
        let state = match it.draining {
            true => "draining",
            false => "working",
        };
        vec![
            plain(&it.worker),
            plain(&it.version),
            duration(it.silent_ms),
            state.to_owned(),
            format!("{}/{}", it.free, it.capacity),
            models.join(", "),
            it.labels.to_string(),
        ]
    });
    list(
        &mut text,
        &[
            "worker", "version", "silence", "state", "free", "models", "labels",
        ],
        workers.collect(),
        style,
    );
    let queues = status.queues.iter().map(|it| {
        let numbers = [it.waiting, it.unacknowledged, it.pulls];
        let mut row = vec![plain(&it.pool), plain(&it.lane)];
        row.extend(numbers.iter().map(u64::to_string));
        row
    });
    list(
        &mut text,
        &["queue", "lane", "waiting", "taken", "requests"],
        queues.collect(),
        style,
    );
    let runs = status.runs.iter().map(|it| {
        vec![
            plain(&it.run_id),
            plain(&it.tenant),
            plain(&it.replica),
            it.lease_ms.map_or_else(|| "–".to_owned(), duration),
            it.offered.to_string(),
            it.held.to_string(),
            it.labels.to_string(),
        ]
    });
    list(
        &mut text,
        &[
            "run", "tenant", "replica", "lease", "offered", "held", "labels",
        ],
        runs.collect(),
        style,
    );
    let further = [
        (status.further_members, "replicas and workers"),
        (status.further_runs, "runs"),
    ];
    for (count, of) in further.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "{count} further {of} are not listed");
    }
    if status.workers.is_empty() {
        let _ = writeln!(text, "no worker is connected");
    }
    for run in &status.runs {
        if let Some(reason) = run.waits_for() {
            let _ = writeln!(text, "the tasks of {} wait: {reason}", plain(&run.run_id));
        }
    }
    if let Some(problem) = &status.problem {
        let _ = writeln!(text, "the queues could not be read: {}", plain(problem));
    }
    text.trim_end().to_owned()
}

/// A table, or one line per row that begins with the kind of the row, with tabs between its values.
fn list(text: &mut String, header: &[&str], rows: Vec<Vec<String>>, style: Style) {
    if rows.is_empty() {
        return;
    }
    if style.table {
        let mut table = table::begin(style);
        table.set_header(header);
        for row in &rows {
            table.add_row(row);
        }
        if let Some(drawn) = table::drawn(table, style) {
            let _ = writeln!(text, "{drawn}");
            return;
        }
    }
    let kind = header.first().copied().unwrap_or_default();
    for row in rows {
        let _ = writeln!(text, "{kind}\t{}", row.join("\t").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Status {
        let document = json!({
            "enabled": true, "replica": "host_1", "problem": null,
            "replicas": [{"replica": "host_1", "version": "1.0.0", "silentMs": 1000}],
            "workers": [{
                "worker": "w1", "version": "1.0.0", "capacity": 4, "free": 1, "models": ["openai/m"],
                "draining": false, "silentMs": 2000, "labels": ["gpu"]
            }],
            "queues": [{"pool": "shared", "lane": "h1", "waiting": 3, "unacknowledged": 2, "pulls": 1}],
            "runs": [{
                "runId": "run_1", "tenant": "acme", "replica": "host_1", "offered": 3, "held": 2,
                "leaseMs": null, "labels": ["gpu", "region=eu"], "unserved": "labels"
            }]
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_pipe_gets_one_line_per_row() {
        let text = shown(&status(), Style::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "replica\thost_1\t1.0.0\t1.0 s\tanswers");
        assert_eq!(
            lines[1],
            "worker\tw1\t1.0.0\t2.0 s\tworking\t1/4\topenai/m\tgpu"
        );
        assert_eq!(lines[2], "queue\tshared\th1\t3\t2\t1");
        assert_eq!(
            lines[3],
            "run\trun_1\tacme\thost_1\t–\t3\t2\tgpu, region=eu"
        );
        let waits = "the tasks of run_1 wait: no worker that serves their model has the labels gpu, region=eu";
        assert_eq!(lines[4..], [waits]);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let large = Status {
            further_members: 2,
            further_runs: 30,
            ..status()
        };
        let text = shown(&large, Style::default());
        let counts: Vec<&str> = text.lines().skip(4).take(2).collect();
        assert_eq!(
            counts,
            [
                "2 further replicas and workers are not listed",
                "30 further runs are not listed"
            ]
        );
    }

    #[test]
    fn a_cluster_without_workers_or_answers_says_so() {
        let none = Status {
            workers: Vec::new(),
            problem: Some("the message bus gave no answer in time".to_owned()),
            ..status()
        };
        let text = shown(&none, Style::default());
        assert!(text.contains("no worker is connected"), "{text}");
        assert!(text.contains("gave no answer in time"), "{text}");
        let text = shown(&Status::default(), Style::default());
        assert!(text.contains("the host has no cluster"), "{text}");
    }
}
