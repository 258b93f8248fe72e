//! Runs whose agent is a command of workers.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::nats::NatsServer;
use super::{SUITE, TASKS, Worker, counts, suite};
use crate::process::{AGENT, Site, TOO_LONG};

/// Answers with the word of the item.
const PROGRAM: &str = "\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {'id': asked['id'], 'output': f\"word {asked['input']['item']}\"}
    answer['usage'] = {'inputTokens': 3, 'outputTokens': 2}
    print(json.dumps(answer), flush=True)
";

#[tokio::test(flavor = "multi_thread")]
async fn only_workers_with_the_command_execute_a_run_that_names_it() {
    let Some(nats) = NatsServer::start() else {
        return;
    };
    let site = Site::embedded();
    // No model is configured anywhere.
    let cluster = format!(
        "[cluster]\nnats = \"{}\"\n[limits]\ndefault_concurrency = 6\n",
        nats.url()
    );
    site.configure("touchstone.toml", &cluster);
    site.write("agent.py", PROGRAM);
    let commands = |name: &str, line: &str| {
        format!("[[worker.commands]]\nname = \"{name}\"\ncommand = \"{line}\"\n")
    };
    // It would end the run with wrong answers.
    site.write("worker.toml", &commands("other", "cat"));
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say the word.", &json!({}));
    site.import_suite(&api, &suite());
    let operator = host.api(&site.key_of("ops", &["metrics:read"]));

    let _other = Worker::start(&site, &nats, "w1");
    let run = api
        .start(SUITE, AGENT, json!({"evalWorkerCommand": "clerk"}))
        .await;
    let waits = async {
        loop {
            let status = operator.get("/v1/host/touchstone/cluster").await;
            let has_worker = status["workers"].as_array().unwrap().len() == 1;
            if has_worker && status["runs"][0]["unserved"] == "model" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, waits).await.unwrap();
    let shown = site.run_at(&operator, &["cluster", "status"]);
    assert!(shown.contains("no worker serves their model"), "{shown}");
    assert!(shown.contains("command model `other`"), "{shown}");

    site.write("worker.toml", &commands("clerk", "python3 agent.py"));
    let _clerk = Worker::start(&site, &nats, "w2");
    let log: Vec<Value> = api.log(&run).await;
    assert_eq!(counts(&log, "eval.scored").len() as u64, TASKS);
    let usage = log
        .iter()
        .find(|it| it["type"] == "provider.usage")
        .unwrap();
    let of = |name: &str| usage["payload"][name].clone();
    assert_eq!(
        (of("provider"), of("model")),
        (json!("command"), json!("clerk"))
    );
    let report = api
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await;
    assert_eq!(report["lenientVerdict"], "pass", "{report}");
    // A branch keeps the command.
    let branch = json!({
        "mode": "branch", "fromSeq": 0,
        "runOptionsOverlay": {"configurable": {"evalWorkerCommand": "other"}},
    });
    let path = format!("/v1/runs/{run}:fork");
    let (status, refused) = api.text(Method::POST, &path, Some(&branch)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    let field = "runOptionsOverlay.configurable.evalWorkerCommand";
    assert!(refused.contains(field), "{refused}");
    let record = report.to_string();
    assert!(!record.contains("agent.py"), "{record}");
}
