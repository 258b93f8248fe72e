//! The metrics of a host with workers, and of a worker.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::nats::NatsServer;
use super::{AT_ONCE, SUITE, TASKS, asked, item, model, suite};
use crate::operations::{OF_CLUSTERS, assert_listed, metrics_of, named_in_documents};
use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Site, TOO_LONG};

/// A worker with an address for metrics; killed when dropped.
struct Measured {
    child: Child,
    url: String,
}

impl Measured {
    fn start(site: &Site, nats: &NatsServer) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .current_dir(site.folder())
            .args(["worker", "--nats", nats.url(), "--name", "measured"])
            .args(["--concurrency", &AT_ONCE.to_string()])
            .args(["--config", "worker.toml"])
            .args(["--metrics", "127.0.0.1:0", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let url = line["metrics"].as_str().unwrap();
        let url = url.strip_suffix("/metrics").unwrap().to_owned();
        Self { child, url }
    }

    async fn get(&self, path: &str) -> Option<(StatusCode, String)> {
        let answer = reqwest::get(format!("{}{path}", self.url)).await.ok()?;
        let status = answer.status();
        Some((status, answer.text().await.ok()?))
    }

    /// Waits until an answer contains this text.
    async fn until(&self, path: &str, expected: &str) -> (StatusCode, String) {
        let begun = Instant::now();
        loop {
            let answer = self.get(path).await;
            if let Some(answer) = answer.clone().filter(|(_, text)| text.contains(expected)) {
                return answer;
            }
            assert!(begun.elapsed() < TOO_LONG, "no {expected} in {answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn scrape_until(api: &Api, expected: &str) -> String {
    let begun = Instant::now();
    loop {
        let (status, text) = api.text(Method::GET, "/metrics", None).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        if text.contains(expected) {
            return text;
        }
        assert!(begun.elapsed() < TOO_LONG, "no {expected} in {text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The page of the cluster in the console, once it shows this.
async fn cluster_page(api: &Api, expected: &str) -> String {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let address = |path: &str| format!("{}{path}", api.base_url());
    let signed_in = client
        .post(address("/console/sign-in"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("key={}", api.key()))
        .send()
        .await
        .unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let begun = Instant::now();
    loop {
        let page = client.get(address("/console/cluster"));
        let page = page.header("cookie", cookie).send().await.unwrap();
        assert_eq!(page.status(), StatusCode::OK);
        let text = page.text().await.unwrap();
        if text.contains(expected) {
            return text;
        }
        assert!(begun.elapsed() < TOO_LONG, "no {expected} in {text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_and_a_worker_measure_their_work_without_content() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let site = Site::embedded();
    let endpoint = Endpoint::start(1..5, |body| saying(&format!("word {}", item(body)))).await;
    let cluster = format!("[cluster]\nnats = \"{}\"\n", nats.url());
    let config = format!("{cluster}{}", model(&endpoint, ""));
    site.configure("touchstone.toml", &config);
    site.write("worker.toml", &model(&endpoint, ""));
    let (key, operator) = (site.key("acme"), site.key_of("ops", &["metrics:read"]));
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());
    let worker = Measured::start(&site, &nats);
    worker.until("/readyz", "ready").await;
    assert_eq!(worker.get("/healthz").await.unwrap().0, StatusCode::OK);

    let distributed = json!({"evalDistribution": "cluster"});
    let run = api.start(SUITE, AGENT, distributed.clone()).await;
    api.log(&run).await;
    // The host may not hear its own first announcement.
    scrape_until(&host.api(&operator), "touchstone_cluster_replicas 1").await;
    let of_host = scrape_until(&host.api(&operator), "touchstone_cluster_workers 1").await;
    let ended = format!("touchstone_cluster_worker_attempts_total{{outcome=\"ended\"}} {TASKS}");
    let (_, of_worker) = worker.until("/metrics", &ended).await;

    let of_host_metrics = metrics_of(&of_host);
    let value = |name: &str, series: &str| of_host_metrics[name].series[series];
    for (name, labels) in [
        ("touchstone_cluster_claims_total", "{answer=\"granted\"}"),
        ("touchstone_cluster_attempts_total", "{outcome=\"ended\"}"),
        ("touchstone_cluster_task_wait_seconds", "_count"),
    ] {
        let series = format!("{name}{labels}");
        assert_eq!(value(name, &series), TASKS as f64, "{series}");
    }
    for (name, labels, expected) in [
        ("touchstone_cluster_connected", "", 1.0),
        ("touchstone_cluster_replicas", "", 1.0),
        ("touchstone_cluster_places", "", AT_ONCE as f64),
        (
            "touchstone_cluster_attempts_total",
            "{outcome=\"lost\"}",
            0.0,
        ),
        ("touchstone_cluster_tasks", "{state=\"held\"}", 0.0),
    ] {
        let series = format!("{name}{labels}");
        assert_eq!(value(name, &series), expected, "{series}");
    }
    let mut all = metrics_of(&of_worker);
    assert_eq!(
        all["touchstone_cluster_worker_places"].series["touchstone_cluster_worker_places"],
        AT_ONCE as f64
    );
    assert!(all.contains_key("touchstone_model_calls_total"));
    for secret in ["acme", AGENT, "measured", "item-", "127.0.0.1"] {
        assert!(!of_worker.contains(secret), "the metrics contain {secret}");
    }
    assert_listed(&all);
    assert_listed(&of_host_metrics);
    all.extend(of_host_metrics);
    for (path, name) in named_in_documents(&all) {
        let is_known = !name.starts_with(OF_CLUSTERS) || all.contains_key(&name);
        assert!(is_known, "{path} names {name}, which nothing exports");
    }

    // Workers announce their free places from time to time.
    let page = cluster_page(&host.api(&operator), "0 of 3").await;
    for part in ["measured", "Takes tasks", "Answers"] {
        assert!(page.contains(part), "{part}: {page}");
    }

    // More workers than NATS allows by default may wait for tasks of one model.
    let consumers = nats.ask("$JS.API.CONSUMER.LIST.TS1_Q_shared").await;
    let most = &consumers["consumers"][0]["config"]["max_waiting"];
    assert!(most.as_u64().is_some_and(|it| it > 4_096), "{consumers}");

    // A worker that drains says so until its last task has ended.
    endpoint.hold(|_| true);
    let asked_before = endpoint.asked().len() as u64;
    let run = api.start(SUITE, AGENT, distributed).await;
    asked(&endpoint, asked_before + 1).await;
    let id = Pid::from_raw(i32::try_from(worker.child.id()).unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let (status, _) = worker.until("/readyz", "draining").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    drop(worker);
    let cancel = format!("/v1/runs/{run}/cancel");
    let cancelled = api.send(Method::POST, &cancel, Some(&json!({}))).await;
    assert!(cancelled.unwrap().status().is_success());

    nats.kill();
    scrape_until(&host.api(&operator), "touchstone_cluster_connected 0").await;
}
