//! Generated requests for the operations of major 2.

use serde_json::{Value, json};

use super::{ACCEPTANCE, METHODS, Material, SUITE, generate, post, suite};
use crate::client::python;
use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, saying};
use crate::process::{AGENT, Site};
use crate::webhooks::receiver::{Answer, Receiver};

/// Runs write no artifacts.
const WITHOUT_AN_ARTIFACT: &str = "GET /runs/{runId}/artifacts/{artifactId}";

/// The id of a new run, as bodies have it.
async fn create(api: &Api, body: Value) -> String {
    let made = post(api, "/runs", body).await;
    made["runId"].as_str().unwrap().to_owned()
}

/// An id of `acme` as URLs have it.
fn projected(id: &str) -> String {
    id.replace('/', "~2F")
}

/// Waits until a run has a status.
async fn reached(api: &Api, run: &str, status: &str) {
    let path = format!("/runs/{}", projected(run));
    while api.get(&path).await["status"] != status {
        crate::support::pause().await;
    }
}

async fn workflow(api: &Api, id: &str, inputs: Value, status: &str) -> String {
    let run = create(api, json!({"workflowId": id, "inputs": inputs})).await;
    reached(api, &run, status).await;
    run
}

/// Creates resources of every kind. Each operation that changes one has its own.
async fn furnish(site: &Site, api: &Api, hook: &Receiver) -> Material {
    let mut material = Material::default();
    site.install_agent(api, "Say what colour it is.", &json!({}));
    post(api, "/v1/host/touchstone/suites", suite("2.0.1")).await;
    let eval = json!({"mode": "eval", "evalSuiteRef": format!("{SUITE}@2.0.1"), "agentId": AGENT});
    let run = create(api, eval.clone()).await;
    reached(api, &run, "completed").await;
    let in_url = projected(&run);
    for operation in [
        "getRun",
        "streamRunEvents",
        "pollRunEvents",
        "forkRun",
        "listAnnotations",
        "createAnnotation",
        "getEvalSummary",
        "getRunEffects",
    ] {
        material.names(operation, &[("path.runId", &in_url)]);
    }
    material.names(
        "diffRun",
        &[("path.runId", &in_url), ("query.against", &in_url)],
    );
    material.names("getWorkflow", &[("path.workflowId", "conformance-noop")]);
    for operation in [
        "getAgent",
        "listAgentDeployments",
        "transitionAgentDeployment",
    ] {
        material.names(operation, &[("path.agentId", AGENT)]);
    }
    material.sends("createRun", eval);
    material.sends("forkRun", json!({"mode": "replay"}));
    material.sends("createAnnotation", json!({"signal": {"kind": "flag"}}));
    material.sends("bulkCancelRuns", json!({"runIds": [run]}));
    material.sends(
        "transitionAgentDeployment",
        json!({"version": "1.0.0", "transition": "promote", "toState": "test"}),
    );
    for operation in ["cancelRun", "pauseRun", "resumeRun"] {
        let inputs = json!({"delayMs": 600_000});
        let slow = workflow(api, "conformance-cancellable", inputs, "running").await;
        let slow = projected(&slow);
        if operation == "resumeRun" {
            let pause = json!({"drainPolicy": "immediate"});
            post(api, &format!("/runs/{slow}:pause"), pause).await;
        }
        material.names(operation, &[("path.runId", &slow)]);
    }
    material.sends("cancelRun", json!({"reason": "no need"}));
    material.sends("pauseRun", json!({"drainPolicy": "immediate"}));
    for operation in [
        "resolveInterruptByRun",
        "inspectInterruptByToken",
        "resolveInterruptByToken",
    ] {
        let asking = workflow(api, "conformance-approval", json!({}), "waiting-approval").await;
        let (_, opaque) = asking.split_once('/').unwrap();
        let token = super::token(api, opaque).await;
        match operation {
            "resolveInterruptByRun" => material.names(
                operation,
                &[("path.runId", &projected(&asking)), ("path.nodeId", "gate")],
            ),
            _ => material.names(operation, &[("path.token", &token)]),
        }
    }
    let accept = json!({"resumeValue": {"action": "accept"}});
    material.sends("resolveInterruptByRun", accept.clone());
    material.sends("resolveInterruptByToken", accept);
    let standard = json!({"url": hook.url(), "events": ["run.completed"],
        "signatureAlgorithms": ["v1", "standard-webhooks-1"], "secret": super::secret(0)});
    for operation in [
        "unregisterWebhook",
        "rotateWebhookSecret",
        "listWebhookDeadLetters",
    ] {
        let made = post(api, "/webhooks", standard.clone()).await;
        let webhook = projected(made["webhookId"].as_str().unwrap());
        material.names(operation, &[("path.webhookId", &webhook)]);
    }
    let plain = json!({"url": hook.url(), "events": ["run.completed"]});
    material.sends("registerWebhook", plain);
    material.sends("rotateWebhookSecret", json!({"secret": super::secret(1)}));
    material
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_of_major_2_to_generated_requests_match_its_description() {
    let Some(python) = python("schemathesis of major 2") else {
        return;
    };
    let endpoint = Endpoint::start(1..2, |_| saying("It is blue.")).await;
    let hook = Receiver::start(Answer::Echo).await;
    let site = Site::embedded();
    site.configure(
        "touchstone.toml",
        &format!(
            "[conformance]\nenabled = true\n[webhooks]\nprivate_targets = [\"127.0.0.1\"]\n\
             [[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"probe\"\n",
            endpoint.url()
        ),
    );
    let key = [
        "key", "create", "--tenant", "acme", "--scope", "all", "--test",
    ];
    let key = site.run(&key);
    let host = site.serve("touchstone.toml");
    let api = host.api(key.trim());
    let material = furnish(&site, &api, &hook).await;
    // Major 2 has no 405.
    let described = (
        "/openapi.json",
        [ACCEPTANCE, METHODS].as_slice(),
        // Without the header, discovery is the document of major 1. Few texts are ids with a tenant.
        [
            "--header",
            "OpenWOP-Version: 2.0",
            "--suppress-health-check",
            "filter_too_much",
        ]
        .as_slice(),
    );
    let refused = generate(&python, &site, &api, key.trim(), &material, described).await;
    assert_eq!(refused, [WITHOUT_AN_ARTIFACT]);
    assert!(host.terminate());
}
