//! Runs that require labels of workers.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::nats::NatsServer;
use super::{SUITE, TASKS, Worker, counts, item, model, suite};
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Site, TOO_LONG};

const CLUSTER: &str = "/v1/host/touchstone/cluster";

#[tokio::test(flavor = "multi_thread")]
async fn tasks_with_labels_wait_for_a_worker_that_has_all_of_them() {
    let site = Site::embedded();
    let mut users = site.run_on_files(&["cluster", "credentials", "--host"]);
    for name in ["w1", "w2"] {
        users.push_str(&site.run_on_files(&["cluster", "credentials", "--worker", name]));
    }
    let users = format!("jetstream: {{}}\nauthorization {{ users: [\n{users}] }}\n");
    let Some(nats) = NatsServer::start_with(&users) else {
        return;
    };
    let endpoint = Endpoint::start(5..20, |body| saying(&format!("word {}", item(body)))).await;
    let models = model(&endpoint, "");
    let cluster = format!(
        "[cluster]\nnats = \"{}\"\nnkey_file = \"host.nk\"\nlabels = [\"gpu,region=eu\"]\n\
         [limits]\ndefault_concurrency = 6\n{models}",
        nats.url()
    );
    site.configure("touchstone.toml", &cluster);
    site.write("worker.toml", &models);
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());

    let unknown = json!({
        "mode": "eval", "evalSuiteRef": SUITE, "agentId": AGENT,
        "configurable": {"evalWorkerLabels": ["fast"]}
    });
    let refused = api.send(Method::POST, "/v1/runs", Some(&unknown)).await;
    let refused = refused.unwrap();
    assert_eq!(refused.status(), 400);
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["details"]["reason"], "unknown_label", "{refused}");

    let _other = Worker::start_with(
        &site,
        &nats,
        "w1",
        &["--nkey-file", "w1.nk", "--label", "gpu"],
    );
    let labels = json!({"evalWorkerLabels": ["region=eu", "gpu"]});
    let run = api.start(SUITE, AGENT, labels).await;
    let operator = host.api(&site.key_of("ops", &["metrics:read"]));
    let waits = async {
        loop {
            let status = operator.get(CLUSTER).await;
            if status["runs"][0]["unserved"] == "labels" {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let status = tokio::time::timeout(TOO_LONG, waits).await.unwrap();
    assert_eq!(status["workers"][0]["labels"], json!(["gpu"]), "{status}");
    assert_eq!(status["runs"][0]["labels"], json!(["gpu", "region=eu"]));
    let shown = site.run_at(&operator, &["cluster", "status"]);
    let expected = format!(
        "the tasks of {run} wait: no worker that serves their model has the labels gpu, region=eu"
    );
    assert!(shown.contains(&expected), "{shown}");
    assert_eq!(endpoint.asked().len(), 0);

    let _right = Worker::start_with(
        &site,
        &nats,
        "w2",
        &[
            "--nkey-file",
            "w2.nk",
            "--label",
            "region=eu",
            "--label",
            "gpu",
        ],
    );
    let done = async {
        loop {
            let log: Vec<Value> = api.log(&run).await;
            if counts(&log, "eval.scored").len() as u64 == TASKS {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, done).await.unwrap();
    assert_eq!(endpoint.asked().len() as u64, TASKS);
    assert!(!host.log().contains("does not permit"), "{}", host.log());
    for name in ["w1", "w2"] {
        let log = std::fs::read_to_string(site.folder().join(format!("{name}.log"))).unwrap();
        assert!(!log.contains("does not permit"), "{log}");
    }
}

/// A run is continued by a host whose configuration has lost its workers.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_workers_does_not_execute_tasks_with_labels() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let site = Site::embedded();
    let endpoint = Endpoint::start(5..20, |body| saying(&format!("word {}", item(body)))).await;
    let models = model(&endpoint, "");
    let cluster = format!(
        "[cluster]\nnats = \"{}\"\nlabels = [\"gpu\"]\n{models}",
        nats.url()
    );
    site.configure("touchstone.toml", &cluster);
    site.configure("alone.toml", &models);
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());
    let labels = json!({"evalWorkerLabels": ["gpu"]});
    let run = api.start(SUITE, AGENT, labels).await;
    host.kill();

    let alone = site.serve("alone.toml");
    let api = alone.api(&key);
    let ended = async {
        loop {
            let log: Vec<Value> = api.log(&run).await;
            if counts(&log, "eval.scored").len() as u64 == TASKS {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let log = tokio::time::timeout(TOO_LONG, ended).await.unwrap();
    let log = serde_json::to_string(&log).unwrap();
    assert!(log.contains("workers_required"), "{log}");
    assert_eq!(endpoint.asked().len(), 0);
}
