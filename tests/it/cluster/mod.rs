//! A host and its workers as processes, over a NATS server. Workers are killed and stopped.

mod commands;
mod credentials;
mod drained;
mod examined;
mod labels;
mod large;
mod measured;
mod nats;
mod replicas;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use touchstone_agents::rules::{EndpointPin, ModelIdentity, ModelPin};
use touchstone_cluster::config::ClusterSettings;
use touchstone_cluster::nats::{NatsBus, Role};
use touchstone_cluster::ports::bus::{Bus as _, BusError};
use touchstone_cluster::rules::access::pools::Pool;
use touchstone_cluster::rules::lane::Lane;

use crate::process::endpoint::{Endpoint, question, saying};
use crate::process::{AGENT, Site, TOO_LONG};
use nats::NatsServer;

const TASKS: u64 = 40;
const AT_ONCE: u64 = 3;
/// How long a worker may work without an answer. Long enough for one that the machine runs late, so
/// that only those are lost that a test stops.
const HOLD_S: u64 = 6;
const SUITE: &str = "private.touchstone.evals.spread@1.0.0";
/// The key that only workers have.
const KEY: &str = "key-of-the-workers";

fn suite() -> Value {
    let tasks: Vec<Value> = (1..=TASKS)
        .map(|n| {
            json!({
                "taskId": format!("item-{n}"), "input": {"item": n},
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": format!("word {n}")}}
            })
        })
        .collect();
    json!({
        "suiteId": "private.touchstone.evals.spread", "version": "1.0.0", "modes": ["golden"],
        "thresholds": {"passScore": 1.0}, "tasks": tasks
    })
}

/// The item that a request is about.
fn item(body: &Value) -> u64 {
    let (_, tail) = question(body).rsplit_once("\"item\":").unwrap();
    let is_digit = |c: &char| c.is_ascii_digit();
    let digits: String = tail.trim_start().chars().take_while(is_digit).collect();
    digits.parse().unwrap()
}

fn model(endpoint: &Endpoint, more: &str) -> String {
    format!(
        "[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
         input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 1.0\n{more}",
        endpoint.url()
    )
}

