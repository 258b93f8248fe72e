//! A NATS server with the users that `touchstone cluster credentials` prints.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::nats::NatsServer;
use super::{SUITE, TASKS, Worker, counts, item, model, refused, suite};
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Site, TOO_LONG};

const ACCESS: &str = "
[[cluster.pools]]
name = \"acme\"
tenants = [\"acme\"]

[[cluster.workers]]
name = \"w1\"
tenants = [\"acme\"]
models = [\"openai/m\"]
";

/// Waits until the log of a process contains a text.
async fn logged(site: &Site, name: &str, text: &str) -> String {
    let file = site.folder().join(format!("{name}.log"));
    let found = async {
        loop {
            let log = std::fs::read_to_string(&file).unwrap_or_default();
            if log.contains(text) {
                return log;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let found = tokio::time::timeout(TOO_LONG, found).await;
    found.unwrap_or_else(|_| panic!("{}", std::fs::read_to_string(&file).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_users_execute_a_run_and_others_learn_what_is_missing() {
    let site = Site::embedded();
    let endpoint = Endpoint::start(5..20, |body| saying(&format!("word {}", item(body)))).await;
    // The command reads the pools of the host, whose server does not run yet.
    site.configure("touchstone.toml", ACCESS);
    let mut users = site.run_on_files(&["cluster", "credentials", "--host"]);
    for name in ["w1", "w2"] {
        let of_worker = ["cluster", "credentials", "--worker", name, "--pool", "acme"];
        users.push_str(&site.run_on_files(&of_worker));
    }
    let mode = |name: &str| {
        let file = std::fs::metadata(site.folder().join(name)).unwrap();
        file.permissions().mode() & 0o777
    };
    assert_eq!((mode("host.nk"), mode("w1.nk")), (0o600, 0o600));
    let configuration = format!("jetstream: {{}}\nauthorization {{ users: [\n{users}] }}\n");
    let Some(nats) = NatsServer::start_with(&configuration) else {
        return;
    };
    let cluster = format!(
        "[cluster]\nnats = \"{}\"\nnkey_file = \"host.nk\"\nhold_s = 20\n{ACCESS}\
         [limits]\ndefault_concurrency = 6\n[worker]\nlease_s = 60\n",
        nats.url()
    );
    let host = format!("{cluster}{}", model(&endpoint, ""));
    site.configure("touchstone.toml", &host);
    site.write("worker.toml", &model(&endpoint, ""));
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());

    // It has another name than its credentials.
    let _stranger = Worker::start_with(&site, &nats, "w3", &["--nkey-file", "w2.nk"]);
    let log = logged(&site, "w3", "does not permit this process to").await;
    assert!(
        log.contains("touchstone cluster credentials --worker w3"),
        "{log}"
    );
    let distributed = json!({"evalDistribution": "cluster"});
    let run = api.start(SUITE, AGENT, distributed).await;
    // The host has no entry for it.
    let of_second = ["--nkey-file", "w2.nk", "--pool", "acme"];
    let _second = Worker::start_with(&site, &nats, "w2", &of_second);
    logged(&site, "w2", "the host has no entry for this worker").await;
    assert_eq!(endpoint.asked().len(), 0);
    let of_first = ["--nkey-file", "w1.nk", "--pool", "acme"];
    let _first = Worker::start_with(&site, &nats, "w1", &of_first);
    let done = async {
        loop {
            let log: Vec<Value> = api.log(&run).await;
            let scored = counts(&log, "eval.scored");
            if scored.len() as u64 == TASKS {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, done).await.unwrap();
    assert_eq!(endpoint.asked().len() as u64, TASKS);
    let operator = host.api(&site.key_of("operator", &["metrics:read"]));
    // Workers announce themselves every two seconds.
    let announced = async {
        loop {
            let status = operator.get("/v1/host/touchstone/cluster").await;
            if !status["workers"].as_array().unwrap().is_empty() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, announced).await.unwrap();
    let shown = site.run_at(&operator, &["cluster", "status"]);
    assert!(shown.contains("queue\tacme\t"), "{shown}");
    assert!(!host.log().contains("does not permit"), "{}", host.log());
}

#[test]
fn a_key_is_never_replaced() {
    let site = Site::embedded();
    let arguments = ["cluster", "credentials", "--worker", "w1", "--json"];
    let printed: Value = serde_json::from_str(&site.run_on_files(&arguments)).unwrap();
    assert_eq!(printed["keyFile"], "w1.nk");
    let subscribe = &printed["permissions"]["subscribe"];
    assert_eq!(*subscribe, json!(["ts1.inbox.w1.>"]));
    let seed = std::fs::read_to_string(site.folder().join("w1.nk")).unwrap();
    assert!(!printed.to_string().contains(seed.trim()));
    // The permissions for another pool, with the same key.
    let wider = [&arguments[..], &["--pool", "acme"]].concat();
    let again: Value = serde_json::from_str(&site.run_on_files(&wider)).unwrap();
    assert_eq!(again["publicKey"], printed["publicKey"]);
    assert_ne!(again["permissions"], printed["permissions"]);
    let kept = std::fs::read_to_string(site.folder().join("w1.nk")).unwrap();
    assert_eq!(kept, seed);
    site.write("w2.nk", "no seed");
    let unusable = refused(&site, &["cluster", "credentials", "--worker", "w2"]);
    assert_eq!(unusable["error"]["code"], "unreadable");
}
