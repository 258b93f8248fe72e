//! Tasks that are larger than a message.

use serde_json::{Value, json};

use super::nats::NatsServer;
use super::{KEY, Worker, model};
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Site};

const LARGE_SUITE: &str = "private.touchstone.evals.large@1.0.0";
/// More than two messages.
const BYTES: usize = 2_000_000;

fn suite() -> Value {
    let tasks: Vec<Value> = (1..=3)
        .map(|n| {
            json!({
                "taskId": format!("item-{n}"), "input": {"text": "ä".repeat(BYTES / 2), "item": n},
                "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "done"}}
            })
        })
        .collect();
    json!({
        "suiteId": "private.touchstone.evals.large", "version": "1.0.0", "modes": ["golden"],
        "thresholds": {"passScore": 1.0}, "tasks": tasks
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_fetch_large_tasks_with_their_own_permissions() {
    let site = Site::embedded();
    let mut users = site.run_on_files(&["cluster", "credentials", "--host"]);
    users.push_str(&site.run_on_files(&["cluster", "credentials", "--worker", "w1"]));
    let users = format!("jetstream: {{}}\nauthorization {{ users: [\n{users}] }}\n");
    let Some(nats) = NatsServer::start_with(&users) else {
        return;
    };
    let endpoint = Endpoint::start(5..20, |_| saying("done")).await;
    let cluster = format!(
        "[cluster]\nnats = \"{}\"\nnkey_file = \"host.nk\"\n",
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
    site.install_agent(&api, "Read the text.", &json!({}));
    site.import_suite(&api, &suite());
    let _worker = Worker::start_with(&site, &nats, "w1", &["--nkey-file", "w1.nk"]);
    let run = api
        .start(LARGE_SUITE, AGENT, json!({"evalDistribution": "cluster"}))
        .await;
    let log = api.log(&run).await;
    let scored = log.iter().filter(|event| event["type"] == "eval.scored");
    assert_eq!(scored.count(), 3);
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 3);
    for request in asked {
        let authorization = request.headers.get("authorization").unwrap();
        assert_eq!(
            authorization,
            &format!("Bearer {KEY}"),
            "the host made a call"
        );
        assert!(request.text.len() > BYTES);
    }
    let log = std::fs::read_to_string(site.folder().join("w1.log")).unwrap();
    assert!(!log.contains("does not permit"), "{log}");
}
