//! The published Python client: every method except those of unsupported capabilities.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::python;
use crate::process::endpoint::{Endpoint, question, saying};
use crate::process::{AGENT, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_client_drives_a_host() {
    let Some(python) = python("the published client") else {
        return;
    };
    let endpoint = Endpoint::start(100..200, |body| {
        saying(if question(body).contains("blue") {
            "It is blue."
        } else {
            "It is not."
        })
    })
    .await;
    let site = Site::embedded();
    site.configure(
        "touchstone.toml",
        &format!(
            "[limits]\ndefault_concurrency = 2\n[conformance]\nenabled = true\n\
             [webhooks]\nprivate_targets = [\"127.0.0.1\"]\n\
             [[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}\"\n\
             model = \"probe\"\ninput_usd_per_mtok = 1.0\noutput_usd_per_mtok = 2.0\n",
            endpoint.url()
        ),
    );
    let key = site.key_of("acme", &["all"]);
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say what colour it is.", &json!({}));
    let tasks: Vec<_> = (1..=20)
        .map(|n| {
            let colour = if n % 4 == 0 { "red" } else { "blue" };
            json!({
                "taskId": format!("colour-{n}"), "input": {"thing": format!("{colour} ball {n}")},
                "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "blue"}}
            })
        })
        .collect();
    site.import_suite(
        &api,
        &json!({
            "suiteId": "private.touchstone.evals.colours", "version": "2.0.1", "modes": ["golden", "regression"],
            "thresholds": {"passScore": 0.75, "maxCostUsd": 1.0}, "tasks": tasks
        }),
    );
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/drive_published_client.py");
    let output = Command::new(python)
        .arg("-B")
        .arg(script)
        .env("BASE_URL", api.base_url())
        .env("API_KEY", &key)
        .env("AGENT_ID", AGENT)
        .env("SUITE_REF", "private.touchstone.evals.colours@2.0.1")
        .env("DATABASE", site.folder().join("data/touchstone.db"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("all steps done\n"));
    assert!(host.terminate());
}