/// A running `touchstone worker`; killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(site: &Site, nats: &NatsServer, name: &str) -> Self {
        Self::start_with(site, nats, name, &[])
    }

    fn start_with(site: &Site, nats: &NatsServer, name: &str, more: &[&str]) -> Self {
        let log = std::fs::File::create(site.folder().join(format!("{name}.log"))).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .current_dir(site.folder())
            .args(["worker", "--nats", nats.url(), "--name", name])
            .args([
                "--concurrency",
                &AT_ONCE.to_string(),
                "--config",
                "worker.toml",
            ])
            .args(more)
            .env("WORKER_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the endpoint has this number of requests.
async fn asked(endpoint: &Endpoint, count: u64) {
    let reached = async {
        while (endpoint.asked().len() as u64) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(TOO_LONG, reached).await;
    reached.unwrap_or_else(|_| panic!("{} of {count} requests", endpoint.asked().len()));
}

/// Number of events of a kind, by task.
fn counts(log: &[Value], kind: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in log.iter().filter(|event| event["type"] == kind) {
        let task = event["nodeId"]
            .as_str()
            .unwrap_or_else(|| panic!("{event}"));
        *counts.entry(task.to_owned()).or_default() += 1;
    }
    counts
}

#[rstest]
#[case::embedded(false)]
#[case::postgres(true)]
#[tokio::test(flavor = "multi_thread")]
async fn each_task_is_scored_once_although_workers_are_killed_and_stopped(#[case] postgres: bool) {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let site = match postgres {
        false => Site::embedded(),
        true => match Site::on_postgres().await {
            Some(site) => site,
            None => return,
        },
    };
    let endpoint = Endpoint::start(20..60, |body| saying(&format!("word {}", item(body)))).await;
    // Keeps the run open until the stopped worker has continued.
    endpoint.hold(|body| item(body) == TASKS);
    let cluster = format!(
        "[cluster]\nnats = \"{}\"\nhold_s = {HOLD_S}\n[limits]\ndefault_concurrency = 12\n\
         [worker]\nlease_s = 60\n",
        nats.url()
    );
    site.configure(
        "touchstone.toml",
        &format!("{cluster}{}", model(&endpoint, "")),
    );
    site.write(
        "worker.toml",
        &model(&endpoint, "api_key_env = \"WORKER_KEY\"\n"),
    );
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());

    let killed = Worker::start(&site, &nats, "w1");
    let stopped = Worker::start(&site, &nats, "w2");
    let distributed = json!({"evalDistribution": "cluster"});
    let run = api.start(SUITE, AGENT, distributed).await;
    asked(&endpoint, 10).await;
    killed.signal(Signal::KILL);
    asked(&endpoint, 14).await;
    stopped.signal(Signal::STOP);
    let _other = Worker::start(&site, &nats, "w3");
    // All tasks but the held one were asked about, those of the two workers again.
    asked(&endpoint, TASKS + 1).await;
    tokio::time::sleep(Duration::from_secs(HOLD_S + 1)).await;
    stopped.signal(Signal::CONT);
    tokio::time::sleep(Duration::from_secs(2)).await;
    endpoint.next_era();

    let log = api.log(&run).await;
    let scores = counts(&log, "eval.scored");
    assert_eq!(scores.len() as u64, TASKS);
    assert!(scores.values().all(|count| *count == 1), "{scores:?}");
    let usage = counts(&log, "provider.usage");
    let starts = counts(&log, "agent.invocation.started");
    let ends = counts(&log, "agent.invocation.completed");
    assert_eq!(starts, ends);
    let mut requests: BTreeMap<String, u64> = BTreeMap::new();
    for asked in endpoint.asked() {
        let authorization = asked.headers.get("authorization").unwrap();
        assert_eq!(
            authorization,
            &format!("Bearer {KEY}"),
            "the host made a call"
        );
        *requests
            .entry(format!("item-{}", item(&asked.body)))
            .or_default() += 1;
    }
    for (task, count) in &requests {
        assert!(
            *count <= starts[task],
            "{task}: {count} requests in {starts:?}"
        );
        assert!(usage[task] <= *count, "{task}: {usage:?}");
    }
    let all: u64 = requests.values().sum();
    assert!(
        all <= TASKS + 2 * AT_ONCE,
        "{all} requests for {TASKS} tasks"
    );
    let report = api
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await;
    assert_eq!(report["lenientVerdict"], "pass", "{report}");
}

/// A host's connection to the queues.
fn host_bus(nats: &NatsServer) -> NatsBus {
    let settings = ClusterSettings {
        nats: Some(nats.url().to_owned()),
        ..ClusterSettings::default()
    };
    NatsBus::new(settings, Role::Host)
}

/// The model of a queue.
fn served_model() -> ModelIdentity {
    ModelIdentity {
        model: ModelPin {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
        },
        endpoint: Some(EndpointPin {
            url: None,
            digest: "sha256-m".to_owned(),
        }),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_a_server_that_hangs_is_given_up_soon() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let (bus, identity) = (host_bus(&nats), served_model());
    let lane = Lane::of(&Pool::shared(), &identity, None).unwrap();
    let answered = async {
        loop {
            match bus.pull(&lane, 1, Duration::from_millis(50)).await {
                // The server may be slow.
                Err(BusError::NoAnswer) => {}
                pulled => return pulled.unwrap(),
            }
        }
    };
    let pulled = tokio::time::timeout(TOO_LONG, answered).await.unwrap();
    assert!(pulled.is_empty());
    nats.stop();
    // The time for which a message is awaited is longer than the test may take.
    let pulled = bus.pull(&lane, 1, 2 * TOO_LONG);
    let pulled = tokio::time::timeout(TOO_LONG, pulled).await.unwrap();
    assert!(matches!(pulled, Err(BusError::NoAnswer)));
}

/// A command that fails, and its error document.
fn refused(site: &Site, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .current_dir(site.folder())
        .args(arguments)
        .arg("--json")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[rstest]
#[case::no_server(&["worker"], "no NATS server is named")]
#[case::no_tls(&["worker", "--nats", "nats://192.0.2.1:4222"], "names another machine without TLS")]
#[case::no_key(&["worker", "--nats", "nats://127.0.0.1:1", "--nkey-file", "none.nk"], "could not be read")]
#[case::two_kinds(&["worker", "--nkey-file", "a.nk", "--credentials-file", "a.creds"], "cannot be used with")]
#[case::no_pool(&["worker", "--nats", "nats://127.0.0.1:1", "--pool", "a.b"], "must have 1 to 48 letters")]
#[case::no_model(&["worker", "--nats", "nats://127.0.0.1:1"], "has no model or command")]
#[case::no_store(&["worker", "--nats", "nats://127.0.0.1:1", "--data", "x"], "--data does not apply")]
fn a_worker_that_cannot_work_says_why(#[case] arguments: &[&str], #[case] expected: &str) {
    let site = Site::embedded();
    let document = refused(&site, arguments);
    assert!(document.to_string().contains(expected), "{document}");
}
