//! Several replicas on one database and one NATS server.

use axum::body::Body;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::nats::NatsServer;
use super::{AT_ONCE, HOLD_S, SUITE, TASKS, Worker, asked, counts, item, model, suite};
use crate::http::support::sse::Frames;
use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Host, Site, TOO_LONG};

/// The configurations of two replicas.
const REPLICAS: [&str; 2] = ["touchstone.toml", "second.toml"];

/// A site whose two replicas use this server.
async fn site(nats: &NatsServer, endpoint: &Endpoint) -> Option<Site> {
    site_with([nats.url(); 2], endpoint, "").await
}

/// A site whose two replicas reach their server at these addresses, with more settings of theirs.
async fn site_with(addresses: [&str; 2], endpoint: &Endpoint, more: &str) -> Option<Site> {
    let site = Site::on_postgres().await?;
    for (name, nats) in REPLICAS.into_iter().zip(addresses) {
        let cluster = format!(
            "[cluster]\nnats = \"{nats}\"\nhold_s = {HOLD_S}\n[limits]\ndefault_concurrency = {AT_ONCE}\n{more}"
        );
        site.configure(name, &format!("{cluster}{}", model(endpoint, "")));
    }
    Some(site)
}

/// Starts the first replica with an agent and the suite.
fn first(site: &Site) -> (Host, String) {
    let key = site.key("acme");
    let host = site.serve(REPLICAS[0]);
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());
    (host, key)
}

const CLUSTER: &str = "/v1/host/touchstone/cluster";

