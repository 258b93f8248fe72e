//! The published Python clients of both majors: every method except those of unsupported
//! capabilities.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{interpreter, python};
use crate::process::endpoint::{Endpoint, question, saying};
use crate::process::{AGENT, Site};

/// An interpreter with `tests/python/openwop-v2.txt`.
const OPENWOP_V2: &str = "TOUCHSTONE_TEST_OPENWOP_V2_PYTHON";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_client_drives_a_host() {
    let Some(python) = python("the published client") else {
        return;
    };
    drive(&python, "drive_published_client.py", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_clients_of_both_majors_read_the_same_runs() {
    let what = "the published client of OpenWOP 2";
    let clients = (python(what), interpreter(what, OPENWOP_V2));
    let (Some(v1), Some(v2)) = clients else {
        return;
    };
    let more = [("V1_PYTHON", v1.to_str().unwrap()), ("TENANT", "acme")];
    drive(&v2, "drive_published_client_v2.py", &more).await;
}

/// Runs a script against a host with an agent, a suite of 20 tasks and the fixture workflows.
async fn drive(python: &Path, script: &str, more: &[(&str, &str)]) {
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
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/python")
        .join(script);
    let output = Command::new(python)
        .arg("-B")
        .arg(script)
        .envs(more.iter().copied())
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
