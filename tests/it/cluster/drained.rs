//! Workers that an operator drains.

use std::process::ExitStatus;

use reqwest::Method;
use serde_json::{Value, json};

use super::nats::NatsServer;
use super::{AT_ONCE, SUITE, TASKS, Worker, asked, counts, item, model, suite};
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Site, TOO_LONG};

const CLUSTER: &str = "/v1/host/touchstone/cluster";

async fn ended(mut worker: Worker) -> ExitStatus {
    let ended = async {
        loop {
            if let Some(status) = worker.0.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, ended).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_finishes_its_tasks_and_ends() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let site = Site::embedded();
    let endpoint = Endpoint::start(5..20, |body| saying(&format!("word {}", item(body)))).await;
    let cluster = format!(
        "[cluster]\nnats = \"{}\"\n[limits]\ndefault_concurrency = {}\n",
        nats.url(),
        // More tasks are offered than the worker has places.
        2 * AT_ONCE
    );
    let models = model(&endpoint, "");
    site.configure("touchstone.toml", &format!("{cluster}{models}"));
    site.write("worker.toml", &models);
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());
    let operator = host.api(&site.key_of("ops", &["metrics:read", "cluster:manage"]));
    let drain = |name: &str| format!("{CLUSTER}/workers/{name}/drain");

    endpoint.hold(|_| true);
    let first = Worker::start(&site, &nats, "w1");
    let run = api
        .start(SUITE, AGENT, json!({"evalDistribution": "cluster"}))
        .await;
    asked(&endpoint, AT_ONCE).await;
    let refused = api.send(Method::POST, &drain("w1"), None).await.unwrap();
    assert_eq!(refused.status(), 403);
    let reader = host.api(&site.key_of("ops", &["metrics:read"]));
    let refused = reader.send(Method::POST, &drain("w1"), None).await.unwrap();
    assert_eq!(refused.status(), 403);
    for unknown in ["w9", "a%2Eb", "%2A"] {
        let missing = operator.send(Method::POST, &drain(unknown), None).await;
        assert_eq!(missing.unwrap().status(), 404, "{unknown}");
    }

    let shown = site.run_at(&operator, &["cluster", "drain", "w1"]);
    assert!(
        shown.contains("worker w1 takes no further tasks"),
        "{shown}"
    );
    let status = operator.get(CLUSTER).await;
    assert_eq!(status["workers"][0]["draining"], true, "{status}");
    let shown = site.run_at(&operator, &["cluster", "status"]);
    assert!(shown.contains("\tdraining\t"), "{shown}");

    endpoint.next_era();
    assert_eq!(ended(first).await.code(), Some(0));
    let taken = endpoint.asked().len() as u64;
    assert_eq!(taken, AT_ONCE, "a drained worker takes no further task");
    let log = std::fs::read_to_string(site.folder().join("w1.log")).unwrap();
    assert!(log.contains("an operator drains the worker"), "{log}");
    let _second = Worker::start(&site, &nats, "w2");
    let done = async {
        loop {
            let log: Vec<Value> = api.log(&run).await;
            if counts(&log, "eval.scored").len() as u64 == TASKS {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, done).await.unwrap();
    // No task was started twice.
    assert_eq!(endpoint.asked().len() as u64, TASKS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_tasks_confirms_that_it_drains_before_it_ends() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let site = Site::embedded();
    let endpoint = Endpoint::start(5..20, |body| saying(&format!("word {}", item(body)))).await;
    let models = model(&endpoint, "");
    let cluster = format!("[cluster]\nnats = \"{}\"\n{models}", nats.url());
    site.configure("touchstone.toml", &cluster);
    site.write("worker.toml", &models);
    let host = site.serve("touchstone.toml");
    let operator = host.api(&site.key_of("ops", &["metrics:read", "cluster:manage"]));
    let worker = Worker::start(&site, &nats, "w1");
    let announced = async {
        while operator.get(CLUSTER).await["workers"] == json!([]) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, announced).await.unwrap();
    let shown = site.run_at(&operator, &["cluster", "drain", "w1", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown, json!({"worker": "w1", "confirmed": true}));
    assert_eq!(ended(worker).await.code(), Some(0));
    // Another one of the same name is not drained.
    let _again = Worker::start(&site, &nats, "w1");
    let working = async {
        while operator.get(CLUSTER).await["workers"][0]["draining"] != json!(false) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, working).await.unwrap();
}