/// Waits until the status of the cluster fits.
async fn cluster(api: &Api, fits: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let fitting = async {
        loop {
            last = api.get(CLUSTER).await;
            if fits(&last) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(TOO_LONG, fitting).await;
    assert!(waited.is_ok(), "{last}");
    last
}

async fn endpoint() -> Endpoint {
    Endpoint::start(5..20, |body| saying(&format!("word {}", item(body)))).await
}

/// Opens the stream of all events of a run, after `last`.
async fn stream(api: &Api, run: &str, last: u64) -> Frames {
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let last = last.to_string();
    let headers = [("accept", "text/event-stream"), ("last-event-id", &last)];
    let answer = api.send_with(Method::GET, &path, None, &headers).await;
    let answer = answer.unwrap();
    let mut response = axum::response::Response::default();
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    Frames::of(response)
}

/// Reads a stream until this number of tasks in total has a score, or else to its end.
async fn read(frames: &mut Frames, log: &mut Vec<Value>, scored: u64) {
    let read = async {
        while count(log) < scored {
            let Some(frame) = frames.next().await else {
                return;
            };
            log.push(frame.data);
        }
    };
    let read = tokio::time::timeout(TOO_LONG, read).await;
    read.unwrap_or_else(|_| panic!("{} of {scored} scores", count(log)));
}

fn count(log: &[Value]) -> u64 {
    counts(log, "eval.scored").values().sum()
}

fn last(log: &[Value]) -> u64 {
    log.last().unwrap()["sequence"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_at_another_replica_is_complete_with_and_without_nats() {
    const FIRST_PART: u64 = 15;
    const SECOND_PART: u64 = 30;

    let Some(nats) = NatsServer::start() else {
        return;
    };
    let endpoint = endpoint().await;
    let Some(site) = site(&nats, &endpoint).await else {
        return;
    };
    let (owner, key) = first(&site);
    endpoint.hold(|_| true);
    let run = owner.api(&key).start(SUITE, AGENT, json!({})).await;
    asked(&endpoint, 1).await;
    let other = site.serve(REPLICAS[1]);

    let mut log = Vec::new();
    let mut frames = stream(&other.api(&key), &run, 0).await;
    let mut signals = nats.subscribe("ts1.signals.*").await;
    endpoint.hold(|body| item(body) > FIRST_PART);
    read(&mut frames, &mut log, FIRST_PART).await;
    signals.message().await;
    nats.kill();
    endpoint.hold(|body| item(body) > SECOND_PART);
    read(&mut frames, &mut log, SECOND_PART).await;

    let mut frames = stream(&owner.api(&key), &run, last(&log)).await;
    endpoint.next_era();
    read(&mut frames, &mut log, u64::MAX).await;
    let expected = other.api(&key).log(&run).await;
    let sequences = |log: &[Value]| -> Vec<u64> {
        log.iter()
            .map(|it| it["sequence"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(sequences(&log), (1..=last(&expected)).collect::<Vec<_>>());
    assert_eq!(log, expected);
    assert_eq!(count(&log), TASKS);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_continues_the_run_of_a_killed_one() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let endpoint = endpoint().await;
    let Some(site) = site(&nats, &endpoint).await else {
        return;
    };
    site.write("worker.toml", &model(&endpoint, ""));
    let (owner, key) = first(&site);
    let _worker = Worker::start(&site, &nats, "w1");
    endpoint.hold(|body| item(body) > TASKS / 2);
    let distributed = json!({"evalDistribution": "cluster"});
    let run = owner.api(&key).start(SUITE, AGENT, distributed).await;
    asked(&endpoint, TASKS / 2).await;
    let other = site.serve(REPLICAS[1]);
    let mut log = Vec::new();
    let mut frames = stream(&other.api(&key), &run, 0).await;
    read(&mut frames, &mut log, 1).await;
    let operator = site.key_of("operator", &["metrics:read"]);
    let operator = other.api(&operator);
    let status = cluster(&operator, |it| {
        let lengths = ["replicas", "workers", "queues", "runs"]
            .map(|list| it[list].as_array().unwrap().len());
        // Owner and worker announce themselves at different times.
        lengths == [2, 1, 1, 1] && it["runs"][0]["held"] == AT_ONCE && it["workers"][0]["free"] == 0
    })
    .await;
    assert_eq!(status["workers"][0]["worker"], "w1");
    assert_eq!(status["runs"][0]["runId"], run.as_str());
    assert_eq!(status["runs"][0]["tenant"], "acme");
    assert!(status["runs"][0]["leaseMs"].is_u64(), "{status}");
    assert_ne!(status["runs"][0]["replica"], status["replica"]);
    let shown = site.run_at(&operator, &["cluster", "status"]);
    assert!(shown.contains("worker\tw1\t"), "{shown}");
    let tenant = other.api(&key);
    let refused = tenant.send(Method::GET, CLUSTER, None).await.unwrap();
    assert_eq!(refused.status(), 403);

    owner.kill();
    endpoint.next_era();
    read(&mut frames, &mut log, u64::MAX).await;

    let scores = counts(&log, "eval.scored");
    assert_eq!(scores.len() as u64, TASKS);
    assert!(scores.values().all(|count| *count == 1), "{scores:?}");
    assert_eq!(log, other.api(&key).log(&run).await);
    let requests = endpoint.asked().len() as u64;
    assert!(
        requests <= TASKS + AT_ONCE,
        "{requests} requests for {TASKS} tasks"
    );
}

/// Passes connections on to a server until the task is aborted.
async fn proxy(server: &str) -> (String, JoinHandle<()>) {
    let (_, server) = server.split_once("://").unwrap();
    let server = server.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("nats://{}", listener.local_addr().unwrap());
    let passing = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(&server).await.unwrap();
            connections.spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, passing)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_continues_the_run_of_one_without_a_connection_to_nats() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let endpoint = endpoint().await;
    let (address, connection) = proxy(nats.url()).await;
    let Some(site) = site_with([&address, nats.url()], &endpoint, "").await else {
        return;
    };
    site.write("worker.toml", &model(&endpoint, ""));
    let (owner, key) = first(&site);
    let _worker = Worker::start(&site, &nats, "w1");
    endpoint.hold(|body| item(body) > TASKS / 2);
    let distributed = json!({"evalDistribution": "cluster"});
    let run = owner.api(&key).start(SUITE, AGENT, distributed).await;
    asked(&endpoint, TASKS / 2).await;
    let other = site.serve(REPLICAS[1]);
    connection.abort();
    endpoint.next_era();
    let log = other.api(&key).log(&run).await;
    let scores = counts(&log, "eval.scored");
    assert_eq!(scores.len() as u64, TASKS);
    assert!(scores.values().all(|count| *count == 1), "{scores:?}");
}

/// The lease would end long after the test has failed.
#[tokio::test(flavor = "multi_thread")]
async fn another_replica_continues_at_once_when_the_owner_ends_normally() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let endpoint = endpoint().await;
    let more = "[worker]\nlease_s = 3600\ndrain_s = 1\n";
    let Some(site) = site_with([nats.url(); 2], &endpoint, more).await else {
        return;
    };
    site.write("worker.toml", &model(&endpoint, ""));
    let (owner, key) = first(&site);
    let _worker = Worker::start(&site, &nats, "w1");
    endpoint.hold(|body| item(body) > TASKS / 2);
    let distributed = json!({"evalDistribution": "cluster"});
    let run = owner.api(&key).start(SUITE, AGENT, distributed).await;
    asked(&endpoint, TASKS / 2 + AT_ONCE).await;
    let other = site.serve(REPLICAS[1]);
    let ended = tokio::task::spawn_blocking(move || owner.terminate());
    assert!(ended.await.unwrap());
    endpoint.next_era();

    let log = other.api(&key).log(&run).await;
    let scores = counts(&log, "eval.scored");
    assert_eq!(scores.len() as u64, TASKS);
    assert!(scores.values().all(|count| *count == 1), "{scores:?}");
    let requests = endpoint.asked().len() as u64;
    assert!(
        requests <= TASKS + AT_ONCE,
        "{requests} requests for {TASKS} tasks"
    );
}
