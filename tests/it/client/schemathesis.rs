//! Schemathesis generates requests from the served API description, good and bad ones, and holds every answer to it.

use std::process::Command;

use serde_json::json;

use super::python;
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Site};

/// The same requests every time; another seed is one more test of the host, not of a change.
const SEED: &str = "20261121";
const EXAMPLES: &str = "20";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_generated_request_gets_an_answer_that_is_not_described() {
    let Some(python) = python("schemathesis") else {
        return;
    };
    let endpoint = Endpoint::start(1..2, |_| saying("It is blue.")).await;
    let site = Site::embedded();
    site.configure(
        "touchstone.toml",
        &format!(
            "[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"probe\"\n",
            endpoint.url()
        ),
    );
    let key = site.key("acme");
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Say what colour it is.", &json!({}));
    let suite = json!({
        "suiteId": "private.touchstone.evals.colours", "version": "2.0.1", "modes": ["golden"],
        "tasks": [{"taskId": "sky", "input": {}, "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "blue"}}}]
    });
    site.import_suite(&api, &suite);
    let run = api
        .start("private.touchstone.evals.colours@2.0.1", AGENT, json!({}))
        .await;
    api.log(&run).await;
    // What is there to be found: random names alone would never get beyond `not_found`.
    site.write(
        "schemathesis.toml",
        &format!(
            "[parameters]\n\"path.runId\" = [\"{run}\", \"run_unknown\"]\n\"path.agentId\" = \"{AGENT}\"\n"
        ),
    );
    let output = Command::new(python)
        .args(["-B", "-m", "schemathesis.cli"])
        .arg("--config-file")
        .arg("schemathesis.toml")
        .args([
            "run",
            "--no-color",
            "--seed",
            SEED,
            "--max-examples",
            EXAMPLES,
        ])
        .args(["--checks", "all"])
        // A body may be as described and yet name an agent that is not there.
        .args(["--exclude-checks", "positive_data_acceptance"])
        .arg("--header")
        .arg(format!("Authorization: Bearer {key}"))
        .arg(format!("{}/v1/openapi.json", api.base_url()))
        .current_dir(site.folder())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(host.terminate());
}
